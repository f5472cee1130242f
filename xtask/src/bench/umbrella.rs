//! Umbrella charts: how time grows with the number of subcharts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::ScratchDir;

use super::samples::Row;
use super::{Arguments, Programs, render};

/// How many subcharts there are.
const SIZES: [usize; 4] = [15, 30, 60, 120];
/// Most runs of each: the stock helm is slow for the largest.
const RUNS: usize = 5;

pub(super) fn run(programs: &Programs, arguments: &Arguments) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut points = Vec::new();
    for size in SIZES {
        let case = format!("umbrella of {size} subcharts");
        if !arguments.wants(&case) {
            continue;
        }
        let folder = ScratchDir::new("umbrella")?;
        write_chart(folder.path(), size).context("writing an umbrella chart")?;
        let row = render::compare(programs, case, folder.path(), arguments.runs.min(RUNS))?;
        let stock = row
            .stock
            .as_ref()
            .map_or(Duration::ZERO, |stock| stock.median());
        points.push((size as f64, [stock, row.ours.median()]));
        rows.push(row);
    }
    if points.len() == SIZES.len() {
        let [stock, ours] = [0, 1].map(|side| {
            let times = points
                .iter()
                .filter_map(|(size, times)| Some((*size, times.get(side)?.as_secs_f64())));
            exponent(&times.collect::<Vec<_>>())
        });
        println!(
            "umbrella: time grows with the number of subcharts to the power of {ours:.2}, that of \
             the stock helm of {stock:.2}; wanted: at most 1.1"
        );
    }
    Ok(rows)
}

/// The slope of the logarithms: 1 is linear, 2 quadratic growth.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let logs = || {
        points
            .iter()
            .map(|(size, time)| (size.ln(), time.max(1e-9).ln()))
    };
    let mean = |value: fn((f64, f64)) -> f64| logs().map(value).sum::<f64>() / count;
    let (size, time) = (mean(|log| log.0), mean(|log| log.1));
    let together: f64 = logs().map(|log| (log.0 - size) * (log.1 - time)).sum();
    let alone: f64 = logs().map(|log| (log.0 - size).powi(2)).sum();
    together / alone
}

/// A chart with subcharts as people write them: helpers, `include`, `toYaml`, `tpl`, a loop, globals, a condition.
fn write_chart(folder: &Path, size: usize) -> Result<()> {
    let mut dependencies =
        "apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n".to_owned();
    let mut values =
        "global:\n  registry: registry.example.com\n  labels:\n    team: platform\n".to_owned();
    for number in 0..size {
        let name = format!("part{number:03}");
        write!(
            dependencies,
            "- name: {name}\n  version: 1.0.0\n  condition: {name}.enabled\n"
        )?;
        write!(values, "{name}:\n  enabled: true\n  replicas: {number}\n")?;
        let folder = folder.join("charts").join(&name);
        fs::create_dir_all(folder.join("templates"))?;
        fs::write(
            folder.join("Chart.yaml"),
            format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\nappVersion: \"2\"\n"),
        )?;
        fs::write(folder.join("values.yaml"), VALUES)?;
        for (file, text) in TEMPLATES {
            fs::write(
                folder.join("templates").join(file),
                text.replace("NAME", &name),
            )?;
        }
    }
    fs::write(folder.join("Chart.yaml"), dependencies)?;
    fs::write(folder.join("values.yaml"), values)?;
    Ok(())
}

const VALUES: &str = "\
replicas: 1
image: {repository: app, tag: \"\"}
labels: {tier: backend}
greeting: 'hello from {{ .Release.Name }}'
env: [{name: A, value: \"1\"}, {name: B, value: \"2\"}, {name: C, value: \"3\"}]
resources:
  limits: {cpu: 100m, memory: 128Mi}
  requests: {cpu: 10m, memory: 64Mi}
service: {type: ClusterIP, ports: [{name: http, port: 80}, {name: metrics, port: 9090}]}
";

const TEMPLATES: [(&str, &str); 4] = [
    (
        "_helpers.tpl",
        r#"{{- define "NAME.fullname" -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- define "NAME.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with merge (dict) .Values.labels (.Values.global.labels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}
"#,
    ),
    (
        "deployment.yaml",
        r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "NAME.fullname" . }}
  labels: {{- include "NAME.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  selector:
    matchLabels: {app: {{ include "NAME.fullname" . }}}
  template:
    metadata:
      annotations:
        checksum/config: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
      labels: {{- include "NAME.labels" . | nindent 8 }}
    spec:
      containers:
      - name: main
        image: {{ .Values.global.registry }}/{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
        env: {{- toYaml .Values.env | nindent 8 }}
        resources: {{- toYaml .Values.resources | nindent 10 }}
"#,
    ),
    (
        "service.yaml",
        r#"apiVersion: v1
kind: Service
metadata:
  name: {{ include "NAME.fullname" . }}
  labels: {{- include "NAME.labels" . | nindent 4 }}
spec:
  type: {{ .Values.service.type }}
  ports:
  {{- range .Values.service.ports }}
  - {name: {{ .name }}, port: {{ .port }}}
  {{- end }}
"#,
    ),
    (
        "configmap.yaml",
        r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "NAME.fullname" . }}
data:
  greeting: {{ tpl .Values.greeting . | quote }}
  {{- range $index, $item := .Values.env }}
  {{ $item.name }}_{{ $index }}: {{ $item.value | quote }}
  {{- end }}
"#,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponent_tells_linear_from_quadratic() {
        let line = [(10.0, 1.0), (20.0, 2.0), (40.0, 4.0)];
        assert!((exponent(&line) - 1.0).abs() < 1e-9);
        let square = [(10.0, 1.0), (20.0, 4.0), (40.0, 16.0)];
        assert!((exponent(&square) - 2.0).abs() < 1e-9);
    }
}
