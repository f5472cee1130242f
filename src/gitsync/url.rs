//! The address of a repository, and every rule about what may stand in one.
//!
//! A URL comes from a `HelmRelease`, so its author may be hostile, and it may carry a password. Hence one type that
//! parses strictly, prints without credentials, and hands out the credentials only when asked by name.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use thiserror::Error;
use zeroize::Zeroizing;

/// Longest URL that is read, in bytes.
const MAX_URL: usize = 2048;

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Smart HTTP over TLS.
    Https,
    /// Smart HTTP in the clear; only when the options allow it.
    Http,
    /// The `ssh` program.
    Ssh,
    /// A directory of this machine; only when the options allow it (development).
    Local,
    /// An OCI registry (`oci://`); never a git remote.
    Oci,
}

impl Scheme {
    /// The scheme as it is written before `://`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Local => "file",
            Self::Oci => "oci",
        }
    }

    fn default_port(self) -> Option<u16> {
        match self {
            Self::Https | Self::Oci => Some(443),
            Self::Http => Some(80),
            Self::Ssh => Some(22),
            Self::Local => None,
        }
    }
}

/// Why a URL is refused. The text never repeats the user info of the URL.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum UrlError {
    /// Nothing was given.
    #[error("the repository URL is empty")]
    Empty,
    /// Longer than any real URL.
    #[error("the repository URL has {0} bytes, the limit is {MAX_URL}")]
    TooLong(usize),
    /// Control characters, spaces or their percent-encoded forms could change the meaning of a header, a credential
    /// request or a command line.
    #[error(
        "the repository URL holds a control character or a space (also as %0a, %0d, %00): remove it"
    )]
    ControlCharacter,
    /// `ext::`, `git://` and others.
    #[error("scheme `{0}` is not supported: use https://, ssh:// or git@host:path")]
    UnsupportedScheme(String),
    /// A part that the ssh program would read as an option.
    #[error("the {0} of the repository URL starts with `-`")]
    LeadingDash(&'static str),
    /// Everything else.
    #[error("the repository URL is not valid: {0}")]
    Invalid(&'static str),
}

/// A checked repository URL whose `Display` and `Debug` carry no credentials.
///
/// Accepted spellings: `https://[user[:password]@]host[:port]/path`, the same with `http` and `oci`,
/// `ssh://[user@]host[:port]/path`, the scp form `[user@]host:path`, `file:///path` and an absolute path. A query, a
/// fragment and a backslash are refused: no git server needs them, and parsers disagree on what they mean.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    scheme: Scheme,
    user: Option<String>,
    password: Option<Password>,
    host: String,
    port: Option<u16>,
    /// Percent-encoding as written; always starts with `/`, except in the scp form, where it may be relative to the
    /// home of the user.
    path: String,
    /// Of the address of a Helm repository; it may hold a token, so it is never shown.
    query: Option<Password>,
    scp: bool,
}

/// A password that is wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
struct Password(Zeroizing<String>);

impl Hash for Password {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl RepositoryUrl {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let url = Self::parse_chart_repository(text)?;
        if url.query.is_some() {
            return Err(UrlError::Invalid("it holds `?`, `#` or `\\`"));
        }
        if url.path.trim_matches('/').is_empty() {
            return Err(UrlError::Invalid("it names a host but no repository"));
        }
        Ok(url)
    }

    /// The same for the address of a Helm repository, which may be a host alone, and over HTTP may have a query.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse_chart_repository(text: &str) -> Result<Self, UrlError> {
        let text = text.trim_matches(' ');
        check_characters(text)?;
        if let Some((scheme, rest)) = text.split_once("://") {
            return Self::parse_with_scheme(scheme, rest);
        }
        if text.starts_with('/') {
            return Ok(Self::local(text));
        }
        Self::parse_scp(text)
    }

    fn parse_with_scheme(scheme: &str, rest: &str) -> Result<Self, UrlError> {
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            "ssh" | "git+ssh" | "ssh+git" => Scheme::Ssh,
            "file" => return Self::parse_file(rest),
            "oci" => Scheme::Oci,
            other => return Err(UrlError::UnsupportedScheme(printable(other))),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) if matches!(scheme, Scheme::Http | Scheme::Https) => {
                (rest, Some(query))
            }
            _ => (rest, None),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if query.is_some_and(|query| query.contains(['#', '\\']))
            || path.contains(['?', '#', '\\'])
            || authority.contains(['?', '#', '\\'])
        {
            return Err(UrlError::Invalid("it holds `?`, `#` or `\\`"));
        }
        let (user_info, address) = match authority.rsplit_once('@') {
            Some((user_info, address)) => (Some(user_info), address),
            None => (None, authority),
        };
        let (host, port) = split_port(address)?;
        let (user, password) = split_user_info(user_info)?;
        let port = port.filter(|port| Some(*port) != scheme.default_port());
        let url = Self {
            scheme,
            user,
            password,
            host,
            port,
            path: path.to_owned(),
            query: query.map(|query| Password(Zeroizing::new(query.to_owned()))),
            scp: false,
        };
        url.checked()
    }

    fn parse_file(rest: &str) -> Result<Self, UrlError> {
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.starts_with('/') {
            return Err(UrlError::Invalid("file:// needs an absolute path"));
        }
        Ok(Self::local(path))
    }

    fn local(path: &str) -> Self {
        Self {
            scheme: Scheme::Local,
            user: None,
            password: None,
            host: String::new(),
            port: None,
            path: path.to_owned(),
            query: None,
            scp: false,
        }
    }

    /// `[user@]host:path`, as git and scp read it: the first `:` ends the host, and no `/` stands before it.
    fn parse_scp(text: &str) -> Result<Self, UrlError> {
        let after_bracket = text.find(']').unwrap_or(0);
        let colon = text
            .get(after_bracket..)
            .and_then(|tail| tail.find(':'))
            .map(|at| at + after_bracket);
        let Some((authority, path)) =
            colon.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?)))
        else {
            return Err(UrlError::Invalid(
                "it has no scheme; write https://host/path or git@host:path",
            ));
        };
        if authority.contains('/') {
            return Err(UrlError::Invalid(
                "relative paths are not remotes; write https://host/path",
            ));
        }
        if ["http", "https", "ssh", "file", "oci"].contains(&authority) {
            return Err(UrlError::Invalid("the scheme must be followed by `://`"));
        }
        if path.starts_with(':') {
            return Err(UrlError::UnsupportedScheme(printable(authority)));
        }
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        let host = host
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(host);
        let url = Self {
            scheme: Scheme::Ssh,
            user,
            password: None,
            host: host.to_ascii_lowercase(),
            port: None,
            path: path.to_owned(),
            query: None,
            scp: true,
        };
        url.checked()
    }

    fn checked(self) -> Result<Self, UrlError> {
        if self.host.is_empty() {
            return Err(UrlError::Invalid("it has no host"));
        }
        if !self
            .host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:%".contains(c))
        {
            return Err(UrlError::Invalid(
                "the host holds a character that no host name has",
            ));
        }
        let user = self.user.as_deref().unwrap_or_default();
        for (part, what) in [(self.host.as_str(), "host"), (user, "user")] {
            if part.starts_with('-') {
                return Err(UrlError::LeadingDash(what));
            }
        }
        if self.scheme == Scheme::Ssh && self.path.trim_start_matches('/').starts_with('-') {
            return Err(UrlError::LeadingDash("path"));
        }
        if self.scheme == Scheme::Ssh && self.password.is_some() {
            return Err(UrlError::Invalid("ssh takes no password; use a key"));
        }
        Ok(self)
    }

    /// How the repository is reached.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host name or address in lower case, without brackets; empty for a local path.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, when it is not the scheme's default.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path on the host, as written.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The user name of the URL, percent-decoded. For ssh it is the login name; for http it may be a token: a secret.
    #[must_use]
    pub fn expose_user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password of the URL, percent-decoded: a secret.
    #[must_use]
    pub fn expose_password(&self) -> Option<&str> {
        self.password.as_ref().map(|password| password.0.as_str())
    }

    /// The query of the address of a Helm repository, as written: it may hold a secret.
    #[must_use]
    pub fn expose_query(&self) -> Option<&str> {
        self.query.as_ref().map(|query| query.0.as_str())
    }

    /// True when the URL itself brings credentials for http.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.scheme != Scheme::Ssh && self.user.is_some()
    }

    /// `scheme://host[:port]/path` without user info, trailing slash and `.git`: equal for two spellings of one
    /// remote. Used in the identity of a mirror.
    #[must_use]
    pub fn normalised(&self) -> String {
        let path = trim_repository_path(&self.path);
        let slash = if self.scp && !path.starts_with('/') && !path.starts_with('~') {
            "~/"
        } else {
            ""
        };
        let user = if self.scheme == Scheme::Ssh {
            self.user.as_deref()
        } else {
            None
        };
        format!(
            "{}://{}{}{}/{slash}{}",
            self.scheme.as_str(),
            user.map(|user| format!("{user}@")).unwrap_or_default(),
            self.bracketed_host(),
            self.port.map(|port| format!(":{port}")).unwrap_or_default(),
            path.trim_start_matches('/'),
        )
    }

    /// `host/path` in lower case, whatever the scheme, user, port and `.git`: what a push webhook is matched by.
    #[must_use]
    pub fn repository_id(&self) -> String {
        let path = trim_repository_path(&self.path).trim_start_matches('/');
        format!("{}/{path}", self.host).to_ascii_lowercase()
    }

    /// The URL that `relative` (`./x`, `../x`) means beside this one, as git resolves the URLs of submodules.
    ///
    /// # Errors
    /// See [`UrlError`]; also when it leads above the host.
    pub fn join(&self, relative: &str) -> Result<Self, UrlError> {
        check_characters(relative)?;
        let mut path = self.path.trim_end_matches('/').to_owned();
        let mut rest = relative;
        loop {
            if let Some(tail) = rest.strip_prefix("./") {
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix("../") {
                let at = path.rfind('/').filter(|_| path != "/");
                path.truncate(
                    at.or(self.scp.then_some(0))
                        .ok_or(UrlError::Invalid("it leads above the root of its host"))?,
                );
                rest = tail;
            } else {
                break;
            }
        }
        if rest.split('/').any(|part| part == "..") || rest.contains(['?', '#', '\\']) {
            return Err(UrlError::Invalid("its relative path is not plain"));
        }
        let slash = if path.is_empty() && self.scp { "" } else { "/" };
        let url = Self {
            path: format!("{path}{slash}{rest}"),
            ..self.clone()
        };
        if self.scheme == Scheme::Local {
            Ok(url)
        } else {
            url.checked()
        }
    }

    /// The URL as a git client sends it: no user info, path as written.
    #[must_use]
    pub fn without_credentials(&self) -> String {
        self.to_string()
    }

    fn bracketed_host(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == Scheme::Local {
            return write!(f, "file://{}", self.path);
        }
        let user = if self.scheme == Scheme::Ssh {
            self.user.as_deref()
        } else {
            None
        };
        if self.scp {
            let at = if user.is_some() { "@" } else { "" };
            return write!(
                f,
                "{}{at}{}:{}",
                user.unwrap_or_default(),
                self.bracketed_host(),
                self.path
            );
        }
        write!(f, "{}://", self.scheme.as_str())?;
        if let Some(user) = user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.bracketed_host())?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.path)
    }
}

impl fmt::Debug for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepositoryUrl({self})")
    }
}

impl std::str::FromStr for RepositoryUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

fn check_characters(text: &str) -> Result<(), UrlError> {
    if text.is_empty() {
        return Err(UrlError::Empty);
    }
    if text.len() > MAX_URL {
        return Err(UrlError::TooLong(text.len()));
    }
    let lower = text.to_ascii_lowercase();
    let encoded = ["%0a", "%0d", "%00", "%09"]
        .iter()
        .any(|code| lower.contains(code));
    if encoded || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(UrlError::ControlCharacter);
    }
    Ok(())
}

/// At most twenty harmless characters of a refused scheme: enough to recognise it, too few to carry a secret.
fn printable(scheme: &str) -> String {
    scheme
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c))
        .take(20)
        .collect()
}

fn split_port(address: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest
                .split_once(']')
                .ok_or(UrlError::Invalid("`[` without `]`"))?;
            (host, tail.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        None | Some("") => None,
        Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => Some(
            text.parse()
                .map_err(|_| UrlError::Invalid("the port is not between 1 and 65535"))?,
        ),
        Some(_) => return Err(UrlError::Invalid("the port is not a number")),
    };
    Ok((host.to_ascii_lowercase(), port))
}

type UserInfo = (Option<String>, Option<Password>);

fn split_user_info(user_info: Option<&str>) -> Result<UserInfo, UrlError> {
    let Some(text) = user_info.filter(|text| !text.is_empty()) else {
        return Ok((None, None));
    };
    if text.contains('@') {
        return Err(UrlError::Invalid(
            "it holds more than one `@`; write the one in the password as %40",
        ));
    }
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (text, None),
    };
    let password = password
        .map(percent_decode)
        .transpose()?
        .map(|text| Password(Zeroizing::new(text)));
    Ok((Some(percent_decode(user)?), password))
}

/// Decodes `%41` into `A`.
fn percent_decode(text: &str) -> Result<String, UrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = (
            bytes.next().and_then(hex_digit),
            bytes.next().and_then(hex_digit),
        );
        let (Some(high), Some(low)) = digits else {
            return Err(UrlError::Invalid(
                "a `%` of the user info is not followed by two hex digits",
            ));
        };
        out.push(high << 4 | low);
    }
    let text =
        String::from_utf8(out).map_err(|_| UrlError::Invalid("the user info is not UTF-8"))?;
    if text.chars().any(char::is_control) {
        return Err(UrlError::ControlCharacter);
    }
    Ok(text)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// `/team/app.git/` → `/team/app`.
fn trim_repository_path(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_suffix(".git")
        .filter(|rest| !rest.is_empty() && !rest.ends_with('/'))
        .unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> RepositoryUrl {
        RepositoryUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn spellings_of_one_remote_have_one_normal_form() {
        for spelling in [
            "https://git.example.com/team/app",
            "https://git.example.com/team/app.git",
            "https://git.example.com/team/app.git/",
            "https://GIT.example.com:443/team/app/",
            "HTTPS://user:pass@git.example.com/team/app",
        ] {
            assert_eq!(
                url(spelling).normalised(),
                "https://git.example.com/team/app",
                "{spelling}"
            );
        }
        assert_eq!(
            url("ssh://git@h:22/a/b.git").normalised(),
            "ssh://git@h/a/b"
        );
        assert_ne!(
            url("git@h:a/b").normalised(),
            url("ssh://git@h/a/b").normalised()
        );
    }

    #[test]
    fn every_spelling_has_the_same_repository_id() {
        for spelling in [
            "https://github.com/Team/App",
            "git@github.com:team/app.git",
            "ssh://git@github.com:2222/team/app.git",
            "http://x:y@github.com:8080/team/app/",
        ] {
            assert_eq!(
                url(spelling).repository_id(),
                "github.com/team/app",
                "{spelling}"
            );
        }
    }

    #[test]
    fn display_and_debug_carry_no_credentials() {
        let url = url("https://canary-user:canary%40pass@git.example.com:8443/team/app.git");
        assert_eq!(url.to_string(), "https://git.example.com:8443/team/app.git");
        assert!(!format!("{url:?}").contains("canary"));
        assert_eq!(url.expose_user(), Some("canary-user"));
        assert_eq!(url.expose_password(), Some("canary@pass"));
    }

    #[test]
    fn the_login_name_of_ssh_is_shown() {
        assert_eq!(
            url("git@git.example.com:team/app.git").to_string(),
            "git@git.example.com:team/app.git"
        );
        assert_eq!(
            url("ssh://git@h:2222/a/b").to_string(),
            "ssh://git@h:2222/a/b"
        );
        assert_eq!(
            url("ssh://git@[::1]:2222/a/b").to_string(),
            "ssh://git@[::1]:2222/a/b"
        );
    }

    #[test]
    fn local_paths_are_read_as_such() {
        for spelling in [
            "/srv/git/app.git",
            "file:///srv/git/app.git",
            "file://localhost/srv/git/app.git",
        ] {
            assert_eq!(url(spelling).scheme(), Scheme::Local);
            assert_eq!(url(spelling).path(), "/srv/git/app.git");
        }
    }

    #[test]
    fn s08_arguments_cannot_be_injected_through_a_url() {
        for (hostile, error) in [
            ("ssh://-oProxyCommand=x@h/a", UrlError::LeadingDash("user")),
            (
                "ssh://-oProxyCommand=x/a",
                UrlError::Invalid("the host holds a character that no host name has"),
            ),
            ("ssh://-x/a", UrlError::LeadingDash("host")),
            ("-x@h:a", UrlError::LeadingDash("user")),
            ("ssh://h/-x", UrlError::LeadingDash("path")),
            ("h:-x", UrlError::LeadingDash("path")),
            ("ssh://h/a\nb", UrlError::ControlCharacter),
            ("ssh://h/a b", UrlError::ControlCharacter),
            (
                "ssh://h'x'/a",
                UrlError::Invalid("the host holds a character that no host name has"),
            ),
            (
                "ssh://h\"x/a",
                UrlError::Invalid("the host holds a character that no host name has"),
            ),
        ] {
            assert_eq!(RepositoryUrl::parse(hostile), Err(error), "{hostile}");
        }
    }

    #[test]
    fn s11_encoded_line_breaks_are_refused() {
        for hostile in [
            "https://h/a%0ahost=evil",
            "https://a%0D@h/x",
            "https://u%00:p@h/x",
            "https://h/%09x",
        ] {
            assert_eq!(
                RepositoryUrl::parse(hostile),
                Err(UrlError::ControlCharacter),
                "{hostile}"
            );
        }
    }

    #[test]
    fn s09_foreign_schemes_are_refused() {
        for hostile in [
            "ext::sh -c x",
            "ext::x",
            "git://h/a",
            "ftp://h/a",
            "javascript://h/a",
            "gopher://h/a",
        ] {
            let error = RepositoryUrl::parse(hostile).unwrap_err();
            assert!(
                matches!(
                    error,
                    UrlError::UnsupportedScheme(_) | UrlError::ControlCharacter
                ),
                "{hostile}: {error}"
            );
        }
        for hostile in ["../repo", "repo", "./a:b", "a/b:c", ""] {
            assert!(RepositoryUrl::parse(hostile).is_err(), "{hostile}");
        }
    }

    #[test]
    fn s10_hosts_that_parsers_disagree_on_are_refused() {
        for hostile in [
            "https://good.example?@evil.example/a",
            "https://good.example#@evil.example/a",
            "https://good.example\\@evil.example/a",
            "https://a@b@evil.example/x",
            "https://h:8a/x",
            "https://h:99999/x",
        ] {
            assert!(RepositoryUrl::parse(hostile).is_err(), "{hostile}");
        }
    }

    #[test]
    fn errors_do_not_repeat_the_url() {
        let error = RepositoryUrl::parse("https://canary:canary@h?x/a").unwrap_err();
        assert!(!error.to_string().contains("canary"));
        let error = RepositoryUrl::parse("canary://u:canary@h/a").unwrap_err();
        assert_eq!(error, UrlError::UnsupportedScheme("canary".into()));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,60}") {
            let _ = RepositoryUrl::parse(&text);
        }

        #[test]
        fn the_display_of_a_url_parses_to_itself_without_credentials(
            user in "[a-z]{1,5}", password in "[a-z0-9]{1,9}", host in "[a-z]{1,9}", port in 1024u16.., path in "(/[a-z]{1,5}){1,3}",
        ) {
            let url = url(&format!("https://{user}:{password}@{host}:{port}{path}"));
            let again = RepositoryUrl::parse(&url.to_string()).unwrap();
            proptest::prop_assert_eq!(url.normalised(), again.normalised());
            proptest::prop_assert!(!again.has_credentials());
        }
    }
}
