//! The engine as its users see it: loading, rendering again and again, records.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops at the first thing that fails"
)]

use std::sync::Arc;
use std::thread;

use goyaml::Tree;
use helm_engine::record::{ApplyMethod, Info, StoredChart};
use helm_engine::values::read_values;
use helm_engine::{
    Chart, HookEvent, HookPhase, INSTALL_ORDER, Limits, Lookup, Release, RenderOptions, Status,
    UNINSTALL_ORDER, coalesce_tables, coalesce_values, compare_kinds, load_files, render,
    split_manifests,
};

const CHART: &str = "{apiVersion: v2, name: c, version: 1.0.0}";

fn chart(files: &[(&str, &str)]) -> Chart {
    let chart_file = [("Chart.yaml", CHART)];
    let files = chart_file.iter().chain(files).copied();
    load_files(files, &Limits::default()).unwrap().chart
}

fn values(text: &str) -> Tree {
    read_values(text.as_bytes()).unwrap()
}

#[test]
fn a_chart_renders_again_with_other_values() {
    let chart = chart(&[
        ("values.yaml", "a: 1\n"),
        ("templates/t.yaml", "a: {{ .Values.a }}\n"),
    ]);
    for number in 1..4 {
        let user = values(&format!("a: {number}"));
        let rendered = render(&chart, &user, &RenderOptions::default()).unwrap();
        assert_eq!(
            rendered.manifest,
            format!("---\n# Source: c/templates/t.yaml\na: {number}\n\n")
        );
    }
}

#[test]
fn renders_do_not_see_what_others_changed() {
    let chart = chart(&[
        ("values.yaml", "m: {}\n"),
        (
            "templates/t.yaml",
            "n: {{ len .Values.m }}{{ $_ := set .Values.m \"x\" 1 }}\n",
        ),
    ]);
    for _ in 0..3 {
        let rendered = render(&chart, &values(""), &RenderOptions::default()).unwrap();
        assert!(rendered.manifest.ends_with("n: 0\n\n"));
    }
}

#[test]
fn one_chart_renders_on_many_threads() {
    let chart = Arc::new(chart(&[(
        "templates/t.yaml",
        "a: {{ .Values.a }}{{ range until 100 }}x{{ end }}\n",
    )]));
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let chart = Arc::clone(&chart);
            thread::spawn(move || {
                for _ in 0..20 {
                    let user = values(&format!("a: {number}"));
                    let rendered = render(&chart, &user, &RenderOptions::default()).unwrap();
                    assert!(rendered.manifest.contains(&format!("a: {number}x")));
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn subcharts_that_values_switch_take_effect_on_each_render() {
    let dependencies = "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n\
                        - {name: s, version: '1', condition: s.enabled}\n";
    let files = [
        ("Chart.yaml", dependencies),
        (
            "charts/s/Chart.yaml",
            "{apiVersion: v2, name: s, version: 1.0.0}",
        ),
        ("charts/s/templates/t.yaml", "s: true\n"),
        ("templates/t.yaml", "c: true\n"),
    ];
    let chart = load_files(files, &Limits::default()).unwrap().chart;
    for (on, wanted) in [(true, 2), (false, 1), (true, 2)] {
        let user = values(&format!("s: {{enabled: {on}}}"));
        let rendered = render(&chart, &user, &RenderOptions::default()).unwrap();
        assert_eq!(rendered.manifests.len(), wanted);
    }
}

#[test]
fn what_is_rendered_is_told_apart() {
    let chart = chart(&[
        ("crds/a.yaml", "kind: CustomResourceDefinition\n"),
        (
            "templates/t.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\n\
             kind: Job\nmetadata:\n  name: j\n  annotations:\n    helm.sh/hook: pre-install,test\n    \
             helm.sh/hook-weight: \"-5\"\n    helm.sh/hook-delete-policy: hook-succeeded\n",
        ),
        ("templates/NOTES.txt", "Hello {{ .Release.Name }}"),
    ]);
    let options = RenderOptions {
        hide_secrets: true,
        include_crds: true,
        ..RenderOptions::default()
    };
    let rendered = render(&chart, &values(""), &options).unwrap();
    assert_eq!(rendered.notes, "Hello release-name");
    assert_eq!(rendered.crds.len(), 1);
    let secret = rendered.manifests.first().unwrap();
    assert_eq!(
        (
            secret.api_version.as_str(),
            secret.kind.as_str(),
            secret.name.as_str()
        ),
        ("v1", "Secret", "s")
    );
    let hook = rendered.hooks.first().unwrap();
    assert_eq!(hook.events, [HookEvent::PreInstall, HookEvent::Test]);
    assert_eq!((hook.weight, hook.name.as_str()), (-5, "j"));
    assert_eq!(hook.delete_policies, ["hook-succeeded"]);
    assert_eq!(
        rendered.manifest,
        "---\n# Source: c/crds/a.yaml\nkind: CustomResourceDefinition\n\n\
         ---\n# Source: c/templates/t.yaml\n\
         # HIDDEN: The Secret output has been suppressed\n"
    );
}

struct Cluster;

impl Lookup for Cluster {
    fn lookup(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<serde_json::Value>, String> {
        match name {
            "gone" => Ok(None),
            "broken" => Err("the server is on fire".to_owned()),
            _ => Ok(Some(serde_json::json!({
                "metadata": {"name": format!("{api_version}/{kind}/{namespace}/{name}")}
            }))),
        }
    }
}

#[test]
fn lookup_asks_the_cluster_that_is_given() {
    let options = RenderOptions {
        lookup: Some(Arc::new(Cluster)),
        ..RenderOptions::default()
    };
    let print = |call: &str| {
        let template = format!("a: {{{{ {call} | toJson }}}}\n");
        let chart = chart(&[("templates/t.yaml", &template)]);
        render(&chart, &values(""), &options).map(|rendered| rendered.manifest)
    };
    let found = print("(lookup \"v1\" \"Pod\" \"ns\" \"x\").metadata.name").unwrap();
    assert!(found.ends_with("a: \"v1/Pod/ns/x\"\n\n"), "{found}");
    let gone = print("lookup \"v1\" \"Pod\" \"ns\" \"gone\"").unwrap();
    assert!(gone.ends_with("a: {}\n\n"), "{gone}");
    let error = print("lookup \"v1\" \"Pod\" \"ns\" \"broken\"").unwrap_err();
    assert!(
        error.to_string().contains("the server is on fire"),
        "{error}"
    );
}

#[test]
fn values_of_a_release_are_coalesced() {
    let chart = chart(&[
        ("values.yaml", "a: 1\nb: {c: 1, d: 2}\n"),
        (
            "charts/s/Chart.yaml",
            "{apiVersion: v2, name: s, version: 1.0.0}",
        ),
        ("charts/s/values.yaml", "x: 1\n"),
    ]);
    let all = coalesce_values(&chart, &values("b: {c: null, e: 3}\nglobal: {g: 1}")).unwrap();
    let wanted = values("a: 1\nb: {d: 2, e: 3}\nglobal: {g: 1}\ns: {x: 1, global: {g: 1}}\n");
    assert_eq!(all, wanted);
    let reused = coalesce_tables(&values("a: 2\nb: null"), &values("a: 1\nb: 2\nc: 3"));
    assert_eq!(reused, values("a: 2\nc: 3"));
}

#[test]
fn kinds_have_their_orders() {
    let sort = |order: &[&str]| {
        let mut kinds = ["Zoo", "Service", "Namespace", "Ant", "Deployment"];
        kinds.sort_by(|left, right| compare_kinds(order, left, right));
        kinds.join(" ")
    };
    assert_eq!(sort(INSTALL_ORDER), "Namespace Service Deployment Ant Zoo");
    assert_eq!(
        sort(UNINSTALL_ORDER),
        "Service Deployment Namespace Ant Zoo"
    );
    let mut install = INSTALL_ORDER.to_vec();
    let mut uninstall = UNINSTALL_ORDER.to_vec();
    install.sort_unstable();
    uninstall.sort_unstable();
    assert_eq!(install, uninstall);
}

#[test]
fn streams_split_at_lines_of_dashes() {
    for (stream, wanted) in [
        ("", vec![]),
        ("\n---\n---\n", vec![]),
        ("a\n", vec!["a\n"]),
        ("---\na\n---\nb", vec!["a\n", "b"]),
        ("---a\n--- b\n", vec!["a\n", "b\n"]),
        (" ---\na", vec!["a"]),
        ("a\n ---\nb", vec!["a\n ---\nb"]),
        ("a\n----\nb", vec!["a\n", "-\nb"]),
        ("------\na", vec!["---\na"]),
        (
            "a: |\n  x\n\n\n---\n\n  b\n\n",
            vec!["a: |\n  x\n\n\n", "b\n\n"],
        ),
    ] {
        let found: Vec<&str> = split_manifests(stream).collect();
        assert_eq!(found, wanted, "{stream:?}");
    }
}

fn release() -> Release {
    let chart = chart(&[
        ("values.yaml", "a: 1\nb: 2.5\n"),
        ("templates/t.yaml", "a: b\n"),
    ]);
    let options = RenderOptions {
        keep_chart: true,
        ..RenderOptions::default()
    };
    let rendered = render(&chart, &values("x: <y>"), &options).unwrap();
    Release {
        name: "r".to_owned(),
        info: Info {
            first_deployed: Some("2024-01-02T03:04:05.6Z".parse().unwrap()),
            status: Status::PendingUpgrade,
            description: "d".to_owned(),
            ..Info::default()
        },
        chart: rendered.chart.unwrap(),
        config: Some(values("x: <y>")),
        manifest: rendered.manifest,
        revision: 3,
        namespace: "ns".to_owned(),
        apply_method: Some(ApplyMethod::ServerSide),
        ..Release::default()
    }
}

fn json(release: &Release) -> String {
    use base64::Engine;
    use std::io::Read;
    let packed = base64::engine::general_purpose::STANDARD
        .decode(release.encode().unwrap())
        .unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed)
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn records_have_the_form_of_helm_4() {
    assert_eq!(
        json(&release()),
        "{\"name\":\"r\",\"info\":{\"first_deployed\":\"2024-01-02T03:04:05.6Z\",\
         \"description\":\"d\",\"status\":\"pending-upgrade\"},\"chart\":{\"metadata\":\
         {\"name\":\"c\",\"version\":\"1.0.0\",\"apiVersion\":\"v2\"},\"lock\":null,\
         \"templates\":[{\"name\":\"templates/t.yaml\",\"data\":\"YTogYgo=\"}],\
         \"values\":{\"a\":1,\"b\":2.5},\"schema\":null,\"schemamodtime\":\"0001-01-01T00:00:00Z\",\
         \"files\":[]},\"config\":{\"x\":\"\\u003cy\\u003e\"},\
         \"manifest\":\"---\\n# Source: c/templates/t.yaml\\na: b\\n\\n\",\"version\":3,\
         \"namespace\":\"ns\",\"apply_method\":\"ssa\"}"
    );
}

#[test]
fn records_are_read_as_they_were_written() {
    let release = release();
    assert_eq!(Release::decode(release.encode().unwrap()).unwrap(), release);
}

#[test]
fn records_of_helm_3_are_read() {
    use base64::Engine;
    let text = r#"{"name":"r","info":{"first_deployed":"2024-01-02T03:04:05.123456789+02:00",
        "last_deployed":"2024-01-02T03:04:05Z","deleted":"","status":"deployed","new":1},
        "chart":{"metadata":{"name":"c","version":"1","apiVersion":"v1","maintainers":null},
        "lock":null,"templates":null,"values":null,"schema":"e30=","files":[]},
        "config":{"n":3},"hooks":[{"name":"h","events":["test-success"],"last_run":
        {"started_at":"","completed_at":"","phase":""}}],"version":2,"namespace":"ns"}"#;
    let record = base64::engine::general_purpose::STANDARD.encode(text);
    let release = Release::decode(record).unwrap();
    assert_eq!(release.info.status, Status::Deployed);
    assert_eq!(release.info.deleted, None);
    assert_eq!(
        release.info.first_deployed.unwrap().to_string(),
        "2024-01-02T01:04:05.123456789Z"
    );
    assert_eq!(release.apply_method, None);
    let hook = release.hooks.first().unwrap();
    assert_eq!(hook.events, [HookEvent::Test]);
    assert_eq!(hook.last_run.phase, HookPhase::None);
    assert_eq!(release.chart.schema.as_deref(), Some(&b"{}"[..]));
    assert_eq!(release.chart.templates, StoredChart::default().templates);
}

#[test]
fn what_is_no_record_is_an_error() {
    use base64::Engine;
    use flate2::write::GzEncoder;
    use std::io::Write;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let mut bomb = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let piece = vec![b' '; 1 << 20];
    for _ in 0..257 {
        bomb.write_all(&piece).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    for (what, record) in [
        ("no base64", "???".to_owned()),
        ("nothing", String::new()),
        ("no JSON", encode(b"{")),
        ("another shape", encode(b"{\"info\": 3}")),
        ("half a gzip", encode(&[0x1f, 0x8b, 8, 0])),
        ("a bomb", encode(&bomb)),
        ("deep", encode("[".repeat(100_000).as_bytes())),
    ] {
        assert!(Release::decode(record).is_err(), "{what}");
    }
}

#[test]
fn statuses_have_helms_words() {
    for (status, word, pending) in [
        (Status::Deployed, "deployed", false),
        (Status::PendingInstall, "pending-install", true),
        (Status::PendingUpgrade, "pending-upgrade", true),
        (Status::PendingRollback, "pending-rollback", true),
        (Status::Uninstalling, "uninstalling", false),
        (Status::Unknown, "unknown", false),
    ] {
        assert_eq!((status.as_str(), status.is_pending()), (word, pending));
        let json = format!("\"{word}\"");
        assert_eq!(serde_json::to_string(&status).unwrap(), json);
        assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
    }
    let later: Status = serde_json::from_str("\"some-later-status\"").unwrap();
    assert_eq!(later, Status::Unknown);
}

#[test]
fn a_packed_chart_is_the_chart() {
    let mut files = vec![("values.yaml", "# kept\na: 1\n"), ("README.md", "r")];
    files.extend([
        ("templates/t.yaml", "a: {{ .Values.a }}\n"),
        ("values.schema.json", "{\"required\": [\"a\"]}"),
        (
            "charts/s/Chart.yaml",
            "{apiVersion: v2, name: s, version: 1.0.0}",
        ),
        ("charts/s/templates/t.yaml", "s: 1\n"),
    ]);
    let chart = chart(&files);
    let time = Some("2024-01-02T03:04:05Z".parse().unwrap());
    let mut packed = Vec::new();
    helm_engine::package(&chart, time, &mut packed).unwrap();
    let mut again = Vec::new();
    helm_engine::package(&chart, time, &mut again).unwrap();
    assert_eq!(packed, again, "the same bytes for the same time");
    let loaded = helm_engine::load_archive(&*packed, &Limits::default())
        .unwrap()
        .chart;
    assert_eq!(loaded.metadata, chart.metadata);
    assert_eq!(loaded.values, chart.values);
    assert_eq!(loaded.schema, chart.schema);
    assert_eq!(
        loaded.raw_file("values.yaml").unwrap().data,
        b"# kept\na: 1\n"[..].into()
    );
    assert_eq!(loaded.dependencies.len(), 1);
    assert_eq!(loaded.modified, time);
}

#[test]
fn packed_files_are_plain_and_have_the_nearest_second() {
    let chart = chart(&[("values.yaml", "a: 1\n")]);
    for (time, expected) in [
        ("2024-01-02T03:04:05.499Z", 1_704_164_645),
        ("2024-01-02T03:04:05.5Z", 1_704_164_646),
    ] {
        let mut packed = Vec::new();
        helm_engine::package(&chart, Some(time.parse().unwrap()), &mut packed).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&*packed));
        for entry in archive.entries().unwrap() {
            let header = entry.unwrap().header().clone();
            assert_eq!(header.mtime().unwrap(), expected);
            assert_eq!(header.as_old().linkflag, *b"0", "a plain file since POSIX");
        }
    }
}

#[test]
fn umbrella_charts_take_time_in_proportion() {
    let umbrella = |count: usize| {
        let mut files = vec![(
            "Chart.yaml".to_owned(),
            (0..count).fold(
                "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n".to_owned(),
                |text, at| {
                    text + &format!(
                        "- {{name: s{at}, version: '1', condition: s{at}.enabled, tags: [t]}}\n"
                    )
                },
            ),
        )];
        for at in 0..count {
            let metadata = format!(
                "apiVersion: v2\nname: s{at}\nversion: 1.0.0\ndependencies:\n\
                 - {{name: lib, version: '1', tags: [t]}}\n"
            );
            files.push((format!("charts/s{at}/Chart.yaml"), metadata));
            files.push((
                format!("charts/s{at}/values.yaml"),
                "enabled: true\na: {b: {c: d}}\n".to_owned(),
            ));
            files.push((
                format!("charts/s{at}/charts/lib/Chart.yaml"),
                "{apiVersion: v2, name: lib, version: 1.0.0, type: library}".to_owned(),
            ));
            files.push((
                format!("charts/s{at}/templates/t.yaml"),
                "a: {{ .Values.a.b.c }}\n".to_owned(),
            ));
        }
        load_files(files, &Limits::default()).unwrap().chart
    };
    let time = |chart: &Chart| {
        let start = std::time::Instant::now();
        let rendered = render(chart, &values(""), &RenderOptions::default()).unwrap();
        assert_eq!(rendered.manifests.len(), chart.dependencies.len());
        start.elapsed()
    };
    let charts = (umbrella(20), umbrella(160));
    let (mut small, mut large) = (time(&charts.0), time(&charts.1));
    // Eight times the subcharts; quadratic work would take 64 times as long. On a busy machine single runs say nothing:
    // the best ones come near the truth, which quadratic work never gets past.
    let is_in_proportion = (0..200).any(|_| {
        small = small.min(time(&charts.0));
        large = large.min(time(&charts.1));
        large < small * 24
    });
    assert!(is_in_proportion, "{small:?} and {large:?}");
}
