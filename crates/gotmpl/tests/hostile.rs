//! Templates that want to bring the process down. Each ends with an error, soon and in little
//! memory.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what cannot be run is a failed test"
)]

mod common;

use std::time::{Duration, Instant};

use common::run;
use gotmpl::{Budget, Limits, List, Map, Str, Type, Value, fmt};

fn small() -> Budget {
    Budget::new(Limits {
        steps: 1_000_000,
        depth: 2000,
        output: 1 << 20,
        memory: 8 << 20,
        time: None,
    })
}

/// The error of a text under a small budget.
fn error(text: &str) -> String {
    error_with(text, &mut small())
}

fn error_with(text: &str, budget: &mut Budget) -> String {
    let outcome = run("zero", &[text.as_bytes()], budget);
    assert_ne!(outcome.status, "out", "{text:.100}");
    String::from_utf8(outcome.text).unwrap()
}

#[track_caller]
fn assert_ends(error: &str, end: &str) {
    assert!(error.ends_with(end), "{error:.300} does not end with {end}");
}

#[test]
fn a_template_that_calls_itself_reaches_the_depth_of_go() {
    let error = error_with(
        r#"{{define "a"}}{{template "a"}}{{end}}{{template "a"}}"#,
        &mut Budget::default(),
    );
    assert_eq!(
        error,
        "template: t0:1:25: executing \"a\" at <{{template \"a\"}}>: \
         exceeded maximum template depth (100000)"
    );
}

#[test]
fn a_large_text_is_given_to_no_function_that_could_make_more_of_it_than_is_left() {
    let html = |length: usize| {
        format!(
            "{{{{$s := {:?}}}}}{{{{html $s | len}}}}",
            "a".repeat(length)
        )
    };
    let outcome = run("zero", &[html(1 << 19).as_bytes()], &mut small());
    assert_eq!(outcome.status, "out");
    let error = self::error(&html(2 << 20));
    assert!(error.contains("allocates more than"), "{error:.300}");
}

#[test]
fn include_and_tpl_that_call_themselves_reach_the_depth() {
    let error = error_with(
        r#"{{define "a"}}{{include "a" .}}{{end}}{{include "a" .}}"#,
        &mut {
            Budget::new(Limits {
                depth: 1100,
                ..Limits::default()
            })
        },
    );
    assert_ends(&error, "exceeded maximum template depth (1100)");
    let error = self::error(r#"{{$t := "{{tpl . .}}"}}{{tpl $t $t}}"#);
    assert!(
        error.contains("exceeded maximum template depth (2000)"),
        "{error:.300}"
    );
}

#[test]
fn a_loop_without_end_runs_out_of_time_where_there_is_a_limit_of_it() {
    let mut budget = Budget::new(Limits {
        time: Some(Duration::from_millis(50)),
        ..Limits::default()
    });
    let start = Instant::now();
    let error = error_with("{{range 1000000000}}{{print .}}{{end}}", &mut budget);
    assert_ends(
        &error,
        "the template takes longer than 50ms; make its loops and its texts smaller",
    );
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_loop_without_end_runs_out_of_steps() {
    let end = "more than 1000000 steps; make its loops and recursion smaller";
    assert_ends(&error("{{range 1000000000}}{{end}}"), end);
    assert_ends(
        &error("{{range 100000}}{{range 100000}}{{end}}{{end}}"),
        end,
    );
    assert_ends(
        &error(
            r#"{{define "a"}}{{range 2}}{{template "a"}}{{template "a"}}{{end}}{{end}}{{range 999999}}{{print}}{{print}}{{end}}{{template "a"}}"#,
        ),
        end,
    );
}

#[test]
fn output_without_end_runs_out_of_bytes() {
    let end = "prints more than 1048576 bytes; make its output smaller";
    assert_ends(&error("{{range 1000000}}0123456789{{end}}"), end);
    assert_ends(&error(r#"{{range 1000}}{{printf "%5000d" 1}}{{end}}"#), end);
    let nested = r#"{{define "a"}}{{range 100000}}0123456789{{include "b" .}}{{end}}{{end}}{{define "b"}}abcdef{{end}}{{include "a" .}}"#;
    assert_ends(&error(nested), end);
}

#[test]
fn strings_that_double_run_out_of_memory() {
    let text = r#"{{$s := "x"}}{{range 60}}{{$s = print $s $s}}{{end}}"#;
    let error = error(text);
    assert!(
        error.contains("allocates more than 8388608 bytes") || error.contains("too large"),
        "{error:.300}"
    );
    let text = r#"{{range 100000}}{{$x := printf "%1000d" 1}}{{end}}"#;
    assert_ends(
        &self::error(text),
        "allocates more than 8388608 bytes; make its values smaller",
    );
}

#[test]
fn a_small_value_with_a_text_without_end_is_not_printed() {
    let doubling = r"{{$l := list 1}}{{range 64}}{{$l = list $l $l}}{{end}}";
    let end = "too large or too deeply nested; make the value smaller";
    assert_ends(&error(&format!("{doubling}{{{{$l}}}}")), end);
    assert_ends(&error(&format!("{doubling}{{{{print $l}}}}")), end);
    assert_ends(&error(&format!("{doubling}{{{{printf \"%v\" $l}}}}")), end);
    assert_ends(&error(&format!("{doubling}{{{{html $l}}}}")), end);
    assert_ends(
        &error(r#"{{$m := dict}}{{$_ := set $m "m" $m}}{{$m}}"#),
        end,
    );
}

#[test]
fn a_map_that_holds_itself_compares_and_counts() {
    let text =
        r#"{{$m := dict}}{{$_ := set $m "m" $m}}{{len $m}}{{if $m}}{{len $m.m.m.m.m}}{{end}}"#;
    assert_eq!(run("zero", &[text.as_bytes()], &mut small()).text, b"11");
}

#[test]
fn values_nested_a_million_deep_are_freed() {
    let mut list = Value::list(vec![]);
    for _ in 0..1_000_000 {
        list = Value::list(vec![list]);
    }
    drop(list);
    let mut map = Value::Map(Map::new());
    for _ in 0..1_000_000 {
        map = Value::Map(Map::from_entries([("m", map)]));
    }
    drop(map);
}

#[test]
fn texts_nested_without_end_are_no_templates() {
    let parens = "(".repeat(100_000);
    assert_eq!(
        error(&format!("{{{{{parens}1{}}}}}", ")".repeat(100_000))),
        "template: t0:1: max expression depth exceeded"
    );
    assert_eq!(
        error(&format!("{{{{{parens}")),
        "template: t0:1: max expression depth exceeded"
    );
    for open in [
        "{{if 1}}",
        "{{with 1}}",
        "{{range 1}}",
        "{{block \"b\" 1}}",
        "{{if 0}}{{else}}{{if 0}}",
    ] {
        let text = open.repeat(100_000);
        assert_eq!(error(&text), "template: t0:1: max nesting depth exceeded");
    }
    assert_eq!(
        error(&format!("{{{{if 1}}}}{}", "{{else if 1}}".repeat(100_000))),
        "template: t0:1: max nesting depth exceeded"
    );
}

#[test]
fn texts_nested_as_deep_as_allowed_execute() {
    let deep = 9_999;
    let text = format!("{}x{}", "{{if 1}}".repeat(deep), "{{end}}".repeat(deep));
    assert_eq!(run("zero", &[text.as_bytes()], &mut small()).text, b"x");
    let text = format!("{{{{{}7{}}}}}", "(".repeat(deep), ")".repeat(deep));
    assert_eq!(run("zero", &[text.as_bytes()], &mut small()).text, b"7");
    // The error shows the whole source of what failed.
    let text = format!("{{{{{}.s.x{}}}}}", "(print ".repeat(deep), ")".repeat(deep));
    let error = error(&text);
    assert_ends(&error, "can't evaluate field x in type interface {}");
}

#[test]
fn widths_and_precisions_are_bounded() {
    let one = [Value::Int(1)];
    // Seven digits still count as a width, as in Go; more take the rest of the format along.
    assert_eq!(fmt::sprintf(b"%9999999d", &one).unwrap().len(), 9_999_999);
    assert_eq!(
        &*fmt::sprintf(b"%999999999d", &one).unwrap(),
        b"%!(NOVERB)%!(EXTRA int=1)"
    );
    assert_eq!(
        &*fmt::sprintf(b"%.999999999d|", &one).unwrap(),
        b"%!(NOVERB)%!(EXTRA int=1)"
    );
    let wide = [Value::Int(999_999_999), Value::Int(1)];
    assert_eq!(&*fmt::sprintf(b"%*d", &wide).unwrap(), b"%!(BADWIDTH)1");
    let float = [Value::Float64(0.1)];
    assert_eq!(
        fmt::sprintf(b"%.1000000f", &float).unwrap().len(),
        1_000_002
    );
    assert_eq!(
        fmt::sprintf(b"%.1000000e", &float).unwrap().len(),
        1_000_006
    );
    assert_eq!(fmt::sprintf(b"%.1000000x", &one).unwrap().len(), 1_000_000);
    assert_eq!(fmt::sprintf(b"%.1000000U", &one).unwrap().len(), 1_000_002);
    let format = b"%9999999d".repeat(100);
    assert!(fmt::sprintf(&format, &vec![Value::Int(1); 100]).is_err());
}

#[test]
fn large_containers_are_walked_in_place() {
    let list = List::typed(Type::Int, (0..200_000).map(Value::Int).collect());
    assert!(fmt::sprint(&[Value::List(list)]).unwrap().len() > 1_000_000);
    let text = "{{range $i, $x := until}}{{end}}";
    assert_eq!(
        run("zero", &[text.as_bytes()], &mut small()).text,
        b"template: t0:1: function \"until\" not defined"
    );
}

#[test]
fn a_text_with_many_definitions_is_parsed_in_time() {
    let text: String = (0..20_000)
        .map(|at| format!("{{{{define \"d{at}\"}}}}{at}{{{{end}}}}"))
        .collect();
    let calls = "{{template \"d7\"}}{{template \"d19999\"}}";
    let outcome = run("zero", &[calls.as_bytes(), text.as_bytes()], &mut small());
    assert_eq!(outcome.text, b"719999");
}

#[test]
fn tpl_of_many_texts_keeps_a_bounded_number() {
    let text = r#"{{range $i, $x := .l}}{{end}}{{$n := 0}}{{range 3000}}{{$n = add $n 1}}{{tpl (printf "{{%d}}" $n) .}}{{end}}"#;
    let outcome = run("zero", &[text.as_bytes()], &mut small());
    assert!(
        outcome.text.ends_with(b"29993000"),
        "{}",
        Str::from(outcome.text).to_text()
    );
}
