//! `include`, `required`, `fail` and `lookup` with what the engine gives them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::{Arc, Mutex};

use common::{fixed, run_with};
use gotmpl::{Budget, Map, Value};
use serde_json::json;
use sprig::helm::{INCLUDE_LIMIT, Lookup, RenderHost};

fn run(text: &str, host: &mut RenderHost) -> Result<String, String> {
    let functions = sprig::functions(&fixed());
    let printed = run_with(text, &functions, &Map::new(), host, &mut Budget::default())?;
    Ok(common::lossy(&printed))
}

/// A cluster that knows one secret, and writes down what it is asked.
#[derive(Default)]
struct Cluster(Mutex<Vec<String>>);

impl Lookup for Cluster {
    fn lookup(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<serde_json::Value>, String> {
        let asked = format!("{api_version} {kind} {namespace} {name}");
        self.0.lock().unwrap().push(asked);
        match (kind, name) {
            ("Secret", "known") => Ok(Some(json!({
                "kind": "Secret",
                "data": {"a": "b"},
                "count": 3,
                "ratio": 1.5,
                "none": null,
                "list": [true, 9_007_199_254_740_993_u64],
            }))),
            ("Secret", "") => Ok(Some(
                json!({"kind": "SecretList", "items": [{"a": 1}, {"a": 2}]}),
            )),
            ("Secret", _) => Ok(None),
            _ => Err("the server could not find the requested resource".to_owned()),
        }
    }
}

#[test]
fn lookup_gives_objects_with_the_number_types_of_client_go() {
    let cluster = Arc::new(Cluster::default());
    let mut host = RenderHost::with_lookup(cluster.clone());
    let snippet = "{{ $s := lookup \"v1\" \"Secret\" \"ns\" \"known\" }}{{ $s.data.a }} \
{{ typeOf $s.count }} {{ typeOf $s.ratio }} {{ $s.none }} {{ $s.list }}";
    assert_eq!(
        run(snippet, &mut host).unwrap(),
        "b int64 float64 <no value> [true 9007199254740993]"
    );
    assert_eq!(*cluster.0.lock().unwrap(), ["v1 Secret ns known"]);
}

#[test]
fn lookup_lists_where_no_name_is_given() {
    let mut host = RenderHost::with_lookup(Arc::new(Cluster::default()));
    let snippet = "{{ range (lookup \"v1\" \"Secret\" \"\" \"\").items }}{{ .a }},{{ end }}";
    assert_eq!(run(snippet, &mut host).unwrap(), "1,2,");
}

#[test]
fn lookup_of_a_missing_object_is_an_empty_map() {
    let mut host = RenderHost::with_lookup(Arc::new(Cluster::default()));
    let snippet = "{{ lookup \"v1\" \"Secret\" \"ns\" \"other\" }}";
    assert_eq!(run(snippet, &mut host).unwrap(), "map[]");
}

#[test]
fn an_error_of_the_cluster_stops_the_render() {
    let mut host = RenderHost::with_lookup(Arc::new(Cluster::default()));
    let error = run("{{ lookup \"v1\" \"Nope\" \"\" \"x\" }}", &mut host).unwrap_err();
    assert!(
        error.ends_with("error calling lookup: the server could not find the requested resource"),
        "{error}"
    );
}

#[test]
fn lint_asks_no_cluster() {
    let cluster = Arc::new(Cluster::default());
    let mut host = RenderHost::with_lookup(cluster.clone());
    host.lint_mode = true;
    let snippet = "{{ lookup \"v1\" \"Secret\" \"ns\" \"known\" }}";
    assert_eq!(run(snippet, &mut host).unwrap(), "map[]");
    assert!(cluster.0.lock().unwrap().is_empty());
}

#[test]
fn lint_notes_what_would_stop_a_render() {
    let mut host = RenderHost::default();
    host.lint_mode = true;
    let snippet = "[{{ required \"need a\" .a }}{{ fail \"stop\" }}{{ required \"x\" 5 }}]";
    assert_eq!(run(snippet, &mut host).unwrap(), "[5]");
    assert_eq!(host.lint_notes, ["need a", "stop"]);
}

#[test]
fn include_stops_after_a_thousand_of_one_name() {
    let mut host = RenderHost::default();
    let error = run("{{ include \"loop\" . }}", &mut host).unwrap_err();
    assert!(
        error.ends_with(
            "rendering template has a nested reference name: loop: unable to execute template"
        ),
        "{error}"
    );
    let depth = error.matches("error calling include").count();
    assert_eq!(depth, INCLUDE_LIMIT + 2);
}

#[test]
fn the_depth_of_include_is_counted_down_again() {
    let mut host = RenderHost::default();
    let snippet = "{{ range until 5000 }}{{ include \"hello\" . }}{{ end }}";
    let functions = sprig::functions(&fixed());
    let mut budget = Budget::default();
    for _ in 0..3 {
        run_with(snippet, &functions, &Map::new(), &mut host, &mut budget).unwrap();
    }
    // An include that fails counts down too.
    let _ = run("{{ include \"loop\" . }}", &mut host).unwrap_err();
    let again = run("{{ include \"loop\" . }}", &mut host).unwrap_err();
    assert_eq!(
        again.matches("error calling include").count(),
        INCLUDE_LIMIT + 2
    );
}

#[test]
fn any_host_will_do_for_functions_that_need_none() {
    let functions = sprig::functions(&fixed());
    let mut set = gotmpl::TemplateSet::new("gotpl");
    let text =
        "{{ define \"a\" }}x{{ end }}{{ include \"a\" . }}{{ lookup \"a\" \"b\" \"\" \"\" }}";
    set.parse("t", text, &functions).unwrap();
    let printed = set.execute(
        "t",
        &Value::Nil,
        &functions,
        &mut (),
        gotmpl::Options::default(),
        &mut Budget::default(),
    );
    assert_eq!(printed.unwrap(), b"xmap[]");
}
