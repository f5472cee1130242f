//! `helm-operator sources`: the git mirrors of a running daemon.

use anyhow::Result;
use clap::Args;

use super::charts::block_on;
use super::daemon::DaemonFlags;
use super::output::print;
use super::release::{Format, encode};
use super::table::table;
use crate::server::{RefReport, SourceReport};

/// List the git mirrors of the daemon: remote, state, refs, commits, age and size.
///
/// With `--output json` or `yaml` it is a list of objects with `url`, `state` (`Ready`, `Cloning`, or
/// why it failed), `message`, `refs` (`name`, `commit`, `error`), `releases`, `ageSeconds`,
/// `diskBytes`, `requests` and `receivedBytes`. No credentials are in it.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::SOURCES, disable_version_flag = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    daemon: DaemonFlags,

    /// prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// Prints a line for each ref of each mirror.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let reports = block_on(arguments.daemon.sources())?;
    print(&match arguments.output {
        Format::Table => rows(&reports),
        format => encode(&reports, format)?,
    })
}

fn rows(reports: &[SourceReport]) -> String {
    let head = ["URL", "STATE", "REF", "COMMIT", "AGE", "SIZE", "RELEASES"];
    let mut lines = vec![head.map(str::to_owned)];
    for report in reports {
        let none = [RefReport {
            name: "-".into(),
            commit: None,
            error: None,
        }];
        let refs = if report.refs.is_empty() {
            &none[..]
        } else {
            &report.refs
        };
        lines.extend(refs.iter().map(|known| row(report, known)));
    }
    let mut text = table(&lines);
    for report in reports {
        for message in messages(report) {
            text.push_str(&message);
        }
    }
    text
}

fn row(report: &SourceReport, known: &RefReport) -> [String; 7] {
    let short = |commit: &String| commit.chars().take(12).collect();
    let state = if known.error.is_some() {
        "RefFailed"
    } else {
        report.state.as_str()
    };
    [
        report.url.clone(),
        state.to_owned(),
        known.name.clone(),
        known.commit.as_ref().map_or_else(|| "-".to_owned(), short),
        report.age_seconds.map_or_else(|| "-".to_owned(), age),
        size(report.disk_bytes),
        report.releases.to_string(),
    ]
}

/// What is wrong, below the table: too long for a column, and what people look for.
fn messages(report: &SourceReport) -> impl Iterator<Item = String> + '_ {
    let of_mirror = report
        .message
        .iter()
        .map(|text| format!("{}: {text}\n", report.url));
    let of_refs = report.refs.iter().filter_map(|known| {
        Some(format!(
            "{} {}: {}\n",
            report.url,
            known.name,
            known.error.as_ref()?
        ))
    });
    of_mirror.chain(of_refs)
}

/// Seconds as `kubectl get` writes an age.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 10_240 && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value} {}", UNITS.get(unit).unwrap_or(&"B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(state: &str, refs: Vec<RefReport>) -> SourceReport {
        SourceReport {
            url: "https://h/x".into(),
            state: state.into(),
            message: (state != "Ready").then(|| "it refuses".to_owned()),
            refs,
            releases: 2,
            age_seconds: Some(75),
            disk_bytes: 20 << 20,
            requests: 1,
            received_bytes: 1,
        }
    }

    #[test]
    fn each_ref_has_a_line_and_each_failure_a_reason_below() {
        let known = |name: &str, error: Option<&str>| RefReport {
            name: name.into(),
            commit: error.is_none().then(|| "0123456789abcdef0123".to_owned()),
            error: error.map(str::to_owned),
        };
        let text = rows(&[
            report(
                "Ready",
                vec![known("main", None), known("v9", Some("no such tag"))],
            ),
            report("AuthFailed", Vec::new()),
        ]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split('\t').map(str::trim).collect())
            .collect();
        assert_eq!(
            lines[0],
            ["URL", "STATE", "REF", "COMMIT", "AGE", "SIZE", "RELEASES"]
        );
        assert_eq!(
            lines[1],
            [
                "https://h/x",
                "Ready",
                "main",
                "0123456789ab",
                "75s",
                "20 MiB",
                "2"
            ]
        );
        assert_eq!(lines[2][1..4], ["RefFailed", "v9", "-"]);
        assert_eq!(lines[3][1..4], ["AuthFailed", "-", "-"]);
        assert!(text.contains("https://h/x v9: no such tag\n"), "{text}");
        assert!(text.contains("https://h/x: it refuses\n"), "{text}");
    }

    #[test]
    fn ages_and_sizes_are_short() {
        assert_eq!(
            [5, 119, 120, 7200, 200_000].map(age),
            ["5s", "119s", "2m", "2h", "2d"]
        );
        assert_eq!(
            [5, 10_240, 5 << 30].map(size),
            ["5 B", "10 KiB", "5120 MiB"]
        );
    }
}
