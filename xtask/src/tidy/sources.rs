//! Sizes, names and words of a source file.
//!
//! rustfmt has laid the files out, so that lines and indentation say enough: an item ends at the first line with its
//! own indentation and a closing brace.

use std::path::{Path, PathBuf};

use super::Complaint;

/// Lines of a file, its unit tests not counted.
const FILE_LIMIT: usize = 700;
/// Lines of a function outside of tests, signature and closing brace included.
const FUNCTION_LIMIT: usize = 100;
/// Words that stand for work not done.
const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];
/// Endings of type names that say nothing about what the type is.
const EMPTY_NAMES: [&str; 4] = ["Manager", "Helper", "Util", "Utils"];

/// A Rust file, with what is a test told apart.
#[derive(Debug)]
pub(crate) struct Source {
    pub(super) file: PathBuf,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    text: String,
    test: bool,
}

impl Source {
    pub(super) fn new(file: PathBuf, text: &str) -> Self {
        let all_tests = is_test_file(&file) || text.lines().any(|line| line == "#![cfg(test)]");
        let mut lines: Vec<Line> = text
            .lines()
            .map(|line| Line {
                text: line.to_owned(),
                test: all_tests,
            })
            .collect();
        mark_tests(&mut lines);
        Self { file, lines }
    }

    /// The lines that are neither tests nor comments, with their numbers from 1.
    pub(super) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.lines.iter().enumerate();
        numbered
            .filter(|(_, line)| !line.test && !line.text.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line.text.as_str()))
    }

    pub(super) fn complaint(&self, line: usize, text: String) -> Complaint {
        Complaint {
            file: self.file.clone(),
            line,
            text,
        }
    }
}

/// A file of tests only, by its place or its name.
fn is_test_file(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem == "tests"
        || stem.ends_with("_tests")
        || file
            .components()
            .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "benches")))
}

/// Marks the items under `#[cfg(test)]` and `#[test]`.
fn mark_tests(lines: &mut [Line]) {
    let mut index = 0;
    while index < lines.len() {
        let text = lines[index].text.trim_start();
        if text.starts_with("#[cfg(test)]") || text.starts_with("#[test]") {
            let end = end_of_item(lines, index);
            lines[index..=end]
                .iter_mut()
                .for_each(|line| line.test = true);
            index = end;
        }
        index += 1;
    }
}

/// The index of the last line of the item that begins at `start`, attributes included.
fn end_of_item(lines: &[Line], start: usize) -> usize {
    let indent = indentation(&lines[start].text);
    let ends = |line: &Line| {
        let text = &line.text;
        let closes = ["}", "};", ");"].contains(&text.trim_end().trim_start());
        // An item of one line, such as `mod tests;` or `use super::*;`; not the end of a long text.
        let starts = text
            .trim_start()
            .starts_with(|first: char| first.is_ascii_alphabetic());
        let short = starts && text.ends_with(';');
        indentation(text) == indent && (closes || short)
    };
    let found = lines
        .iter()
        .enumerate()
        .skip(start + 1)
        .find(|(_, line)| ends(line));
    found.map_or(lines.len() - 1, |(index, _)| index)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

pub(super) fn check(source: &Source) -> Vec<Complaint> {
    [
        size_of_file,
        sizes_of_functions,
        header,
        lines_of_code,
        unfinished,
        kind_of_test,
    ]
    .iter()
    .flat_map(|check| check(source))
    .collect()
}

fn size_of_file(source: &Source) -> Vec<Complaint> {
    let size = source.lines.iter().filter(|line| !line.test).count();
    // A table is as long as what it lists.
    let stem = source
        .file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let table = stem.ends_with("table") || stem.ends_with("tables");
    if size <= FILE_LIMIT || table {
        return Vec::new();
    }
    vec![source.complaint(
        0,
        format!("{size} lines without tests: split it, {FILE_LIMIT} are enough"),
    )]
}

fn sizes_of_functions(source: &Source) -> Vec<Complaint> {
    let long = functions(source)
        .into_iter()
        .filter(|(_, size)| *size > FUNCTION_LIMIT);
    long.map(|(line, size)| {
        source.complaint(
            line,
            format!("a function of {size} lines: {FUNCTION_LIMIT} are enough"),
        )
    })
    .collect()
}

/// The first line and the length of each function outside of tests.
fn functions(source: &Source) -> Vec<(usize, usize)> {
    let starts = source.code_lines().filter(|(_, text)| is_function(text));
    starts
        .filter(|(_, text)| !text.trim_end().ends_with(['}', ';']))
        .map(|(line, _)| (line, end_of_item(&source.lines, line - 1) + 2 - line))
        .collect()
}

fn is_function(line: &str) -> bool {
    let words = line
        .split_whitespace()
        .take_while(|word| !word.contains("fn("));
    let modifiers = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "const",
        "async",
        "extern",
        "\"C\"",
    ];
    let mut words = words.skip_while(|word| modifiers.contains(word));
    words.next() == Some("fn")
}

fn header(source: &Source) -> Vec<Complaint> {
    match source.lines.first() {
        Some(line) if line.text.starts_with("//!") => Vec::new(),
        // The tests of the module beside them.
        _ if source.file.ends_with("tests.rs") => Vec::new(),
        _ => vec![source.complaint(
            1,
            "no `//!` line that says what the file is about".to_owned(),
        )],
    }
}

fn lines_of_code(source: &Source) -> Vec<Complaint> {
    let own_words = source.file.ends_with("tidy/sources.rs");
    let lines = source.code_lines().filter(|_| !own_words);
    lines
        .filter_map(|(line, text)| Some(source.complaint(line, habit(text)?)))
        .collect()
}

/// What is wrong with a line of code, if anything.
fn habit(line: &str) -> Option<String> {
    let text = line.trim_start();
    if text.starts_with("#[allow(") || text.starts_with("#![allow(") {
        return Some("`allow`: write `#[expect(lint, reason = \"…\")]`".to_owned());
    }
    if text.contains(".unwrap()") {
        return Some("`unwrap` outside of tests: return an error".to_owned());
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let defined = words.windows(2).find_map(|pair| match pair {
        ["struct" | "enum" | "trait" | "type", name] => Some(*name),
        _ => None,
    })?;
    let name: String = defined
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .collect();
    let empty = EMPTY_NAMES.iter().find(|ending| name.ends_with(**ending))?;
    Some(format!("`{name}`: {empty} says nothing, name what it is"))
}

fn unfinished(source: &Source) -> Vec<Complaint> {
    let own_words = source.file.ends_with("tidy/sources.rs");
    let lines = source.lines.iter().enumerate().filter(|_| !own_words);
    let found = lines.filter_map(|(index, line)| {
        let mut words = line.text.split(|c: char| !c.is_alphanumeric());
        words
            .find(|word| UNFINISHED.contains(word))
            .map(|word| (index + 1, word))
    });
    found
        .map(|(line, word)| source.complaint(line, format!("{word}: finish it, or say why not")))
        .collect()
}

/// Tests on a real API server are counted apart by the name of their executable.
fn kind_of_test(source: &Source) -> Vec<Complaint> {
    let mut parts = source
        .file
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    if !parts.any(|part| part == "tests") {
        return Vec::new();
    }
    let target = parts.next().unwrap_or_default();
    let uses = source
        .lines
        .iter()
        .any(|line| line.text.contains("ControlPlane::"));
    // Files that several executables share are no executable themselves.
    if !uses || target.starts_with("cluster") || target == "common" {
        return Vec::new();
    }
    vec![source.complaint(
        0,
        "starts a control plane: name it tests/cluster_….rs".to_owned(),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(file: &str, text: &str) -> Vec<String> {
        let complaints = check(&Source::new(file.into(), text));
        complaints.iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn each_habit_is_found() {
        for (file, text, wanted) in [
            ("src/a.rs", "//! A.\nfn a() {}\n", None),
            ("src/a.rs", "fn a() {}\n", Some("src/a.rs:1: no `//!`")),
            (
                "src/a.rs",
                "//! A.\n#[allow(dead_code)]\n",
                Some("src/a.rs:2: `allow`"),
            ),
            (
                "src/a.rs",
                "//! A.\nfn a() {\n    b().unwrap();\n}\n",
                Some("src/a.rs:3: `unwrap`"),
            ),
            ("src/a.rs", "//! A.\n// b().unwrap()\n", None),
            (
                "src/a.rs",
                "//! A.\npub struct ChartManager<T> {\n",
                Some("src/a.rs:2: `ChartManager`"),
            ),
            (
                "src/a.rs",
                "//! A.\n// TODO later\n",
                Some("src/a.rs:2: TODO"),
            ),
            (
                "tests/a.rs",
                "//! A.\nfn a() {\n    ControlPlane::shared();\n}\n",
                Some("tests/a.rs: starts"),
            ),
            (
                "tests/cluster_a.rs",
                "//! A.\nfn a() {\n    ControlPlane::shared();\n}\n",
                None,
            ),
        ] {
            let found = check_text(file, text);
            match wanted {
                None => assert!(found.is_empty(), "{text}: {found:?}"),
                Some(start) => {
                    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
                }
            }
        }
    }

    #[test]
    fn unit_tests_are_free() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        b().unwrap();\n    }\n}\n";
        assert!(check_text("src/a.rs", text).is_empty());
        let after = format!("{text}fn c() {{\n    d().unwrap();\n}}\n");
        assert_eq!(check_text("src/a.rs", &after).len(), 1);
    }

    #[test]
    fn functions_are_measured_by_their_indentation() {
        let body = "        x();\n".repeat(FUNCTION_LIMIT - 2);
        let fits = format!("//! A.\nimpl A {{\n    pub(crate) async fn a() {{\n{body}    }}\n}}\n");
        assert!(check_text("src/a.rs", &fits).is_empty());
        let long = fits.replacen("        x();\n", "        x();\n        y();\n", 1);
        let found = check_text("src/a.rs", &long);
        assert_eq!(
            found,
            ["src/a.rs:3: a function of 101 lines: 100 are enough"]
        );
    }

    #[test]
    fn long_files_are_found_and_tests_do_not_count() {
        let code = format!("//! A.\n{}", "const A: u8 = 1;\n".repeat(FILE_LIMIT));
        assert_eq!(check_text("src/a.rs", &code).len(), 1);
        assert!(check_text("src/a_table.rs", &code).is_empty());
        let lines = "    const A: u8 = 1;\n".repeat(FILE_LIMIT);
        let tests = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{lines}}}\n");
        assert!(check_text("src/a.rs", &tests).is_empty());
    }
}
