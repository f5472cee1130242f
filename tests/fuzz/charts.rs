//! Charts as files and archives, schemas, and release records.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use helm_engine::values::read_values;
use helm_engine::{Limits, Release, RenderOptions, load_archive, load_files, render};

use crate::{behaviour, fuzz};

const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.0.0\n";

/// The least part of a tar archive: a header, or a piece of content.
const BLOCK: usize = 512;

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = ::tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = ::tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Makes the checksums right, so that changes behind them are looked at.
fn mend_checksums(tar: &mut [u8]) {
    for block in tar.chunks_exact_mut(BLOCK) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

#[test]
fn archives_are_charts_or_errors() {
    let child = pack(&tar(&[("s/Chart.yaml", CHART.as_bytes())]));
    let seeds = vec![
        tar(&[
            ("c/Chart.yaml", CHART.as_bytes()),
            ("c/values.yaml", b"a: 1\n"),
        ]),
        tar(&[
            ("c/Chart.yaml", CHART.as_bytes()),
            ("c/charts/s.tgz", &child),
            (
                "c/charts/t/Chart.yaml",
                b"{apiVersion: v2, name: t, version: 0.1.0}",
            ),
            ("c/crds/x.yaml", b"kind: CustomResourceDefinition\n"),
            ("c/.helmignore", b"*.md\n!x\n/charts/\n"),
        ]),
        tar(&[(&format!("c/{}", "long/".repeat(40)), b"x")]),
    ];
    let pieces = &[
        "../",
        "/",
        "c/",
        "\\",
        "Chart.yaml",
        "charts/",
        ".tgz",
        "C:/",
        "0000000",
        "7777777",
        "\u{0}",
        "x",
        "g",
        "L",
        "2",
    ];
    fuzz("archives", seeds, pieces, |text| {
        let mut mended = text.to_vec();
        mend_checksums(&mut mended);
        let loaded = load_archive(&*pack(&mended), &Limits::default());
        // The gzip layer as well.
        let _ = load_archive(text, &Limits::default());
        behaviour(&loaded.map(|loaded| format!("{:?}", loaded.chart.metadata)))
    });
}

#[test]
fn chart_files_are_read_or_refused() {
    let seeds = [
        "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n- {name: s, version: '>=1', alias: t, condition: t.on, tags: [x], import-values: [data, {child: a, parent: b}]}\n",
        "apiVersion: v1\nname: c\nversion: 1.0.0\nmaintainers: [{name: m, email: e, url: u}]\nannotations: {a: b}\nkubeVersion: '>=1.20'\ntype: library\n",
        "apiVersion: v2\nname: c\nversion: 1.0.0\nmaintainers: [null]\ndependencies: [null]\nkeywords: [1, null]\nappVersion: 1.10\n",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "dependencies:\n",
        "- name: s\n",
        "  alias: ..\n",
        "  version: '*'\n",
        "  condition: a,b\n",
        "null",
        "[]",
        "{}",
        "maintainers:\n",
        "type: library\n",
        "version: 1\n",
        "name: a/b\n",
        "..",
        "\u{0}",
        "&a ",
        "*a",
        "tags: [x]\n",
        "import-values: [x]\n",
        "annotations:\n",
        "  a: 1\n",
        "apiVersion: v1\n",
        "1.0.0-rc.1+b",
        "kubeVersion: '>1'\n",
    ];
    let user = read_values(b"tags: {x: false}\nt: {on: 1}\ns: null\n").unwrap();
    fuzz("chart", seeds, pieces, |text| {
        let child = b"{apiVersion: v2, name: s, version: 1.2.3}";
        let values = b"exports: {data: {k: v}}\na: {b: 1}\ntags: {x: true}\n";
        let files: [(&str, &[u8]); 6] = [
            ("Chart.yaml", text),
            ("Chart.lock", text),
            ("values.yaml", b"s: {a: {c: 2}}\nb: 1\n"),
            ("charts/s/Chart.yaml", child),
            ("charts/s/values.yaml", values),
            (
                "templates/t.yaml",
                b"v: {{ .Values | toJson }}\nc: {{ .Chart | toJson }}\n",
            ),
        ];
        let outcome = load_files(files, &Limits::default())
            .map_err(|error| error.to_string())
            .and_then(|loaded| {
                render(&loaded.chart, &user, &RenderOptions::default())
                    .map_err(|error| error.to_string())
            });
        behaviour(&outcome.map(|rendered| rendered.manifest))
    });
}

#[test]
fn schemas_judge_or_are_refused() {
    let seeds = [
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"integer","minimum":1},"s":{"type":"string","pattern":"^[a-z]+$"}},"required":["a","x"],"additionalProperties":false}"#,
        r##"{"$id":"http://x/y","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n","unevaluatedProperties":false}"##,
        r##"{"allOf":[{"anyOf":[{"type":"null"},{"oneOf":[{},{"not":{}}]}]}],"if":{"required":["a"]},"then":{"minProperties":9},"else":false,"patternProperties":{"^a":{"const":2}},"dependentRequired":{"a":["b"]},"propertyNames":{"maxLength":1}}"##,
        r##"{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"l":{"items":[{"type":"number"},{}],"additionalItems":false,"uniqueItems":true,"minItems":9},"d":{"format":"date-time"}},"exclusiveMinimum":true,"$recursiveRef":"#","$dynamicRef":"#x"}"##,
        r#"{"properties":{"a":{"enum":[1,"x",null,[1],{"b":2}],"multipleOf":0.01},"l":{"contains":{"type":"string"},"minContains":2,"prefixItems":[true,false]}}}"#,
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "{\"$ref\":\"#\"}",
        "\"$ref\":\"#/properties/a\",",
        "\"file:///dev/zero\"",
        "\"http://127.0.0.1:1/x\"",
        "\"allOf\":[",
        "\"not\":",
        "\"items\":",
        "\"pattern\":\"(a*)*b\",",
        "\"a{1000}{1000}\"",
        "\"type\":\"object\",",
        "\"properties\":{",
        "\"$anchor\":\"x\",",
        "\"$dynamicAnchor\":\"x\",",
        "\"$id\":\"#\",",
        "null",
        "true",
        "1e400",
        "-1",
        "0",
        "\"required\":[\"a\"],",
        "\"minLength\":",
        "\"multipleOf\":",
        "\\u0000",
    ];
    let user =
        read_values(b"a: 1.5\ns: Abc\nl: [1, 1, x]\nd: yesterday\nnext: {next: {next: 1}}\n");
    let user = user.unwrap();
    fuzz("schema", seeds, pieces, |text| {
        let files: [(&str, &[u8]); 2] = [
            ("Chart.yaml", CHART.as_bytes()),
            ("values.schema.json", text),
        ];
        let outcome = load_files(files, &Limits::default())
            .map_err(|error| error.to_string())
            .and_then(|loaded| {
                render(&loaded.chart, &user, &RenderOptions::default())
                    .map_err(|error| error.to_string())
            });
        behaviour(&outcome.map(|rendered| rendered.manifest))
    });
}

#[test]
fn release_records_are_read_or_refused() {
    let seeds = [
        r#"{"name":"demo","namespace":"apps","version":3,"info":{"first_deployed":"2024-01-02T03:04:05.123456789Z","last_deployed":"2024-01-02T03:04:05Z","deleted":"","description":"Install complete","status":"deployed","notes":"hi"},"chart":{"metadata":{"name":"c","version":"1.0.0","apiVersion":"v2","dependencies":[{"name":"s","version":"1"}]},"lock":null,"templates":[{"name":"templates/x.yaml","data":"YTogMQo="}],"values":{"a":1,"b":[null,1e30]},"schema":null,"files":null},"config":{"x":{"y":true}},"manifest":"---\n# Source: c/templates/x.yaml\na: 1\n","hooks":[{"name":"h","kind":"Job","path":"p","manifest":"m","events":["pre-install"],"weight":-5,"delete_policies":["before-hook-creation"],"last_run":{"started_at":"","completed_at":"","phase":"Succeeded"}}],"labels":{"a":"b"},"apply_method":"ssa"}"#,
        r#"{"name":"a","version":-1,"info":{"status":"pending-install"}}"#,
        "{}",
        "null",
    ];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    let pieces = &[
        "null",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "\"info\":",
        "\"hooks\":[",
        "\"chart\":",
        "\"status\":\"nope\"",
        "\"\"",
        "\"2024-13-01T00:00:00Z\"",
        "\"0001-01-01T00:00:00Z\"",
        "\\ud800",
        "\\u0000",
        "1e400",
        "\"version\":1.5,",
        "=",
    ];
    fuzz("records", seeds, pieces, |text| {
        let _ = Release::decode(text);
        let _ = Release::decode(STANDARD.encode(text));
        let decoded = Release::decode(STANDARD.encode(pack(text)));
        if let Ok(release) = &decoded {
            let again = Release::decode(release.encode().unwrap()).unwrap();
            assert_eq!(again.manifest, release.manifest);
        }
        let outcome = decoded.map_err(|error| format!("{:#}", anyhow::Error::from(error)));
        behaviour(&outcome.map(|release| format!("{:?}", release.info)))
    });
}
