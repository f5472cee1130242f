//! What Helm demands of `Chart.yaml`.

use std::collections::HashSet;

use regex::Regex;

use super::{Dependency, Metadata};
use crate::text::quote;

/// Cleans the texts of control characters, as Helm does, and checks the metadata. The error is
/// what follows `validation: `.
pub(crate) fn validate(metadata: &mut Metadata) -> Result<(), String> {
    sanitize_all(metadata);
    check_fields(metadata)?;
    check_lists(metadata)
}

fn sanitize_all(metadata: &mut Metadata) {
    for text in [
        &mut metadata.name,
        &mut metadata.description,
        &mut metadata.home,
        &mut metadata.icon,
        &mut metadata.condition,
        &mut metadata.tags,
        &mut metadata.app_version,
        &mut metadata.kube_version,
    ] {
        sanitize(text);
    }
    let lists = metadata.sources.iter_mut().chain(&mut metadata.keywords);
    lists.for_each(sanitize);
}

fn check_fields(metadata: &Metadata) -> Result<(), String> {
    let required = |name: &str| Err(format!("chart.metadata.{name} is required"));
    if metadata.api_version.is_empty() {
        return required("apiVersion");
    }
    let name = &metadata.name;
    if name.is_empty() {
        return required("name");
    }
    if name == "." || name == ".." {
        return Err(format!(
            "chart.metadata.name {} is not allowed",
            quote(name)
        ));
    }
    if name.contains('/') {
        return Err(format!("chart.metadata.name {} is invalid", quote(name)));
    }
    if metadata.version.is_empty() {
        return required("version");
    }
    if !crate::version::is_valid(&metadata.version) {
        let version = quote(&metadata.version);
        return Err(format!("chart.metadata.version {version} is invalid"));
    }
    if !matches!(metadata.kind.as_str(), "" | "application" | "library") {
        return Err("chart.metadata.type must be application or library".to_owned());
    }
    Ok(())
}

fn check_lists(metadata: &mut Metadata) -> Result<(), String> {
    for maintainer in &mut metadata.maintainers {
        let Some(maintainer) = maintainer else {
            return Err("maintainers must not contain empty or null nodes".to_owned());
        };
        sanitize(&mut maintainer.name);
        sanitize(&mut maintainer.email);
        sanitize(&mut maintainer.url);
    }
    let mut seen = HashSet::new();
    for dependency in metadata.dependencies.iter_mut().flatten() {
        let Some(dependency) = dependency else {
            return Err("dependencies must not contain empty or null nodes".to_owned());
        };
        check_dependency(dependency)?;
        let key = dependency.effective_name();
        if !seen.insert(key) {
            let key = quote(key);
            return Err(format!("more than one dependency with name or alias {key}"));
        }
    }
    Ok(())
}

fn check_dependency(dependency: &mut Dependency) -> Result<(), String> {
    sanitize(&mut dependency.name);
    sanitize(&mut dependency.version);
    sanitize(&mut dependency.repository);
    sanitize(&mut dependency.condition);
    dependency.tags.iter_mut().for_each(sanitize);
    if has_valid_alias(dependency) {
        return Ok(());
    }
    let name = quote(&dependency.name);
    Err(format!(
        "dependency {name} has disallowed characters in the alias"
    ))
}

/// Whether the alias, if there is one, holds only letters, digits, `_` and `-`.
fn has_valid_alias(dependency: &Dependency) -> bool {
    dependency
        .alias
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

impl Dependency {
    /// The name that the parent's values know the chart by: its alias, or its own.
    #[must_use]
    pub fn effective_name(&self) -> &str {
        if self.alias.is_empty() {
            &self.name
        } else {
            &self.alias
        }
    }
}

/// Turns white space into blanks and drops what does not print.
fn sanitize(text: &mut String) {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c if is_print(c) => Some(c),
            _ => None,
        })
        .collect();
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII blank.
pub(crate) fn is_print(c: char) -> bool {
    use std::sync::LazyLock;
    static PRINTABLE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[\pL\pM\pN\pP\pS ]$").ok());
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut buffer = [0; 4];
    let text = c.encode_utf8(&mut buffer);
    PRINTABLE
        .as_ref()
        .is_some_and(|printable| printable.is_match(text))
}
