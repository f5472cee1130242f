//! `.helmignore`.

use super::wildcard;

/// Why a `.helmignore` was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// `**` is not known to Helm.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// A pattern that is not well formed.
    #[error(transparent)]
    Pattern(#[from] wildcard::BadPattern),
}

/// The rules of a `.helmignore`, and the one that always applies.
pub(crate) struct Rules(Vec<Rule>);

struct Rule {
    pattern: String,
    negated: bool,
    only_directories: bool,
    /// Match the base name alone.
    base_name: bool,
}

impl Rules {
    /// Reads the rules; the rule against hidden files in `templates/` is added.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, IgnoreError> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut rules = Vec::new();
        for line in String::from_utf8_lossy(text).lines() {
            rules.extend(Rule::parse(line)?);
        }
        rules.extend(Rule::parse("templates/.?*")?);
        Ok(Self(rules))
    }

    /// Whether a path (relative, with `/`) is left out. The first rule that decides counts; a
    /// negated rule decides against everything that it does not match.
    pub(crate) fn ignores(&self, path: &str, is_directory: bool) -> bool {
        for rule in &self.0 {
            if rule.negated {
                if (rule.only_directories && !is_directory) || !rule.matches(path) {
                    return true;
                }
            } else if (!rule.only_directories || is_directory) && rule.matches(path) {
                return true;
            }
        }
        false
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Option<Self>, IgnoreError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        wildcard::matches(line, "abc")?;
        let (negated, rest) = cut_prefix(line, '!');
        let (only_directories, rest) = match rest.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (rooted, pattern) = cut_prefix(rest, '/');
        Ok(Some(Self {
            pattern: pattern.to_owned(),
            negated,
            only_directories,
            base_name: !rooted && !pattern.contains('/'),
        }))
    }

    fn matches(&self, path: &str) -> bool {
        let name = if self.base_name {
            path.rsplit('/').next().unwrap_or(path)
        } else {
            path
        };
        wildcard::matches(&self.pattern, name).unwrap_or(false)
    }
}

fn cut_prefix(text: &str, prefix: char) -> (bool, &str) {
    match text.strip_prefix(prefix) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::{IgnoreError, Rules};

    fn ignored(rules: &str, path: &str, is_directory: bool) -> bool {
        Rules::parse(rules.as_bytes())
            .unwrap()
            .ignores(path, is_directory)
    }

    #[test]
    fn rules_apply_as_in_helm() {
        for (rules, path, directory, wanted) in [
            ("helm.txt", "helm.txt", false, true),
            ("helm.*", "helm.txt", false, true),
            ("helm.*", "rudder.txt", false, false),
            ("*.txt", "tiller.txt", false, true),
            ("*.txt", "cargo/a.txt", false, true),
            ("cargo/*.txt", "cargo/a.txt", false, true),
            ("cargo/*.*", "cargo/a.txt", false, true),
            ("/*.txt", "cargo/a.txt", false, false),
            ("/a.txt", "a.txt", false, true),
            ("cargo/", "cargo", true, true),
            ("cargo/", "mast", true, false),
            ("helm.txt/", "helm.txt", false, false),
            ("!helm.txt", "helm.txt", false, false),
            ("!helm.txt", "tiller.txt", false, true),
            ("!*.txt", "cargo", true, true),
            ("!cargo/", "mast", true, true),
            ("# a comment\n\n", "a", false, false),
            ("", ".joonix", false, false),
            ("", "templates/.dotfile", false, true),
            ("\u{feff}a.txt", "a.txt", false, true),
        ] {
            assert_eq!(ignored(rules, path, directory), wanted, "{rules} on {path}");
        }
    }

    #[test]
    fn a_double_star_is_refused() {
        assert_eq!(
            Rules::parse(b"cargo/**").err(),
            Some(IgnoreError::DoubleStar)
        );
    }
}
