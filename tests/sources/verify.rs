//! Charts that have to be signed, with keys of GnuPG and of cosign.

use std::process::Command;

use helm_operator::source::{HelmRepositorySource, OciSource, Reason, RepositoryUrl};
use testkit::{
    ChartServer, CosignKey, GpgKey, Registry, RegistryOptions, ScratchDir, SignedChart, ToolSet,
    Tools, chart_archive, push_file,
};

use crate::{Bench, secret_ref, seen, source};

fn signed(server: &ChartServer, version: &str, chart: &SignedChart) {
    server.add_chart("app", version, chart.archive.clone());
    server.put(
        &format!("/app-{version}.tgz.prov"),
        chart.provenance.clone(),
    );
}

fn wanting(server: &ChartServer, version: &str, secret: &str) -> HelmRepositorySource {
    HelmRepositorySource {
        verify: Some(secret_ref(secret)),
        ..source(&server.url(), "app", version)
    }
}

#[tokio::test]
async fn a_chart_of_a_repository_is_taken_with_a_provenance_by_a_known_key() {
    let server = ChartServer::start().unwrap();
    let keys: Vec<GpgKey> = ["rsa2048", "ed25519", "nistp256"]
        .map(|kind| GpgKey::generate("Robot <robot@example.invalid>", kind).unwrap())
        .into();
    let armored: Vec<String> = keys.iter().map(|key| key.armored().unwrap()).collect();
    for (at, key) in keys.iter().enumerate() {
        let version = format!("1.{at}.0");
        signed(&server, &version, &key.sign_chart("app", &version).unwrap());
    }
    let all = armored.concat();
    let charts = Bench::new()
        .secret("all", &[("keys.asc", &all)])
        .secret("second", &[("robot.asc", &armored[1])])
        .charts();
    for at in 0..3 {
        let version = format!("1.{at}.0");
        let found = charts
            .repository_chart(&wanting(&server, &version, "all"))
            .await;
        assert_eq!(seen(found).0, version);
        let second = charts
            .repository_chart(&wanting(&server, &version, "second"))
            .await;
        match at {
            1 => drop(second.unwrap()),
            _ => {
                let error = second.unwrap_err();
                assert_eq!(error.reason(), Reason::SignatureInvalid, "{error}");
                assert!(
                    error.to_string().contains("signed by another key"),
                    "{error}"
                );
                assert!(error.to_string().contains("secret apps/second"), "{error}");
            }
        }
    }
    // What was checked is not checked again: a settled release costs nothing.
    server.forget();
    let again = wanting(&server, "1.1.0", "all");
    charts.repository_chart(&again).await.unwrap();
    let paths: Vec<_> = server.requests().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, Vec::<String>::new());
}

#[tokio::test]
async fn a_chart_of_a_repository_that_is_not_what_was_signed_is_refused() {
    let key = GpgKey::generate("Robot <robot@example.invalid>", "ed25519").unwrap();
    let good = key.sign_chart("app", "1.0.0").unwrap();
    let old = key.sign_chart("app", "0.9.0").unwrap();
    let with = |archive: &[u8], provenance: Option<Vec<u8>>| {
        let server = ChartServer::start().unwrap();
        server.add_chart("app", "1.0.0", archive.to_vec());
        if let Some(provenance) = provenance {
            server.put("/app-1.0.0.tgz.prov", provenance);
        }
        server
    };
    let tampered = chart_archive("app", "1.0.0", &[("evil", "canary")]).unwrap();
    let text = String::from_utf8(good.provenance.clone()).unwrap();
    let renamed = text.replace("app-1.0.0.tgz", "app-2.0.0.tgz");
    let wrong_sum = text.replace("name: app", "name: ape");
    for (server, hint) in [
        (
            with(&good.archive, None),
            "it is not signed: there is no http",
        ),
        (
            with(&tampered, Some(good.provenance.clone())),
            "sha256 sum does not match for app-1.0.0.tgz",
        ),
        (
            with(&good.archive, Some(renamed.into())),
            "does not fit its content",
        ),
        (
            with(&good.archive, Some(wrong_sum.into())),
            "does not fit its content",
        ),
        (
            with(&good.archive, Some(b"nothing".to_vec())),
            "no signature that is understood",
        ),
        (with(&good.archive, Some(vec![0xff; 64])), "is no text"),
        // A well signed chart in the place of a newer one.
        (
            with(&old.archive, Some(old.provenance.clone())),
            "what is served as app 1.0.0 is \"app\" \"0.9.0\"",
        ),
        (
            with(&good.archive, Some(old.provenance.clone())),
            "does not contain a SHA for a file named \"app-1.0.0.tgz\"",
        ),
    ] {
        let charts = Bench::new()
            .secret("keys", &[("robot.asc", &key.armored().unwrap())])
            .charts();
        let error = charts
            .repository_chart(&wanting(&server, "1.0.0", "keys"))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Reason::SignatureInvalid, "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn a_secret_without_keys_lets_nothing_pass() {
    let server = ChartServer::start().unwrap();
    server.add_chart("app", "1.0.0", chart_archive("app", "1.0.0", &[]).unwrap());
    let cosign = CosignKey::generate().unwrap().public().unwrap();
    let charts = Bench::new()
        .secret("empty", &[])
        .secret(
            "other",
            &[("a.pub", "ssh-ed25519 AAAA"), ("b.asc", "nonsense")],
        )
        .secret("cosign", &[("cosign.pub", &cosign)])
        .charts();
    for (secret, reason, hint) in [
        (
            "empty",
            Reason::SignatureInvalid,
            "no key to check charts with",
        ),
        (
            "other",
            Reason::SignatureInvalid,
            "no key to check charts with",
        ),
        ("cosign", Reason::SignatureInvalid, "is signed with OpenPGP"),
        ("absent", Reason::AuthFailed, "absent"),
    ] {
        let error = charts
            .repository_chart(&wanting(&server, "1.0.0", secret))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{secret}: {error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
}

#[tokio::test]
async fn a_chart_of_a_registry_is_taken_with_a_signature_of_cosign() {
    let registry = Registry::start(RegistryOptions::default()).unwrap();
    let (key, other) = (
        CosignKey::generate().unwrap(),
        CosignKey::generate().unwrap(),
    );
    let digests = ["1.0.0", "1.1.0", "1.2.0", "1.3.0"].map(|version| {
        registry.push("app", version).unwrap();
        registry.manifest("app", version).unwrap().0
    });
    key.sign_manifest(&registry, "app", &digests[0]).unwrap();
    key.sign_with_bundle(&registry, "app", &digests[1]).unwrap();
    other.sign_manifest(&registry, "app", &digests[2]).unwrap();
    let charts = Bench::new()
        .secret("key", &[("cosign.pub", &key.public().unwrap())])
        .charts_speaking_http(&[registry.host()]);
    let wanting = |version: &str, tag: Option<&str>| OciSource {
        url: RepositoryUrl::parse(&registry.url("app")).unwrap(),
        tag: tag.map(str::to_owned),
        version: Some(version.to_owned()),
        secret: None,
        verify: Some(secret_ref("key")),
    };
    for (version, tag) in [
        ("1.0.0", None),
        ("1.1.0", None),
        ("~1.0", None),
        (digests[0].as_str(), None),
        ("", Some("1.1.0")),
    ] {
        charts.registry_chart(&wanting(version, tag)).await.unwrap();
    }
    for (version, hint) in [
        ("1.2.0", "signed by another key"),
        ("1.3.0", "it is not signed"),
        ("*", "it is not signed"),
    ] {
        let error = charts
            .registry_chart(&wanting(version, None))
            .await
            .unwrap_err();
        assert_eq!(error.reason(), Reason::SignatureInvalid, "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
    // A signed manifest behind the tag of another version.
    let (_, old) = registry.manifest("app", "1.0.0").unwrap();
    let old = String::from_utf8(old).unwrap();
    registry.put_manifest("app", "1.4.0", old).unwrap();
    let error = charts
        .registry_chart(&wanting("1.4.0", None))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("what is served as app 1.4.0"),
        "{error}"
    );
}

#[tokio::test]
async fn a_chart_of_a_registry_is_taken_with_the_provenance_that_was_pushed() {
    let registry = Registry::start(RegistryOptions::default()).unwrap();
    let key = GpgKey::generate("Robot <robot@example.invalid>", "ed25519").unwrap();
    let chart = key.sign_chart("app", "1.0.0+build.1").unwrap();
    push_file(&registry, &chart.path).unwrap();
    registry.push("app", "1.1.0").unwrap();
    let charts = Bench::new()
        .secret("key", &[("robot.asc", &key.armored().unwrap())])
        .charts_speaking_http(&[registry.host()]);
    let wanting = |version: &str| OciSource {
        url: RepositoryUrl::parse(&registry.url("app")).unwrap(),
        tag: None,
        version: Some(version.to_owned()),
        secret: None,
        verify: Some(secret_ref("key")),
    };
    let found = charts.registry_chart(&wanting("1.0.0+build.1")).await;
    assert_eq!(seen(found).0, "1.0.0+build.1");
    let error = charts.registry_chart(&wanting("1.1.0")).await.unwrap_err();
    assert_eq!(error.reason(), Reason::SignatureInvalid, "{error}");
}

#[test]
fn pull_verifies_and_says_what_helm_says() {
    let server = ChartServer::start().unwrap();
    let tools = Tools::locate(ToolSet::Full).unwrap();
    let key = GpgKey::generate("Robot <robot@example.invalid>", "rsa2048").unwrap();
    let other = GpgKey::generate("Other <other@example.invalid>", "ed25519").unwrap();
    signed(&server, "1.0.0", &key.sign_chart("app", "1.0.0").unwrap());
    server.add_chart("app", "1.1.0", chart_archive("app", "1.1.0", &[]).unwrap());
    let scratch = ScratchDir::new("pull").unwrap();
    let pull = |mut command: Command, directory: &str, more: &[&str]| {
        command
            .env("HOME", scratch.join("home"))
            .args(["pull", "app", "--repo", &server.url(), "--destination"])
            .arg(scratch.join(directory))
            .args(more);
        std::fs::create_dir_all(scratch.join(directory)).unwrap();
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text)
    };
    let ours = || Command::new(env!("CARGO_BIN_EXE_helm-operator"));
    let helm = || tools.command("helm").unwrap();
    let armored = scratch.join("armored.asc");
    std::fs::write(&armored, key.armored().unwrap()).unwrap();
    let ring = key.ring().unwrap();
    let keybox = key.keybox();
    for (at, keyring) in [&ring, &keybox, &armored].into_iter().enumerate() {
        let more = [
            "--version",
            "1.0.0",
            "--verify",
            "--keyring",
            keyring.to_str().unwrap(),
        ];
        let (left, right) = (format!("ours-{at}"), format!("helm-{at}"));
        let (here, there) = (pull(ours(), &left, &more), pull(helm(), &right, &more));
        assert!(here.0 && there.0, "{here:?} {there:?}");
        assert_eq!(here.1, there.1);
        for file in ["app-1.0.0.tgz", "app-1.0.0.tgz.prov"] {
            let read = |directory: &str| std::fs::read(scratch.join(directory).join(file)).unwrap();
            assert_eq!(read(&left), read(&right), "{file}");
        }
    }
    let stranger = other.ring().unwrap();
    let stranger = stranger.to_str().unwrap();
    for more in [
        ["--version", "1.0.0", "--verify", "--keyring", stranger],
        [
            "--version",
            "1.1.0",
            "--verify",
            "--keyring",
            ring.to_str().unwrap(),
        ],
    ] {
        let (here, there) = (
            pull(ours(), "refused", &more),
            pull(helm(), "refused-helm", &more),
        );
        assert!(!here.0 && !there.0, "{more:?}");
        assert_eq!(
            std::fs::read_dir(scratch.join("refused")).unwrap().count(),
            0
        );
    }
    let prov = ["--version", "1.0.0", "--prov"];
    assert_eq!(pull(ours(), "prov", &prov), (true, String::new()));
    assert_eq!(std::fs::read_dir(scratch.join("prov")).unwrap().count(), 2);
    let none = ["--version", "1.1.0", "--prov"];
    assert!(pull(ours(), "none", &none).0, "there need not be one");
}
