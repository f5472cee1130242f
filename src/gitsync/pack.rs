//! Taking in a pack: the one thing that a remote sends which lands on disk.
//!
//! gix writes it and builds its index, which unpacks every object and computes its id. It pulls from one side on a
//! blocking thread; the network pushes from the other.

use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::{Buf, Bytes};
use gix_pack::bundle::write::{Options as WriteOptions, Outcome};
use tokio::sync::mpsc;

use super::{
    Limits, Reason, SourceError,
    store::{Store, StoreError},
    wire::fetch::PackStream,
};

/// Chunks (of up to 64 KiB) between network and disk.
const QUEUE: usize = 16;
const HEADER: usize = 12;

/// Reads a pack to its end into `store`. Only one that may be `thin` is looked at for deltas of objects that are here.
///
/// # Errors
/// What the network, the limits or the disk have against it; nothing is left behind then.
pub(crate) async fn receive(
    store: &Store,
    stream: &mut PackStream<'_>,
    limits: &Limits,
    thin: bool,
) -> Result<(), SourceError> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let interrupt = Arc::new(AtomicBool::new(false));
    let _guard = InterruptOnDrop(Arc::clone(&interrupt));
    let writer = tokio::task::spawn_blocking({
        let objects = thin.then(|| store.objects());
        let interrupt = Arc::clone(&interrupt);
        let directory = store.directory().join("objects/pack");
        let alloc_limit = limits.object_bytes;
        move || {
            write(
                ChannelReader::new(receiver),
                directory,
                objects,
                &interrupt,
                alloc_limit,
            )
        }
    });
    let sent = send(stream, &sender, limits).await;
    if sent.is_err() {
        interrupt.store(true, Ordering::Relaxed);
    }
    drop(sender);
    let written = writer.await;
    sent?;
    match written {
        Ok(Ok(outcome)) => finish(store, &outcome),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(SourceError::new(
            Reason::InvalidData,
            "the pack makes its reader panic",
        )),
    }
}

/// Ends the blocking side when the async side is dropped in the middle.
struct InterruptOnDrop(Arc<AtomicBool>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

enum Chunk {
    Data(Bytes),
    End,
}

/// Passes the pack on; looks at its first twelve bytes, which say how many objects there are.
async fn send(
    stream: &mut PackStream<'_>,
    sender: &mpsc::Sender<Chunk>,
    limits: &Limits,
) -> Result<(), SourceError> {
    let mut header = Vec::with_capacity(HEADER);
    while let Some(chunk) = stream.next().await? {
        if header.len() < HEADER {
            header.extend_from_slice(chunk.get(..HEADER.min(chunk.len())).unwrap_or_default());
            header.truncate(HEADER);
            check_header(&header, limits)?;
        }
        if sender.send(Chunk::Data(chunk)).await.is_err() {
            // The writer ended early; its error says why.
            return Ok(());
        }
    }
    let _ = sender.send(Chunk::End).await;
    Ok(())
}

fn check_header(header: &[u8], limits: &Limits) -> Result<(), SourceError> {
    let Some(header) = header.first_chunk::<HEADER>() else {
        return Ok(());
    };
    let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = *header else {
        return Err(SourceError::new(
            Reason::InvalidData,
            "the remote sent no pack",
        ));
    };
    let count = u32::from_be_bytes(count);
    if count > limits.pack_objects {
        return Err(SourceError::new(
            Reason::TooLarge,
            format!(
                "the remote sends {count} objects, the limit is {}",
                limits.pack_objects
            ),
        ));
    }
    Ok(())
}

fn write(
    mut reader: ChannelReader,
    directory: PathBuf,
    objects: Option<gix::odb::Handle>,
    interrupt: &AtomicBool,
    alloc_limit: usize,
) -> Result<Outcome, SourceError> {
    let options = WriteOptions {
        thread_limit: Some(2),
        alloc_limit_bytes: Some(alloc_limit),
        ..WriteOptions::default()
    };
    gix_pack::Bundle::write_to_directory(
        &mut reader,
        Some(&directory),
        &mut gix::progress::Discard,
        interrupt,
        objects,
        gix::hash::Kind::Sha1,
        options,
    )
    .map_err(|error| write_error(&error))
}

/// The class of an error of gix: the disk's, a limit's, or the remote's.
fn write_error(error: &gix::Error) -> SourceError {
    let cause = error.probable_cause().to_string();
    for cause in error.iter_errors() {
        let Some(io) = cause.downcast_ref::<io::Error>() else {
            continue;
        };
        let disk = matches!(
            io.kind(),
            io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotFound
        );
        // EIO has no kind.
        if disk || io.raw_os_error() == Some(5) {
            return StoreError::Disk(io.to_string()).into();
        }
    }
    let resources = error.classify().is_resource_exhausted() || cause.contains("allocation limit");
    let reason = if resources {
        Reason::TooLarge
    } else {
        Reason::InvalidData
    };
    SourceError::new(
        reason,
        format!("the pack of the remote cannot be used: {cause}"),
    )
}

fn finish(store: &Store, outcome: &Outcome) -> Result<(), SourceError> {
    if let Some(keep) = &outcome.keep_path {
        std::fs::remove_file(keep).map_err(StoreError::from)?;
    }
    store.measure();
    Ok(())
}

/// The pack as something to read from, on a blocking thread.
struct ChannelReader {
    receiver: mpsc::Receiver<Chunk>,
    current: Bytes,
    ended: bool,
}

impl ChannelReader {
    fn new(receiver: mpsc::Receiver<Chunk>) -> Self {
        Self {
            receiver,
            current: Bytes::new(),
            ended: false,
        }
    }
}

impl Read for ChannelReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), available.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for ChannelReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Chunk::Data(data)) => self.current = data,
                Some(Chunk::End) => self.ended = true,
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, count: usize) {
        self.current.advance(count.min(self.current.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_a_pack_that_claims_too_many_objects_is_refused_at_its_header() {
        let limits = Limits::default();
        let error = check_header(b"PACK\0\0\0\x02\xff\xff\xff\xff", &limits).unwrap_err();
        assert_eq!(error.reason(), Reason::TooLarge);
        assert!(check_header(b"PACK\0\0\0\x02\0\0\0\x09", &limits).is_ok());
        assert_eq!(
            check_header(b"<html><body>", &limits).unwrap_err().reason(),
            Reason::InvalidData
        );
        assert!(check_header(b"PAC", &limits).is_ok(), "not yet whole");
    }

    #[test]
    fn a_sender_that_goes_away_is_an_error_and_no_end() {
        let (sender, receiver) = mpsc::channel(4);
        sender.try_send(Chunk::Data("PACK".into())).ok().unwrap();
        drop(sender);
        let mut reader = ChannelReader::new(receiver);
        let mut bytes = Vec::new();
        let error = reader.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(
            (bytes.as_slice(), error.kind()),
            (&b"PACK"[..], io::ErrorKind::ConnectionAborted)
        );
    }

    /// A pack of two blobs and a delta of one of them.
    fn small_pack() -> Vec<u8> {
        use std::io::Write;
        let deflate = |bytes: &[u8]| {
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let mut out = b"PACK\0\0\0\x02\0\0\0\x03".to_vec();
        out.push(0x35);
        out.extend(deflate(b"hello"));
        let second = out.len();
        out.push(0x35);
        out.extend(deflate(b"world"));
        let back = u8::try_from(out.len() - second).unwrap();
        // Base and result have five bytes: copy three of them, add two.
        out.extend([0x67, back]);
        out.extend(deflate(&[5, 5, 0x90, 3, 2, b'!', b'!']));
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&out);
        out.extend(hasher.try_finalize().unwrap().as_slice());
        out
    }

    /// What comes of a pack, in an empty store; the files that are left.
    fn take(bytes: Vec<u8>, thin: bool) -> (Result<Outcome, SourceError>, usize) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("m"), 1 << 20).unwrap();
        let (sender, receiver) = mpsc::channel(4);
        sender.try_send(Chunk::Data(bytes.into())).ok().unwrap();
        sender.try_send(Chunk::End).ok().unwrap();
        let packs = store.directory().join("objects/pack");
        let interrupt = AtomicBool::new(false);
        let reader = ChannelReader::new(receiver);
        let objects = thin.then(|| store.objects());
        let written = write(reader, packs.clone(), objects, &interrupt, 1 << 20);
        (written, std::fs::read_dir(packs).unwrap().count())
    }

    #[test]
    fn a_small_pack_is_taken() {
        for thin in [false, true] {
            let (written, _) = take(small_pack(), thin);
            assert_eq!(written.unwrap().index.num_objects, 3);
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

        #[test]
        fn s12_no_change_of_a_pack_is_taken_or_makes_its_reader_panic(
            at in 0_usize..97, byte in 1_u8.., cut in proptest::option::of(0_usize..97),
            thin in proptest::bool::ANY,
        ) {
            let mut bytes = small_pack();
            let length = bytes.len();
            bytes[at % length] ^= byte;
            // A pack of no objects is a good one, and what follows it is not read.
            proptest::prop_assume!(bytes[8..12] != [0; 4]);
            bytes.truncate(cut.unwrap_or(length));
            let (written, left) = take(bytes, thin);
            proptest::prop_assert!(written.is_err());
            proptest::prop_assert_eq!(left, 0);
        }
    }
}
