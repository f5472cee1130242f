//! Hostile documents: bounded depth, time and memory.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use gotmpl::{Map, Value};
use goyaml::{MAX_DEPTH, Tree};

/// Runs on a stack as small as any thread's.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(2 << 20).spawn(test);
    thread.unwrap().join().unwrap();
}

/// The most memory that this process ever held, in bytes; nothing where the system does not tell.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn error_of(text: &str) -> String {
    goyaml::read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn depth_up_to_the_limit_fits_a_small_stack() {
    on_a_small_stack(|| {
        let open = "{a: [".repeat(MAX_DEPTH / 2);
        let close = "]}".repeat(MAX_DEPTH / 2);
        let text = format!("{open}{close}");
        let tree = goyaml::read(text.as_bytes()).unwrap();
        let value = tree.to_value();
        assert_eq!(tree, tree.clone());
        let json = goyaml::to_json(&value).unwrap();
        assert_eq!(goyaml::read_json(&json).unwrap(), tree);
        let yaml = goyaml::to_yaml(&value).unwrap();
        assert_eq!(goyaml::read(&yaml).unwrap(), tree);
        assert!(!goyaml::to_yaml_pretty(&value).unwrap().is_empty());
        assert_eq!(Tree::from_value(&value).unwrap(), tree);
        assert!(goyaml::read_node_strict(text.as_bytes()).is_ok());
        assert!(!format!("{tree:?}").is_empty());
    });
}

#[test]
fn depth_beyond_the_limit_is_an_error() {
    on_a_small_stack(|| {
        for (open, close, character) in [("[", "]", '['), ("{a: ", "}", '{')] {
            let text = format!(
                "{}{}",
                open.repeat(MAX_DEPTH + 1),
                close.repeat(MAX_DEPTH + 1)
            );
            assert_eq!(
                error_of(&text),
                format!(
                    "error unmarshaling JSON: while decoding JSON: \
                     invalid character '{character}' exceeded max depth"
                )
            );
        }
        let json = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(
            goyaml::read_json(json.as_bytes()).unwrap_err().to_string(),
            "invalid character '[' exceeded max depth"
        );
    });
}

#[test]
fn nesting_without_end_stops_where_go_yaml_stops() {
    on_a_small_stack(|| {
        for text in ["[", "{a: ", "- ", "? ", "[a: "] {
            let start = Instant::now();
            let error = error_of(&text.repeat(100_000));
            assert_eq!(
                error,
                "error converting YAML to JSON: yaml: exceeded max depth of 10000"
            );
            assert!(start.elapsed() < Duration::from_secs(5));
        }
    });
}

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let last = format!("*a{}", level - 1);
        let items = vec![last; 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
    }
    assert_eq!(
        error_of(&text),
        "error converting YAML to JSON: yaml: document contains excessive aliasing"
    );
    assert!(peak_memory() < 512 << 20);
}

#[test]
fn a_long_string_is_shared_by_its_aliases() {
    let long = "x".repeat(1 << 20);
    let mut text = format!("a: &a [{long}]\n");
    for number in 0..5_000 {
        writeln!(text, "k{number}: *a").unwrap();
    }
    let tree = goyaml::read(text.as_bytes()).unwrap();
    assert_eq!(tree.path(&["k4999"]), tree.get("a"));
    assert!(peak_memory() < 512 << 20, "{}", peak_memory());
}

#[test]
fn aliases_to_themselves_are_refused() {
    for text in ["&a [*a]", "&a {b: *a}", "&a {b: [{c: *a}]}", "&a {<<: *a}"] {
        assert_eq!(
            error_of(text),
            "error converting YAML to JSON: yaml: anchor 'a' value contains itself"
        );
    }
}

#[test]
fn giant_keys_and_scalars_take_linear_time() {
    let start = Instant::now();
    let giant = "k".repeat(8 << 20);
    assert!(goyaml::read(format!("? {giant}\n: v").as_bytes()).is_ok());
    assert!(goyaml::read(format!("{giant}: v").as_bytes()).is_err());
    assert!(goyaml::read(format!("a: '{giant}'").as_bytes()).is_ok());
    assert!(goyaml::read(format!("a: |\n  {giant}").as_bytes()).is_ok());
    assert!(goyaml::read(" ".repeat(8 << 20).as_bytes()).is_ok());
    assert!(goyaml::read("\n".repeat(8 << 20).as_bytes()).is_ok());
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_value_that_contains_itself_is_refused() {
    let map = Map::new();
    map.insert("self".into(), Value::Map(map.clone()));
    let value = Value::Map(map.clone());
    let cycle = "json: unsupported value: encountered a cycle via map[string]interface {}";
    assert_eq!(goyaml::to_json(&value).unwrap_err().to_string(), cycle);
    assert_eq!(
        goyaml::to_yaml(&value).unwrap_err().to_string(),
        format!("error marshaling into JSON: {cycle}")
    );
    assert!(goyaml::to_yaml_pretty(&value).is_err());
    map.remove(b"self");
}
