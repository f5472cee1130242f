//! `helm-operator test`: runs the tests of a release, as `helm test`.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use helm_kube::{HookFilter, HookRun, Options, Test, test};

use super::output::print;
use super::release::{ClusterFlags, TimeoutFlag, with_cluster};

/// Run the tests of a release.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::TEST)]
pub(crate) struct Arguments {
    /// Name of the release
    #[arg(value_name = "RELEASE_NAME")]
    release: String,

    /// specify tests by attribute (currently "name") using attribute=value syntax or '!attribute=value' to exclude a test
    #[arg(long, value_delimiter = ',')]
    filter: Vec<String>,

    /// dump the logs from test pods, of tests that have failed or that ask for it
    #[arg(long)]
    logs: bool,

    #[command(flatten)]
    timeout: TimeoutFlag,

    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Runs the tests and prints how they went.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    with_cluster(
        &arguments.cluster,
        &arguments.release,
        |session| async move {
            let action = Test {
                release: session.release.clone(),
                history: session.history().await?,
                filter: filter(&arguments.filter)?,
                options: Options {
                    timeout: arguments.timeout.timeout,
                    ..session.options.clone()
                },
            };
            let (result, runs) = match session.cluster.run(test(action)).await {
                Ok(outcome) => (Ok(()), outcome.report.hooks),
                Err(error) => (Err(error.clone()), error.hooks),
            };
            let driver = session.options.driver;
            let read = helm_kube::get(session.release.clone(), driver, None);
            let release = session.cluster.run(read).await?.release;
            let mut text = super::status::head(&release) + &super::status::tests(&release);
            if arguments.logs {
                text.push_str(&logs(&runs));
            }
            print(&text)?;
            Ok(result?)
        },
    )
}

fn filter(words: &[String]) -> Result<HookFilter> {
    let mut filter = HookFilter::default();
    for word in words {
        if let Some(name) = word.strip_prefix("!name=") {
            filter.exclude.push(name.to_owned());
        } else if let Some(name) = word.strip_prefix("name=") {
            filter.include.push(name.to_owned());
        } else {
            anyhow::bail!("{word:?} is no filter: name=NAME and !name=NAME are possible");
        }
    }
    Ok(filter)
}

fn logs(runs: &[HookRun]) -> String {
    let mut text = String::new();
    for log in runs.iter().flat_map(|run| &run.logs) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "POD LOGS: {} ({})\n{}",
            log.pod, log.container, log.text
        );
    }
    text
}
