//! A disk that lies, fills up, or was left in the middle.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use helm_operator::gitsync::{GitSource, Mirrors, Reason};
use testkit::{Fault, GitOptions};

use crate::support::{Rig, eventually, noise, options, text};

/// The files of the mirror whose name ends so.
fn files(rig: &Rig, ending: &str) -> Vec<PathBuf> {
    let packs = fs::read_dir(rig.mirror_dir().join("objects/pack")).unwrap();
    let mut found: Vec<_> = packs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    found.sort();
    found
}

fn make_writable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// What is wrong, and how to make it so.
type Damage = (&'static str, fn(&Rig));

/// A chart of several files, so that a flipped byte may hit any kind of object.
async fn rig_with_chart() -> Rig {
    let rig = Rig::new();
    rig.write_chart("app", "one");
    for index in 0..20 {
        rig.repository
            .write(
                &format!("app/templates/t{index}.yaml"),
                format!("a: {index}\n").repeat(50),
            )
            .unwrap();
    }
    rig.repository.commit("first").unwrap();
    rig.use_chart("app", &rig.source("app").at("main"))
        .await
        .unwrap();
    rig
}

#[tokio::test(flavor = "multi_thread")]
async fn s15_no_flipped_byte_is_ever_rendered() {
    let mut rig = rig_with_chart().await;
    let source = rig.source("app").at("main");
    let honest = rig.mirrors.artifact(&source).await.unwrap();
    for ending in [".pack", ".idx", "packed-refs", "shallow"] {
        let path = |rig: &Rig| match ending.starts_with('.') {
            true => files(rig, ending)[0].clone(),
            false => rig.mirror_dir().join(ending),
        };
        // Denser than each thousandth byte: the files are small.
        let length = fs::metadata(path(&rig)).unwrap().len();
        let step = usize::try_from(length / 12).unwrap().clamp(1, 1000);
        for at in (0..usize::try_from(length).unwrap()).step_by(step) {
            let path = path(&rig);
            make_writable(&path);
            let mut bytes = fs::read(&path).unwrap();
            bytes[at] ^= 0x55;
            // In place of the file, as a mapped file must not change under its reader.
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
            rig.restart().await;
            let found = rig.use_chart("app", &source).await;
            let found = found.unwrap_or_else(|error| panic!("{ending} at {at}: {error}"));
            assert_eq!(found.files, honest.files, "{ending} at {at}");
            assert_eq!(found.revision, honest.revision);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_a_mirror_that_is_damaged_in_any_way_is_fetched_anew() {
    let damages: [Damage; 11] = [
        ("no packs", |rig| {
            for path in files(rig, "") {
                fs::remove_file(path).unwrap();
            }
        }),
        ("no index", |rig| {
            fs::remove_file(&files(rig, ".idx")[0]).unwrap();
        }),
        ("no pack", |rig| {
            fs::remove_file(&files(rig, ".pack")[0]).unwrap();
        }),
        ("a cut pack", |rig| {
            let path = &files(rig, ".pack")[0];
            make_writable(path);
            let bytes = fs::read(path).unwrap();
            fs::remove_file(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("an empty index", |rig| {
            let path = &files(rig, ".idx")[0];
            fs::remove_file(path).unwrap();
            fs::write(path, "").unwrap();
        }),
        ("a cut packed-refs", |rig| {
            let path = rig.mirror_dir().join("packed-refs");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, &text[..text.len() / 2]).unwrap();
        }),
        ("a garbage shallow file", |rig| {
            fs::write(rig.mirror_dir().join("shallow"), "garbage").unwrap();
        }),
        ("stale locks and temporary files", |rig| {
            for name in [
                "packed-refs.lock",
                "packed-refs.new",
                "shallow.lock",
                "HEAD.lock",
            ] {
                fs::write(rig.mirror_dir().join(name), "x").unwrap();
            }
            fs::write(
                rig.mirror_dir().join("objects/pack/tmp_pack_Ab12"),
                vec![0; 4096],
            )
            .unwrap();
            fs::create_dir_all(rig.mirror_dir().with_extension("new").join("objects")).unwrap();
        }),
        ("a crafted commit-graph", |rig| {
            // Nobody reads one here; it must not do harm either.
            let info = rig.mirror_dir().join("objects/info");
            fs::create_dir_all(&info).unwrap();
            let mut graph = b"CGPH\x01\x01\x04\x00".to_vec();
            graph.extend([0xff; 4096]);
            fs::write(info.join("commit-graph"), graph).unwrap();
        }),
        ("a crafted multi-pack-index", |rig| {
            let mut index = b"MIDX\x01\x01\x04\x00\xff\xff\xff\xff".to_vec();
            index.extend([0xff; 4096]);
            let packs = rig.mirror_dir().join("objects/pack");
            fs::write(packs.join("multi-pack-index"), index).unwrap();
        }),
        ("no HEAD", |rig| {
            fs::remove_file(rig.mirror_dir().join("HEAD")).unwrap();
        }),
    ];
    for (what, damage) in damages {
        let mut rig = rig_with_chart().await;
        let source = rig.source("app").at("main");
        damage(&rig);
        rig.restart().await;
        let found = rig.use_chart("app", &source).await;
        let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(text(&found, "values.yaml"), "greeting: one\n", "{what}");
        rig.write_chart("app", "two");
        rig.repository.commit("second").unwrap();
        rig.mirrors.sync(None).await;
        let found = rig.mirrors.artifact(&source).await.unwrap();
        assert_eq!(
            text(&found, "values.yaml"),
            "greeting: two\n",
            "{what}: and it goes on"
        );
        assert!(!rig.mirror_dir().with_extension("new").exists());
        assert!(
            !files(&rig, "")
                .iter()
                .any(|path| path.to_string_lossy().contains("tmp_"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_damage_while_the_server_is_away_is_told_and_healed_later() {
    let mut rig = rig_with_chart().await;
    let source = rig.source("app").at("main");
    for path in files(&rig, "") {
        fs::remove_file(path).unwrap();
    }
    rig.server.stop();
    rig.restart().await;
    let error = rig.use_chart("app", &source).await.unwrap_err();
    assert!(
        matches!(error.reason(), Reason::Unreachable | Reason::StorageFailed),
        "{error}"
    );
    rig.server.resume().unwrap();
    rig.mirrors.sync(None).await;
    assert!(rig.mirrors.artifact(&source).await.is_ok());
}

const URL: &str = "HELM_OPERATOR_TEST_URL";
const CACHE: &str = "HELM_OPERATOR_TEST_CACHE";

/// Not a test of its own: what is killed in the middle, in a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run and killed by another test"]
async fn fetched_in_a_process_of_its_own() {
    let (Ok(remote), Ok(cache)) = (std::env::var(URL), std::env::var(CACHE)) else {
        return;
    };
    let secrets = std::sync::Arc::<crate::support::Secrets>::default();
    let mirrors = Mirrors::new(options(cache.into()), secrets).unwrap();
    let source = GitSource::new(crate::support::url(&remote), "app").at("main");
    mirrors.artifact(&source).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_a_kill_in_mid_fetch_leaves_nothing_that_is_trusted() {
    let mut rig = Rig::new();
    rig.write_chart("app", "one");
    for (number, piece) in noise(2_000_000).chunks(100_000).enumerate() {
        let name = format!("noise-{number}");
        rig.repository.write(&name, piece).unwrap();
    }
    let first = rig.repository.commit("first").unwrap();
    let place = tempfile::tempdir().unwrap();
    rig.options = options(place.path().join("cache"));
    // The third request is the download; most of it comes.
    rig.server
        .traffic()
        .fault_at(3, Fault::StallBody(1_500_000));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "damage::fetched_in_a_process_of_its_own",
            "--include-ignored",
        ])
        .env(URL, rig.repository.url())
        .env(CACHE, &rig.options.cache_dir)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let packs = |rig: &Rig| {
        let mirrors = fs::read_dir(rig.options.cache_dir.join("mirrors"))
            .into_iter()
            .flatten()
            .flatten();
        let files = mirrors
            .flat_map(|mirror| fs::read_dir(mirror.path().join("objects/pack")))
            .flatten()
            .flatten();
        files.collect::<Vec<_>>()
    };
    eventually(|| {
        let half = packs(&rig)
            .iter()
            .any(|file| file.metadata().is_ok_and(|file| file.len() > 1_000_000));
        half.then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!packs(&rig).is_empty(), "the half of a download is there");
    rig.server.traffic().heal();
    rig.restart().await;
    let found = rig.use_chart("app", &rig.source("app").at("main")).await;
    assert_eq!(found.unwrap().revision, first);
    let mut names: Vec<_> = packs(&rig)
        .iter()
        .map(|file| file.path().extension().map(std::ffi::OsStr::to_owned))
        .collect();
    names.sort();
    assert_eq!(names, [Some("idx".into()), Some("pack".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_packs_are_cleaned_up_by_a_fresh_copy() {
    let rig = Rig::with(GitOptions::default(), |options| options.limits.packs = 3);
    rig.write_chart("app", "0");
    rig.repository.commit("first").unwrap();
    let source = rig.source("app").at("main");
    rig.use_chart("app", &source).await.unwrap();
    for index in 1..8 {
        rig.write_chart("app", &index.to_string());
        rig.repository.commit("again").unwrap();
        rig.mirrors.sync(None).await;
        let found = rig.mirrors.artifact(&source).await.unwrap();
        assert_eq!(text(&found, "values.yaml"), format!("greeting: {index}\n"));
        assert!(files(&rig, ".pack").len() <= 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_of_the_cache_evicts_the_least_recently_used_mirror() {
    let rig = Rig::with(GitOptions::default(), |options| {
        options.limits.cache_bytes = 150_000;
    });
    let other = rig.server.repository("other").unwrap();
    for (repository, index) in [(&rig.repository, 1), (&other, 7)] {
        repository.write("app/Chart.yaml", "name: app\n").unwrap();
        repository.write("noise", noise(100_000 + index)).unwrap();
        repository.commit("first").unwrap();
    }
    let first = rig.source("app");
    let mut second = rig.source("app");
    second.url = crate::support::url(other.url());
    rig.use_chart("first", &first).await.unwrap();
    rig.use_chart("second", &second).await.unwrap();
    rig.mirrors.keep_within_budget();
    let mut sizes: Vec<u64> = rig
        .mirrors
        .states()
        .iter()
        .map(|state| state.disk_bytes)
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes[0], 0, "{sizes:?}");
    assert!(sizes[1] > 90_000, "{sizes:?}");
    rig.server.traffic().forget();
    rig.mirrors.sync(None).await;
    assert_eq!(
        rig.server.traffic().count(),
        2,
        "a poll does not bring back what nobody asks for"
    );
    assert!(
        rig.mirrors.artifact(&first).await.is_ok(),
        "what is asked for comes back"
    );
    assert!(rig.server.traffic().count() >= 2);
}
