//! Times the engine as a library: the chart is loaded once, each run changes one value and renders.
//!
//! usage: warm CHART VALUES|- RUNS [FILE]
//!
//! Prints nanoseconds of the median run, and the bytes that one run renders: the counterpart of
//! `benches/go-engine`. With FILE, the documents have to be those of the templates that it wrote
//! there.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use goyaml::Tree;
use helm_engine::{Limits, RenderOptions, Rendered, load, render, split_manifests, values};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [chart, values_path, runs, printed @ ..] = arguments.as_slice() else {
        return Err("usage: warm CHART VALUES|- RUNS [FILE]".into());
    };
    let chart = load(Path::new(chart), &Limits::default())?.chart;
    let mut user = match values_path.as_str() {
        "-" => values::read_values(b"")?,
        path => values::read_values(&std::fs::read(path)?)?,
    };
    let options = RenderOptions {
        release_name: "demo".to_owned(),
        namespace: "apps".to_owned(),
        ..RenderOptions::default()
    };
    let mut times = Vec::new();
    let mut last = Rendered::default();
    for run in 0..runs.parse::<u32>()? {
        if let Some(entries) = user.as_map_mut() {
            entries.insert("benchRun".into(), Tree::Float64(run.into()));
        }
        let start = Instant::now();
        let rendered = render(&chart, &user, &options)?;
        times.push(start.elapsed());
        last = rendered;
    }
    if let [file] = printed {
        compare(&serde_json::from_slice(&std::fs::read(file)?)?, &last)?;
    }
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let size = last.manifest.len();
    writeln!(std::io::stdout(), "{} {size}", median.as_nanos())?;
    Ok(())
}

/// The documents of both sides by their templates, in any order: ours are sorted by their kinds.
fn compare(printed: &BTreeMap<String, String>, ours: &Rendered) -> Result<(), Box<dyn Error>> {
    let mut documents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let manifests = ours.manifests.iter().map(|it| (&it.path, &it.content));
    let hooks = ours.hooks.iter().map(|it| (&it.path, &it.manifest));
    for (path, document) in manifests.chain(hooks) {
        documents
            .entry(path.as_str())
            .or_default()
            .push(document.trim());
    }
    for (path, text) in printed {
        if path.ends_with("NOTES.txt") {
            continue;
        }
        let mut theirs: Vec<&str> = split_manifests(text).map(str::trim).collect();
        let mut ours = documents.remove(path.as_str()).unwrap_or_default();
        theirs.sort_unstable();
        ours.sort_unstable();
        if theirs != ours {
            return Err(format!("{path} is rendered differently").into());
        }
    }
    match documents.into_keys().next() {
        Some(path) => Err(format!("{path} is rendered here only").into()),
        None => Ok(()),
    }
}
