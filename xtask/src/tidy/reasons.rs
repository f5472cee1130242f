//! `docs/conditions.md` explains every reason that a condition or an Event may have.

use std::fs;
use std::path::{Path, PathBuf};

use super::Complaint;

/// The page, relative to the root.
const PAGE: &str = "docs/conditions.md";

/// Where reasons are listed.
const LISTS: [&str; 3] = [
    "src/api/status.rs",
    "src/gitsync/error.rs",
    "crates/helm-kube/src/error.rs",
];

/// Complains of every reason that the page does not name.
pub(super) fn check(root: &Path) -> Vec<Complaint> {
    let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let known: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let mut complaints = Vec::new();
    for file in LISTS {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        let reasons = listed(&text);
        if reasons.is_empty() {
            complaints.push(complaint(
                file,
                0,
                "has no list of reasons any more".to_owned(),
            ));
        }
        for (line, reason) in reasons {
            if !known.contains(&reason) {
                complaints.push(complaint(
                    file,
                    line,
                    format!("{PAGE} does not explain {reason}"),
                ));
            }
        }
    }
    complaints
}

fn complaint(file: &str, line: usize, text: String) -> Complaint {
    Complaint {
        file: PathBuf::from(file),
        line,
        text,
    }
}

/// The variants of `pub enum Reason`, each with its line, from 1.
fn listed(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    lines
        .skip_while(|(_, line)| *line != "pub enum Reason {")
        .take_while(|(_, line)| *line != "}")
        .filter_map(|(index, line)| Some((index + 1, line.trim().strip_suffix(',')?)))
        .filter(|(_, name)| name.chars().all(char::is_alphanumeric))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_read_without_their_comments() {
        let text = "/// Why.\npub enum Reason {\n    /// No, such, thing.\n    NotFound,\n    // b,\n    Full,\n}\nx,\n";
        assert_eq!(listed(text), [(4, "NotFound"), (6, "Full")]);
    }

    #[test]
    fn a_reason_that_nobody_explains_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(PAGE, "| `NotFound`, `Full` | … |\n");
        for file in LISTS {
            write(file, "pub enum Reason {\n    NotFound,\n    Lost,\n}\n");
        }
        write(LISTS[2], "");
        let told: Vec<String> = check(folder.path())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "src/api/status.rs:3: docs/conditions.md does not explain Lost",
                "src/gitsync/error.rs:3: docs/conditions.md does not explain Lost",
                "crates/helm-kube/src/error.rs: has no list of reasons any more",
            ]
        );
    }
}
