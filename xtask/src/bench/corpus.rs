//! `template` as a process over the whole corpus beside the clone: time in total, the slowest case against the stock
//! helm, and peak memory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::{Process, same_but_random};
use super::samples::{Row, Samples};
use super::{Arguments, Programs};
use crate::cargo::root;

const CASE: &str = "template corpus";
const CORPUS: &str = "../shared/corpus";
/// How often each case is run by each program; the stock helm takes a minute for all of them once.
const STOCK_RUNS: usize = 2;
const OUR_RUNS: usize = 3;
/// Of one case in so many the memory is looked at.
const MEMORY_STEP: usize = 4;

/// One case and what was measured of it.
struct Case {
    name: String,
    stock: Samples,
    ours: Samples,
    /// Peak memory in KiB.
    memory: Option<[u64; 2]>,
}

impl Case {
    fn ratio(&self) -> f64 {
        seconds(self.stock.median()) / seconds(self.ours.median()).max(1e-9)
    }

    fn memory_ratio(&self) -> Option<f64> {
        let [stock, ours] = self.memory?;
        Some(stock as f64 / ours.max(1) as f64)
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

pub(super) fn run(programs: &Programs, arguments: &Arguments) -> Result<Vec<Row>> {
    let corpus = root().join(CORPUS);
    if !arguments.wants(CASE) {
        return Ok(Vec::new());
    }
    if !corpus.exists() {
        println!("skipped: {CASE}: {} is not there", corpus.display());
        return Ok(Vec::new());
    }
    let list = fs::read_to_string(corpus.join("cases.tsv")).context("reading the cases")?;
    println!(
        "{CASE}: {} cases, about three minutes …",
        list.lines().count()
    );
    let stock = programs.tools.path("helm")?;
    let (mut cases, mut different) = (Vec::new(), Vec::new());
    for (number, line) in list.lines().enumerate() {
        let pair = Pair::new(&corpus, line, &stock, &programs.ours)?;
        if !pair.is_equal()? {
            // Its speed says nothing.
            different.push(pair.name);
            continue;
        }
        cases.push(pair.measure(number % MEMORY_STEP == 0)?);
    }
    tell(&cases, &different);
    Ok(vec![total(&cases)])
}

/// One case for both programs.
struct Pair {
    name: String,
    stock: Process,
    ours: Process,
}

impl Pair {
    fn new(corpus: &Path, line: &str, stock: &Path, ours: &Path) -> Result<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, chart, values, ..] = fields.as_slice() else {
            anyhow::bail!("no case: {line}");
        };
        let mut words = vec![
            "template",
            "demo",
            *chart,
            "--namespace",
            "apps",
            "--include-crds",
        ];
        if !values.is_empty() {
            words.extend(["--values", *values]);
        }
        Ok(Self {
            name: (*name).to_owned(),
            stock: Process::new(stock, corpus, &words),
            ours: Process::new(ours, corpus, &words),
        })
    }

    fn is_equal(&self) -> Result<bool> {
        let (ours, expected) = (self.ours.output()?, self.stock.output()?);
        if ours == expected {
            return Ok(true);
        }
        let again = self.stock.output()?;
        Ok(ours.success == expected.success
            && same_but_random(&expected.text, &again.text, &ours.text))
    }

    fn measure(self, with_memory: bool) -> Result<Case> {
        let (mut stock, mut ours) = (Samples::default(), Samples::default());
        for run in 0..OUR_RUNS.max(STOCK_RUNS) {
            if run < STOCK_RUNS {
                stock.push(self.stock.time()?);
            }
            if run < OUR_RUNS {
                ours.push(self.ours.time()?);
            }
        }
        let memory = match with_memory {
            true => Some([self.stock.peak_kib()?, self.ours.peak_kib()?]),
            false => None,
        };
        Ok(Case {
            name: self.name,
            stock,
            ours,
            memory,
        })
    }
}

/// What the table has no column for.
fn tell(cases: &[Case], different: &[String]) {
    for name in different {
        println!("{CASE}: left out, as the output differs from the stock helm's: {name}");
    }
    let mut slowest: Vec<&Case> = cases.iter().collect();
    slowest.sort_by(|left, right| left.ratio().total_cmp(&right.ratio()));
    for case in slowest.iter().take(8) {
        println!(
            "{CASE}: least ahead: {:.1}x, {:.1} ms against {:.1} ms, {}",
            case.ratio(),
            1000.0 * seconds(case.ours.median()),
            1000.0 * seconds(case.stock.median()),
            case.name
        );
    }
    let slower = cases.iter().filter(|case| case.ratio() < 1.0).count();
    println!(
        "{CASE}: {slower} of {} cases slower than the stock helm's",
        cases.len()
    );
    let mut memory: Vec<(f64, &str)> = cases
        .iter()
        .filter_map(|case| Some((case.memory_ratio()?, case.name.as_str())))
        .collect();
    memory.sort_by(|left, right| left.0.total_cmp(&right.0));
    if let (Some((least, name)), Some((median, _))) = (memory.first(), memory.get(memory.len() / 2))
    {
        println!(
            "{CASE}: peak memory: the stock helm takes {median:.1} times ours in the median, and \
             {least:.1} times at least ({name}); wanted: 4"
        );
    }
}

/// The sum of the medians of all cases, as one row.
fn total(cases: &[Case]) -> Row {
    let sum = |median: fn(&Case) -> Duration| cases.iter().map(median).sum::<Duration>();
    Row {
        case: format!("{CASE}, {} cases in total", cases.len()),
        stock: Some(sum(|case| case.stock.median()).into()),
        ours: sum(|case| case.ours.median()).into(),
    }
}
