//! What `spec.chart.ref` may say, and which ref of the remote it means.

use std::fmt;

use gix::ObjectId;

use super::{Reason, SourceError, wire::Listing};

/// Longest ref that is read, in bytes.
const MAX_REFERENCE: usize = 256;
/// Fewest digits of a short commit id.
const MIN_PREFIX: usize = 7;

/// A ref as a release names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reference {
    /// The HEAD of the remote.
    Head,
    /// A branch, a tag or a full ref name.
    Name(String),
    /// A full commit id.
    Commit(ObjectId),
    /// What may be a short commit id, or else a name that looks like one.
    Short(String),
}

/// The ref of a remote that a [`Reference`] means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Full name in the mirror.
    pub(crate) name: String,
    /// What it points at.
    pub(crate) id: ObjectId,
}

impl Reference {
    /// Reads `text`; `None` means `default`, and without one the HEAD of the remote.
    ///
    /// # Errors
    /// `InvalidSource` for what can be no ref: it never gets as far as a request or a path.
    pub(crate) fn parse(text: Option<&str>, default: Option<&str>) -> Result<Self, SourceError> {
        let given = text.map(str::trim).filter(|text| !text.is_empty());
        let Some(text) = given.or(default) else {
            return Ok(Self::Head);
        };
        if text == "HEAD" {
            return Ok(Self::Head);
        }
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hex && text.len() == 40 {
            let lower = text.to_ascii_lowercase();
            return ObjectId::from_hex(lower.as_bytes())
                .map(Self::Commit)
                .map_err(|_| invalid(text));
        }
        let name: &gix::bstr::BStr = text.into();
        let crafted = text.len() > MAX_REFERENCE || text.starts_with('-') || text.contains("@{");
        if crafted || gix::validate::reference::name_partial(name).is_err() {
            return Err(invalid(text));
        }
        if is_hex && (MIN_PREFIX..40).contains(&text.len()) {
            return Ok(Self::Short(text.to_owned()));
        }
        Ok(Self::Name(text.to_owned()))
    }

    /// The full names that it may mean, in git's order of precedence.
    pub(crate) fn candidates(&self) -> Vec<String> {
        match self {
            Self::Head => vec!["HEAD".to_owned()],
            Self::Commit(_) => Vec::new(),
            Self::Name(name) if name.starts_with("refs/") => vec![name.clone()],
            Self::Name(name) | Self::Short(name) => {
                vec![
                    format!("refs/{name}"),
                    format!("refs/tags/{name}"),
                    format!("refs/heads/{name}"),
                ]
            }
        }
    }

    /// The name under which the mirror keeps a ref of the remote.
    pub(crate) fn mirror_name(remote_name: &str) -> String {
        match remote_name {
            "HEAD" => "refs/remotes/origin/HEAD".to_owned(),
            name => name.to_owned(),
        }
    }

    /// The name under which the mirror keeps a commit that was asked for by id.
    pub(crate) fn pin(commit: ObjectId) -> String {
        format!("refs/pins/{commit}")
    }

    /// The ref of the remote that this means; `None` when the listing has none.
    pub(crate) fn resolve(&self, listing: &Listing) -> Option<Resolved> {
        if let Self::Commit(id) = self {
            return Some(Resolved {
                name: Self::pin(*id),
                id: *id,
            });
        }
        self.candidates().iter().find_map(|name| {
            let found = listing.find(name)?;
            Some(Resolved {
                name: Self::mirror_name(name),
                id: found.id,
            })
        })
    }

    /// The error for a ref that the remote does not have.
    pub(crate) fn not_found(&self, is_empty: bool) -> SourceError {
        let text = match self {
            Self::Head if is_empty => "the repository is empty: push a first commit".to_owned(),
            Self::Head => "the remote has no HEAD: name a branch in spec.chart.ref".to_owned(),
            Self::Commit(id) => format!("the remote has no commit {id}"),
            Self::Name(name) => format!("the remote has no branch or tag `{name}`"),
            Self::Short(name) => format!(
                "the remote has no branch or tag `{name}`, and not exactly one commit whose id starts with it"
            ),
        };
        SourceError::new(Reason::RefNotFound, text)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("HEAD"),
            Self::Name(name) | Self::Short(name) => f.write_str(name),
            Self::Commit(id) => write!(f, "{id}"),
        }
    }
}

fn invalid(text: &str) -> SourceError {
    let shown: String = text.chars().take(40).collect();
    SourceError::new(
        Reason::InvalidSource,
        format!("ref {shown:?} is not a branch, a tag or a commit id"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gitsync::wire::refs::{Capabilities, RemoteRef};

    fn parse(text: &str) -> Reference {
        Reference::parse(Some(text), None).unwrap()
    }

    fn listing(names: &[(&str, char)]) -> Listing {
        let refs = names.iter().map(|(name, digit)| RemoteRef {
            name: (*name).to_owned(),
            id: ObjectId::from_hex(digit.to_string().repeat(40).as_bytes()).unwrap(),
            peeled: None,
            target: None,
        });
        Listing {
            refs: refs.collect(),
            tips: Vec::new(),
            is_empty: names.is_empty(),
            capabilities: Capabilities::V2 { shallow: true },
        }
    }

    #[test]
    fn every_kind_of_ref_is_told_apart() {
        assert_eq!(Reference::parse(None, None).unwrap(), Reference::Head);
        assert_eq!(Reference::parse(Some(""), None).unwrap(), Reference::Head);
        assert_eq!(
            Reference::parse(None, Some("trunk")).unwrap(),
            Reference::Name("trunk".into())
        );
        assert_eq!(parse("HEAD"), Reference::Head);
        assert_eq!(parse("feature/x"), Reference::Name("feature/x".into()));
        assert_eq!(parse("v1.2.3"), Reference::Name("v1.2.3".into()));
        assert_eq!(parse("abc1234"), Reference::Short("abc1234".into()));
        assert_eq!(parse("abc123"), Reference::Name("abc123".into()));
        assert!(matches!(parse(&"AB".repeat(20)), Reference::Commit(_)));
    }

    #[test]
    fn s05_a_ref_is_never_an_option_a_path_or_an_expression() {
        let long = "x".repeat(10_000);
        for hostile in [
            "--upload-pack=touch /tmp/x",
            "-x",
            "../../etc/passwd",
            "refs/heads/../../x",
            "@{-1}",
            "main@{1}",
            "main~1",
            "main^{tree}",
            "a..b",
            "a b",
            "a\nb",
            "a:b",
            "a*",
            "x.lock",
            "/x",
            "x/",
            long.as_str(),
        ] {
            let error = Reference::parse(Some(hostile), None).unwrap_err();
            assert_eq!(error.reason(), Reason::InvalidSource, "{hostile}");
            assert!(error.to_string().len() < 200);
        }
    }

    #[test]
    fn s05_a_crafted_ref_of_the_server_is_not_what_anyone_means() {
        let refs = listing(&[("refs/heads/../../x", '1'), ("refs/heads/main", '2')]);
        assert_eq!(
            parse("main").resolve(&refs).unwrap().name,
            "refs/heads/main"
        );
        assert_eq!(parse("x").resolve(&refs), None);
    }

    #[test]
    fn a_tag_wins_over_a_branch_of_that_name_as_in_git() {
        let refs = listing(&[("refs/heads/v1", '1'), ("refs/tags/v1", '2')]);
        assert_eq!(parse("v1").resolve(&refs).unwrap().name, "refs/tags/v1");
        assert_eq!(
            parse("refs/heads/v1").resolve(&refs).unwrap().name,
            "refs/heads/v1"
        );
        assert_eq!(
            parse("heads/v1").resolve(&refs).unwrap().name,
            "refs/heads/v1"
        );
    }

    #[test]
    fn a_branch_that_looks_like_a_commit_is_a_branch() {
        let refs = listing(&[("refs/heads/abc1234", '1')]);
        assert_eq!(
            parse("abc1234").resolve(&refs).unwrap().name,
            "refs/heads/abc1234"
        );
    }
}
