//! What is said of command lines that cannot be read, in helm's words.
//!
//! The verbs that people and scripts call in helm's place say what helm says: its flags are those
//! of the Go library pflag, which stops at the first one that is wrong.

use std::ffi::OsString;

use clap::builder::ArgAction;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// The verbs that are helm's own.
const VERBS: [&str; 4] = ["template", "lint", "show", "package"];

/// What a command line that is not understood comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Understood {
    /// The same in words that are understood: `--strict=true` is `--strict`.
    As(Vec<OsString>),
    /// An error of helm's.
    Not(String),
}

/// What helm would make of a command line that clap does not understand; `None` where that is
/// clap's to say.
pub(super) fn understand(
    mut grammar: Command,
    arguments: &[OsString],
    error: &clap::Error,
) -> Option<Understood> {
    if !error.use_stderr() {
        return None;
    }
    grammar.build();
    let words: Vec<&str> = arguments
        .iter()
        .map(|word| word.to_str())
        .collect::<Option<_>>()?;
    let (name, rest) = words.get(1..)?.split_first()?;
    let Some(mut verb) = grammar.find_subcommand(name) else {
        return Some(Understood::Not(format!(
            "unknown command {name:?} for \"helm-operator\"\nRun 'helm-operator --help' for usage."
        )));
    };
    if !VERBS.contains(&verb.get_name()) {
        return None;
    }
    let (mut path, mut flags) = (format!("helm-operator {}", verb.get_name()), rest);
    if verb.has_subcommands() {
        let Some((part, others)) = rest.split_first() else {
            return Some(help_of(arguments));
        };
        verb = match verb.find_subcommand(part) {
            Some(verb) => verb,
            None if part.starts_with('-') => return None,
            None => return Some(help_of(arguments)),
        };
        path = format!("{path} {}", verb.get_name());
        flags = others;
    }
    let start = words.len() - flags.len();
    let mut reader = Reader {
        verb,
        kept: words
            .get(..start)?
            .iter()
            .map(|&word| word.into())
            .collect(),
        operands: 0,
    };
    match reader.read(flags) {
        Err(text) => Some(Understood::Not(text)),
        Ok(()) => match operands(&path, reader.operands) {
            Some(text) => Some(Understood::Not(text)),
            None if reader.kept != arguments => Some(Understood::As(reader.kept)),
            None => invalid_value(verb, error).map(Understood::Not),
        },
    }
}

/// A verb whose part is not named, or not known, says what parts it has, and that is no error.
fn help_of(arguments: &[OsString]) -> Understood {
    let verb = arguments.iter().take(2).cloned();
    Understood::As(verb.chain(["--help".into()]).collect())
}

/// What helm says of a flag's value that is none.
fn invalid_value(verb: &Command, error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (flag, value) = (
        text(ContextKind::InvalidArg)?,
        text(ContextKind::InvalidValue)?,
    );
    let name = flag.strip_prefix("--")?.split(['=', ' ', '[']).next()?;
    let arg = verb.get_arguments().find(|arg| is_long(arg, name))?;
    let cause = std::error::Error::source(error)?;
    Some(format!(
        "invalid argument {value:?} for {:?} flag: {cause}",
        shown(arg, name)
    ))
}

/// What helm says of so many words that are no flags.
fn operands(path: &str, count: usize) -> Option<String> {
    match path {
        "helm-operator lint" if count == 0 => Some(format!(
            "{path:?} requires at least 1 argument\n\nUsage:  {path} PATH [flags]"
        )),
        "helm-operator package" if count == 0 => {
            Some("need at least one argument, the path to the chart".to_owned())
        }
        _ if path.starts_with("helm-operator show ") && count != 1 => Some(format!(
            "{path:?} requires 1 argument\n\nUsage:  {path} [CHART] [flags]"
        )),
        _ => None,
    }
}

/// Reads flags as pflag does.
struct Reader<'a> {
    verb: &'a Command,
    /// What was read, in words of clap's.
    kept: Vec<OsString>,
    operands: usize,
}

impl Reader<'_> {
    fn read(&mut self, words: &[&str]) -> Result<(), String> {
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if word == "--" {
                self.operands += words.len();
                self.kept.push(word.into());
                self.kept.extend(words.map(OsString::from));
                return Ok(());
            }
            let value = if let Some(flag) = word.strip_prefix("--") {
                self.long(word, flag, words.clone().next())?
            } else if word.len() > 1 && word.starts_with('-') {
                self.kept.push(word.into());
                self.shorts(word.get(1..).unwrap_or_default(), words.clone().next())?
            } else {
                self.operands += 1;
                self.kept.push(word.into());
                false
            };
            if value {
                self.kept.extend(words.next().map(OsString::from));
            }
        }
        Ok(())
    }

    /// Whether the next word is the flag's value.
    fn long(&mut self, word: &str, flag: &str, next: Option<&str>) -> Result<bool, String> {
        if flag.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: {word}"));
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (flag, None),
        };
        let found = self.verb.get_arguments().find(|arg| is_long(arg, name));
        let arg = found.ok_or_else(|| format!("unknown flag: --{name}"))?;
        match value {
            Some(value) if is_switch(arg) => {
                let given = format!("--{name}");
                match boolean(value) {
                    Some(true) => self.kept.push(given.into()),
                    Some(false) => self.kept.retain(|word| *word != *given),
                    None => return Err(no_boolean(arg, name, value)),
                }
                Ok(false)
            }
            None if wants_value(arg) && next.is_none() => {
                Err(format!("flag needs an argument: --{name}"))
            }
            _ => {
                self.kept.push(word.into());
                Ok(value.is_none() && wants_value(arg))
            }
        }
    }

    /// Whether the next word is the value of the last of these flags.
    fn shorts(&self, flags: &str, next: Option<&str>) -> Result<bool, String> {
        let mut rest = flags.chars();
        while let Some(letter) = rest.clone().next() {
            let all = rest.as_str();
            rest.next();
            let mut known = self.verb.get_arguments();
            let arg = known
                .find(|arg| arg.get_short() == Some(letter))
                .ok_or_else(|| format!("unknown shorthand flag: '{letter}' in -{all}"))?;
            if wants_value(arg) {
                return match (rest.as_str(), next) {
                    ("", None) => Err(format!("flag needs an argument: '{letter}' in -{all}")),
                    (value, _) => Ok(value.is_empty()),
                };
            }
        }
        Ok(false)
    }
}

fn is_long(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name)
        || arg
            .get_all_aliases()
            .is_some_and(|aliases| aliases.contains(&name))
}

fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Whether a flag must have a value.
fn wants_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
        && arg
            .get_num_args()
            .is_none_or(|count| count.min_values() > 0)
}

/// What Go's `strconv.ParseBool` makes of a text.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A flag as helm names it.
fn shown(arg: &Arg, name: &str) -> String {
    match arg.get_short() {
        Some(short) => format!("-{short}, --{name}"),
        None => format!("--{name}"),
    }
}

fn no_boolean(arg: &Arg, name: &str, value: &str) -> String {
    let flag = shown(arg, name);
    format!(
        "invalid argument {value:?} for {flag:?} flag: strconv.ParseBool: parsing {value:?}: \
         invalid syntax"
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn understood(line: &str) -> Option<Understood> {
        let arguments = words(line);
        let error = Cli::try_parse_from(&arguments).err()?;
        understand(Cli::command(), &arguments, &error)
    }

    #[test]
    fn command_lines_that_helm_refuses_are_refused_in_its_words() {
        for (line, expected) in [
            (
                "nope",
                "unknown command \"nope\" for \"helm-operator\"\nRun 'helm-operator --help' for usage.",
            ),
            ("lint --nope c", "unknown flag: --nope"),
            (
                "template a c --history-max=1.5",
                "unknown flag: --history-max",
            ),
            ("template -Z a c", "unknown shorthand flag: 'Z' in -Z"),
            ("template a c -gx", "unknown shorthand flag: 'x' in -x"),
            ("template a c -=", "unknown shorthand flag: '=' in -="),
            ("template a c ---x", "bad flag syntax: ---x"),
            ("template a c --=x", "bad flag syntax: --=x"),
            ("template a c --set", "flag needs an argument: --set"),
            ("template a c -n", "flag needs an argument: 'n' in -n"),
            (
                "lint c --strict=2",
                "invalid argument \"2\" for \"--strict\" flag: strconv.ParseBool: parsing \"2\": invalid syntax",
            ),
            (
                "template c --generate-name=x",
                "invalid argument \"x\" for \"-g, --generate-name\" flag: strconv.ParseBool: parsing \"x\": invalid syntax",
            ),
            (
                "lint",
                "\"helm-operator lint\" requires at least 1 argument\n\nUsage:  helm-operator lint PATH [flags]",
            ),
            (
                "template a c --timeout 5",
                "invalid argument \"5\" for \"--timeout\" flag: time: missing unit in duration \"5\"",
            ),
            (
                "template a c --labels a=b,c",
                "invalid argument \"a=b,c\" for \"-l, --labels\" flag: c must be formatted as key=value",
            ),
            (
                "template a c --wait=nope",
                "invalid argument \"nope\" for \"--wait\" flag: invalid wait input \"nope\". Valid inputs are watcher, hookOnly, and legacy",
            ),
            (
                "template a c --post-renderer p",
                "invalid argument \"p\" for \"--post-renderer\" flag: plugin: {Name:p Type:postrenderer/v1} not found",
            ),
            (
                "package",
                "need at least one argument, the path to the chart",
            ),
            ("show chart c -o", "unknown shorthand flag: 'o' in -o"),
            (
                "show chart",
                "\"helm-operator show chart\" requires 1 argument\n\nUsage:  helm-operator show chart [CHART] [flags]",
            ),
            (
                "show values c d",
                "\"helm-operator show values\" requires 1 argument\n\nUsage:  helm-operator show values [CHART] [flags]",
            ),
        ] {
            let found = understood(&format!("helm-operator {line}"));
            assert_eq!(found, Some(Understood::Not(expected.to_owned())), "{line}");
        }
    }

    #[test]
    fn switches_may_have_values_as_in_helm() {
        for (line, expected) in [
            ("show", "show --help"),
            ("show bogus c", "show --help"),
            ("lint c --strict=true", "lint c --strict"),
            ("lint c --strict=0", "lint c"),
            ("lint --strict c --strict=false -f x", "lint c -f x"),
            (
                "template --no-hooks=T a c -n x -- --y",
                "template --no-hooks a c -n x -- --y",
            ),
        ] {
            let found = understood(&format!("helm-operator {line}"));
            let expected = words(&format!("helm-operator {expected}"));
            assert_eq!(found, Some(Understood::As(expected)), "{line}");
        }
    }

    #[test]
    fn other_verbs_and_calls_for_help_are_left_to_clap() {
        for line in [
            "run --nope",
            "template --help",
            "show --nope",
            "sync --nope",
        ] {
            assert_eq!(understood(&format!("helm-operator {line}")), None, "{line}");
        }
    }
}
