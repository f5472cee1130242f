//! Submodules of a chart: which repository each of them is.

use gix::{ObjectId, bstr::ByteSlice, config::file::Metadata};

use super::{GitSource, Reason, RepositoryUrl, SourceError};

/// How deep submodules may lie in submodules.
pub(crate) const MAX_DEPTH: usize = 4;
/// Most submodules of one chart.
const MAX_SUBMODULES: usize = 64;

/// A submodule below a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Submodule {
    /// Its path below the chart.
    pub(crate) path: String,
    /// Its repository.
    pub(crate) url: RepositoryUrl,
    /// Its commit.
    pub(crate) commit: ObjectId,
}

impl Submodule {
    /// The source that gives its files, for a chart of `parent`. The Secret of the parent goes with it to the same
    /// host only; any other host gets what the daemon has for it.
    pub(crate) fn source(&self, parent: &GitSource) -> GitSource {
        let own = &parent.url;
        let same_place = self.url.scheme() == own.scheme()
            && self.url.host() == own.host()
            && self.url.port() == own.port();
        GitSource {
            secret: parent.secret.clone().filter(|_| same_place),
            submodules: true,
            skip_dep_update: true,
            ..GitSource::new(self.url.clone(), ".").at(self.commit.to_string())
        }
    }
}

/// Finds the repository of each of `wanted` (path in the repository, path below the chart, commit) in `.gitmodules`.
///
/// # Errors
/// `InvalidSource` for a submodule without a usable URL, `TooLarge`.
pub(crate) fn resolve<'a>(
    modules: &[u8],
    parent: &RepositoryUrl,
    wanted: impl IntoIterator<Item = (&'a String, &'a (String, ObjectId))>,
) -> Result<Vec<Submodule>, SourceError> {
    let file = gix::config::File::from_bytes_no_includes(
        modules,
        Metadata::api(),
        gix::config::file::init::Options::default(),
    )
    .map_err(|_| invalid(".gitmodules cannot be read"))?;
    let mut found = Vec::new();
    for (place, (path, commit)) in wanted {
        if found.len() >= MAX_SUBMODULES {
            return Err(SourceError::new(
                Reason::TooLarge,
                format!("the chart has more than {MAX_SUBMODULES} submodules"),
            ));
        }
        let sections = file.sections_by_name("submodule").into_iter().flatten();
        let url = sections
            .filter(|section| {
                section
                    .value("path")
                    .is_some_and(|path| path == place.as_str())
            })
            .find_map(|section| section.value("url")?.to_str().ok().map(str::to_owned))
            .ok_or_else(|| invalid(&format!(".gitmodules has no URL for {place}")))?;
        let url = absolute(parent, &url)
            .map_err(|error| invalid(&format!("the URL of submodule {place}: {error}")))?;
        found.push(Submodule {
            path: path.clone(),
            url,
            commit: *commit,
        });
    }
    Ok(found)
}

/// A URL of `.gitmodules`, which may be relative to that of the repository.
fn absolute(parent: &RepositoryUrl, url: &str) -> Result<RepositoryUrl, super::UrlError> {
    if url.starts_with("./") || url.starts_with("../") {
        return parent.join(url);
    }
    RepositoryUrl::parse(url)
}

fn invalid(why: &str) -> SourceError {
    SourceError::new(Reason::InvalidSource, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULES: &str = "[submodule \"common\"]\n\tpath = charts/app/common\n\turl = ../common.git\n[submodule \"x\"]\n\tpath = x\n\turl = https://other.example/team/x\n[submodule \"evil\"]\n\tpath = evil\n\turl = -oProxyCommand=x\n\tupdate = !touch /tmp/x\n";

    fn url(text: &str) -> RepositoryUrl {
        RepositoryUrl::parse(text).unwrap()
    }

    fn resolve_one(parent: &str, place: &str) -> Result<Submodule, SourceError> {
        let commit = ObjectId::null(gix::hash::Kind::Sha1);
        let wanted = [(place.to_owned(), ("sub".to_owned(), commit))];
        let found = resolve(
            MODULES.as_bytes(),
            &url(parent),
            wanted.iter().map(|(a, b)| (a, b)),
        );
        found.map(|mut found| found.remove(0))
    }

    #[test]
    fn relative_urls_are_resolved_as_git_does() {
        for (parent, expected) in [
            ("https://h/team/app.git", "https://h/team/common"),
            ("ssh://git@h:2222/team/app", "ssh://git@h:2222/team/common"),
            ("git@h:team/app.git", "ssh://git@h/~/team/common"),
            ("/srv/git/app.git", "file:///srv/git/common"),
        ] {
            let found = resolve_one(parent, "charts/app/common").unwrap();
            assert_eq!(found.url.normalised(), expected, "{parent}");
        }
        assert!(resolve_one("https://h/app", "charts/app/common").is_ok());
        assert!(
            url("https://h/app").join("../../x").is_err(),
            "above the host"
        );
    }

    #[test]
    fn s04_urls_that_are_none_and_update_commands_do_nothing() {
        assert_eq!(
            resolve_one("https://h/a", "evil").unwrap_err().reason(),
            Reason::InvalidSource
        );
        assert_eq!(
            resolve_one("https://h/a", "absent").unwrap_err().reason(),
            Reason::InvalidSource
        );
    }

    #[test]
    fn the_secret_of_the_parent_goes_to_the_same_host_only() {
        let secret = super::super::SecretRef {
            namespace: "team".into(),
            name: "git".into(),
        };
        let mut parent = GitSource::new(url("https://h/team/app"), "charts/app");
        parent.secret = Some(secret.clone());
        let same = resolve_one("https://h/team/app", "charts/app/common").unwrap();
        assert_eq!(same.source(&parent).secret, Some(secret));
        let other = resolve_one("https://h/team/app", "x").unwrap();
        assert_eq!(other.source(&parent).secret, None);
    }
}
