//! What a remote says about itself: capabilities and refs (gitprotocol-v2, gitprotocol-pack).

use std::collections::HashSet;

use gix::ObjectId;

use super::{
    body::Body,
    packet::{self, Packet, invalid},
};
use crate::gitsync::{Reason, SourceError};

/// Most refs of one listing; the largest known repositories have a tenth of it.
const MAX_REFS: usize = 2_000_000;
/// Most ids of a listing that are kept: 10 MB.
const MAX_TIPS: usize = 500_000;

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

/// What of a listing is wanted. Anything else is dropped while it is read: how many refs a remote has, or pretends to
/// have, must not decide how much memory a poll takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct RefFilter {
    /// Full names.
    pub(crate) names: Vec<String>,
    /// Whose ids are wanted besides.
    pub(crate) tips: Tips,
}

/// The refs whose ids are wanted, whatever their names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tips {
    /// Of none.
    #[default]
    None,
    /// Of all refs, but only from a server of the old protocol, which lists them anyway.
    OfOldServers,
    /// Of all branches and tags.
    Branches,
}

const BRANCHES: [&str; 2] = ["refs/heads/", "refs/tags/"];

impl RefFilter {
    /// The ids of all branches and tags.
    pub(crate) fn branches() -> Self {
        Self {
            names: Vec::new(),
            tips: Tips::Branches,
        }
    }

    /// What a server of version 2 is asked for; without a prefix it would list everything.
    fn prefixes(&self) -> Vec<&str> {
        let mut prefixes: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if self.tips == Tips::Branches {
            prefixes.extend(BRANCHES);
        }
        if prefixes.is_empty() {
            prefixes.push("HEAD");
        }
        prefixes
    }
}

/// The refs of a remote, as far as a [`RefFilter`] wants them.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those with the wanted names, the first of each.
    pub(crate) refs: Vec<RemoteRef>,
    /// The ids of the wanted tips, as they came.
    pub(crate) tips: Vec<ObjectId>,
    /// How many refs were listed, wanted or not.
    pub(crate) listed: usize,
}

/// Picks what is wanted while a listing is read.
struct Picker<'f> {
    open: HashSet<&'f str>,
    tips: Tips,
    found: Found,
}

impl<'f> Picker<'f> {
    fn new(filter: &'f RefFilter) -> Self {
        Self {
            open: filter.names.iter().map(String::as_str).collect(),
            tips: filter.tips,
            found: Found::default(),
        }
    }

    fn add(&mut self, found: RemoteRef, is_old: bool) -> Result<(), SourceError> {
        self.found.listed += 1;
        let is_tip = match self.tips {
            Tips::None => false,
            Tips::OfOldServers => is_old,
            Tips::Branches => BRANCHES.iter().any(|start| found.name.starts_with(start)),
        };
        if is_tip {
            self.found.tips.push(found.id);
        }
        for (count, most) in [
            (self.found.listed, MAX_REFS),
            (self.found.tips.len(), MAX_TIPS),
        ] {
            if count > most {
                let text = format!("the remote has more than {most} refs");
                return Err(SourceError::new(Reason::TooLarge, text));
            }
        }
        if self.open.remove(found.name.as_str()) {
            self.found.refs.push(found);
        }
        Ok(())
    }
}

/// The first message of a server.
#[derive(Debug)]
pub(crate) struct Advertisement {
    /// What it can do.
    pub(crate) capabilities: Capabilities,
    /// In version 0 and 1 the refs; in version 2 none.
    pub(crate) found: Found,
}

/// Reads the first message of a server, after the service line of smart HTTP if there is one, and of the refs in it
/// what `filter` wants.
///
/// # Errors
/// `InvalidData` when it is none; `InvalidSource` for a repository with SHA-256 ids.
pub(crate) async fn read_advertisement(
    body: &mut Body<'_>,
    filter: &RefFilter,
) -> Result<Advertisement, SourceError> {
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
            read_v0(body, first, filter).await
        }
        _ => read_v0(body, first, filter).await,
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
                found: Found::default(),
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

async fn read_v0(
    body: &mut Body<'_>,
    first: Packet,
    filter: &RefFilter,
) -> Result<Advertisement, SourceError> {
    let mut capabilities = V0::default();
    let mut symrefs = Vec::new();
    let mut picker = Picker::new(filter);
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
        add_v0_ref(&String::from_utf8_lossy(line), &mut picker)?;
        packet = packet::read(body).await?;
    }
    let mut found = picker.found;
    for (name, target) in symrefs {
        if let Some(known) = found.refs.iter_mut().find(|r| r.name == name) {
            known.target = Some(target);
        }
    }
    Ok(Advertisement {
        capabilities: Capabilities::V0(capabilities),
        found,
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

fn add_v0_ref(line: &str, picker: &mut Picker<'_>) -> Result<(), SourceError> {
    let line = line.trim_end_matches('\n');
    let Some((id, name)) = line.split_once(' ') else {
        return Err(invalid("a ref line without a name"));
    };
    if id == "shallow" || name == "capabilities^{}" {
        return Ok(());
    }
    let id = parse_id(id)?;
    if let Some(name) = name.strip_suffix("^{}") {
        let last = picker.found.refs.last_mut();
        if let Some(last) = last.filter(|last| last.name == name) {
            last.peeled = Some(id);
        }
        return Ok(());
    }
    let found = RemoteRef {
        name: name.to_owned(),
        id,
        peeled: None,
        target: None,
    };
    picker.add(found, true)
}

/// The request that lists the refs that `filter` wants, and those whose names only begin so.
pub(crate) fn ls_refs_request(filter: &RefFilter) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    packet::write_line(&mut out, "command=ls-refs");
    packet::write_line(&mut out, super::AGENT);
    packet::write_line(&mut out, "object-format=sha1");
    packet::write_delimiter(&mut out);
    packet::write_line(&mut out, "peel");
    packet::write_line(&mut out, "symrefs");
    for prefix in filter.prefixes() {
        packet::write_line(&mut out, &format!("ref-prefix {prefix}"));
    }
    packet::write_flush(&mut out);
    out
}

/// Reads of the answer to [`ls_refs_request`] what `filter` wants.
///
/// # Errors
/// `InvalidData` when it is none, `TooLarge` for too many refs.
pub(crate) async fn read_ls_refs(
    body: &mut Body<'_>,
    filter: &RefFilter,
) -> Result<Found, SourceError> {
    let mut picker = Picker::new(filter);
    loop {
        let packet = packet::read(body).await?;
        match &packet {
            Packet::Data(_) => {
                if let Some(found) = packet.text().map(parse_ls_ref).transpose()?.flatten() {
                    picker.add(found, false)?;
                }
            }
            _ => return Ok(picker.found),
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

    fn body(bytes: Vec<u8>, counters: &Counters) -> Body<'_> {
        let pace = Pace {
            window: Duration::from_secs(5),
            slow_windows: 0,
        };
        Body::pipe(std::io::Cursor::new(bytes), pace, 64 << 20, counters)
    }

    async fn filtered(bytes: Vec<u8>, filter: &RefFilter) -> Result<Advertisement, SourceError> {
        let counters = Counters::default();
        read_advertisement(&mut body(bytes, &counters), filter).await
    }

    async fn advertisement(bytes: Vec<u8>) -> Result<Advertisement, SourceError> {
        filtered(bytes, &named(&["HEAD", "refs/heads/main", "refs/tags/v1"])).await
    }

    fn named(names: &[&str]) -> RefFilter {
        RefFilter {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            tips: Tips::None,
        }
    }

    /// The lines of very many refs, some of them named as those that are wanted, and of one name many times.
    fn many() -> Vec<String> {
        let begins_so = (0..50_000).map(|i| format!("{TWO} refs/heads/main-{i}"));
        let doubled = (0..50_000).map(|_| format!("{TWO} refs/heads/main"));
        let main = std::iter::once(format!("{ONE} refs/heads/main"));
        main.chain(begins_so).chain(doubled).collect()
    }

    #[tokio::test]
    async fn s12_of_very_many_refs_only_the_wanted_ones_are_kept() {
        let mut lines = many();
        lines.push("0000".to_owned());
        let bytes = message(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let one = parse_id(ONE).unwrap();
        for (filter, kept, tips_new, tips_old) in [
            (named(&["refs/heads/main", "refs/tags/main"]), 1, 0, 0),
            (RefFilter::default(), 0, 0, 0),
            (RefFilter::branches(), 0, 100_001, 100_001),
            (
                RefFilter {
                    names: Vec::new(),
                    tips: Tips::OfOldServers,
                },
                0,
                0,
                100_001,
            ),
        ] {
            let counters = Counters::default();
            let new = read_ls_refs(&mut body(bytes.clone(), &counters), &filter).await;
            let old = filtered(bytes.clone(), &filter).await.unwrap().found;
            for (found, tips) in [(new.unwrap(), tips_new), (old, tips_old)] {
                assert_eq!(
                    (found.refs.len(), found.tips.len()),
                    (kept, tips),
                    "{filter:?}"
                );
                assert_eq!(found.listed, 100_001);
                assert!(
                    found.refs.iter().all(|known| known.id == one),
                    "the first counts"
                );
            }
        }
    }

    #[test]
    fn a_server_is_never_asked_for_all_of_its_refs() {
        let request = |filter: &RefFilter| {
            let text = String::from_utf8(ls_refs_request(filter)).unwrap();
            let prefixes = text.split("ref-prefix ").skip(1);
            prefixes
                .map(|rest| rest.lines().next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(request(&RefFilter::default()), ["HEAD"]);
        assert_eq!(request(&named(&["refs/heads/a"])), ["refs/heads/a"]);
        assert_eq!(request(&RefFilter::branches()), BRANCHES);
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
        let refs = found.found.refs;
        assert_eq!(refs.len(), 3);
        assert_eq!(refs[0].target.as_deref(), Some("refs/heads/main"));
        assert_eq!(refs[2].peeled, Some(parse_id(ONE).unwrap()));
    }

    #[tokio::test]
    async fn an_empty_repository_has_no_refs() {
        let zero = "0".repeat(40);
        let line = format!("{zero} capabilities^{{}}\0 shallow");
        let found = advertisement(message(&[&line, "0000"])).await.unwrap();
        assert!(found.found.refs.is_empty());
        assert_eq!(found.found.listed, 0);
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
