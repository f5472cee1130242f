//! Who works when: failing releases back off, waits keep nobody waiting, and an API server that has too much
//! to do is left alone.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use testkit::{ChartAnswer, ChartServer, Fault, GitOptions, GitServer};

use crate::support::{LIMIT, Solo, condition, text};

/// When lines of the log that hold some words were written.
fn times(solo: &Solo, name: &str, words: &str) -> Vec<Timestamp> {
    let lines = solo
        .log(name)
        .into_iter()
        .filter(|line| line.contains(words));
    lines
        .map(|line| {
            let ts = line
                .split_whitespace()
                .find_map(|field| field.strip_prefix("ts="));
            ts.unwrap().parse().unwrap()
        })
        .collect()
}

/// Waits until some words were logged so often, and returns when.
fn logged(solo: &Solo, name: &str, words: &str, count: usize) -> Vec<Timestamp> {
    let end = Instant::now() + LIMIT;
    loop {
        let found = times(solo, name, words);
        if found.len() >= count {
            return found;
        }
        assert!(
            Instant::now() < end,
            "{words}: {} times in {:#?}",
            found.len(),
            solo.log(name)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn r20_a_failing_release_backs_off_and_a_change_is_tried_at_once() {
    let solo = Solo::new("r20", &[]);
    let spec = |greeting: &str| {
        format!(
            "targetNamespace: {}-none\nretry: {{backoff: 1s, maxBackoff: 1h}}\nvalues: {{greeting: {greeting}}}",
            solo.namespace
        )
    };
    solo.apply("hello", &spec("a"));
    let failed = "warning=\"installation failed";
    let tries = logged(&solo, "hello", failed, 4);
    let pauses: Vec<Duration> = tries
        .windows(2)
        .map(|pair| pair[0].duration_until(pair[1]).unsigned_abs())
        .collect();
    // 1 s, 2 s and 4 s with up to a tenth more, and what a loaded machine takes.
    for (pause, least) in pauses.iter().zip([1.0, 2.0, 4.0]) {
        let seconds = pause.as_secs_f64();
        assert!(
            seconds >= least && seconds < least * 1.1 + 2.0,
            "{pauses:?}"
        );
    }
    // The next pause is of 8 s, and a change does not wait for its end.
    let changed = Instant::now();
    solo.apply("hello", &spec("b"));
    let tries = logged(&solo, "hello", failed, 6);
    assert!(
        changed.elapsed() < Duration::from_secs(6),
        "{:?}",
        changed.elapsed()
    );
    // It also begins again with the shortest pause.
    let pause = tries[4].duration_until(tries[5]).unsigned_abs();
    assert!(pause < Duration::from_secs(4), "{pause:?}");
    // It was told once for each spec, however often it was tried.
    assert_eq!(solo.told("hello", "FailedReleaseSync", 2).len(), 2);
}

#[test]
fn a_release_that_waits_keeps_no_other_from_being_worked_on() {
    let solo = Solo::new("waits", &["--workers=1"]);
    let deployment = "{{- if .Values.slow }}\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: slow}\nspec:\n  selector: {matchLabels: {a: b}}\n  \
                      template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: a, image: registry.example.com/a:1}]}\n{{- end }}\n";
    solo.repository
        .commit_file("charts/hello/templates/slow.yaml", deployment)
        .unwrap();
    // Nobody makes its pods here: it waits to the end of its time.
    solo.apply("slow", "wait: true\ntimeout: 300\nvalues: {slow: true}");
    solo.wait("slow", |release| {
        text(release, "/status/phase") == "Installing"
    });
    for number in 0..3 {
        let name = format!("quick-{number}");
        solo.apply(&name, "");
        solo.ready(&name);
    }
    let slow = solo.rig.release(&solo.namespace, "slow").unwrap();
    assert_eq!(text(&slow, "/status/phase"), "Installing");
}

#[test]
fn no_other_release_is_begun_with_while_the_api_server_asks_to_stay_away() {
    let solo = Solo::new("busy", &["--workers=2"]);
    solo.apply("first", "");
    solo.apply("second", "");
    solo.ready("first");
    solo.ready("second");
    let traffic = solo.proxy.traffic();
    traffic.forget();
    let object = format!("/api/v1/namespaces/{}/configmaps/first", solo.namespace);
    let refused = object.clone();
    traffic.fault_when(
        1,
        move |exchange| exchange.path == refused,
        Fault::Status(429, Some(4)),
    );
    solo.apply("first", "values: {greeting: other}");
    traffic
        .wait_until(LIMIT, |exchanges| {
            exchanges
                .iter()
                .any(|exchange| exchange.status == Some(429))
        })
        .unwrap();
    solo.apply("second", "values: {greeting: other}");
    for name in ["first", "second"] {
        solo.wait(name, |release| {
            testkit::is_ready(release) && release["status"]["observedGeneration"] == 2
        });
    }
    let exchanges = solo.proxy.traffic().exchanges();
    let refusal = exchanges
        .iter()
        .find(|exchange| exchange.status == Some(429))
        .unwrap();
    let second = exchanges
        .iter()
        .find(|exchange| exchange.write.is_some() && exchange.path.ends_with("/second/status"))
        .unwrap();
    let pause = second.at - refusal.at;
    assert!(pause >= Duration::from_millis(3900), "{pause:?}");
    let again = exchanges
        .iter()
        .find(|exchange| exchange.path == object && exchange.number > refusal.number)
        .unwrap();
    let pause = again.at - refusal.at;
    assert!(pause >= Duration::from_millis(3900), "{pause:?}");
}

/// Releases that can never work, each in its own way, and the reason that each of them gives.
fn poison(solo: &Solo, silent: &GitServer) -> Vec<(&'static str, String, &'static str)> {
    let bomb = (0..30).fold("a: &a0 [x]\n".to_owned(), |text, level| {
        format!(
            "{text}b{level}: &a{} [*a{level}, *a{level}, *a{level}]\n",
            level + 1
        )
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb"},
        "data": {"values.yaml": bomb}});
    solo.rig.apply(&solo.namespace, &map.to_string()).unwrap();
    let files = [
        (
            "charts/loop/Chart.yaml",
            "apiVersion: v2\nname: loop\nversion: 1.0.0\n",
        ),
        (
            "charts/loop/templates/a.yaml",
            "{{ range until 1000000000 }}x{{ end }}",
        ),
        ("charts/wrong/Chart.yaml", "- this is a list\n"),
        (
            "charts/fails/Chart.yaml",
            "apiVersion: v2\nname: fails\nversion: 1.0.0\n",
        ),
        (
            "charts/fails/templates/a.yaml",
            "{{ fail \"as it should\" }}",
        ),
    ];
    for (path, content) in files {
        solo.repository.write(path, content).unwrap();
    }
    solo.repository.commit("Add poison").unwrap();
    let usual = |name: &str, chart: &str| {
        solo.manifest(name, "")
            .replace("path: charts/hello", &format!("path: {chart}"))
    };
    silent.traffic().fault(Fault::Hang);
    let hung = usual("hung", "charts/hello").replace(solo.repository.url(), &silent.url("hung"));
    vec![
        (
            "bomb",
            solo.manifest("bomb", "valuesFrom: [{configMapKeyRef: {name: bomb}}]"),
            "ValuesInvalid",
        ),
        ("loop", usual("loop", "charts/loop"), "RenderFailed"),
        ("wrong", usual("wrong", "charts/wrong"), "ChartInvalid"),
        ("fails", usual("fails", "charts/fails"), "RenderFailed"),
        (
            "nowhere",
            usual("nowhere", "charts/nowhere"),
            "PathNotFound",
        ),
        ("hung", hung, "Cloning"),
    ]
}

#[test]
fn r19_releases_that_cannot_work_do_not_keep_the_others_waiting() {
    let solo = Solo::new("r19", &["--workers=2", "--git-timeout=60s"]);
    let good = ["good-0", "good-1", "good-2"];
    for name in good {
        solo.apply(name, "");
        solo.ready(name);
    }
    let silent = GitServer::start(GitOptions::default()).unwrap();
    let poison = poison(&solo, &silent);
    for (_, manifest, _) in &poison {
        solo.rig.apply(&solo.namespace, manifest).unwrap();
    }
    // While they do their worst, changes of the others are deployed.
    for round in 0..3 {
        for name in good {
            let start = Instant::now();
            solo.apply(name, &format!("values: {{greeting: round-{round}}}"));
            solo.wait(name, |release| {
                testkit::is_ready(release) && release["status"]["observedGeneration"] == round + 2
            });
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "{name}: {:?}",
                start.elapsed()
            );
        }
    }
    for (name, _, reason) in &poison {
        let release = solo.wait(name, |release| condition(release, "Ready").contains(reason));
        assert!(!testkit::is_ready(&release), "{name}");
    }
    let alive = solo.rig.daemon.get("/healthz").unwrap();
    assert_eq!(alive.0, 200);
    assert!(!solo.rig.daemon.log().contains("panic"));
}

#[test]
fn r19_servers_of_values_and_charts_that_never_answer_do_not_keep_the_others_waiting() {
    let solo = Solo::new("r19-silent", &["--workers=2", "--git-timeout=60s"]);
    solo.apply("good", "");
    solo.ready("good");
    let silent = ChartServer::start().unwrap();
    let mut names = Vec::new();
    for number in 0..4 {
        let path = format!("/values-{number}");
        silent.answer(&path, ChartAnswer::Silent);
        let name = format!("values-{number}");
        let url = format!("{}{path}", silent.url());
        solo.apply(
            &name,
            &format!("valuesFrom: [{{externalSourceRef: {{url: '{url}'}}}}]"),
        );
        names.push(path);
    }
    // All of them are asked, though only two may work, and the good one goes on.
    let end = Instant::now() + LIMIT;
    let asked = || {
        let requests = silent.requests();
        let is_asked = |path: &String| requests.iter().any(|request| request.path == *path);
        names.iter().all(is_asked)
    };
    while !asked() {
        assert!(Instant::now() < end, "{:?}", silent.requests());
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    solo.apply("good", "values: {greeting: again}");
    solo.wait("good", |release| {
        testkit::is_ready(release) && release["status"]["observedGeneration"] == 2
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}
