//! Templates, YAML and `--set`: what makes up a render.

use gotmpl::{Functions, TemplateSet};
use goyaml::Tree;
use helm_engine::jsonpath::JsonPath;
use helm_engine::values::{
    read_values, set_into, set_json_into, set_literal_into, set_string_into,
};
use helm_engine::{Environment, Limits, RenderOptions, load_files, render};

use crate::{behaviour, fuzz};

const CHART: &str = "{apiVersion: v2, name: c, version: 1.0.0}";

const VALUES: &str = r#"
s: text
e: ""
n: 3
f: 2.5
big: 9007199254740993
t: true
nul: null
l: [c, a, 1, 2.5, null, {k: v}]
m: {b: 2, a: one, x10: t, x9: n}
d: {a: {b: {c: leaf}}}
y: "a: [1, 2]\nb: {c: null}\n"
j: '{"a": 1, "b": [true, null, 1e30]}'
time: "2024-03-10T12:34:56Z"
tpl: '{{ .Values.s }}-{{ include "h" .Values.m }}'
"#;

const HELPERS: &str = "{{- define \"h\" -}}<{{ . }}>{{- end -}}\n{{- define \"loop\" -}}{{ include \"loop\" . }}{{- end -}}\n";

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "{{ end }}",
    "{{ else }}",
    "{{ else if .Values.t }}",
    "{{ if ",
    "{{ range ",
    "{{ with ",
    "{{ define \"x\" }}",
    "{{ template \"x\" . }}",
    "{{ block \"b\" . }}",
    "{{ break }}",
    "{{ continue }}",
    "{{/*",
    "*/}}",
    ".Values.",
    ".Values.l",
    ".Values.m",
    ".Values.d",
    ".Values.nul",
    "$x := ",
    "$x",
    "$",
    ".",
    " | ",
    "(",
    ")",
    "\"",
    "`",
    "'",
    "nil",
    "true",
    "1",
    "1.5",
    "\"a\"",
    "include \"h\" ",
    "include \"loop\" .",
    "tpl .Values.tpl .",
    "tpl .Values.s $",
    "printf \"%v %d %s %q %T\" ",
    "printf \"%[3]*.[2]*f\" ",
    "%#v",
    "%99999d",
    "toYaml ",
    "toJson ",
    "toYamlPretty ",
    "toToml ",
    "fromYaml ",
    "fromJson ",
    "fromToml ",
    "index ",
    "slice ",
    "len ",
    "eq ",
    "lt ",
    "and ",
    "or ",
    "not ",
    "default \"d\" ",
    "dict \"k\" ",
    "list 1 2 ",
    "set .Values.m \"k\" ",
    "merge .Values.m .Values.d",
    "mergeOverwrite .Values.d .Values.d ",
    "deepCopy ",
    "until ",
    "untilStep 0 9 1",
    "seq 1 3",
    "repeat 3 ",
    "indent 2 ",
    "nindent 4 ",
    "trunc -3 ",
    "substr 1 2 ",
    "abbrev 4 ",
    "wrap 3 ",
    "regexReplaceAll \"(a)+\" ",
    "regexFindAll \"a|b\" ",
    "splitList \",\" ",
    "sortAlpha ",
    "semverCompare \">1\" ",
    "date \"2006\" ",
    "toDate \"2006-01-02\" ",
    "dig \"a\" \"b\" \"x\" ",
    "pluck \"a\" ",
    "ternary 1 2 ",
    "required \"m\" ",
    "fail \"x\"",
    "urlParse ",
    "b64enc ",
    "sha256sum ",
    "add 1 ",
    "div 1 ",
    "mod 7 ",
    "round 1.5 ",
    "int64 ",
    "float64 ",
    "kindOf ",
    "typeOf ",
    "quote ",
    "snakecase ",
    "camelcase ",
    "lookup \"v1\" \"Pod\" \"\" \"\"",
    ".Files.Get \"x\"",
    ".Files.Glob \"**\"",
    ".Capabilities.APIVersions.Has ",
    ".Release",
    ".Chart",
    ".Template.Name",
    "---\n",
    "kind: Secret\n",
    "# Source: x\n",
    "\n  ",
    "é",
    "\u{0}",
];

/// The cases of the golden tests as seeds: everything between two lines of `===`.
fn golden(topics: &[&str]) -> Vec<Vec<u8>> {
    let folder = testkit::repository().join("tests/golden/cases");
    let mut seeds = Vec::new();
    for topic in topics {
        let text = std::fs::read_to_string(folder.join(topic).with_extension("txt")).unwrap();
        let cases = text
            .split("\n=== ")
            .filter_map(|case| case.split_once('\n'));
        seeds.extend(cases.map(|(_, case)| case.as_bytes().to_vec()));
    }
    seeds.retain(|seed| (1..2_000).contains(&seed.len()));
    assert!(seeds.len() > 10, "{topics:?} have few cases");
    seeds
}

fn options() -> RenderOptions {
    let mut options = RenderOptions::default();
    if cfg!(debug_assertions) {
        options.limits.steps = 1_000_000;
        options.limits.memory = 64 << 20;
    }
    options
}

#[test]
fn parser_reads_or_refuses_any_template() {
    let functions: Functions = sprig::functions(&Environment::default());
    let seeds = golden(&["functions", "templates", "errors"]);
    fuzz("parser", seeds, PIECES, |text| {
        let mut set = TemplateSet::new("gotpl");
        let parsed = set.parse("t", text, &functions).map(|_| text);
        behaviour(&parsed)
    });
}

#[test]
fn templates_print_or_fail_within_their_budget() {
    let values = read_values(b"").unwrap();
    let seeds = golden(&["functions", "templates", "errors", "context"]);
    fuzz("templates", seeds, PIECES, |text| {
        let files: [(&str, &[u8]); 4] = [
            ("Chart.yaml", CHART.as_bytes()),
            ("values.yaml", VALUES.as_bytes()),
            ("templates/_h.tpl", HELPERS.as_bytes()),
            ("templates/t.yaml", text),
        ];
        let chart = load_files(files, &Limits::default()).unwrap().chart;
        let rendered = render(&chart, &values, &options());
        behaviour(&rendered.map(|rendered| rendered.manifest))
    });
}

#[test]
fn yaml_is_read_and_written_again_or_refused() {
    let mut seeds = golden(&["yaml", "values"]);
    seeds.push(VALUES.as_bytes().to_vec());
    let pieces = &[
        ": ",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "\n- ",
        "# c",
        "'",
        "\"",
        "\\n",
        "\\u00e9",
        "|\n",
        "|-\n",
        ">2\n",
        ">+\n",
        "&a ",
        "*a",
        "<<: *a",
        "!!str ",
        "!!binary ",
        "!!int ",
        "!x ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "~",
        "null",
        "yes",
        "0x1F",
        "0o7",
        "010",
        "1_000",
        ".inf",
        ".nan",
        "-.5e3",
        "12:30:45",
        "2024-01-02T03:04:05Z",
        "\u{feff}",
        "\r\n",
        "\t",
        "é",
        "\u{2028}",
        "\u{85}",
        "=",
        "a: &b [*b]",
    ];
    fuzz("yaml", seeds, pieces, |text| {
        let _ = goyaml::read_strict(text);
        let _ = goyaml::read_head(text);
        let _ = goyaml::read_node(text);
        let _ = goyaml::read_json(text);
        let _ = read_values(text);
        let read = goyaml::read(text);
        if let Ok(tree) = &read {
            write_again(tree);
        }
        behaviour(&read.map(|tree| goyaml::to_json_tree(&tree).unwrap_or_default()))
    });
}

fn write_again(tree: &Tree) {
    let json = goyaml::to_json_tree(tree).unwrap();
    assert_eq!(goyaml::read_json(&json).as_ref(), Ok(tree));
    let _ = goyaml::to_yaml_tree(tree);
    let _ = goyaml::to_yaml_pretty(&tree.to_value());
}

#[test]
fn set_paths_are_applied_or_refused() {
    let seeds = [
        "a=1",
        "a.b.c=x",
        "a[0]=1,b[2].c=d",
        "a={x,y\\,z}",
        "a\\.b=c",
        "l[0][1]={1,2}",
        "a=null,b=true,c=-5",
        "x.y[3].z[1]=\u{e9}",
        "a={\"b\": [1, 2.5, null]}",
        "a=[1,{\"c\":\"d\"}]",
        "a.b",
        "a=b,,c=d",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        ".", ",", "=", "[", "]", "{", "}", "\\", "[0]", "[65536]", "[-1]", "a", "null", "true",
        "1", "\"", "a.a.a.a.", "[1][1]", "={", "}", " ", "\u{e9}",
    ];
    fuzz("set", seeds, pieces, |text| {
        let text = String::from_utf8_lossy(text);
        let mut values = read_values(b"a: {b: [1, {c: 2}]}\nl: [x]\n").unwrap();
        let typed = set_into(&text, &mut values);
        let _ = set_string_into(&text, &mut values);
        let _ = set_json_into(&text, &mut values);
        let _ = set_literal_into(&text, &mut values);
        behaviour(&typed.map(|()| goyaml::to_json_tree(&values).unwrap()))
    });
}

#[test]
fn json_paths_find_or_refuse_within_their_bounds() {
    let seeds = [
        "{.a.b[0]}",
        "{range .ports[*]}{.name}={.port}{\"\\n\"}{end}",
        "{..name}{.a['b','c']}",
        "{.ports[?(@.port>80)].name}",
        "{.ports[-1:0:2]} text {$.a}",
        "{['a\\.b'][0,1]}",
        "{range .a[*]}{range .b[*]}{@}{end}{end}",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "{", "}", ".", "..", "[", "]", "*", "[*]", "['", "']", "?(", ")", "@", "$", "==", "<=",
        ">", "range ", "end", ":", ",", "-1", "\"", "\\", "name", "ports", "a", "1.5", "true", " ",
    ];
    let values = read_values(
        b"a: {b: [1, {c: 2}], 'a.b': [x, y]}\nports: [{name: http, port: 80}, {name: tls, port: 443}]\n",
    )
    .unwrap();
    fuzz("jsonpath", seeds, pieces, |text| {
        let text = String::from_utf8_lossy(text);
        match JsonPath::parse(&text) {
            Ok(path) => behaviour(&path.execute(&values)),
            Err(error) => behaviour::<&str, _>(&Err(error)),
        }
    });
}
