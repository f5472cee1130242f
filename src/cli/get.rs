//! `helm-operator get`: what is recorded of a release, as `helm get`.

use std::fmt::Write;

use anyhow::Result;
use clap::{Args, ValueEnum};
use goyaml::Tree;
use helm_engine::{Release, coalesce_tables};

use super::output::print;
use super::release::{ClusterFlags, Format, encode_tree, with_cluster};

/// Print what is recorded of a release.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::GET)]
pub(crate) struct Arguments {
    /// What to print
    #[arg(value_enum)]
    what: What,

    /// Name of the release
    #[arg(value_name = "RELEASE_NAME")]
    release: String,

    /// get the named release with revision
    #[arg(long)]
    revision: Option<i64>,

    /// of values: dump all (computed) values
    #[arg(short, long)]
    all: bool,

    /// of values: prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,

    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// The values that the user gave
    Values,
    /// The manifest
    Manifest,
    /// The hooks
    Hooks,
    /// The notes
    Notes,
    /// All of these
    All,
}

/// Prints a part of a record.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    with_cluster(
        &arguments.cluster,
        &arguments.release,
        |session| async move {
            let driver = session.options.driver;
            let read = helm_kube::get(session.release.clone(), driver, arguments.revision);
            let release = session.cluster.run(read).await?.release;
            print(&match arguments.what {
                What::Values => values(&release, arguments)?,
                What::Manifest => format!("{}\n", release.manifest),
                What::Hooks => hooks(&release),
                What::Notes => notes(&release),
                What::All => all(&release)?,
            })
        },
    )
}

fn user_values(release: &Release) -> Tree {
    release.config.clone().unwrap_or(Tree::Null)
}

fn computed_values(release: &Release) -> Tree {
    let defaults = release.chart.values.clone().unwrap_or(Tree::Null);
    coalesce_tables(&user_values(release), &defaults)
}

fn values(release: &Release, arguments: &Arguments) -> Result<String> {
    let (head, tree) = if arguments.all {
        ("COMPUTED VALUES:\n", computed_values(release))
    } else {
        ("USER-SUPPLIED VALUES:\n", user_values(release))
    };
    match arguments.output {
        Format::Table => Ok(head.to_owned() + &encode_tree(&tree, Format::Yaml)?),
        format => encode_tree(&tree, format),
    }
}

fn hooks(release: &Release) -> String {
    let mut text = String::new();
    for hook in &release.hooks {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "---\n# Source: {}\n{}", hook.path, hook.manifest);
    }
    text
}

fn notes(release: &Release) -> String {
    if release.info.notes.is_empty() {
        return String::new();
    }
    format!("NOTES:\n{}\n", release.info.notes)
}

fn all(release: &Release) -> Result<String> {
    let mut text = super::status::head_with_chart(release) + &super::status::tests(release);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "USER-SUPPLIED VALUES:\n{}\nCOMPUTED VALUES:\n{}\nHOOKS:\n{}MANIFEST:\n{}\n",
        encode_tree(&user_values(release), Format::Yaml)?,
        encode_tree(&computed_values(release), Format::Yaml)?,
        hooks(release),
        release.manifest
    );
    if !release.info.notes.is_empty() {
        let _ = writeln!(text, "NOTES:\n{}", release.info.notes.trim());
    }
    Ok(text)
}
