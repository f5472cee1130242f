//! Charts that mean harm: each gives an error, soon, and without much memory.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a test stops at the first thing that fails"
)]

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use gotmpl::Limits as Budget;
use goyaml::Tree;
use helm_engine::values::{read_values, set_into, set_json_into, set_literal_into};
use helm_engine::{
    Chart, Environment, Limits, LoadError, RenderError, RenderOptions, load_archive,
    load_directory, load_files, render,
};
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

const CHART: &str = "{apiVersion: v2, name: c, version: 1.0.0}";

/// Long enough for a slow machine without optimisation, short enough to tell a hang.
const SOON: Duration = Duration::from_secs(20);

fn soon<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = run();
    assert!(start.elapsed() < SOON, "{what} took {:?}", start.elapsed());
    value
}

/// A `.tgz` of these entries: name, kind, content.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, content) in entries {
        let mut header = Header::new_gnu();
        // Not set_path, which refuses what is tried here.
        let bytes = name.as_bytes();
        header.as_old_mut().name[..bytes.len()].copy_from_slice(bytes);
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn file<'a>(name: &'a str, content: &'a str) -> (&'a str, EntryType, &'a [u8]) {
    (name, EntryType::Regular, content.as_bytes())
}

fn chart_of(files: &[(&str, &str)]) -> Result<Chart, LoadError> {
    let files = files.iter().copied();
    load_files(files, &Limits::default()).map(|loaded| loaded.chart)
}

fn chart_with(template: &str) -> Chart {
    chart_of(&[("Chart.yaml", CHART), ("templates/t.yaml", template)]).unwrap()
}

fn small() -> RenderOptions {
    RenderOptions {
        limits: Budget {
            steps: 2_000_000,
            output: 8 << 20,
            memory: 64 << 20,
            ..Budget::default()
        },
        ..RenderOptions::default()
    }
}

#[test]
fn an_archive_that_unpacks_to_too_much_is_refused() {
    let zeros = vec![0; 64 << 20];
    let bomb = archive(&[
        file("c/Chart.yaml", CHART),
        ("c/zeros", EntryType::Regular, &zeros),
    ]);
    assert!(bomb.len() < 1 << 20, "it packs well");
    let limits = Limits {
        total_bytes: 1 << 20,
        ..Limits::default()
    };
    let error = soon("the bomb", || load_archive(&*bomb, &limits).unwrap_err());
    assert_eq!(
        error.to_string(),
        "decompressed chart is larger than the maximum size 1048576"
    );
}

#[test]
fn a_file_that_is_too_large_is_refused_if_one_asks_for_it() {
    let packed = archive(&[
        file("c/Chart.yaml", CHART),
        ("c/zeros", EntryType::Regular, &[0; 5000]),
    ]);
    let limits = Limits {
        file_bytes: 4096,
        ..Limits::default()
    };
    let error = load_archive(&*packed, &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "chart file \"c/zeros\" is larger than the maximum file size 4096"
    );
}

#[test]
fn archives_inside_a_chart_share_one_limit() {
    let inner = archive(&[
        file("s/Chart.yaml", "{apiVersion: v2, name: s, version: 1.0.0}"),
        ("s/zeros", EntryType::Regular, &[0; 600 << 10]),
    ]);
    let outer = archive(&[
        file("c/Chart.yaml", CHART),
        ("c/charts/a.tgz", EntryType::Regular, &inner),
        ("c/charts/b.tgz", EntryType::Regular, &inner),
    ]);
    let limits = Limits {
        total_bytes: 1 << 20,
        ..Limits::default()
    };
    let error = load_archive(&*outer, &limits).unwrap_err().to_string();
    assert!(error.contains("larger than the maximum size"), "{error}");
    load_archive(&*outer, &Limits::default()).unwrap();
}

#[test]
fn archives_inside_archives_end() {
    let mut packed = archive(&[file("c/Chart.yaml", CHART)]);
    for _ in 0..40 {
        packed = archive(&[
            file("c/Chart.yaml", CHART),
            ("c/charts/c.tgz", EntryType::Regular, &packed),
        ]);
    }
    let error = load_archive(&*packed, &Limits::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("deeper than the maximum of 32 levels")
    );
}

#[test]
fn an_archive_of_very_many_files_is_refused() {
    let names: Vec<String> = (0..50).map(|at| format!("c/{at}")).collect();
    let entries: Vec<_> = names.iter().map(|name| file(name, "")).collect();
    let limits = Limits {
        files: 40,
        ..Limits::default()
    };
    let error = load_archive(&*archive(&entries), &limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "chart has more than the maximum of 40 files"
    );
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    for (name, wanted) in [
        (
            "c/../../etc/passwd",
            "chart illegally references parent directory",
        ),
        ("c//etc/passwd", "chart illegally contains absolute paths"),
        ("c/..", "chart illegally references parent directory"),
        (
            "c\\..\\..\\x",
            "chart illegally references parent directory",
        ),
        ("c/C:/x", "chart contains illegally named files"),
        (
            "Chart.yaml",
            "chart illegally contains content outside the base directory: \"Chart.yaml\"",
        ),
        ("Chart.yaml/x", "chart yaml not in base directory"),
        (
            "x",
            "chart illegally contains content outside the base directory: \"x\"",
        ),
    ] {
        let packed = archive(&[file("c/Chart.yaml", CHART), file(name, "x")]);
        let error = load_archive(&*packed, &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{name}");
    }
}

#[test]
fn the_last_of_two_entries_of_one_name_counts() {
    let packed = archive(&[
        file("c/Chart.yaml", CHART),
        file("c/values.yaml", "a: 1\nb: 1\n"),
        file("c/values.yaml", "a: 2\n"),
        file("c/templates/t.yaml", "one: 1\n"),
        file("c/templates/t.yaml", "two: {{ .Values | toJson }}\n"),
    ]);
    let chart = load_archive(&*packed, &Limits::default()).unwrap().chart;
    let values = read_values(b"").unwrap();
    let rendered = render(&chart, &values, &RenderOptions::default()).unwrap();
    assert_eq!(
        rendered.manifest,
        "---\n# Source: c/templates/t.yaml\ntwo: {\"a\":2}\n\n"
    );
}

#[test]
fn links_in_an_archive_are_empty_files() {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = Header::new_gnu();
    header.set_size(CHART.len() as u64);
    tar.append_data(&mut header, "c/Chart.yaml", CHART.as_bytes())
        .unwrap();
    for (name, kind) in [("c/soft", EntryType::Symlink), ("c/hard", EntryType::Link)] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        tar.append_link(&mut header, name, "/etc/passwd").unwrap();
    }
    let packed = tar.into_inner().unwrap().finish().unwrap();
    let chart = load_archive(&*packed, &Limits::default()).unwrap().chart;
    let files: Vec<_> = chart
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.data.len()))
        .collect();
    assert_eq!(files, [("soft", 0), ("hard", 0)]);
}

#[test]
fn paths_of_a_git_tree_that_lead_elsewhere_are_refused() {
    for name in [
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "a/./b",
        "a\\b",
        "a\0b",
        "",
    ] {
        let files = [("Chart.yaml", CHART), (name, "x")];
        assert!(chart_of(&files).is_err(), "{name:?}");
    }
}

#[cfg(unix)]
#[test]
fn links_of_a_directory_that_go_in_circles_end() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Chart.yaml"), CHART).unwrap();
    std::os::unix::fs::symlink(".", folder.path().join("loop")).unwrap();
    let done = soon("the circle", || {
        load_directory(folder.path(), &Limits::default())
    });
    assert!(done.is_err());
}

#[test]
fn names_that_are_paths_are_refused() {
    for name in [".", "..", "a/b", "../c", "''"] {
        let text = format!("{{apiVersion: v2, name: {name}, version: 1.0.0}}");
        assert!(chart_of(&[("Chart.yaml", &text)]).is_err(), "{name}");
    }
    for alias in ["a.b", "a/b", "..", "a b"] {
        let text = format!(
            "{{apiVersion: v2, name: c, version: 1.0.0, dependencies: [{{name: x, alias: '{alias}'}}]}}"
        );
        assert!(chart_of(&[("Chart.yaml", &text)]).is_err(), "{alias}");
    }
}

#[test]
fn chart_files_of_the_wrong_shape_are_errors() {
    for text in [
        "maintainers: [null]",
        "maintainers: {a: b}",
        "dependencies: [null]",
        "dependencies: x",
        "dependencies: [[]]",
        "dependencies: [{name: {}}]",
        "dependencies: [{import-values: x}]",
        "annotations: [a]",
        "sources: {a: b}",
        "keywords: [[a]]",
        "version: [1]",
        "type: {}",
        "appVersion: []",
        "deprecated: 3",
    ] {
        let text = format!("apiVersion: v2\nname: c\nversion: 1.0.0\n{text}\n");
        assert!(chart_of(&[("Chart.yaml", &text)]).is_err(), "{text}");
    }
}

#[test]
fn yaml_bombs_are_errors() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        let items = vec![below; 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    let maps = format!("a: {}1{}", "{b: ".repeat(100_000), "}".repeat(100_000));
    for (what, values) in [("laughs", &laughs), ("lists", &deep), ("maps", &maps)] {
        let files = [("Chart.yaml", CHART), ("values.yaml", values)];
        assert!(soon(what, || chart_of(&files)).is_err(), "{what}");
        let user = soon(what, || read_values(values.as_bytes()));
        assert!(user.is_err(), "{what}");
        let rendered = soon(what, || {
            let chart = chart_with("{{ .Files.Get \"x\" }}{{ .Values.text }}");
            let user = Tree::from_iter([("text", Tree::from(values.as_str()))]);
            render(&chart, &user, &RenderOptions::default())
        });
        assert!(rendered.is_err(), "{what}");
    }
}

#[test]
fn very_many_anchors_are_read_in_time() {
    let anchors: String = (0..200_000)
        .map(|at| format!("k{at}: &a{at} x\n"))
        .collect();
    let values = soon("anchors", || read_values(anchors.as_bytes())).unwrap();
    assert_eq!(values.as_map().unwrap().len(), 200_000);
}

#[test]
fn set_paths_are_bounded() {
    let dots = format!("{}=1", ["a"; 100_000].join("."));
    let indices = format!("a{}=1", "[0]".repeat(100_000));
    let keys = format!("a{}=1", "[0].b".repeat(100_000));
    let wide = (0..100)
        .map(|at| format!("a{at}[65536]=1"))
        .collect::<Vec<_>>()
        .join(",");
    for text in [
        "a[9999999999]=1",
        "a[65537]=1",
        &dots,
        &indices,
        &keys,
        &wide,
    ] {
        let mut values = Tree::Null;
        let done = soon("a path", || set_into(text, &mut values));
        assert!(done.is_err(), "{}", &text[..20.min(text.len())]);
    }
}

#[test]
fn schemas_do_no_io_and_end() {
    let violations = |schema: &str| {
        let files = [
            ("Chart.yaml", CHART),
            ("values.yaml", "a: 1\n"),
            ("values.schema.json", schema),
        ];
        let chart = chart_of(&files).unwrap();
        let values = Tree::from_iter([] as [(&str, Tree); 0]);
        soon("a schema", || {
            render(&chart, &values, &RenderOptions::default())
        })
        .map(|_| ())
    };
    for reference in [
        "file:///etc/passwd",
        "http://127.0.0.1:1/x",
        "https://example.com/x",
        "ftp://x/y",
    ] {
        let error = violations(&format!("{{\"$ref\": \"{reference}\"}}")).unwrap_err();
        assert!(matches!(error, RenderError::Schema(_)), "{reference}");
        assert!(error.to_string().contains("failing loading"), "{error}");
    }
    let cycle =
        violations("{\"$defs\": {\"a\": {\"$ref\": \"#/$defs/a\"}}, \"$ref\": \"#/$defs/a\"}");
    assert!(cycle.unwrap_err().to_string().contains("reference cycle"));
    let chain: Vec<String> = (0..5_000)
        .map(|at| format!("\"d{at}\": {{\"$ref\": \"#/$defs/d{}\"}}", at + 1))
        .collect();
    let chain = format!(
        "{{\"$defs\": {{{}, \"d5000\": true}}, \"$ref\": \"#/$defs/d0\"}}",
        chain.join(",")
    );
    assert!(violations(&chain).is_err());
    let doubling: Vec<String> = (0..60)
        .map(|at| {
            let next = format!("{{\"$ref\": \"#/$defs/d{}\"}}", at + 1);
            format!("\"d{at}\": {{\"allOf\": [{next}, {next}]}}")
        })
        .collect();
    let doubling = format!(
        "{{\"$defs\": {{{}, \"d60\": true}}, \"$ref\": \"#/$defs/d0\"}}",
        doubling.join(",")
    );
    assert!(violations(&doubling).is_err());
    let nested = format!("{}true{}", "{\"not\": ".repeat(900), "}".repeat(900));
    let _ = violations(&nested);
}

#[test]
fn runaway_templates_are_stopped() {
    for template in [
        "{{ range until 1000000000 }}{{ end }}",
        "{{ range $i := until 100000 }}{{ range until 100000 }}x{{ end }}{{ end }}",
        "{{ repeat 1000000000 \"x\" }}",
        "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "{{ printf \"%1000000000d\" 1 }}",
        "{{ printf \"%.1000000000f\" 1.0 }}",
        "{{ $s := \"x\" }}{{ range until 64 }}{{ $s = print $s $s }}{{ end }}{{ $s }}",
        "{{ $l := list 1 }}{{ range until 64 }}{{ $l = concat $l $l }}{{ end }}{{ len $l }}",
        "{{ $d := dict }}{{ $_ := set $d \"d\" $d }}{{ $d | toYaml }}{{ fail \"end\" }}",
        "{{ define \"t\" }}{{ tpl (print \"{{ include \\\"t\\\" . }}\") . }}{{ end }}{{ include \"t\" . }}",
        "{{ range until 100000 }}{{ genPrivateKey \"rsa\" }}{{ end }}",
        "{{ seq 1 100000000 }}",
        "{{ untilStep 0 1000000000 1 | len }}",
        "{{ indent 100000000 \"x\" }}",
        "{{ nindent 100000000 (repeat 1000 \"\\n\") }}",
        "{{ randAlphaNum 1000000000 }}",
    ] {
        let chart = chart_with(template);
        let values = read_values(b"").unwrap();
        let error = soon(template, || render(&chart, &values, &small()));
        assert!(error.is_err(), "{template}");
    }
}

/// What is looked ahead for is not charged: only what is made adds up.
#[test]
fn values_of_a_megabyte_may_be_written_many_times() {
    let line = "x".repeat(100);
    let values: String = (0..12_000).map(|n| format!("k{n}: {line}\n")).collect();
    let values = read_values(values.as_bytes()).unwrap();
    let chart = chart_with("a: b{{ range until 40 }}{{ $.Values | toYaml | len }}{{ end }}");
    let rendered = render(&chart, &values, &RenderOptions::default());
    assert!(rendered.is_ok(), "{:?}", rendered.err());
}

#[test]
fn deeply_nested_templates_are_errors_or_render() {
    let values = read_values(b"").unwrap();
    for (what, template) in [
        (
            "parentheses",
            format!("{{{{ {}1{} }}}}", "(".repeat(20_000), ")".repeat(20_000)),
        ),
        (
            "ifs",
            format!(
                "{}x{}",
                "{{ if 1 }}".repeat(20_000),
                "{{ end }}".repeat(20_000)
            ),
        ),
        (
            "pipes",
            format!("{{{{ 1 {} }}}}", "| print ".repeat(20_000)),
        ),
        (
            "fields",
            format!("{{{{ .{} }}}}", "a.".repeat(20_000) + "a"),
        ),
    ] {
        let chart = chart_with(&template);
        let _ = soon(what, || render(&chart, &values, &small()));
    }
}

#[test]
fn templates_reach_nothing_outside() {
    struct Recorder(AtomicUsize);
    impl sprig::Network for Recorder {
        fn addresses(&self, _: &str) -> Vec<String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            vec!["192.0.2.1".to_owned()]
        }
    }
    let template =
        "a: '{{ getHostByName \"example.com\" }}'\nb: '{{ lookup \"v1\" \"Secret\" \"\" \"\" }}'\n";
    let chart = chart_with(template);
    let values = read_values(b"").unwrap();
    let rendered = render(&chart, &values, &RenderOptions::default()).unwrap();
    assert!(
        rendered.manifest.contains("a: ''\nb: 'map[]'"),
        "{}",
        rendered.manifest
    );
    let recorder = Arc::new(Recorder(AtomicUsize::new(0)));
    let options = RenderOptions {
        environment: Environment {
            network: Some(recorder.clone()),
            ..Environment::default()
        },
        ..RenderOptions::default()
    };
    let rendered = render(&chart, &values, &options).unwrap();
    assert!(rendered.manifest.contains("192.0.2.1"));
    assert_eq!(recorder.0.load(Ordering::Relaxed), 1);
    for function in ["env", "expandenv"] {
        let chart = chart_with(&format!("{{{{ {function} \"HOME\" }}}}"));
        let error = render(&chart, &values, &RenderOptions::default()).unwrap_err();
        assert!(error.to_string().contains("not defined"), "{error}");
    }
}

#[test]
fn subcharts_do_not_see_their_siblings_values() {
    let chart = chart_of(&[
        ("Chart.yaml", CHART),
        ("values.yaml", "one: {secret: s}\ntwo: {a: 1}\nown: x\n"),
        (
            "charts/one/Chart.yaml",
            "{apiVersion: v2, name: one, version: 1.0.0}",
        ),
        (
            "charts/two/Chart.yaml",
            "{apiVersion: v2, name: two, version: 1.0.0}",
        ),
        (
            "charts/two/templates/t.yaml",
            "v: '{{ .Values | toJson }}'\n",
        ),
    ])
    .unwrap();
    let rendered = render(
        &chart,
        &read_values(b"").unwrap(),
        &RenderOptions::default(),
    )
    .unwrap();
    assert!(
        rendered.manifest.contains("v: '{\"a\":1,\"global\":{}}'"),
        "{}",
        rendered.manifest
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_an_archive_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = load_archive(&*bytes, &Limits::default());
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&bytes).unwrap();
        let _ = load_archive(&*gzip.finish().unwrap(), &Limits::default());
    }

    #[test]
    fn any_text_is_a_chart_file_or_an_error(text in "(?s).{0,300}") {
        let _ = chart_of(&[("Chart.yaml", &text)]);
        let named = format!("apiVersion: v2\nname: c\nversion: 1.0.0\n{text}");
        let _ = chart_of(&[("Chart.yaml", &named), ("values.yaml", &text), ("Chart.lock", &text)]);
    }

    #[test]
    fn any_text_is_a_set_flag_or_an_error(text in r"[a-c\[\]{}=.,\\0-9 \-\x{80}-\x{ff}]{0,60}") {
        let mut values = read_values(b"a: {b: [1, {c: 2}]}\n").unwrap();
        let _ = set_into(&text, &mut values);
        let _ = set_json_into(&text, &mut values);
        let _ = set_literal_into(&text, &mut values);
    }

    #[test]
    fn any_text_is_a_template_or_an_error(text in r#"[{}\-a-z.$"'` |():=0-9\n/*]{0,120}"#) {
        let chart = chart_with(&text);
        let values = read_values(b"a: 1\n").unwrap();
        let _ = render(&chart, &values, &small());
    }

    #[test]
    fn any_text_is_a_schema_or_an_error(text in r#"[{}\[\]",:a-z$#/0-9 ]{0,120}"#) {
        let files = [("Chart.yaml", CHART), ("values.schema.json", text.as_str())];
        if let Ok(chart) = chart_of(&files) {
            let values = read_values(b"a: 1\n").unwrap();
            let _ = render(&chart, &values, &small());
        }
    }
}

#[test]
fn a_render_never_panics_out() {
    // A fault of ours inside a function would be a panic: this is where it would show.
    let chart = chart_with("{{ include \"none\" . }}");
    let values = read_values(b"").unwrap();
    match render(&chart, &values, &RenderOptions::default()) {
        Err(RenderError::Execute(text)) => assert!(text.contains("no template"), "{text}"),
        other => panic!("{other:?}"),
    }
}
