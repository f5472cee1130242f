//! What functions take from outside can be replaced, and then they always give the same.

mod common;

use std::sync::Arc;

use common::{Stopped, fixed, run};
use sprig::{Environment, Network};

#[test]
fn chance_comes_from_the_environment_alone() {
    for snippet in [
        "{{ randAlphaNum 20 }}",
        "{{ randAscii 300 }}",
        "{{ randBytes 9 }}",
        "{{ uuidv4 }}",
        "{{ shuffle \"abcdefghij\" }}",
        "{{ randInt -5 1000 }}",
        "{{ encryptAES \"key\" \"text\" }}",
        "{{ bcrypt \"x\" }}",
        "{{ genPrivateKey \"ed25519\" }}",
    ] {
        let first = run(snippet, &fixed()).unwrap();
        assert_eq!(run(snippet, &fixed()).unwrap(), first, "{snippet}");
        let other = run(snippet, &Environment::default()).unwrap();
        assert_ne!(other, first, "{snippet}");
    }
}

#[test]
fn random_texts_are_spread_over_all_their_letters() {
    let environment = fixed();
    for (name, letters) in [
        ("randAlphaNum", 62),
        ("randAlpha", 52),
        ("randNumeric", 10),
        ("randAscii", 95),
    ] {
        let text = run(&format!("{{{{ {name} 20000 }}}}"), &environment).unwrap();
        let mut counts = std::collections::BTreeMap::new();
        for byte in text.bytes() {
            *counts.entry(byte).or_insert(0usize) += 1;
        }
        assert_eq!(counts.len(), letters, "{name}");
        let (fewest, most) = (
            counts.values().min().unwrap(),
            counts.values().max().unwrap(),
        );
        assert!(*fewest * 2 > 20_000 / letters, "{name}: {fewest}");
        assert!(*most < 20_000 / letters * 2, "{name}: {most}");
    }
}

#[test]
fn a_random_number_reaches_both_ends_of_its_range() {
    let environment = fixed();
    let numbers = run(
        "{{ range until 200 }}{{ randInt -2 3 }} {{ end }}",
        &environment,
    )
    .unwrap();
    let found: std::collections::BTreeSet<&str> = numbers.split_whitespace().collect();
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["-1", "-2", "0", "1", "2"]
    );
}

#[test]
fn a_source_without_randomness_stops_the_render() {
    struct Dry;
    impl sprig::Random for Dry {
        fn fill(&self, _: &mut [u8]) -> Result<(), String> {
            Err("no entropy".to_owned())
        }
    }
    let environment = Environment {
        random: Arc::new(Dry),
        ..fixed()
    };
    for snippet in [
        "{{ randAlpha 3 }}",
        "{{ uuidv4 }}",
        "{{ encryptAES \"a\" \"b\" }}",
    ] {
        let error = run(snippet, &environment).unwrap_err();
        assert!(error.ends_with("no entropy"), "{error}");
    }
}

#[test]
fn the_clock_and_the_zone_decide_what_now_is() {
    let environment = fixed();
    let run = |snippet: &str| run(snippet, &environment).unwrap();
    assert_eq!(
        run("{{ now }}"),
        "2024-01-02 03:04:05 +0000 UTC m=+0.000000000"
    );
    assert_eq!(
        run("{{ now | date \"2006-01-02 15:04\" }}"),
        "2024-01-02 03:04"
    );
    assert_eq!(run("{{ htmlDate \"no date\" }}"), "2024-01-02");
    assert_eq!(run("{{ ago 1704164600 }}"), "45s");
    assert_eq!(run("{{ ago (int64 1704161045) }}"), "1h0m0s");
    assert_eq!(run("{{ durationRound (now | dateModify \"-50h\") }}"), "2d");
    assert_eq!(run("{{ unixEpoch now }}"), "1704164645");
    assert_eq!(run("{{ date \"2006\" 1.5 }}"), "2024");
}

#[test]
fn times_before_1970_keep_their_fraction() {
    let environment = Environment {
        clock: Arc::new(Stopped(-1)),
        ..fixed()
    };
    assert_eq!(
        run("{{ now | date \"2006-01-02 15:04:05.000\" }}", &environment).unwrap(),
        "1969-12-31 23:59:59.000"
    );
}

struct Hosts(Vec<String>);

impl Network for Hosts {
    fn addresses(&self, host: &str) -> Vec<String> {
        assert_eq!(host, "example.org");
        self.0.clone()
    }
}

#[test]
fn names_are_resolved_only_where_a_network_is_given() {
    let snippet = "{{ getHostByName \"example.org\" }}";
    assert_eq!(run(snippet, &fixed()).unwrap(), "");
    let with = |addresses: &[&str]| Environment {
        network: Some(Arc::new(Hosts(
            addresses
                .iter()
                .map(|&address| address.to_owned())
                .collect(),
        ))),
        ..fixed()
    };
    assert_eq!(run(snippet, &with(&["192.0.2.1"])).unwrap(), "192.0.2.1");
    let one_of_two = run(snippet, &with(&["192.0.2.1", "192.0.2.2"])).unwrap();
    assert!(one_of_two.starts_with("192.0.2."));
    let error = run(snippet, &with(&[])).unwrap_err();
    assert!(error.ends_with("invalid argument to Intn"), "{error}");
}

#[test]
fn the_loopback_resolves_by_the_system() {
    let environment = Environment {
        network: Some(Arc::new(sprig::SystemSource)),
        ..fixed()
    };
    let address = run("{{ getHostByName \"localhost\" }}", &environment).unwrap();
    assert!(["127.0.0.1", "::1"].contains(&&*address), "{address}");
}
