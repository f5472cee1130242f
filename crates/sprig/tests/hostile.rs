//! Templates that ask for too much get an error, at once and without the memory.

mod common;

use std::time::{Duration, Instant};

use common::{fixed, run_with};
use gotmpl::{Budget, Limits, Map};
use sprig::helm::RenderHost;

fn run(text: &str) -> Result<String, String> {
    let limits = Limits {
        memory: 32 << 20,
        output: 32 << 20,
        ..Limits::default()
    };
    let functions = sprig::functions(&fixed());
    let mut host = RenderHost::default();
    let mut budget = Budget::new(limits);
    let printed = run_with(text, &functions, &Map::new(), &mut host, &mut budget)?;
    Ok(common::lossy(&printed))
}

/// Far more than any of them takes on a busy machine, far less than what they ask for would.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn bombs_are_refused_before_they_allocate() {
    for bomb in [
        "{{ repeat 1000000000 \"x\" }}",
        "{{ repeat 9223372036854775807 \"xy\" }}",
        "{{ until 1000000000 }}",
        "{{ until -9223372036854775808 }}",
        "{{ untilStep 0 9223372036854775807 1 }}",
        "{{ untilStep 9223372036854775807 -9223372036854775808 -1 }}",
        "{{ seq 1000000000 }}",
        "{{ seq 1 9223372036854775806 }}",
        "{{ indent 1000000000 \"x\" }}",
        "{{ nindent 1000000000 \"x\" }}",
        "{{ nindent 100000 (repeat 100000 \"\\n\") }}",
        "{{ randAlphaNum 1000000000 }}",
        "{{ randAscii 9223372036854775807 }}",
        "{{ randBytes 1000000000 }}",
        "{{ printf \"%1000000d\" 1 | repeat 1000 }}",
        "{{ replace \"\" (repeat 10000 \"x\") (repeat 100000 \"y\") }}",
        "{{ replace \"y\" (repeat 10000 \"x\") (repeat 100000 \"y\") }}",
        "{{ wrapWith 1 (repeat 10000 \"x\") (repeat 100000 \"y\") }}",
        "{{ join (repeat 100000 \"x\") (until 100000) }}",
        "{{ regexReplaceAll \"\" (repeat 10000 \"y\") (repeat 100000 \"x\") }}",
        "{{ regexReplaceAll \"a\" (repeat 100000 \"a\") (repeat 10000 \"${0}\") }}",
        "{{ regexFindAll \"\" \"(?:x{1000}){1000}\" -1 | len }}{{ regexMatch (repeat 60 \"\\\\pL{999}\") \"x\" | toString | repeat 99999999 }}",
        "{{ $l := list 1 }}{{ range until 40 }}{{ $l = concat $l $l }}{{ end }}",
        "{{ $s := \"x\" }}{{ range until 60 }}{{ $s = cat $s $s }}{{ end }}",
        "{{ $s := \"x\" }}{{ range until 60 }}{{ $s = quote $s $s }}{{ end }}",
        "{{ $d := dict }}{{ range until 10000000 }}{{ $_ := set $d (toString .) . }}{{ end }}",
        "{{ splitList \"\" (repeat 10000000 \"x\") | len }}",
        "{{ split \"\" (repeat 10000000 \"x\") | len }}",
        "{{ $d := dict }}{{ range until 64 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ deepCopy $d }}",
        "{{ $d := dict }}{{ range until 64 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}{{ toString $d }}",
        "{{ $s := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ end }}{{ toYaml $s }}",
        "{{ $s := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ end }}{{ toYamlPretty $s }}",
        "{{ $s := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ end }}{{ toJson $s }}",
        "{{ $s := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ end }}{{ toPrettyJson $s }}",
        "{{ $s := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ end }}{{ toToml (dict \"a\" $s) }}",
        "{{ $s := list 1 }}{{ $t := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ $t = list $t $t }}{{ end }}{{ deepEqual $s $t }}",
        "{{ $s := list 1 }}{{ $t := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ $t = list $t $t }}{{ end }}{{ has $s (list $t) }}",
        "{{ $s := list 1 }}{{ $t := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ $t = list $t $t }}{{ end }}{{ uniq (list $s $t) }}",
        "{{ $s := list 1 }}{{ $t := list 1 }}{{ range until 40 }}{{ $s = list $s $s }}{{ $t = list $t $t }}{{ end }}{{ without (list $s) $t }}",
        "{{ regexMatch (repeat 3000000 \"(a|b)\") \"a\" }}",
        "{{ chunk 1 (until 1000000) | len }}",
        "{{ regexFindAll \"\" (repeat 20000000 \"x\") -1 | len }}",
        "{{ regexSplit \"\" (repeat 20000000 \"x\") -1 | len }}",
        "{{ fromJson (print \"{\\\"a\\\":[\" (repeat 5000000 \"1,\") \"1]}\") | len }}",
    ] {
        let start = Instant::now();
        let result = run(bomb);
        assert!(
            result.is_err(),
            "{bomb} gave {} bytes",
            result.unwrap().len()
        );
        assert!(
            start.elapsed() < PATIENCE,
            "{bomb} took {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn nested_texts_are_charged_for_and_errors_do_not_gather_them() {
    for part in [
        "/* \" (repeat 200000 \"x\") \" */",
        "\" (repeat 50000 \" 1 | print \") \" 1",
    ] {
        let text = format!(
            r#"{{{{ define "x" }}}}{{{{ tpl (print "{{{{{part}}}}}{{{{ include \"x\" . }}}}") . }}}}{{{{ end }}}}{{{{ include "x" . }}}}"#
        );
        let start = Instant::now();
        let error = run(&text).unwrap_err();
        assert!(
            error.len() < 1 << 20,
            "{} bytes: {:.300}",
            error.len(),
            error
        );
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    }
}

#[test]
fn values_that_contain_themselves_end_in_an_error() {
    let cycle = "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}\
{{ $e := dict }}{{ $_ := set $e \"self\" $e }}";
    for use_of_it in [
        "{{ deepCopy $d }}",
        "{{ deepEqual $d $e }}",
        "{{ has $d (list $e) }}",
        "{{ uniq (list $d $e) }}",
        "{{ merge $d $e }}{{ merge (dict \"self\" (dict \"self\" $d)) $e }}{{ deepCopy $d }}",
        "{{ mustToJson $d }}",
        "{{ mustToYaml $d }}",
        "{{ mustToToml $d }}",
    ] {
        let start = Instant::now();
        let result = run(&format!("{cycle}{use_of_it}"));
        assert!(result.is_err(), "{use_of_it}: {result:?}");
        assert!(start.elapsed() < PATIENCE, "{use_of_it}");
    }
    for harmless in ["{{ toYaml $d }}", "{{ toJson $d }}", "{{ len (keys $d) }}"] {
        assert!(run(&format!("{cycle}{harmless}")).is_ok(), "{harmless}");
    }
}

#[test]
fn deeply_nested_values_end_in_an_error() {
    let deep = "{{ $d := dict }}{{ range until 20000 }}{{ $d = dict \"a\" $d }}{{ end }}\
{{ $e := dict }}{{ range until 20000 }}{{ $e = dict \"a\" $e }}{{ end }}";
    for use_of_it in [
        "{{ deepCopy $d }}",
        "{{ deepEqual $d $e }}",
        "{{ merge $d $e }}",
        "{{ mergeOverwrite $d $e }}",
        "{{ mustToToml $d }}",
        "{{ mustToJson $d }}",
    ] {
        let result = run(&format!("{deep}{use_of_it}"));
        assert!(result.is_err(), "{use_of_it}: {result:?}");
    }
}

#[test]
fn expressions_stay_linear() {
    let start = Instant::now();
    let snippet = "{{ regexMatch \"(a*)*b\" (repeat 100000 \"a\") }}\
{{ regexMatch \"(a|aa)+$\" (print (repeat 100000 \"a\") \"c\") }}\
{{ regexMatch \"(x+x+)+y\" (repeat 100000 \"x\") }}";
    assert_eq!(run(snippet).unwrap(), "falsefalsefalse");
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn nested_groups_end_in_an_error() {
    let snippet = "{{ mustRegexMatch (print (repeat 5000 \"(\") (repeat 5000 \")\")) \"x\" }}";
    let error = run(snippet).unwrap_err();
    assert!(error.contains("expression nests too deeply"), "{error}");
}

#[test]
fn large_expressions_are_charged_for() {
    let snippet = "{{ range until 1000 }}{{ regexMatch (print . (repeat 20 \"\\\\pL{1000}\")) \"x\" }}{{ end }}";
    let start = Instant::now();
    let error = run(snippet).unwrap_err();
    assert!(error.contains("allocates more than"), "{error}");
    assert!(start.elapsed() < PATIENCE * 3);
}

#[test]
fn nested_toml_ends_in_an_error() {
    let snippet = "{{ fromToml (print \"a = \" (repeat 100000 \"[\")) | keys }}";
    assert_eq!(run(snippet).unwrap(), "[Error]");
    let snippet = "{{ fromToml (print (repeat 100000 \"a.\") \"a = 1\") | keys }}";
    assert!(run(snippet).is_ok_and(|keys| keys == "[Error]" || keys == "[a]"));
}
