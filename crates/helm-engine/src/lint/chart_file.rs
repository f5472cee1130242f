//! The rules for `Chart.yaml`.

use std::sync::LazyLock;

use goyaml::Tree;
use regex::Regex;
use sprig::semver::{Constraints, Version};

use super::{Findings, Severity, Subject};
use crate::chart::{METADATA_SHAPE, Metadata, read_metadata_onto, unknown_fields};
use crate::text::quote;

const FILE: &str = "Chart.yaml";

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let Some(file) = subject.file(FILE) else {
        return;
    };
    let mut metadata = Metadata::default();
    if let Err(error) = read_metadata_onto(&mut metadata, &file.data) {
        let text = format!("unable to parse YAML\n\t{error}");
        findings.add(Severity::Error, FILE, text);
        return;
    }
    if let Err(error) = strict(&file.data) {
        let text = format!("failed to strictly parse chart metadata file\n\t{error}");
        findings.add(Severity::Warning, FILE, text);
    }
    let tree = goyaml::read(&file.data).unwrap_or_default();
    let errors = [
        name(&metadata),
        api_version(&metadata),
        is_string(&tree, "version"),
        version(&metadata),
        is_string(&tree, "appVersion"),
        maintainers(&metadata),
        sources(&metadata),
    ];
    for error in errors {
        findings.check(Severity::Error, FILE, error);
    }
    if metadata.icon.is_empty() {
        findings.add(Severity::Info, FILE, "icon is recommended");
    }
    for error in [icon(&metadata), kind(&metadata), dependencies(&metadata)] {
        findings.check(Severity::Error, FILE, error);
    }
    if Version::parse_strict(&metadata.version).is_err() {
        let text = format!("version '{}' is not a valid SemVerV2", metadata.version);
        findings.add(Severity::Warning, FILE, text);
    }
}

type Checked = Result<(), String>;

/// Doubled keys and fields that Helm does not know.
fn strict(text: &[u8]) -> Checked {
    let node = goyaml::read_node_strict(text).map_err(|error| error.to_string())?;
    METADATA_SHAPE
        .check(&node)
        .map_err(|error| error.to_string())?;
    match unknown_fields(&node).first() {
        None => Ok(()),
        Some(name) => Err(format!(
            "error unmarshaling JSON: while decoding JSON: json: unknown field {}",
            quote(name)
        )),
    }
}

fn name(metadata: &Metadata) -> Checked {
    if metadata.name.is_empty() {
        return Err("name is required".to_owned());
    }
    if metadata.name.contains('/') {
        return Err(format!("chart name {} is invalid", quote(&metadata.name)));
    }
    Ok(())
}

fn api_version(metadata: &Metadata) -> Checked {
    match metadata.api_version.as_str() {
        "" => Err("apiVersion is required. The value must be either \"v1\" or \"v2\"".to_owned()),
        "v1" | "v2" => Ok(()),
        other => Err(format!(
            "apiVersion '{other}' is not valid. The value must be either \"v1\" or \"v2\""
        )),
    }
}

fn is_string(tree: &Tree, field: &str) -> Checked {
    let found = match tree.get(field) {
        None | Some(Tree::String(_)) => return Ok(()),
        Some(Tree::Null) => "<nil>",
        Some(Tree::Bool(_)) => "bool",
        Some(Tree::Int64(_) | Tree::Float64(_)) => "float64",
        Some(Tree::List(_)) => "[]interface {}",
        Some(Tree::Map(_)) => "map[string]interface {}",
    };
    Err(format!(
        "{field} should be of type string but it's of type {found}"
    ))
}

fn version(metadata: &Metadata) -> Checked {
    if metadata.version.is_empty() {
        return Err("version is required".to_owned());
    }
    let Ok(version) = Version::parse(&metadata.version) else {
        return Err(format!(
            "version '{}' is not a valid SemVer",
            metadata.version
        ));
    };
    let Ok(constraint) = Constraints::parse(">0.0.0-0") else {
        return Ok(());
    };
    match constraint.mismatches(&version).first() {
        Some(mismatch) if !constraint.check(&version) => Err(format!("version {mismatch}")),
        _ => Ok(()),
    }
}

fn maintainers(metadata: &Metadata) -> Checked {
    for maintainer in &metadata.maintainers {
        let Some(maintainer) = maintainer else {
            return Err("a maintainer entry is empty".to_owned());
        };
        let name = &maintainer.name;
        if name.is_empty() {
            return Err("each maintainer requires a name".to_owned());
        }
        if !maintainer.email.is_empty() && !is_email(&maintainer.email) {
            let email = &maintainer.email;
            return Err(format!("invalid email '{email}' for maintainer '{name}'"));
        }
        if !maintainer.url.is_empty() && !is_url(&maintainer.url) {
            let url = &maintainer.url;
            return Err(format!("invalid url '{url}' for maintainer '{name}'"));
        }
    }
    Ok(())
}

fn sources(metadata: &Metadata) -> Checked {
    match metadata
        .sources
        .iter()
        .find(|source| !is_request_url(source))
    {
        Some(source) => Err(format!("invalid source URL '{source}'")),
        None => Ok(()),
    }
}

fn icon(metadata: &Metadata) -> Checked {
    if metadata.icon.is_empty() || is_request_url(&metadata.icon) {
        return Ok(());
    }
    Err(format!("invalid icon URL '{}'", metadata.icon))
}

fn kind(metadata: &Metadata) -> Checked {
    let version = &metadata.api_version;
    if metadata.kind.is_empty() || version == "v2" {
        return Ok(());
    }
    Err(format!(
        "chart type is not valid in apiVersion '{version}'. It is valid in apiVersion 'v2'"
    ))
}

fn dependencies(metadata: &Metadata) -> Checked {
    let version = &metadata.api_version;
    let none = metadata.dependencies.as_ref().is_none_or(Vec::is_empty);
    if none || version == "v2" {
        return Ok(());
    }
    Err(format!(
        "dependencies are not valid in the Chart file with apiVersion '{version}'. They are valid \
         in apiVersion 'v2'"
    ))
}

/// A local part of atoms, and a domain of at least two labels of which the last begins and ends
/// with a letter.
fn is_email(text: &str) -> bool {
    static EMAIL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let atom = r"[\p{L}0-9!#$%&'*+\-/=?^_`{|}~]+";
        let label = r"(?:[\p{L}0-9]|[\p{L}0-9][\p{L}0-9.\-_~]*[\p{L}0-9])";
        let last = r"(?:\p{L}|\p{L}[\p{L}0-9\-_~]*\p{L})";
        Regex::new(&format!(r"^{atom}(?:\.{atom})*@(?:{label}\.)+{last}\.?$")).ok()
    });
    EMAIL.as_ref().is_some_and(|email| email.is_match(text))
}

/// A host with an optional scheme, user, port and path.
fn is_url(text: &str) -> bool {
    static URL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let scheme = "(?:(?:ftp|tcp|udp|wss?|https?)://)?";
        let user = r"(?:\S+(?::\S*)?@)?";
        let label = r"[\p{L}0-9](?:[\p{L}0-9\-_]*[\p{L}0-9])?";
        let address = r"\[[0-9a-fA-F:.]+\]";
        let host = format!(r"(?:{address}|(?:{label}(?:\.{label})*)?)");
        let rest = r"\.?(?::\d{1,5})?(?:[/?#]\S*)?";
        Regex::new(&format!("^{scheme}{user}{host}{rest}$")).ok()
    });
    let length = text.chars().count();
    if !(4..2083).contains(&length) || text.starts_with('.') {
        return false;
    }
    let no_host = !text.contains("://") && !text.contains(':');
    let path = text.split('?').next().unwrap_or(text);
    if no_host && !path.is_empty() && !path.contains('.') {
        return false;
    }
    URL.as_ref().is_some_and(|url| url.is_match(text))
}

/// An absolute URL.
fn is_request_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut chars = scheme.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !rest.is_empty()
        && !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
        && !rest
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or("")
            .contains(' ')
}
