//! `repositories.yaml`: repositories with credentials, as `helm repo add` writes them and
//! `--helm-repository-import` reads them.

use std::path::Path;

use goyaml::Tree;
use reqwest::Url;

use super::access::Access;
use super::{Reason, SourceError};

/// Most bytes of the file and of each certificate that it names.
const FILE_BYTES: u64 = 8 << 20;

/// A repository of `repositories.yaml`.
#[derive(Clone, Debug)]
pub struct ImportedRepository {
    name: String,
    url: Url,
    access: Access,
}

impl ImportedRepository {
    /// An entry of our own making.
    #[must_use]
    pub fn new(name: impl Into<String>, url: Url, access: Access) -> Self {
        Self {
            name: name.into(),
            url,
            access,
        }
    }

    /// The alias.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Its credentials and certificates.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.access
    }
}

/// Reads a `repositories.yaml` and the certificates that it names. An entry that cannot be used is
/// reported in the second list and skipped: the others must not suffer.
///
/// # Errors
/// The file cannot be read, or is no `repositories.yaml`.
pub fn import(path: &Path) -> Result<(Vec<ImportedRepository>, Vec<SourceError>), SourceError> {
    let bad = |why: &dyn std::fmt::Display| {
        let text = format!("{} is not usable: {why}", path.display());
        SourceError::new(Reason::InvalidSource, text)
    };
    let text = bounded(path).map_err(|error| bad(&error))?;
    let tree = goyaml::read(&text).map_err(|error| bad(&error))?;
    let Some(entries) = tree.get("repositories") else {
        return Err(bad(&"it has no repositories"));
    };
    let (mut read, mut failed) = (Vec::<ImportedRepository>::new(), Vec::new());
    for entry in entries.as_list().unwrap_or_default() {
        match repository(entry) {
            Ok(entry) if read.iter().any(|known| known.name == entry.name) => {
                failed.push(bad(&format!("the alias {:?} is there twice", entry.name)));
            }
            Ok(entry) => read.push(entry),
            Err(error) => failed.push(error.context(path.display())),
        }
    }
    Ok((read, failed))
}

/// The alias of an imported repository that a `repository` of a dependency is: `@name` or `alias:name`.
#[must_use]
pub fn alias_of(repository: &str) -> Option<&str> {
    repository
        .strip_prefix('@')
        .or_else(|| repository.strip_prefix("alias:"))
}

/// The entry of this alias.
pub(super) fn by_alias<'a>(
    entries: &'a [ImportedRepository],
    alias: &str,
) -> Option<&'a ImportedRepository> {
    entries.iter().find(|entry| entry.name == alias)
}

/// The entry with the longest address that is in front of `url`, whole parts of the path only.
pub(super) fn by_url<'a>(
    entries: &'a [ImportedRepository],
    url: &Url,
) -> Option<&'a ImportedRepository> {
    let covers = |entry: &&ImportedRepository| {
        let prefix = entry.url.path().trim_end_matches('/');
        let rest = url.path().strip_prefix(prefix);
        // A registry's address is written oci:// there and asked for over https here.
        let scheme = match entry.url.scheme() {
            "oci" => "https",
            other => other,
        };
        let same_host = entry.url.host_str() == url.host_str() && entry.url.port() == url.port();
        scheme == url.scheme()
            && same_host
            && rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    entries
        .iter()
        .filter(covers)
        .max_by_key(|entry| entry.url.path().trim_end_matches('/').len())
}

fn repository(entry: &Tree) -> Result<ImportedRepository, SourceError> {
    let text = |key: &str| {
        let value = entry.get(key).and_then(Tree::as_str);
        value
            .map(|text| text.to_text().into_owned())
            .filter(|text| !text.is_empty())
    };
    let flag = |key: &str| entry.get(key).and_then(Tree::as_bool).unwrap_or_default();
    let name = text("name").ok_or_else(|| invalid("an entry has no name"))?;
    let bad = |why: &str| invalid(&format!("the repository {name:?} {why}"));
    if name.contains('/') {
        return Err(bad("has a slash in its name"));
    }
    let url = text("url").ok_or_else(|| bad("has no url"))?;
    let url = Url::parse(&url).map_err(|_| bad("has a url that is not valid"))?;
    let file = |key: &str| -> Result<Option<Vec<u8>>, SourceError> {
        let Some(path) = text(key) else {
            return Ok(None);
        };
        let read = bounded(Path::new(&path));
        read.map(Some).map_err(|error| {
            bad(&format!(
                "names in {key} a file that cannot be read: {error}"
            ))
        })
    };
    let mut access = Access::default()
        .passing_credentials(flag("pass_credentials_all"))
        .skipping_tls_verification(flag("insecure_skip_tls_verify"));
    if let (Some(user), Some(password)) = (text("username"), text("password")) {
        access = access.with_login(user, password);
    }
    if let Some(pem) = file("caFile")? {
        access = access.with_ca(pem);
    }
    if let (Some(certificate), Some(key)) = (file("certFile")?, file("keyFile")?) {
        access = access.with_identity(&certificate, &key);
    }
    Ok(ImportedRepository::new(name, url, access))
}

fn invalid(text: &str) -> SourceError {
    SourceError::new(Reason::InvalidSource, text)
}

fn bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut content = Vec::new();
    std::fs::File::open(path)?
        .take(FILE_BYTES + 1)
        .read_to_end(&mut content)?;
    match content.len() as u64 > FILE_BYTES {
        true => Err(std::io::Error::other("it is larger than 8 MiB")),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, url: &str) -> ImportedRepository {
        ImportedRepository::new(name, Url::parse(url).unwrap(), Access::default())
    }

    #[test]
    fn the_longest_address_in_front_wins_by_whole_parts() {
        let entries = [
            entry("root", "https://charts.example"),
            entry("team", "https://charts.example/team/"),
            entry("port", "https://charts.example:8443/team"),
            entry("oci", "oci://registry.example/team"),
        ];
        for (url, expected) in [
            ("https://charts.example/x", Some("root")),
            ("https://charts.example/team", Some("team")),
            ("https://charts.example/team/a/b", Some("team")),
            ("https://charts.example/teams", Some("root")),
            ("https://charts.example:8443/team/x", Some("port")),
            ("http://charts.example/team", None),
            ("https://registry.example/team/app", Some("oci")),
            ("https://other.example/", None),
        ] {
            let found = by_url(&entries, &Url::parse(url).unwrap()).map(ImportedRepository::name);
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn one_bad_entry_does_not_hide_the_others() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("repositories.yaml");
        std::fs::write(
            &path,
            "apiVersion: \"\"\nrepositories:\n- name: good\n  url: https://a.example\n  username: u\n  password: canary\n\
             - name: bad\n- name: a/b\n  url: https://b.example\n- name: gone\n  url: https://c.example\n  caFile: /nowhere/ca\n",
        )
        .unwrap();
        let (read, failed) = import(&path).unwrap();
        assert_eq!(
            read.iter()
                .map(ImportedRepository::name)
                .collect::<Vec<_>>(),
            ["good"]
        );
        assert_eq!(failed.len(), 3);
        assert!(!format!("{read:?}{failed:?}").contains("canary"));
    }

    #[test]
    fn a_file_that_is_none_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("repositories.yaml");
        for text in ["", "[]", "repositories: [", "x: 1"] {
            std::fs::write(&path, text).unwrap();
            assert!(import(&path).is_err(), "{text:?}");
        }
    }
}
