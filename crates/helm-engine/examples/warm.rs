//! Times the engine as a library: the chart is loaded once, each run changes one value and renders.
//!
//! usage: warm CHART VALUES|- RUNS
//!
//! Prints nanoseconds of the median run, and the bytes that one run renders: the counterpart of
//! `benches/go-engine`.

use std::path::Path;
use std::time::Instant;

use goyaml::Tree;
use helm_engine::{Limits, RenderOptions, load, render, values};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [chart, values_path, runs] = arguments.as_slice() else {
        return Err("usage: warm CHART VALUES|- RUNS".into());
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
    let mut size = 0;
    for run in 0..runs.parse::<u32>()? {
        if let Some(entries) = user.as_map_mut() {
            entries.insert("benchRun".into(), Tree::Float64(run.into()));
        }
        let start = Instant::now();
        let rendered = render(&chart, &user, &options)?;
        times.push(start.elapsed());
        size = rendered.manifest.len();
    }
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    use std::io::Write;
    writeln!(std::io::stdout(), "{} {size}", median.as_nanos())?;
    Ok(())
}
