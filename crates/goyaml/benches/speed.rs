//! How fast it is: `cargo bench --package goyaml`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it fails by the one and tells by the other"
)]

use std::fmt::Write;
use std::time::Instant;

/// A values file of many services.
fn values() -> String {
    let mut text = String::new();
    for number in 0..20_000 {
        write!(
            text,
            "## Service number {number}, with a comment as values files have them\n\
             service{number}:\n  enabled: true\n  image:\n    registry: registry.example.com\n    \
             repository: team/service-{number}\n    tag: \"1.{number}\"\n  replicas: {number}\n  \
             resources:\n    limits: {{cpu: 500m, memory: 256Mi}}\n  args:\n    - --port=8080\n    \
             - '--name=it''s'\n  script: |\n    #!/bin/sh\n    exec service --number {number}\n"
        )
        .unwrap();
    }
    text
}

fn measure<T>(name: &str, bytes: usize, mut work: impl FnMut() -> T) -> T {
    let mut best = f64::INFINITY;
    let mut result = work();
    for _ in 0..5 {
        let start = Instant::now();
        result = work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:>12}: {:7.1} MB/s", bytes as f64 / best / 1e6);
    result
}

fn main() {
    let text = values();
    let tree = measure("read", text.len(), || {
        goyaml::read(text.as_bytes()).unwrap()
    });
    let value = measure("read value", text.len(), || {
        goyaml::read_map_value(text.as_bytes()).unwrap()
    });
    let value = gotmpl::Value::Map(value);
    measure("read head", text.len(), || {
        goyaml::read_head(text.as_bytes()).unwrap()
    });
    let yaml = goyaml::to_yaml_tree(&tree).unwrap();
    measure("to yaml", yaml.len(), || goyaml::to_yaml(&value).unwrap());
    measure("to pretty", yaml.len(), || {
        goyaml::to_yaml_pretty(&value).unwrap()
    });
    let json = goyaml::to_json(&value).unwrap();
    measure("to json", json.len(), || goyaml::to_json(&value).unwrap());
    measure("read json", json.len(), || {
        goyaml::read_json(&json).unwrap()
    });
}
