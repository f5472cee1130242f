//! Asking for objects, and the stream of the pack that comes back.

use bytes::Bytes;
use gix::ObjectId;

use super::{
    body::Body,
    packet::{self, Packet, invalid},
    refs::{Capabilities, V0, parse_id},
};
use crate::gitsync::SourceError;

/// Slow windows that are borne while the server counts objects, and while the pack arrives.
pub(crate) const SLOW_WHILE_COUNTING: u32 = 15;
const SLOW_WHILE_SENDING: u32 = 3;
/// Most bytes of everything before the pack.
const MAX_PREAMBLE: u64 = 64 << 20;

/// Which objects are wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct FetchRequest {
    /// Objects to get, with all that they reach.
    pub(crate) wants: Vec<ObjectId>,
    /// Commits that the mirror has with all that they reach.
    pub(crate) haves: Vec<ObjectId>,
    /// Commits of the mirror whose parents are missing.
    pub(crate) shallow: Vec<ObjectId>,
    /// How many commits deep; `None`: all.
    pub(crate) depth: Option<u32>,
}

/// What the answer says about missing parents.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShallowInfo {
    /// Commits that have no parents here from now on.
    pub(crate) shallow: Vec<ObjectId>,
    /// Commits whose parents come with this pack.
    pub(crate) unshallow: Vec<ObjectId>,
}

impl ShallowInfo {
    /// Reads a `shallow` or `unshallow` line; false for any other.
    fn add(&mut self, line: &str) -> Result<bool, SourceError> {
        match line.split_once(' ') {
            Some(("shallow", id)) => self.shallow.push(parse_id(id)?),
            Some(("unshallow", id)) => self.unshallow.push(parse_id(id)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The request in the version that the server speaks.
pub(crate) fn encode(request: &FetchRequest, capabilities: &Capabilities) -> Vec<u8> {
    match capabilities {
        Capabilities::V2 { shallow } => encode_v2(request, *shallow),
        Capabilities::V0(v0) => encode_v0(request, v0),
    }
}

fn encode_v2(request: &FetchRequest, shallow: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    for line in ["command=fetch", super::AGENT, "object-format=sha1"] {
        packet::write_line(&mut out, line);
    }
    packet::write_delimiter(&mut out);
    for line in ["ofs-delta", "no-progress"] {
        packet::write_line(&mut out, line);
    }
    if !request.haves.is_empty() {
        packet::write_line(&mut out, "thin-pack");
    }
    if shallow {
        write_shallow(&mut out, request);
    }
    for want in &request.wants {
        packet::write_line(&mut out, &format!("want {want}"));
    }
    write_haves(&mut out, request);
    packet::write_line(&mut out, "done");
    packet::write_flush(&mut out);
    out
}

fn encode_v0(request: &FetchRequest, v0: &V0) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut capabilities = String::new();
    for (wanted, name) in [
        (v0.side_band, "side-band-64k"),
        (v0.ofs_delta, "ofs-delta"),
        (v0.no_progress, "no-progress"),
        (v0.thin_pack && !request.haves.is_empty(), "thin-pack"),
    ] {
        if wanted {
            capabilities.push(' ');
            capabilities.push_str(name);
        }
    }
    for want in &request.wants {
        packet::write_line(&mut out, &format!("want {want}{capabilities}"));
        capabilities.clear();
    }
    if v0.shallow {
        write_shallow(&mut out, request);
    }
    packet::write_flush(&mut out);
    write_haves(&mut out, request);
    packet::write_line(&mut out, "done");
    out
}

fn write_shallow(out: &mut Vec<u8>, request: &FetchRequest) {
    for id in &request.shallow {
        packet::write_line(out, &format!("shallow {id}"));
    }
    if let Some(depth) = request.depth {
        packet::write_line(out, &format!("deepen {depth}"));
    }
}

fn write_haves(out: &mut Vec<u8>, request: &FetchRequest) {
    for have in &request.haves {
        packet::write_line(out, &format!("have {have}"));
    }
}

/// The pack of a response, as it arrives.
pub(crate) struct PackStream<'c> {
    body: Body<'c>,
    side_band: bool,
    started: bool,
    pack_limit: u64,
    ended: bool,
}

impl PackStream<'_> {
    /// The next bytes of the pack; `None` after its last.
    ///
    /// # Errors
    /// What the server says went wrong, `TooLarge`, `Timeout`, or `InvalidData` for a stream that is cut.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, SourceError> {
        while !self.ended {
            let chunk = if self.side_band {
                self.next_banded().await?
            } else {
                self.next_raw().await?
            };
            let Some(chunk) = chunk.filter(|chunk| !chunk.is_empty()) else {
                continue;
            };
            if !self.started {
                self.started = true;
                self.body.expect(SLOW_WHILE_SENDING, self.pack_limit);
            }
            return Ok(Some(chunk));
        }
        Ok(None)
    }

    async fn next_banded(&mut self) -> Result<Option<Bytes>, SourceError> {
        match packet::read(&mut self.body).await? {
            Packet::Data(data) => match data.first() {
                Some(1) => Ok(Some(data.slice(1..))),
                Some(2) => Ok(None),
                Some(3) => Err(packet::remote_error(&String::from_utf8_lossy(
                    &data.slice(1..),
                ))),
                _ => Err(invalid("a side-band packet without a band")),
            },
            _ => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    /// Without side-band the pack is the rest of the body.
    async fn next_raw(&mut self) -> Result<Option<Bytes>, SourceError> {
        if self.body.at_end().await? {
            self.ended = true;
            return Ok(None);
        }
        self.body.take_some().await.map(Some)
    }
}

/// Reads the answer to a fetch up to its pack.
///
/// # Errors
/// `InvalidData` when it is none, and what the server says.
pub(crate) async fn read_response<'c>(
    mut body: Body<'c>,
    request: &FetchRequest,
    capabilities: &Capabilities,
    pack_limit: u64,
) -> Result<(ShallowInfo, PackStream<'c>), SourceError> {
    body.expect(SLOW_WHILE_COUNTING, MAX_PREAMBLE);
    let (info, side_band) = match capabilities {
        Capabilities::V2 { .. } => (read_v2_preamble(&mut body).await?, true),
        Capabilities::V0(v0) => {
            let deepens = v0.shallow && request.depth.is_some();
            (read_v0_preamble(&mut body, deepens).await?, v0.side_band)
        }
    };
    Ok((
        info,
        PackStream {
            body,
            side_band,
            started: false,
            pack_limit,
            ended: false,
        },
    ))
}

async fn read_v2_preamble(body: &mut Body<'_>) -> Result<ShallowInfo, SourceError> {
    let mut info = ShallowInfo::default();
    loop {
        let packet = packet::read(body).await?;
        match packet.text() {
            Some("packfile") => return Ok(info),
            Some("shallow-info") => read_shallow_section(body, &mut info).await?,
            Some("acknowledgments" | "wanted-refs") => skip_section(body).await?,
            _ => return Err(invalid("an unknown section in the answer to a fetch")),
        }
    }
}

async fn read_shallow_section(
    body: &mut Body<'_>,
    info: &mut ShallowInfo,
) -> Result<(), SourceError> {
    loop {
        let packet = packet::read(body).await?;
        let Some(line) = packet.text() else {
            return section_end(&packet);
        };
        if !info.add(line)? {
            return Err(invalid("a line that is not about shallow commits"));
        }
    }
}

async fn skip_section(body: &mut Body<'_>) -> Result<(), SourceError> {
    loop {
        let packet = packet::read(body).await?;
        if packet.text().is_none() {
            return section_end(&packet);
        }
    }
}

fn section_end(packet: &Packet) -> Result<(), SourceError> {
    match packet {
        Packet::Delimiter => Ok(()),
        _ => Err(invalid("an answer without a pack")),
    }
}

async fn read_v0_preamble(body: &mut Body<'_>, deepens: bool) -> Result<ShallowInfo, SourceError> {
    let mut info = ShallowInfo::default();
    if deepens {
        read_v0_shallow(body, &mut info).await?;
    }
    read_acknowledgements(body).await?;
    Ok(info)
}

async fn read_v0_shallow(body: &mut Body<'_>, info: &mut ShallowInfo) -> Result<(), SourceError> {
    loop {
        let packet = packet::read(body).await?;
        match packet.text() {
            Some(line) if info.add(line)? => {}
            None if packet == Packet::Flush => return Ok(()),
            _ => return Err(invalid("a line that is not about shallow commits")),
        }
    }
}

/// We end the negotiation in the first request, without `multi_ack`: one final ACK or NAK comes, and an ACK for the
/// first common commit may come before it. Which of the two it is shows in the next packet, so look, don't take.
async fn read_acknowledgements(body: &mut Body<'_>) -> Result<(), SourceError> {
    loop {
        let packet = packet::read(body).await?;
        if !packet
            .text()
            .is_some_and(|line| line == "NAK" || line.starts_with("ACK "))
        {
            return Err(invalid("neither ACK nor NAK before the pack"));
        }
        if !body.starts_with(&[b"ACK ", b"NAK"], 4).await? {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gitsync::{
        Reason,
        wire::body::{Counters, Pace},
    };

    fn id(digit: char) -> ObjectId {
        parse_id(&digit.to_string().repeat(40)).unwrap()
    }

    fn request() -> FetchRequest {
        FetchRequest {
            wants: vec![id('1'), id('2')],
            haves: vec![id('3')],
            shallow: vec![id('3')],
            depth: Some(1),
        }
    }

    async fn respond(
        bytes: Vec<u8>,
        capabilities: Capabilities,
    ) -> Result<(ShallowInfo, Vec<u8>), SourceError> {
        let counters = Counters::default();
        let pace = Pace {
            window: Duration::from_secs(5),
            slow_windows: 0,
        };
        let body = Body::pipe(std::io::Cursor::new(bytes), pace, 1 << 20, &counters);
        let (info, mut pack) = read_response(body, &request(), &capabilities, 1000).await?;
        let mut data = Vec::new();
        while let Some(chunk) = pack.next().await? {
            data.extend_from_slice(&chunk);
        }
        Ok((info, data))
    }

    fn v0() -> V0 {
        V0 {
            shallow: true,
            ofs_delta: true,
            thin_pack: true,
            side_band: true,
            ..V0::default()
        }
    }

    fn band(out: &mut Vec<u8>, band: u8, data: &[u8]) {
        out.extend_from_slice(format!("{:04x}", data.len() + 5).as_bytes());
        out.push(band);
        out.extend_from_slice(data);
    }

    #[test]
    fn a_version_2_request_ends_the_negotiation_at_once() {
        let text =
            String::from_utf8(encode(&request(), &Capabilities::V2 { shallow: true })).unwrap();
        for line in [
            "command=fetch\n",
            "thin-pack\n",
            "deepen 1\n",
            &format!("shallow {}\n", id('3')),
            &format!("want {}\n", id('2')),
            &format!("have {}\n", id('3')),
        ] {
            assert!(text.contains(line), "{line}");
        }
        assert!(text.ends_with("0009done\n0000"));
    }

    #[test]
    fn a_version_0_request_has_its_capabilities_on_the_first_want_only() {
        let text = String::from_utf8(encode(&request(), &Capabilities::V0(v0()))).unwrap();
        assert!(text.contains(&format!(
            "want {} side-band-64k ofs-delta thin-pack\n",
            id('1')
        )));
        assert!(text.contains(&format!("want {}\n", id('2'))));
        assert!(text.ends_with("0009done\n"));
    }

    #[tokio::test]
    async fn a_version_2_answer_gives_shallow_commits_and_the_pack() {
        let mut out = Vec::new();
        packet::write_line(&mut out, "shallow-info");
        packet::write_line(&mut out, &format!("shallow {}", id('1')));
        packet::write_line(&mut out, &format!("unshallow {}", id('3')));
        packet::write_delimiter(&mut out);
        packet::write_line(&mut out, "packfile");
        band(&mut out, 2, b"Counting objects");
        band(&mut out, 1, b"PA");
        band(&mut out, 1, b"CK");
        packet::write_flush(&mut out);
        let (info, pack) = respond(out, Capabilities::V2 { shallow: true })
            .await
            .unwrap();
        assert_eq!(
            info,
            ShallowInfo {
                shallow: vec![id('1')],
                unshallow: vec![id('3')]
            }
        );
        assert_eq!(pack, b"PACK");
    }

    #[tokio::test]
    async fn a_version_0_answer_with_one_or_two_acks_gives_the_pack() {
        for acks in [
            &["NAK"][..],
            &["ACK 3333", "ACK 3333"],
            &["ACK 3333", "NAK"],
        ] {
            let mut out = Vec::new();
            packet::write_line(&mut out, &format!("shallow {}", id('1')));
            packet::write_flush(&mut out);
            for ack in acks {
                packet::write_line(&mut out, ack);
            }
            band(&mut out, 1, b"PACK");
            packet::write_flush(&mut out);
            let (info, pack) = respond(out, Capabilities::V0(v0())).await.unwrap();
            assert_eq!((info.shallow, pack), (vec![id('1')], b"PACK".to_vec()));
        }
    }

    #[tokio::test]
    async fn a_version_0_answer_without_side_band_gives_the_pack() {
        let mut out = Vec::new();
        packet::write_flush(&mut out);
        packet::write_line(&mut out, "NAK");
        out.extend_from_slice(b"PACKrest");
        let plain = V0 {
            side_band: false,
            ..v0()
        };
        let (_, pack) = respond(out, Capabilities::V0(plain)).await.unwrap();
        assert_eq!(pack, b"PACKrest");
    }

    #[tokio::test]
    async fn a_pack_above_the_limit_a_cut_one_and_a_fatal_band_are_errors() {
        let start = |out: &mut Vec<u8>| packet::write_line(out, "packfile");
        let mut large = Vec::new();
        start(&mut large);
        for _ in 0..200 {
            band(&mut large, 1, &[0; 1000]);
        }
        let mut cut = Vec::new();
        start(&mut cut);
        band(&mut cut, 1, b"PACK");
        let mut fatal = Vec::new();
        start(&mut fatal);
        band(&mut fatal, 3, b"out of memory");
        for (bytes, reason) in [
            (large, Reason::TooLarge),
            (cut, Reason::InvalidData),
            (fatal, Reason::Unreachable),
        ] {
            let error = respond(bytes, Capabilities::V2 { shallow: true })
                .await
                .unwrap_err();
            assert_eq!(error.reason(), reason, "{error}");
        }
    }

    fn honest() -> Vec<u8> {
        let mut out = Vec::new();
        packet::write_line(&mut out, "acknowledgments");
        packet::write_line(&mut out, "ready");
        packet::write_delimiter(&mut out);
        packet::write_line(&mut out, "shallow-info");
        packet::write_line(&mut out, &format!("shallow {}", id('1')));
        packet::write_delimiter(&mut out);
        packet::write_line(&mut out, "packfile");
        band(&mut out, 2, b"Counting objects");
        band(&mut out, 1, b"PACK and more");
        packet::write_flush(&mut out);
        out
    }

    proptest::proptest! {
        #[test]
        fn s12_no_change_of_an_answer_makes_its_reader_panic_or_hang(
            changes in proptest::collection::vec((0_usize..200, proptest::num::u8::ANY), 0..8),
            cut in 0_usize..300,
            old in proptest::bool::ANY,
        ) {
            let mut bytes = honest();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            let capabilities = if old {
                Capabilities::V0(v0())
            } else {
                Capabilities::V2 { shallow: true }
            };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            let found = runtime.block_on(respond(bytes, capabilities));
            proptest::prop_assert!(found.is_err() || cut > 0);
        }
    }
}
