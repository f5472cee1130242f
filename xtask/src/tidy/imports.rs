//! Which module of `src/` may name which.

use super::Complaint;
use super::sources::Source;

/// The modules of `src/` from left to right: each may name those in the groups before its own.
const ORDER: [&[&str]; 7] = [
    &["api"],
    &["lock", "status", "telemetry", "watch"],
    &["gitsync"],
    &["source"],
    &["operator"],
    &["admission", "server"],
    &["cli"],
];

pub(super) fn check(source: &Source) -> Vec<Complaint> {
    let Some(own) = module(source) else {
        return Vec::new();
    };
    let lines = source.code_lines();
    lines
        .flat_map(|(line, text)| names(text).map(move |other| (line, other)))
        .filter(|(_, other)| *other != own && !is_left(other, &own))
        .map(|(line, other)| {
            source.complaint(
                line,
                format!("`{own}` names `{other}`, which is not to the left of it"),
            )
        })
        .collect()
}

/// The module of `src/` that the file belongs to, if it is one of the order.
fn module(source: &Source) -> Option<String> {
    let path = source.file.strip_prefix("src").ok()?;
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    rank(name).map(|_| name.to_owned())
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|group| group.contains(&module))
}

fn is_left(other: &str, own: &str) -> bool {
    rank(other) < rank(own)
}

/// The modules of the order that a line names by `crate::`, also in a group such as `crate::{api, lock}`.
fn names(line: &str) -> impl Iterator<Item = &'static str> {
    let paths = line.split("crate::").skip(1);
    paths.flat_map(|rest| {
        let heads: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => group
                .split('}')
                .next()
                .unwrap_or_default()
                .split(',')
                .collect(),
            None => vec![rest],
        };
        let found = heads.into_iter().filter_map(known);
        found.collect::<Vec<_>>()
    })
}

/// The module of the order that a path begins with.
fn known(path: &str) -> Option<&'static str> {
    let end = |c: char| !c.is_alphanumeric() && c != '_';
    let head = path.trim().split(end).next().unwrap_or_default();
    ORDER
        .iter()
        .flat_map(|group| group.iter())
        .find(|&&module| module == head)
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(file: &str, line: &str) -> usize {
        check(&Source::new(file.into(), line)).len()
    }

    #[test]
    fn modules_name_what_is_left_of_them() {
        for (file, line, wanted) in [
            ("src/operator/mod.rs", "use crate::api::HelmRelease;", 0),
            ("src/operator/mod.rs", "use crate::operator::queue;", 0),
            ("src/operator/mod.rs", "use crate::status::StatusWriter;", 0),
            ("src/status/mod.rs", "use crate::operator::Operator;", 1),
            ("src/operator/mod.rs", "use crate::{api, server, cli};", 2),
            ("src/lock/mod.rs", "use crate::telemetry::Metrics;", 1),
            ("src/gitsync/a.rs", "    let x = crate::operator::y();", 1),
            ("src/gitsync/a.rs", "// see crate::operator", 0),
            ("src/cli/run.rs", "use crate::server::serve;", 0),
            ("src/main.rs", "use helm_operator::cli;", 0),
            (
                "crates/gotmpl/src/lib.rs",
                "use crate::operator::Operator;",
                0,
            ),
        ] {
            assert_eq!(complaints(file, line), wanted, "{file}: {line}");
        }
    }

    #[test]
    fn tests_may_name_anything() {
        assert_eq!(
            complaints(
                "src/api/mod.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::cli;\n}"
            ),
            0
        );
    }
}
