//! Packet lines: four hex digits of length, then the payload (gitprotocol-common).

use bytes::Bytes;

use super::body::Body;
use crate::gitsync::{Reason, SourceError};

/// Longest payload of one packet, by the protocol.
const MAX_PAYLOAD: usize = 65516;

/// One packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packet {
    /// `0000`: the end of a list or message.
    Flush,
    /// `0001`: the end of a section.
    Delimiter,
    /// `0002`: the end of a response of a stateless connection.
    ResponseEnd,
    /// A payload, with the line break that it may have.
    Data(Bytes),
}

impl Packet {
    /// The payload as text without its line break; `None` for the special packets and for what is not UTF-8.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Data(data) => std::str::from_utf8(data)
                .ok()
                .map(|text| text.strip_suffix('\n').unwrap_or(text)),
            _ => None,
        }
    }
}

/// Reads the next packet of `body`.
///
/// # Errors
/// `InvalidData` when the length is not one, or the body ends in the middle; and what the server says in `ERR`.
pub(crate) async fn read(body: &mut Body<'_>) -> Result<Packet, SourceError> {
    let length = parse_length(&body.take(4).await?)?;
    match length {
        0 => Ok(Packet::Flush),
        1 => Ok(Packet::Delimiter),
        2 => Ok(Packet::ResponseEnd),
        3 => Err(invalid("a packet of length 3")),
        length if length - 4 > MAX_PAYLOAD => Err(invalid("a packet longer than 65520 bytes")),
        length => {
            let data = body.take(length - 4).await?;
            match data.strip_prefix(b"ERR ") {
                Some(text) => Err(remote_error(&String::from_utf8_lossy(text))),
                None => Ok(Packet::Data(data)),
            }
        }
    }
}

fn parse_length(digits: &[u8]) -> Result<usize, SourceError> {
    let text = std::str::from_utf8(digits)
        .ok()
        .filter(|t| t.bytes().all(|b| b.is_ascii_hexdigit()));
    text.and_then(|text| usize::from_str_radix(text, 16).ok())
        .ok_or_else(|| invalid("no packet line; is it a git server?"))
}

/// Adds `line` with a line break as one packet.
pub(crate) fn write_line(out: &mut Vec<u8>, line: &str) {
    debug_assert!(line.len() < MAX_PAYLOAD, "request lines are short");
    out.extend_from_slice(format!("{:04x}{line}\n", line.len() + 5).as_bytes());
}

/// Adds a flush packet.
pub(crate) fn write_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Adds a delimiter packet.
pub(crate) fn write_delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

/// An answer that is not what the protocol says.
pub(crate) fn invalid(what: &str) -> SourceError {
    SourceError::new(
        Reason::InvalidData,
        format!("the remote breaks the git protocol: {what}"),
    )
}

/// What the server says is wrong, put in its class.
pub(crate) fn remote_error(text: &str) -> SourceError {
    let lower = text.to_ascii_lowercase();
    let reason = if lower.contains("not our ref") || lower.contains("not valid") {
        Reason::RefNotFound
    } else if lower.contains("not found") || lower.contains("does not exist") {
        Reason::RepositoryNotFound
    } else if lower.contains("denied") || lower.contains("authenti") || lower.contains("authoriz") {
        Reason::AuthFailed
    } else {
        Reason::Unreachable
    };
    SourceError::new(reason, format!("the remote says: {}", text.trim()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gitsync::wire::body::{Counters, Pace};

    async fn read_all(bytes: &'static [u8]) -> Vec<Result<Packet, SourceError>> {
        let counters = Counters::default();
        let pace = Pace {
            window: Duration::from_secs(5),
            slow_windows: 0,
        };
        let mut body = Body::pipe(bytes, pace, 1 << 20, &counters);
        let mut packets = Vec::new();
        while !body.at_end().await.unwrap() {
            packets.push(read(&mut body).await);
            if packets.last().is_some_and(Result::is_err) {
                break;
            }
        }
        packets
    }

    #[tokio::test]
    async fn packets_of_every_kind_are_read() {
        let packets = read_all(b"0009main\n00010002000400000006ab").await;
        let packets: Vec<_> = packets.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            packets,
            [
                Packet::Data("main\n".into()),
                Packet::Delimiter,
                Packet::ResponseEnd,
                Packet::Data(Bytes::new()),
                Packet::Flush,
                Packet::Data("ab".into()),
            ]
        );
        assert_eq!(packets[0].text(), Some("main"));
    }

    #[tokio::test]
    async fn bad_lengths_and_early_ends_are_errors() {
        for hostile in [
            &b"0003"[..],
            b"fff1",
            b"zzzz",
            b"00",
            b"0010abc",
            b"<html>",
            b"+001",
            b"\xff\xff\xff\xff",
        ] {
            let last = read_all(hostile).await.pop().unwrap();
            assert_eq!(
                last.unwrap_err().reason(),
                Reason::InvalidData,
                "{hostile:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_error_of_the_server_has_its_class() {
        for (text, reason) in [
            (
                &b"001cERR upload-pack: not our ref"[..],
                Reason::RefNotFound,
            ),
            (b"0017ERR access denied: x", Reason::AuthFailed),
            (b"000fERR try later", Reason::Unreachable),
        ] {
            let mut fixed = text.to_vec();
            let length = format!("{:04x}", text.len());
            fixed.splice(0..4, length.bytes());
            let leaked: &'static [u8] = Box::leak(fixed.into_boxed_slice());
            let last = read_all(leaked).await.pop().unwrap();
            assert_eq!(last.unwrap_err().reason(), reason);
        }
    }

    #[test]
    fn lines_are_written_with_their_length() {
        let mut out = Vec::new();
        write_line(&mut out, "command=ls-refs");
        write_delimiter(&mut out);
        write_flush(&mut out);
        assert_eq!(out, b"0014command=ls-refs\n00010000");
    }
}
