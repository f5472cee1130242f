//! What a remote says about itself: capabilities and refs (gitprotocol-v2, gitprotocol-pack).

use gix::ObjectId;

use super::{
    body::Body,
    packet::{self, Packet, invalid},
};
use crate::gitsync::{Reason, SourceError};

/// Most refs of one listing; the largest known repositories have a tenth of it.
const MAX_REFS: usize = 2_000_000;

/// One ref of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteRef {
    /// Full name, or `HEAD`.
    pub(crate) name: String,
    /// What it points at.
    pub(crate) id: ObjectId,
    /// For an annotated tag, what the tag points at.
    pub(crate) peeled: Option<ObjectId>,
    /// For a symbolic ref, the ref that it stands for.
    pub(crate) target: Option<String>,
}

/// What the remote can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Capabilities {
    /// Protocol version 2.
    V2 {
        /// `fetch` takes `deepen`.
        shallow: bool,
    },
    /// Version 0 or 1, with what the first ref line lists.
    V0(V0),
}

/// Capabilities of the old protocol that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct V0 {
    /// `deepen` is understood.
    pub(crate) shallow: bool,
    /// `ofs-delta` is understood.
    pub(crate) ofs_delta: bool,
    /// `thin-pack` is understood.
    pub(crate) thin_pack: bool,
    /// `side-band-64k` is understood.
    pub(crate) side_band: bool,
    /// `no-progress` is understood.
    pub(crate) no_progress: bool,
    /// A commit that no ref points at may be asked for.
    pub(crate) any_commit: bool,
}

/// The first message of a server.
#[derive(Debug)]
pub(crate) struct Advertisement {
    /// What it can do.
    pub(crate) capabilities: Capabilities,
    /// In version 0 and 1 all refs; in version 2 none.
    pub(crate) refs: Vec<RemoteRef>,
}

/// Reads the first message of a server, after the service line of smart HTTP if there is one.
///
/// # Errors
/// `InvalidData` when it is none; `InvalidSource` for a repository with SHA-256 ids.
pub(crate) async fn read_advertisement(body: &mut Body<'_>) -> Result<Advertisement, SourceError> {
    let mut first = packet::read(body).await?;
    if first
        .text()
        .is_some_and(|line| line.starts_with("# service="))
    {
        if packet::read(body).await? != Packet::Flush {
            return Err(invalid("no flush after the service line"));
        }
        first = packet::read(body).await?;
    }
    match first.text() {
        Some("version 2") => read_v2(body).await,
        Some("version 1") => {
            let first = packet::read(body).await?;
            read_v0(body, first).await
        }
        _ => read_v0(body, first).await,
    }
}

async fn read_v2(body: &mut Body<'_>) -> Result<Advertisement, SourceError> {
    let mut shallow = false;
    for _ in 0..1000 {
        let packet = packet::read(body).await?;
        let Some(line) = packet.text() else {
            let capabilities = Capabilities::V2 { shallow };
            return Ok(Advertisement {
                capabilities,
                refs: Vec::new(),
            });
        };
        match line.split_once('=') {
            Some(("fetch", features)) => shallow = features.split(' ').any(|f| f == "shallow"),
            Some(("object-format", format)) => check_format(format)?,
            _ => {}
        }
    }
    Err(invalid("more than a thousand capabilities"))
}

fn check_format(format: &str) -> Result<(), SourceError> {
    if format == "sha1" {
        return Ok(());
    }
    Err(SourceError::new(
        Reason::InvalidSource,
        format!("the repository uses {format} object ids, only sha1 is supported"),
    ))
}

async fn read_v0(body: &mut Body<'_>, first: Packet) -> Result<Advertisement, SourceError> {
    let mut capabilities = V0::default();
    let mut symrefs = Vec::new();
    let mut refs: Vec<RemoteRef> = Vec::new();
    let mut packet = first;
    let mut is_first = true;
    while let Packet::Data(data) = &packet {
        let line = match data.iter().position(|byte| *byte == 0).filter(|_| is_first) {
            Some(at) => {
                let (line, tail) = data.split_at(at);
                parse_v0_capabilities(tail, &mut capabilities, &mut symrefs)?;
                line
            }
            None => data,
        };
        is_first = false;
        add_v0_ref(&String::from_utf8_lossy(line), &mut refs)?;
        packet = packet::read(body).await?;
    }
    for (name, target) in symrefs {
        if let Some(found) = refs.iter_mut().find(|r| r.name == name) {
            found.target = Some(target);
        }
    }
    Ok(Advertisement {
        capabilities: Capabilities::V0(capabilities),
        refs,
    })
}

fn parse_v0_capabilities(
    tail: &[u8],
    capabilities: &mut V0,
    symrefs: &mut Vec<(String, String)>,
) -> Result<(), SourceError> {
    let text = String::from_utf8_lossy(tail);
    for capability in text.trim_matches(['\0', '\n']).split(' ') {
        match capability.split_once('=').unwrap_or((capability, "")) {
            ("shallow", _) => capabilities.shallow = true,
            ("ofs-delta", _) => capabilities.ofs_delta = true,
            ("thin-pack", _) => capabilities.thin_pack = true,
            ("side-band-64k", _) => capabilities.side_band = true,
            ("no-progress", _) => capabilities.no_progress = true,
            ("allow-reachable-sha1-in-want" | "allow-any-sha1-in-want", _) => {
                capabilities.any_commit = true;
            }
            ("object-format", format) => check_format(format)?,
            ("symref", pair) => {
                symrefs.extend(
                    pair.split_once(':')
                        .map(|(a, b)| (a.to_owned(), b.to_owned())),
                );
            }
            _ => {}
        }
    }
    Ok(())
}

fn add_v0_ref(line: &str, refs: &mut Vec<RemoteRef>) -> Result<(), SourceError> {
    let line = line.trim_end_matches('\n');
    let Some((id, name)) = line.split_once(' ') else {
        return Err(invalid("a ref line without a name"));
    };
    if id == "shallow" || name == "capabilities^{}" {
        return Ok(());
    }
    let id = parse_id(id)?;
    if let Some(name) = name.strip_suffix("^{}") {
        if let Some(last) = refs.last_mut().filter(|last| last.name == name) {
            last.peeled = Some(id);
        }
        return Ok(());
    }
    push(
        refs,
        RemoteRef {
            name: name.to_owned(),
            id,
            peeled: None,
            target: None,
        },
    )
}

fn push(refs: &mut Vec<RemoteRef>, found: RemoteRef) -> Result<(), SourceError> {
    if refs.len() >= MAX_REFS {
        return Err(SourceError::new(
            Reason::TooLarge,
            format!("the remote has more than {MAX_REFS} refs"),
        ));
    }
    refs.push(found);
    Ok(())
}

/// The request that lists the refs starting with one of `prefixes`.
pub(crate) fn ls_refs_request(prefixes: &[String]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    packet::write_line(&mut out, "command=ls-refs");
    packet::write_line(&mut out, super::AGENT);
    packet::write_line(&mut out, "object-format=sha1");
    packet::write_delimiter(&mut out);
    packet::write_line(&mut out, "peel");
    packet::write_line(&mut out, "symrefs");
    for prefix in prefixes {
        packet::write_line(&mut out, &format!("ref-prefix {prefix}"));
    }
    packet::write_flush(&mut out);
    out
}

/// Reads the answer to [`ls_refs_request`].
///
/// # Errors
/// `InvalidData` when it is none.
pub(crate) async fn read_ls_refs(body: &mut Body<'_>) -> Result<Vec<RemoteRef>, SourceError> {
    let mut refs = Vec::new();
    loop {
        let packet = packet::read(body).await?;
        match &packet {
            Packet::Data(_) => {
                if let Some(found) = packet.text().map(parse_ls_ref).transpose()?.flatten() {
                    push(&mut refs, found)?;
                }
            }
            _ => return Ok(refs),
        }
    }
}

/// `<id> <name>[ symref-target:<ref>][ peeled:<id>]`; an unborn HEAD has no id and is left out.
fn parse_ls_ref(line: &str) -> Result<Option<RemoteRef>, SourceError> {
    let mut parts = line.split(' ');
    let (Some(id), Some(name)) = (parts.next(), parts.next()) else {
        return Err(invalid("a ref line without a name"));
    };
    if id == "unborn" {
        return Ok(None);
    }
    let mut found = RemoteRef {
        name: name.to_owned(),
        id: parse_id(id)?,
        peeled: None,
        target: None,
    };
    for attribute in parts {
        match attribute.split_once(':') {
            Some(("symref-target", target)) => found.target = Some(target.to_owned()),
            Some(("peeled", id)) => found.peeled = Some(parse_id(id)?),
            _ => {}
        }
    }
    Ok(Some(found))
}

/// Forty hex digits.
pub(crate) fn parse_id(text: &str) -> Result<ObjectId, SourceError> {
    ObjectId::from_hex(text.as_bytes())
        .ok()
        .filter(|_| text.len() == 40)
        .ok_or_else(|| invalid("an object id that is not forty hex digits"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gitsync::wire::body::{Counters, Pace};

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn message(lines: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            match *line {
                "0000" => packet::write_flush(&mut out),
                line => packet::write_line(&mut out, line),
            }
        }
        out
    }

    async fn advertisement(bytes: Vec<u8>) -> Result<Advertisement, SourceError> {
        let counters = Counters::default();
        let pace = Pace {
            window: Duration::from_secs(5),
            slow_windows: 0,
        };
        let mut body = Body::pipe(std::io::Cursor::new(bytes), pace, 1 << 20, &counters);
        read_advertisement(&mut body).await
    }

    #[tokio::test]
    async fn version_2_is_read_with_and_without_the_service_line() {
        let plain = [
            "version 2",
            "agent=git/2",
            "fetch=shallow filter",
            "object-format=sha1",
            "0000",
        ];
        let mut http = vec!["# service=git-upload-pack", "0000"];
        http.extend(plain);
        for lines in [&plain[..], &http[..]] {
            let found = advertisement(message(lines)).await.unwrap();
            assert_eq!(found.capabilities, Capabilities::V2 { shallow: true });
        }
    }

    #[tokio::test]
    async fn version_0_lists_refs_with_peeled_tags_and_head() {
        let lines = [
            &format!("{ONE} HEAD\0 shallow ofs-delta symref=HEAD:refs/heads/main agent=x"),
            &format!("{ONE} refs/heads/main"),
            &format!("{TWO} refs/tags/v1"),
            &format!("{ONE} refs/tags/v1^{{}}"),
            "0000",
        ];
        let found = advertisement(message(&lines.map(|l| l as &str)))
            .await
            .unwrap();
        let Capabilities::V0(v0) = &found.capabilities else {
            panic!("{found:?}")
        };
        assert!(v0.shallow && v0.ofs_delta && !v0.any_commit);
        assert_eq!(found.refs.len(), 3);
        assert_eq!(found.refs[0].target.as_deref(), Some("refs/heads/main"));
        assert_eq!(found.refs[2].peeled, Some(parse_id(ONE).unwrap()));
    }

    #[tokio::test]
    async fn an_empty_repository_has_no_refs() {
        let zero = "0".repeat(40);
        let line = format!("{zero} capabilities^{{}}\0 shallow");
        let found = advertisement(message(&[&line, "0000"])).await.unwrap();
        assert!(found.refs.is_empty());
    }

    #[tokio::test]
    async fn a_repository_with_sha256_is_refused_with_a_reason() {
        let error = advertisement(message(&["version 2", "object-format=sha256", "0000"]))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidSource);
        assert!(error.to_string().contains("sha256"));
    }

    #[test]
    fn ref_lines_with_attributes_are_read() {
        let line = format!("{ONE} HEAD symref-target:refs/heads/main");
        assert_eq!(
            parse_ls_ref(&line).unwrap().unwrap().target.as_deref(),
            Some("refs/heads/main")
        );
        let line = format!("{TWO} refs/tags/v1 peeled:{ONE}");
        assert_eq!(
            parse_ls_ref(&line).unwrap().unwrap().peeled,
            Some(parse_id(ONE).unwrap())
        );
        assert_eq!(
            parse_ls_ref("unborn HEAD symref-target:refs/heads/main").unwrap(),
            None
        );
        assert!(parse_ls_ref("short refs/heads/x").is_err());
    }
}
