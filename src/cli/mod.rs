//! The command line: one file per verb.
//!
//! Verbs that need no cluster start no runtime, no client and no TLS: `template` is over before
//! those would be set up.

mod approve;
mod chart;
mod charts;
mod crd;
mod daemon;
mod dependency;
mod diff;
mod examples;
mod fetch;
mod files;
mod get;
mod history;
mod ignored;
mod lint;
mod output;
mod package;
mod pull;
mod release;
mod release_values;
mod remote;
mod rollback;
mod run;
mod search;
mod show;
mod sources;
mod status;
mod sync;
mod table;
mod template;
mod template_release;
mod test;
mod uninstall;
mod usage;
mod values;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use usage::Understood;

/// Keeps Helm releases in a Kubernetes cluster equal to what git says.
#[derive(Debug, Parser)]
#[command(name = "helm-operator", version, after_help = examples::ALL)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the daemon; this is what flags without a verb mean, as with Flux Helm Operator 1.4.
    #[command(after_help = examples::RUN)]
    Run(Box<run::Flags>),
    /// Print the HelmRelease CustomResourceDefinition.
    #[command(after_help = examples::CRD)]
    Crd,
    /// Print the version.
    #[command(after_help = examples::VERSION)]
    Version,
    Template(Box<template::Arguments>),
    Lint(Box<lint::Arguments>),
    Show(show::Arguments),
    Package(Box<package::Arguments>),
    Pull(Box<pull::Arguments>),
    Search(Box<search::Arguments>),
    #[command(visible_alias = "dep")]
    Dependency(dependency::Arguments),
    #[command(visible_alias = "hist")]
    History(history::Arguments),
    Status(status::Arguments),
    Get(get::Arguments),
    Rollback(rollback::Arguments),
    #[command(visible_aliases = ["un", "del", "delete"])]
    Uninstall(uninstall::Arguments),
    Test(test::Arguments),
    Diff(diff::Arguments),
    Sync(Box<sync::Arguments>),
    Sources(sources::Arguments),
    Values(release_values::Arguments),
    Approve(approve::Arguments),
}

/// Runs the verb that the command line names. Whatever fails is said on standard error behind
/// `Error: `, and the exit code is 1, as with helm; bad flags of the daemon give 2, as in 1.4, and so do those of `diff`.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = with_verb(std::env::args_os().collect());
    // 1 means to `diff` that there is a difference, as to kubectl's.
    let is_told_apart = arguments
        .get(1)
        .is_some_and(|verb| verb == "run" || verb == "diff");
    let parsed = match template_alone(&arguments) {
        Some(arguments) => Ok(Verb::Template(arguments)),
        None => parse(&arguments),
    };
    let verb = match parsed {
        Ok(verb) => verb,
        Err(Refused::Helm(text)) => {
            output::note(&format!("Error: {text}"));
            return ExitCode::FAILURE;
        }
        Err(Refused::Clap(error)) => {
            // Nothing can be said if the terminal is gone.
            let _ = error.print();
            return match (error.use_stderr(), is_told_apart) {
                (false, _) => ExitCode::SUCCESS,
                (true, false) => ExitCode::FAILURE,
                (true, true) => ExitCode::from(2),
            };
        }
    };
    let done = match verb {
        Verb::Run(flags) => run::run(&flags),
        Verb::Crd => crd::run(),
        Verb::Version => version::run(),
        Verb::Template(arguments) if template_release::is_named_by(&arguments) => {
            template_release::run(&arguments)
        }
        Verb::Template(arguments) => template::run(&arguments),
        Verb::Lint(arguments) => lint::run(&arguments),
        Verb::Show(arguments) => show::run(&arguments),
        Verb::Package(arguments) => package::run(&arguments),
        Verb::History(arguments) => history::run(&arguments),
        Verb::Status(arguments) => status::run(&arguments),
        Verb::Get(arguments) => get::run(&arguments),
        Verb::Rollback(arguments) => rollback::run(&arguments),
        Verb::Uninstall(arguments) => uninstall::run(&arguments),
        Verb::Test(arguments) => test::run(&arguments),
        Verb::Diff(arguments) => return diff::run(&arguments),
        Verb::Sync(arguments) => sync::run(&arguments),
        Verb::Sources(arguments) => sources::run(&arguments),
        Verb::Values(arguments) => release_values::run(&arguments),
        Verb::Approve(arguments) => approve::run(&arguments),
        Verb::Pull(arguments) => pull::run(&arguments),
        Verb::Search(arguments) => search::run(&arguments),
        Verb::Dependency(arguments) => dependency::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("Error: {}", told(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes. Of what the API server has refused there is its message alone.
fn told(error: &anyhow::Error) -> String {
    let mut texts = Vec::new();
    for cause in error.chain() {
        if let Some(kube::Error::Api(status)) = cause.downcast_ref() {
            texts.push(status.message.clone());
            break;
        }
        texts.push(cause.to_string());
    }
    texts.join(": ")
}

/// Why a command line is no verb's, in the words of helm or of clap.
enum Refused {
    Helm(String),
    Clap(clap::Error),
}

fn parse(arguments: &[OsString]) -> Result<Verb, Refused> {
    let parse = |arguments: &[OsString]| Cli::try_parse_from(arguments).map(|cli| cli.verb);
    let error = match parse(arguments) {
        Ok(verb) => return Ok(verb),
        Err(error) => error,
    };
    match usage::understand(Cli::command(), arguments, &error) {
        Some(Understood::As(arguments)) => parse(&arguments).map_err(Refused::Clap),
        Some(Understood::Not(text)) => Err(Refused::Helm(text)),
        None => Err(Refused::Clap(error)),
    }
}

/// The arguments of `template`: to set up the flags of all verbs would take as long as to render a
/// small chart. Where there is something to explain, that has to be done, and this gives nothing.
fn template_alone(arguments: &[OsString]) -> Option<Box<template::Arguments>> {
    let [_, verb, rest @ ..] = arguments else {
        return None;
    };
    if verb != "template" {
        return None;
    }
    let grammar = template::Arguments::augment_args(clap::Command::new("template"));
    let matches = grammar.no_binary_name(true).try_get_matches_from(rest);
    template::Arguments::from_arg_matches(&matches.ok()?)
        .ok()
        .map(Box::new)
}

/// The flags that name a cluster, which kubectl and helm also take in front of the verb. All have a value.
const LEADING: [&str; 4] = ["-n", "--namespace", "--kubeconfig", "--kube-context"];

/// `helm-operator -n apps diff web` is `helm-operator diff web -n apps`: what stands in front of a verb is put behind
/// it. Gives nothing where there is no verb.
fn verb_first(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (program, rest) = arguments.split_first()?;
    let mut taken = 0;
    loop {
        let word = rest.get(taken)?.to_str()?;
        let name = word.split('=').next().unwrap_or(word);
        taken += match word {
            _ if LEADING.contains(&word) => 2,
            _ if LEADING.contains(&name) => 1,
            _ if word.starts_with("-n") && !word.starts_with("--") => 1,
            _ => break,
        };
    }
    let (flags, words) = rest.split_at_checked(taken)?;
    Cli::command().find_subcommand(words.first()?)?;
    let end = words.iter().position(|word| word == "--");
    let (before, after) = words.split_at_checked(end.unwrap_or(words.len()))?;
    let program = std::slice::from_ref(program);
    Some([program, before, flags, after].concat())
}

/// The command line of 1.4 has no verbs: flags alone run the daemon.
fn with_verb(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_leading = |first: &OsString| {
        let first = first.to_string_lossy();
        LEADING.iter().any(|flag| first.starts_with(flag))
    };
    if arguments.get(1).is_some_and(is_leading)
        && let Some(arguments) = verb_first(&arguments)
    {
        return arguments;
    }
    let own = ["-h", "--help", "-V", "--version"];
    let is_flag = arguments
        .get(1)
        .and_then(|first| first.to_str())
        .is_some_and(|first| first.starts_with('-') && !own.contains(&first));
    if is_flag {
        arguments.insert(1, "run".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_the_api_server_refuses_its_message_is_told() {
        let status = kube::core::Status::failure("helmreleases \"web\" not found", "NotFound");
        let error = anyhow::Error::from(kube::Error::Api(Box::new(status)));
        let error = error.context("reading HelmRelease apps/web");
        let wanted = "reading HelmRelease apps/web: helmreleases \"web\" not found";
        assert_eq!(told(&error), wanted);
    }

    /// The command lines in a help text, without what the shell does with them.
    fn examples(help: &str) -> Vec<Vec<String>> {
        let lines = help.lines().map(str::trim);
        let ours = lines.filter_map(|line| {
            let start = match line.split_once(" -- ") {
                Some((before, _)) => before.len() + " -- ".len(),
                None if line.starts_with("kubectl") => return None,
                None => line.find("helm-operator ")?,
            };
            let line = line[start..].split(" | ").next()?;
            // Every other part is between quotes, and a word of its own.
            let parts = line.split('\'').enumerate();
            let words = parts.flat_map(|(index, part)| match index % 2 {
                0 => part.split(' ').filter(|word| !word.is_empty()).collect(),
                _ => vec![part],
            });
            Some(words.map(str::to_owned).collect::<Vec<_>>())
        });
        ours.collect()
    }

    #[test]
    fn the_help_of_every_verb_ends_with_exit_codes_and_examples_that_parse() {
        let cli = Cli::command();
        let verbs = cli.get_subcommands().chain([&cli]);
        for verb in verbs {
            let help = verb.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let name = verb.get_name();
            assert!(help.contains("\n\nExit code 0: "), "{name}: {help}");
            let mut shown = help.lines().filter(|line| line.starts_with("  "));
            assert!(shown.all(|line| line.len() <= 98), "{name}: wrapped");
            let examples = examples(&help);
            let mut shown = examples.iter().flatten();
            assert!(shown.any(|word| word == name), "{name}: {help}");
            for words in examples {
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{name}: {words:?}: {parsed:?}");
            }
        }
    }

    #[test]
    fn template_is_read_as_among_the_other_verbs() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "helm-operator template demo chart",
            "helm-operator template demo chart -n apps --set a=b,c=d -f x.yaml -f y.yaml --debug",
            "helm-operator template -f hr.yaml --chart-dir . --api-versions=a,b -g",
        ] {
            let alone = template_alone(&words(line)).unwrap();
            let Verb::Template(among) = Cli::try_parse_from(words(line)).unwrap().verb else {
                panic!("{line}");
            };
            assert_eq!(format!("{alone:?}"), format!("{among:?}"), "{line}");
        }
        for line in [
            "helm-operator lint chart",
            "helm-operator template --help",
            "helm-operator template --strange",
            "helm-operator",
        ] {
            assert!(template_alone(&words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn flags_without_a_verb_run_the_daemon() {
        let with = |line: &str| {
            let line = line.split(' ').map(OsString::from).collect();
            let all: Vec<String> = with_verb(line)
                .into_iter()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect();
            all.join(" ")
        };
        assert_eq!(
            with("helm-operator --workers=2 -l :1"),
            "helm-operator run --workers=2 -l :1"
        );
        assert_eq!(with("helm-operator -l :1"), "helm-operator run -l :1");
        for (line, expected) in [
            ("-n apps diff web", "diff web -n apps"),
            ("-napps get values web", "get values web -napps"),
            (
                "--namespace=a --kubeconfig k template web . -- x",
                "template web . --namespace=a --kubeconfig k -- x",
            ),
            (
                "--kube-context diff hist web",
                "hist web --kube-context diff",
            ),
            // No verb: the daemon, which also has a --kubeconfig.
            ("--kubeconfig diff", "run --kubeconfig diff"),
            (
                "--kubeconfig k --workers 2",
                "run --kubeconfig k --workers 2",
            ),
            ("-n", "run -n"),
        ] {
            let line = format!("helm-operator {line}");
            assert_eq!(with(&line), format!("helm-operator {expected}"));
        }
        for line in [
            "helm-operator",
            "helm-operator --version",
            "helm-operator --help",
            "helm-operator template x --debug",
        ] {
            assert_eq!(with(line), line);
        }
    }
}
