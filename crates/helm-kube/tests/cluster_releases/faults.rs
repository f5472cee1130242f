//! An API server that fails: what it answers, and what comes of it.

use std::time::{Duration, Instant};

use helm_kube::{Class, ClusterOptions, Reason};
use testkit::{Fault, FaultProxy};

use crate::support::{Actor, Site, config_map, desired};

/// A site whose requests go through a proxy.
fn behind_proxy(prefix: &str) -> (Site, FaultProxy<'static>) {
    let mut site = Site::new(prefix);
    let proxy = FaultProxy::start(site.plane).unwrap();
    let options = ClusterOptions {
        request_timeout: Duration::from_millis(700),
        max_pause: Duration::from_millis(200),
        ..ClusterOptions::default()
    };
    let namespace = site.namespace().to_owned();
    site.actor = Actor::new(&proxy.kubeconfig().unwrap(), &namespace, options);
    (site, proxy)
}

fn manifest(value: &str) -> String {
    config_map("one", value) + &config_map("two", value)
}

/// The fault of a test, at the n-th request.
async fn upgrade_with(fault: Fault, prefix: &str) {
    let (site, proxy) = behind_proxy(prefix);
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    proxy.traffic().forget();
    site.deploy(desired("1.0.1", manifest("b"))).await.unwrap();
    let count = proxy.traffic().count();
    for request in 1..=count {
        proxy.traffic().forget();
        proxy.traffic().fault_at(request, fault.clone());
        let revision = i64::try_from(request).unwrap() + 2;
        let result = site
            .deploy(desired(&format!("1.1.{request}"), manifest("c")))
            .await;
        let outcome = result.unwrap_or_else(|error| panic!("{fault:?} at {request}: {error}"));
        assert_eq!(outcome.release.revision, revision, "{fault:?} at {request}");
        proxy.traffic().heal();
    }
    let history = site.history().await;
    let plan = site.plan(&history, None);
    assert!(!plan.has_mending(), "{plan:?}");
    assert!(history.revisions().len() <= 10);
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_revision() {
    upgrade_with(Fault::CutReply, "lost").await;
}

#[tokio::test]
async fn a_broken_connection_is_made_again() {
    upgrade_with(Fault::Cut, "cut").await;
}

#[tokio::test]
async fn an_answer_that_ends_early_is_asked_for_again() {
    upgrade_with(Fault::CutBody(10), "short").await;
}

#[tokio::test]
async fn servers_that_are_busy_or_away_for_a_moment_are_asked_again() {
    for code in [429, 502, 503, 504] {
        upgrade_with(Fault::Status(code, None), "busy").await;
    }
}

#[tokio::test]
async fn an_error_after_the_commit_makes_no_second_revision() {
    for code in [503, 504] {
        upgrade_with(Fault::StatusAfter(code), "committed").await;
    }
}

#[tokio::test]
async fn a_slow_server_is_waited_for() {
    let (site, proxy) = behind_proxy("slow");
    proxy
        .traffic()
        .fault(Fault::Delay(Duration::from_millis(400)));
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    site.deploy(desired("1.1.0", manifest("b"))).await.unwrap();
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
}

/// 500 is no sign that the same request may succeed in a moment: the release is gone on with later.
#[tokio::test]
async fn an_internal_error_leaves_a_release_to_be_gone_on_with() {
    let (site, proxy) = behind_proxy("internal");
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    proxy.traffic().forget();
    site.deploy(desired("1.0.1", manifest("b"))).await.unwrap();
    // The first request is the list that the decision is made by.
    for request in 2..=proxy.traffic().count() {
        let version = format!("1.1.{request}");
        proxy.traffic().forget();
        proxy.traffic().fault_at(request, Fault::Status(500, None));
        // Where it comes decides whether the attempt fails; never is a revision left out or left pending.
        site.deploy(desired(&version, manifest("c"))).await.ok();
        proxy.traffic().heal();
        site.deploy(desired(&version, manifest("c"))).await.unwrap();
        let history = site.history().await;
        assert!(!site.plan(&history, None).has_mending(), "at {request}");
    }
}

#[tokio::test]
async fn a_long_retry_after_is_left_to_the_caller() {
    let (site, proxy) = behind_proxy("patience");
    site.history().await;
    proxy.traffic().fault_when(
        1,
        |exchange| exchange.method == "PATCH",
        Fault::Status(429, Some(30)),
    );
    let started = Instant::now();
    let error = site
        .deploy(desired("1.0.0", manifest("a")))
        .await
        .unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(error.reason, Reason::Throttled);
    assert_eq!(error.class(), Class::Transient);
    assert_eq!(error.retry_after, Some(Duration::from_secs(30)));
    assert!(error.resumable);
    assert_eq!(site.states().await, "1 pending-install");
    // The same revision is gone on with.
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    assert_eq!(site.states().await, "1 deployed");
}

#[tokio::test]
async fn a_request_that_hangs_is_given_up() {
    let (site, proxy) = behind_proxy("hang");
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    proxy.traffic().fault_when(
        1,
        |exchange| exchange.path.ends_with("/configmaps/two"),
        Fault::Hang,
    );
    let error = site
        .deploy(desired("1.1.0", manifest("b")))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::ClusterUnreachable);
    assert!(error.resumable, "{error}");
    assert_eq!(site.states().await, "1 deployed, 2 pending-upgrade");
    site.deploy(desired("1.1.0", manifest("b"))).await.unwrap();
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
}

#[tokio::test]
async fn a_server_that_stays_away_leaves_a_release_to_be_gone_on_with() {
    let (site, proxy) = behind_proxy("away");
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    proxy.traffic().fault_when(
        usize::MAX,
        |exchange| exchange.method == "PATCH",
        Fault::Status(503, None),
    );
    let error = site
        .deploy(desired("1.1.0", manifest("b")))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::ServerError);
    assert!(error.resumable);
    for _ in 0..3 {
        let again = site
            .deploy(desired("1.1.0", manifest("b")))
            .await
            .unwrap_err();
        assert!(again.resumable);
        assert_eq!(site.states().await, "1 deployed, 2 pending-upgrade");
    }
    proxy.traffic().heal();
    site.deploy(desired("1.1.0", manifest("b"))).await.unwrap();
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
}

#[tokio::test]
async fn another_writer_is_noticed_and_nothing_is_overwritten() {
    let (site, proxy) = behind_proxy("fence");
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    let history = site.history().await;
    let other = site.deploy(desired("2.0.0", manifest("other"))).await;
    assert_eq!(other.unwrap().release.revision, 2);
    let error = site
        .deploy_on(history, desired("1.1.0", manifest("mine")))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::ConcurrentChange);
    assert_eq!(
        site.live("configmaps", "one").unwrap()["data"]["key"],
        "other"
    );
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
    drop(proxy);
}

#[tokio::test]
async fn conflicts_on_every_write_once_are_overcome() {
    let (site, proxy) = behind_proxy("conflicts");
    site.deploy(desired("1.0.0", manifest("a"))).await.unwrap();
    // A 409 without a cause is what an object that changes under a patch is answered with.
    proxy.traffic().fault_when(
        1,
        |exchange| exchange.path.ends_with("/configmaps/one"),
        Fault::Status(409, None),
    );
    proxy.traffic().fault_when(
        1,
        |exchange| exchange.path.ends_with("/configmaps/two"),
        Fault::Status(409, None),
    );
    site.deploy(desired("1.1.0", manifest("b"))).await.unwrap();
    assert_eq!(site.states().await, "1 superseded, 2 deployed");
    for name in ["one", "two"] {
        assert_eq!(site.live("configmaps", name).unwrap()["data"]["key"], "b");
    }
}
