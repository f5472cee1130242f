//! Times the engine as a library: the chart is loaded once, each run changes one value and renders.
//!
//! usage: warm CHART VALUES|- RUNS [FILE]
//!
//! Prints nanoseconds of the median run, and the bytes that one run renders: the counterpart of `benches/go-engine`. A
//! run is from values to what each template prints, on both sides; that this is split and sorted into manifests
//! afterwards is no part of it. With FILE, the texts have to be those that the other side wrote there.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use goyaml::Tree;
use helm_engine::{Limits, RenderOptions, load, render_templates, values};

/// What templates printed, by their paths.
type Printed = BTreeMap<String, String>;

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
    let mut last = BTreeMap::new();
    for run in 0..runs.parse::<u32>()? {
        if let Some(entries) = user.as_map_mut() {
            entries.insert("benchRun".into(), Tree::Float64(run.into()));
        }
        let start = Instant::now();
        let rendered = render_templates(&chart, &user, &options)?;
        times.push(start.elapsed());
        last = rendered;
    }
    if let [file] = printed {
        compare(&serde_json::from_slice(&std::fs::read(file)?)?, &last)?;
    }
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let size: usize = last.values().map(String::len).sum();
    writeln!(std::io::stdout(), "{} {size}", median.as_nanos())?;
    Ok(())
}

/// Every template has to print the same on both sides, to the byte.
fn compare(theirs: &Printed, ours: &Printed) -> Result<(), Box<dyn Error>> {
    if let Some((path, _)) = theirs
        .iter()
        .find(|(path, text)| ours.get(*path) != Some(text))
    {
        return Err(format!("{path} is rendered differently").into());
    }
    match ours.keys().find(|path| !theirs.contains_key(*path)) {
        Some(path) => Err(format!("{path} is rendered here only").into()),
        None => Ok(()),
    }
}
