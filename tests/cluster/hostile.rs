//! Tenants and objects that mean harm, or are only odd: S-27, S-28, S-30, S-31 and S-32 of `docs/faults.md`.

use std::sync::OnceLock;

use base64::Engine as _;
use serde_json::{Value, json};
use testkit::{
    ChartServer, ControlPlane, Daemon, DaemonOptions, Exchange, FaultProxy, Options, Rig,
    chart_archive,
};

use crate::support::{BINARY, LIMIT, condition, message, shared, text, write_chart};

/// A control plane without the daemon of the other tests, which watches everything.
fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| ControlPlane::start(Options::default()).unwrap())
}

fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> String {
    testkit::run(plane.kubectl().unwrap().args(arguments)).unwrap()
}

/// A HelmRelease of the chart `charts/hello` of a repository.
fn release(name: &str, url: &str, more: &Value) -> String {
    let mut spec =
        json!({"releaseName": name, "chart": {"git": url, "path": "charts/hello", "ref": "main"}});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease", "metadata": {"name": name}, "spec": spec}).to_string()
}

#[test]
fn s27_nothing_of_another_namespace_is_read_when_that_is_forbidden() {
    let plane = plane();
    let rig = Rig::start(
        plane,
        BINARY,
        &["--no-cross-namespace-refs", "--allow-namespace=s27-own"],
    )
    .unwrap();
    for namespace in ["s27-own", "s27-other"] {
        kubectl(plane, &["create", "namespace", namespace]);
    }
    let repository = rig.git.repository("s27").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"values.yaml": "greeting: canary", "username": "u", "password": "canary"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"values.yaml": "greeting: canary"}},
    ]});
    rig.apply("s27-other", &objects.to_string()).unwrap();
    let url = repository.url();
    let elsewhere = |name: &str| json!({"name": name, "namespace": "s27-other"});
    let optional = |name: &str| json!({"name": name, "namespace": "s27-other", "optional": true});
    let chart = |secret: Value| json!({"git": url, "path": "charts/hello", "secretRef": secret});
    let cases = [
        (
            "secret",
            json!({"valuesFrom": [{"secretKeyRef": elsewhere("s")}]}),
        ),
        (
            "map",
            json!({"valuesFrom": [{"configMapKeyRef": elsewhere("c")}]}),
        ),
        // What is optional may be missing; it may not be somewhere else.
        (
            "optional",
            json!({"valuesFrom": [{"secretKeyRef": optional("s")}]}),
        ),
        (
            "path",
            json!({"valuesFrom": [{"secretKeyRef": optional("s"), "targetPath": "a"}]}),
        ),
        ("login", json!({"chart": chart(elsewhere("s"))})),
        (
            "signers",
            json!({"chart": {"git": url, "path": "charts/hello", "verify": {"secretRef": elsewhere("s")}}}),
        ),
    ];
    for (name, more) in &cases {
        rig.apply("s27-own", &release(name, url, more)).unwrap();
    }
    for (name, _) in &cases {
        let denied = |release: &Value| condition(release, "Ready").starts_with("False");
        let failed = rig.wait_for("s27-own", name, LIMIT, denied).unwrap();
        assert_eq!(
            condition(&failed, "Ready"),
            "False CrossNamespaceDenied",
            "{name}"
        );
        assert!(!failed["status"].to_string().contains("canary"), "{name}");
    }
}

/// A chart with everything that asks the API server for something: a CRD, a hook, a look at a live object.
fn write_asking_chart(repository: &testkit::GitRepository, group: &str) {
    write_chart(repository, "1.0.0");
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{kind: Thing, plural: things, singular: thing}}\n  versions:\n  \
         - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}\n"
    );
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  \
                annotations: {helm.sh/hook: \"pre-install,pre-upgrade,pre-rollback,post-delete,test\", helm.sh/hook-delete-policy: before-hook-creation}\n";
    let looking = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-seen}\ndata:\n  \
                   seen: {{ (lookup \"v1\" \"Secret\" .Release.Namespace \"live\").kind | default \"none\" | quote }}\n  \
                   maps: {{ len ((lookup \"v1\" \"ConfigMap\" .Release.Namespace \"\").items) | quote }}\n  \
                   {{- if .Values.spoil }}\n  spoil: [1]\n  {{- end }}\n";
    for (file, content) in [
        ("crds/things.yaml", crd.as_str()),
        ("templates/hook.yaml", hook),
        ("templates/seen.yaml", looking),
    ] {
        repository
            .write(&format!("charts/hello/{file}"), content)
            .unwrap();
    }
    repository.commit("Ask").unwrap();
}

/// Whether a request is the daemon's own business: its watches, HelmReleases and their status, Events, the lease.
fn is_own(exchange: &Exchange) -> bool {
    let ours = ["/helmreleases", "/events", "/leases"];
    exchange.query.contains("watch=")
        || ours.iter().any(|path| exchange.path.contains(path))
        || !exchange.path.contains("/namespaces/") && exchange.query.contains("resourceVersion")
}

#[test]
fn s28_install_upgrade_rollback_test_and_uninstall_are_asked_for_as_the_service_account() {
    let plane = plane();
    let proxy = FaultProxy::start(plane).unwrap();
    let namespace = plane.namespace("s28").unwrap();
    let allowed = format!("--allow-namespace={namespace}");
    let flags = [
        allowed.as_str(),
        "--git-default-ref=main",
        "--charts-sync-interval=2s",
    ];
    let rig = Rig::start_with(
        plane,
        DaemonOptions::local(BINARY, proxy.kubeconfig().unwrap(), &flags),
    )
    .unwrap();
    let repository = rig.git.repository("s28").unwrap();
    write_asking_chart(&repository, "s28.example.com");
    let account = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "live"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "values"}, "stringData": {"values.yaml": "greeting: hi"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "s28"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}]},
    ]});
    rig.apply(&namespace, &account.to_string()).unwrap();
    proxy.traffic().forget();
    let spec = |more: Value| {
        let mut spec = json!({"serviceAccountName": "deployer", "rollback": {"enable": true}, "test": {"enable": true},
            "driftDetection": {"mode": "enabled"}, "valuesFrom": [{"secretKeyRef": {"name": "values"}}]});
        spec["values"] = more;
        release("asking", repository.url(), &spec)
    };
    rig.apply(&namespace, &spec(json!({}))).unwrap();
    rig.wait_until_ready(&namespace, "asking", LIMIT).unwrap();
    rig.apply(&namespace, &spec(json!({"greeting": "two"})))
        .unwrap();
    rig.wait_until_ready(&namespace, "asking", LIMIT).unwrap();
    rig.apply(&namespace, &spec(json!({"greeting": "two", "spoil": true})))
        .unwrap();
    let rolled_back = |release: &Value| condition(release, "RolledBack") == "True RolledBack";
    rig.wait_for(&namespace, "asking", LIMIT, rolled_back)
        .unwrap();
    kubectl(
        plane,
        &[
            "delete",
            "hr",
            "asking",
            "--timeout=60s",
            "--namespace",
            &namespace,
        ],
    );
    let account = format!("system:serviceaccount:{namespace}:deployer");
    let (own, of_release): (Vec<_>, Vec<_>) =
        proxy.traffic().exchanges().into_iter().partition(is_own);
    assert!(
        own.len() > 5 && of_release.len() > 40,
        "{} {}",
        own.len(),
        of_release.len()
    );
    let others: Vec<_> = of_release
        .iter()
        .filter(|exchange| exchange.impersonated.as_ref() != Some(&account))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    // Hooks, the look at live objects, the CRD, the catalogue and the records were among them.
    for part in [
        "asking-hook",
        "/secrets/live",
        "customresourcedefinitions",
        "/apis",
        "/secrets/sh.helm.release.v1.asking.v",
    ] {
        assert!(
            of_release
                .iter()
                .any(|exchange| exchange.path.contains(part)),
            "{part}"
        );
    }
}

/// Words that must not come out, and where each is hidden.
const CANARIES: [&str; 8] = [
    "canary-inline",
    "canary-secret",
    "canary-broken",
    "canary-password",
    "canary-userinfo",
    "canary-query",
    "canary-rendered",
    "canary-schema",
];

/// Each way a word may be spelt: as it is, in base64 at each of the three offsets, in hexadecimal, as a list of bytes.
fn spellings(word: &str) -> Vec<String> {
    let bytes = word.as_bytes();
    let mut spellings = vec![word.to_owned()];
    for offset in 0..3 {
        let padded = [&b"xxx"[..offset], bytes].concat();
        let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(padded);
        // What the neighbours of the word change is left out.
        let (start, end) = (if offset == 0 { 0 } else { offset + 1 }, encoded.len() - 2);
        spellings.push(encoded[start..end].to_owned());
    }
    spellings.push(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
    spellings.push(
        bytes
            .iter()
            .map(u8::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    );
    spellings.push(
        bytes
            .iter()
            .map(u8::to_string)
            .collect::<Vec<_>>()
            .join(" "),
    );
    spellings
}

#[test]
fn s30_no_secret_comes_out_whatever_goes_wrong() {
    let plane = plane();
    let namespace = plane.namespace("s30").unwrap();
    let allowed = format!("--allow-namespace={namespace}");
    let flags = [
        allowed.as_str(),
        "--log-level=trace",
        "--git-default-ref=main",
        "--charts-sync-interval=2s",
        "--log-release-diffs",
    ];
    let rig = Rig::start(plane, BINARY, &flags).unwrap();
    let repository = rig.git.repository("s30").unwrap();
    write_chart(&repository, "1.0.0");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}}\nstringData: {p: {{ .Values.p | default \"x\" | quote }}}\n";
    let schema = r#"{"properties": {"strict": {"type": "string", "pattern": "^x$", "enum": ["x"], "maxLength": 1}}}"#;
    let broken = "{{ if .Values.broken }}\na: {{ .Values.p }}: [\n{{ end }}";
    // The API server says what it got instead of a map.
    let odd = "{{ if .Values.odd }}\napiVersion: v1\nkind: Secret\nmetadata: {name: odd}\nstringData: {{ .Values.p }}\n{{ end }}";
    for (file, content) in [
        ("templates/secret.yaml", secret),
        ("values.schema.json", schema),
        ("templates/broken.yaml", broken),
        ("templates/odd.yaml", odd),
    ] {
        repository
            .write(&format!("charts/hello/{file}"), content)
            .unwrap();
    }
    repository.commit("Add the chart").unwrap();
    let charts = ChartServer::start().unwrap();
    charts.require_login("someone", "else");
    charts.add_chart(
        "hello",
        "1.0.0",
        chart_archive("hello", "1.0.0", &[]).unwrap(),
    );
    let host = charts.url().replace("http://", "");
    let git_host = repository.url().replace("http://", "");
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s-good"}, "stringData": {"values.yaml": "p: canary-secret"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s-broken"}, "stringData": {"values.yaml": "p: canary-broken: ["}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s-login"}, "stringData": {"username": "u", "password": "canary-password"}},
    ]});
    rig.apply(&namespace, &objects.to_string()).unwrap();
    let url = repository.url();
    let git = |url: &str, more: Value| {
        let mut chart = json!({"git": url, "path": "charts/hello"});
        chart
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "chart": chart })
    };
    let repo =
        |url: String| json!({"chart": {"repository": url, "name": "hello", "version": "1.0.0"}});
    let cases = [
        (
            "good",
            true,
            json!({"valuesFrom": [{"secretKeyRef": {"name": "s-good"}}], "values": {"q": "canary-inline"}}),
        ),
        (
            "broken-values",
            false,
            json!({"valuesFrom": [{"secretKeyRef": {"name": "s-broken"}}]}),
        ),
        (
            "text",
            false,
            json!({"valuesFrom": [{"secretKeyRef": {"name": "s-login", "key": "password"}}]}),
        ),
        (
            "login",
            false,
            git(
                &url.replace("/s30.git", "/none.git"),
                json!({"secretRef": {"name": "s-login"}}),
            ),
        ),
        (
            "userinfo",
            false,
            git(&format!("http://me:canary-userinfo@{git_host}x"), json!({})),
        ),
        (
            "repository",
            false,
            repo(format!(
                "http://me:canary-userinfo@{host}/?token=canary-query"
            )),
        ),
        (
            "pull-secret",
            false,
            json!({"chart": {"repository": format!("http://{host}"), "name": "hello", "version": "1.0.0", "chartPullSecret": {"name": "s-login"}}}),
        ),
        (
            "url",
            false,
            json!({"valuesFrom": [{"externalSourceRef": {"url": format!("http://me:canary-userinfo@{host}/v?token=canary-query")}}]}),
        ),
        (
            "no-url",
            false,
            json!({"valuesFrom": [{"externalSourceRef": {"url": "nothing://me:canary-userinfo@h/?t=canary-query"}}]}),
        ),
        (
            "no-yaml",
            false,
            json!({"values": {"broken": true, "p": "canary-rendered"}}),
        ),
        (
            "odd-object",
            false,
            json!({"values": {"odd": true, "p": "canary-rendered"}}),
        ),
        (
            "schema",
            false,
            json!({"values": {"strict": "canary-schema"}}),
        ),
        (
            "path",
            false,
            json!({"valuesFrom": [{"secretKeyRef": {"name": "s-good"}, "targetPath": "a[99999999999]"}]}),
        ),
        (
            "kubeconfig",
            false,
            json!({"kubeConfig": {"secretRef": {"name": "s-login", "key": "password"}}}),
        ),
    ];
    for (name, _, more) in &cases {
        rig.apply(&namespace, &release(name, url, more)).unwrap();
    }
    let mut outputs = vec![];
    for (name, good, _) in &cases {
        let wanted = if *good { "True" } else { "False" };
        let is_told = |release: &Value| condition(release, "Ready").starts_with(wanted);
        let told = rig.wait_for(&namespace, name, LIMIT, is_told).unwrap();
        outputs.push((format!("the status of {name}"), told["status"].to_string()));
    }
    // Another state of the good one: an upgrade that is compared, and a difference that is logged.
    let changed = json!({"valuesFrom": [{"secretKeyRef": {"name": "s-good"}}], "values": {"q": "canary-inline", "p": "canary-rendered"}});
    rig.apply(&namespace, &release("good", url, &changed))
        .unwrap();
    rig.wait_until_ready(&namespace, "good", LIMIT).unwrap();
    outputs.push((
        "the metrics".to_owned(),
        rig.daemon.get("/metrics").unwrap().1,
    ));
    outputs.push((
        "the Events".to_owned(),
        plane
            .get(&format!("/api/v1/namespaces/{namespace}/events"))
            .unwrap()["items"]
            .to_string(),
    ));
    let log = rig.daemon.log();
    assert!(log.contains("trace="), "the log is not at trace level");
    outputs.extend(
        log.lines()
            .map(|line| ("the log".to_owned(), line.to_owned())),
    );
    for (place, output) in &outputs {
        for spelling in CANARIES.iter().flat_map(|canary| spellings(canary)) {
            assert!(
                !output.contains(&spelling),
                "{spelling} is in {place}: {output}"
            );
        }
    }
}

/// The CRD as clusters had it before schemas: everything may be stored.
fn apply_loose_crd(plane: &ControlPlane, loose: bool) {
    testkit::apply_crd(plane).unwrap();
    if loose {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]);
        kubectl(
            plane,
            &[
                "patch",
                "crd",
                "helmreleases.helm.fluxcd.io",
                "--type=json",
                "--patch",
                &patch.to_string(),
            ],
        );
    }
}

#[test]
fn s31_odd_objects_of_an_older_crd_fail_alone_heal_and_can_be_deleted() {
    let plane = ControlPlane::start(Options::default()).unwrap();
    let rig = Rig::start(
        &plane,
        BINARY,
        &["--git-default-ref=main", "--status-update-interval=1s"],
    )
    .unwrap();
    apply_loose_crd(&plane, true);
    let namespace = plane.namespace("s31").unwrap();
    let repository = rig.git.repository("s31").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    let url = repository.url();
    let good = |name: &str, more: Value| {
        serde_json::from_str::<Value>(&release(name, url, &more)).unwrap()
    };
    let odd_status = |status: Value| {
        let mut object = good("odd-status", json!({}));
        object["status"] = status;
        object
    };
    let bare = |name: &str, spec: Value| json!({"apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease", "metadata": {"name": name}, "spec": spec});
    let odd = [
        good("timeout", json!({"timeout": "10m"})),
        good("interval", json!({"interval": "soon"})),
        good("negative", json!({"interval": -5})),
        good(
            "reference",
            json!({"chart": {"git": url, "path": "charts/hello", "ref": 8_412_057}}),
        ),
        good(
            "sources",
            json!({"valuesFrom": {"secretKeyRef": {"name": "a"}}}),
        ),
        good("nested", json!({"rollback": [[[[[[{"a": [1]}]]]]]]})),
        good("gates", json!({"gates": [1]})),
        good("version", json!({"helmVersion": "v9"})),
        bare("text", json!("a text")),
        bare("list", json!([])),
        json!({"apiVersion": "helm.fluxcd.io/v1", "kind": "HelmRelease", "metadata": {"name": "nothing"}}),
        bare("no-chart", json!({"chart": "charts/hello"})),
    ];
    let fine = [
        good("first", json!({})),
        // Fields that were in the wrong place and dropped by later CRDs.
        good(
            "unknown",
            json!({"skipDepUpdate": true, "whatever": {"a": [1]}}),
        ),
        good(
            "large",
            json!({"values": {"text": "large ".repeat(150_000)}}),
        ),
        odd_status(json!({"phase": "Migrating", "conditions": "none", "valuesChecksum": 7})),
        good("last", json!({})),
    ];
    // Deeper than a reader of JSON goes: it must not make the whole list unreadable.
    let deep = format!("{}1{}", "{\"a\":".repeat(300), "}".repeat(300));
    let deep =
        release("deep", url, &json!({"values": {"deep": "DEEP"}})).replace("\"DEEP\"", &deep);
    rig.apply(&namespace, &deep).unwrap();
    let all: Vec<String> = odd.iter().chain(&fine).map(Value::to_string).collect();
    rig.apply(&namespace, &all.join("\n---\n")).unwrap();
    for object in &fine {
        rig.wait_until_ready(&namespace, &text(object, "/metadata/name"), LIMIT)
            .unwrap();
    }
    for object in &odd {
        let name = text(object, "/metadata/name");
        let is_told = |release: &Value| condition(release, "Ready") == "False InvalidSpec";
        let told = rig.wait_for(&namespace, &name, LIMIT, is_told).unwrap();
        assert!(
            message(&told, "Ready").starts_with("the object cannot be read: "),
            "{name}"
        );
        assert_eq!(text(&told, "/status/phase"), "Failed", "{name}");
    }
    let arguments = [
        "get",
        "hr",
        "deep",
        "--namespace",
        &namespace,
        "--output=jsonpath={.status.conditions}",
    ];
    let end = std::time::Instant::now() + LIMIT;
    while !kubectl(&plane, &arguments).contains("nested more than 100 deep") {
        assert!(std::time::Instant::now() < end, "{}", rig.daemon.log());
    }
    // One heals, one that was deployed turns odd and is deleted, and all others can be deleted too.
    rig.apply(
        &namespace,
        &good("timeout", json!({"timeout": 600})).to_string(),
    )
    .unwrap();
    rig.wait_until_ready(&namespace, "timeout", LIMIT).unwrap();
    rig.apply(
        &namespace,
        &good("first", json!({"timeout": "soon"})).to_string(),
    )
    .unwrap();
    rig.wait_for(&namespace, "first", LIMIT, |release| {
        condition(release, "Ready") == "False InvalidSpec"
    })
    .unwrap();
    kubectl(
        &plane,
        &[
            "delete",
            "hr",
            "--all",
            "--timeout=60s",
            "--namespace",
            &namespace,
        ],
    );
    let left = plane
        .get(&format!("/api/v1/namespaces/{namespace}/configmaps"))
        .unwrap();
    assert_eq!(left["items"].as_array().unwrap().len(), 0, "{left:#}");
    assert!(!rig.daemon.log().contains("panic"));
}

#[test]
fn s32_other_namespaces_are_not_touched_and_namespaces_get_no_labels() {
    let plane = plane();
    let (own, other) = (
        plane.namespace("s32").unwrap(),
        plane.namespace("s32-other").unwrap(),
    );
    let target = format!("{own}-made");
    let flags = [
        format!("--allow-namespace={own}"),
        "--git-default-ref=main".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let rig = Rig::start(plane, BINARY, &flags).unwrap();
    let repository = rig.git.repository("s32").unwrap();
    write_chart(&repository, "1.0.0");
    repository.commit("Add the chart").unwrap();
    rig.apply(&other, &release("foreign", repository.url(), &json!({})))
        .unwrap();
    let more = json!({"targetNamespace": target, "createNamespace": true,
        "values": {"namespace": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}});
    rig.apply(&own, &release("ours", repository.url(), &more))
        .unwrap();
    rig.wait_until_ready(&own, "ours", LIMIT).unwrap();
    let made = plane.get(&format!("/api/v1/namespaces/{target}")).unwrap();
    let labels: Vec<&String> = made["metadata"]["labels"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    let known = ["kubernetes.io/metadata.name", "name"];
    assert!(
        labels.iter().all(|label| known.contains(&label.as_str())),
        "{labels:?}"
    );
    let foreign = rig.release(&other, "foreign").unwrap();
    assert!(
        foreign["status"].is_null() && foreign["metadata"]["finalizers"].is_null(),
        "{foreign:#}"
    );
    // The other daemons of these tests watch everything; this one has seen nothing of it.
    assert!(!rig.daemon.log().contains("foreign"));
}

/// A daemon that is asked for much at once by many.
#[test]
fn s34_bodies_without_end_and_half_requests_do_not_hold_the_daemon() {
    use std::io::{Read as _, Write as _};
    let daemon: &Daemon = &shared().daemon;
    let address = daemon.url("").replace("http://", "");
    let connections: Vec<_> = (0..100)
        .map(|number| {
            let mut stream = std::net::TcpStream::connect(&address).unwrap();
            let head = match number % 3 {
                0 => "POST /hook/github HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824\r\n\r\n{",
                1 => "POST /hook/generic HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":",
                _ => "POST /api/v1/sync-git HTTP/1.1\r\nHo",
            };
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let started = std::time::Instant::now();
    assert_eq!(daemon.get("/healthz").unwrap().0, 200);
    assert_eq!(daemon.post("/hook/github", "{}").unwrap().0 / 100, 4);
    assert!(
        started.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    // Whoever announces too much is told so at once, or cut.
    let mut answer = [0; 64];
    let mut first = &connections[0];
    first.set_read_timeout(Some(LIMIT)).unwrap();
    let read = first.read(&mut answer).unwrap_or(0);
    let said = String::from_utf8_lossy(&answer[..read]);
    assert!(read == 0 || said.starts_with("HTTP/1.1 4"), "{said}");
}
