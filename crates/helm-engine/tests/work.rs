//! How much work a render is, counted in steps of the budget: the same on every machine.

#![cfg(test)]

use std::fmt::Write;

use helm_engine::{Chart, Limits, RenderOptions, load_files, render, values};

/// A chart with so many subcharts of a few templates each.
fn umbrella(size: usize) -> Chart {
    let mut chart_file =
        "apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n".to_owned();
    let mut files = Vec::new();
    for number in 0..size {
        let name = format!("part{number}");
        writeln!(chart_file, "- {{name: {name}, version: 1.0.0}}").unwrap();
        for (file, text) in PART {
            let path = format!("charts/{name}/{file}");
            files.push((path, text.replace("NAME", &name)));
        }
    }
    files.push(("Chart.yaml".to_owned(), chart_file));
    load_files(files, &Limits::default()).unwrap().chart
}

const PART: [(&str, &str); 4] = [
    ("Chart.yaml", "{apiVersion: v2, name: NAME, version: 1.0.0}"),
    (
        "values.yaml",
        "env: [a, b, c]\ngreeting: 'hello {{ .Release.Name }}'\n",
    ),
    (
        "templates/_helpers.tpl",
        "{{ define \"NAME.labels\" }}app: {{ .Chart.Name }}\n{{ with .Values.labels }}{{ toYaml . }}{{ end }}{{ end }}",
    ),
    (
        "templates/map.yaml",
        "kind: ConfigMap\nmetadata:\n  labels: {{- include \"NAME.labels\" . | nindent 4 }}\ndata:\n{{ range $i, $e := .Values.env }}  \
         {{ $e }}: {{ $i | quote }}\n{{ end }}  greeting: {{ tpl .Values.greeting . }}\n",
    ),
];

/// The fewest steps with which the chart renders.
fn steps(chart: &Chart) -> u64 {
    let user = values::read_values(b"").unwrap();
    let renders = |steps: u64| {
        let mut options = RenderOptions::default();
        options.limits.steps = steps;
        render(chart, &user, &options).is_ok()
    };
    let (mut too_few, mut enough) = (0, 1_000_000);
    assert!(renders(enough));
    while enough - too_few > 1 {
        let middle = u64::midpoint(too_few, enough);
        match renders(middle) {
            true => enough = middle,
            false => too_few = middle,
        }
    }
    enough
}

#[test]
fn work_of_an_umbrella_chart_grows_with_its_subcharts_and_no_faster() {
    let one = steps(&umbrella(1));
    // A look at each action and command of the templates, and at each element of the lists.
    assert!((20..=120).contains(&one), "{one}");
    for size in [5, 40] {
        assert_eq!(steps(&umbrella(size)), one * size as u64);
    }
}
