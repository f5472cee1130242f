//! A disk that is full, read-only or failing: told, served around, and recovered from.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
};

use helm_operator::gitsync::{GitSource, MirrorState, Mirrors, Reason};
use testkit::{GitOptions, SmallDisk};

use crate::support::{Rig, noise, options, release, url};

/// A chart that is mirrored, and its commit.
async fn mirrored(rig: &Rig) -> (GitSource, String) {
    rig.write_chart("app", "one");
    let first = rig.repository.commit("first").unwrap();
    let source = rig.source("app").at("main");
    rig.use_chart("app", &source).await.unwrap();
    (source, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_full_and_a_read_only_disk_are_told_and_recover() {
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&place.path().join("disk"), "size=1m").unwrap() else {
        return;
    };
    let rig = Rig::with(GitOptions::default(), |options| {
        options.cache_dir = place.path().join("disk/cache");
    });
    let (source, first) = mirrored(&rig).await;

    let filler = place.path().join("disk/filler");
    let _ = fs::write(&filler, vec![1; 2 << 20]);
    rig.repository.write("noise", noise(500_000)).unwrap();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    let states = rig.mirrors.sync(None).await;
    let MirrorState::Failed(error) = &states[0].state else {
        panic!("{states:?}")
    };
    assert_eq!(error.reason(), Reason::StorageFailed, "{error}");
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        first,
        "the last good one is served"
    );
    fs::remove_file(&filler).unwrap();
    rig.mirrors.sync(None).await;
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );

    disk.remount("ro").unwrap();
    rig.write_chart("app", "three");
    let third = rig.repository.commit("third").unwrap();
    let states = rig.mirrors.sync(None).await;
    assert!(
        matches!(&states[0].state, MirrorState::Failed(e) if e.reason() == Reason::StorageFailed),
        "{states:?}"
    );
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );
    disk.remount("rw").unwrap();
    rig.mirrors.sync(None).await;
    assert_eq!(rig.mirrors.artifact(&source).await.unwrap().revision, third);
    rig.mirrors.forget(&release("app"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_disk_without_inodes_is_told_and_recovers() {
    let place = tempfile::tempdir().unwrap();
    let Some(_disk) =
        SmallDisk::mount(&place.path().join("disk"), "size=8m,nr_inodes=120").unwrap()
    else {
        return;
    };
    let rig = Rig::with(GitOptions::default(), |options| {
        options.cache_dir = place.path().join("disk/cache");
    });
    let (source, first) = mirrored(&rig).await;
    let fillers: Vec<PathBuf> = (0..)
        .map(|number| place.path().join(format!("disk/filler-{number}")))
        .take_while(|path| fs::write(path, "").is_ok())
        .collect();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    let states = rig.mirrors.sync(None).await;
    assert!(
        matches!(&states[0].state, MirrorState::Failed(error) if error.reason() == Reason::StorageFailed),
        "{states:?}"
    );
    assert_eq!(rig.mirrors.artifact(&source).await.unwrap().revision, first);
    for filler in fillers {
        fs::remove_file(filler).unwrap();
    }
    rig.mirrors.sync(None).await;
    assert_eq!(
        rig.mirrors.artifact(&source).await.unwrap().revision,
        second
    );
    rig.mirrors.forget(&release("app"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_cache_directory_that_cannot_be_made_is_told() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "x").unwrap();
    let options = options(place.path().join("file/cache"));
    let error = Mirrors::new(
        options,
        std::sync::Arc::<crate::support::Secrets>::default(),
    )
    .unwrap_err();
    assert_eq!(error.reason(), Reason::StorageFailed);
}

/// The cache directory is gone, and a file has its name.
#[tokio::test(flavor = "multi_thread")]
async fn r15_a_cache_directory_that_a_file_has_replaced_is_told_and_recovers() {
    let rig = Rig::new();
    let (source, first) = mirrored(&rig).await;
    let (cache, aside) = (rig.cache_dir(), rig.cache_dir().with_extension("aside"));
    fs::rename(&cache, &aside).unwrap();
    fs::write(&cache, "x").unwrap();
    rig.write_chart("app", "two");
    let second = rig.repository.commit("second").unwrap();
    let states = rig.mirrors.sync(None).await;
    assert_eq!(state(&states[0].state), "StorageFailed", "{states:?}");
    let served = rig.mirrors.artifact(&source).await.unwrap();
    assert_eq!(served.revision, first, "the last good one is served");
    fs::remove_file(&cache).unwrap();
    fs::rename(&aside, &cache).unwrap();
    rig.mirrors.sync(None).await;
    let healed = rig.mirrors.artifact(&source).await.unwrap();
    assert_eq!(healed.revision, second);
}

fn state(state: &MirrorState) -> String {
    match state {
        MirrorState::Failed(error) => error.reason().to_string(),
        other => format!("{other:?}"),
    }
}

const URL: &str = "HELM_OPERATOR_TEST_URL";
const CACHE: &str = "HELM_OPERATOR_TEST_CACHE";
/// What the child prints begins with this, as the harness prints too.
const MARK: &str = "child: ";

/// Not a test of its own: mirrors whose system calls another test makes fail. Polls for each line that it is given, and
/// says how that went and which commit is served.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by another test"]
async fn mirrored_in_a_process_of_its_own() {
    let (Ok(remote), Ok(cache)) = (std::env::var(URL), std::env::var(CACHE)) else {
        return;
    };
    let secrets = std::sync::Arc::<crate::support::Secrets>::default();
    let mirrors = Mirrors::new(options(cache.into()), secrets).unwrap();
    let source = GitSource::new(url(&remote), "app").at("main");
    mirrors.declare(&release("app"), vec![source.clone()]);
    mirrors.artifact(&source).await.unwrap();
    println!("{MARK}{} -", std::process::id());
    for line in std::io::stdin().lines() {
        line.unwrap();
        let states = mirrors.sync(None).await;
        let served = mirrors.artifact(&source).await;
        let served = served.map_or_else(|error| error.to_string(), |artifact| artifact.revision);
        println!("{MARK}{} {served}", state(&states[0].state));
    }
}

/// The child, and the two ways to it.
struct Polls {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
}

impl Polls {
    fn start(url: &str, cache: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::mirrored_in_a_process_of_its_own"])
            .args(["--include-ignored", "--nocapture"])
            .env(URL, url)
            .env(CACHE, cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ask = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        read(&mut answers);
        Self {
            child,
            ask,
            answers,
        }
    }

    /// Polls; the state of the mirror, and what is served.
    fn poll(&mut self) -> (String, String) {
        writeln!(self.ask).unwrap();
        let answer = read(&mut self.answers);
        let (state, served) = answer.split_once(' ').unwrap();
        (state.to_owned(), served.to_owned())
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(answers: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(answers.read_line(&mut line).unwrap(), 0, "the child ended");
        // The harness writes the name of the test before it, without an end of line.
        if let Some(at) = line.find(MARK) {
            return line[at + MARK.len()..].trim().to_owned();
        }
    }
}

/// A system call that fails for a process with EIO, as long as this is held.
struct Failing(Child);

impl Failing {
    fn attach(pid: u32, call: &str) -> Option<Self> {
        let mut tracer = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-p", &pid.to_string()])
            .args(["-e", &format!("trace={call}")])
            .args(["-e", &format!("inject={call}:error=EIO")])
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut said = BufReader::new(tracer.stderr.take()?);
        let mut line = String::new();
        said.read_line(&mut line).ok()?;
        let held = Self(tracer);
        if line.contains("attached") {
            // Nobody may stop it from saying more.
            std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
            return Some(held);
        }
        eprintln!("skipped: strace may not trace here: {line}");
        None
    }
}

impl Drop for Failing {
    /// It lets go of the process when it is asked to end.
    fn drop(&mut self) {
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_a_disk_that_fails_with_eio_is_told_and_recovers() {
    let rig = Rig::with_chart(GitOptions::default());
    let mut served = rig.repository.head().unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut polls = Polls::start(rig.repository.url(), &place.path().join("cache"));
    assert_eq!(polls.poll(), ("Ready".to_owned(), served.clone()));
    // Of writing, of making it last, of putting it in its place, and of opening anything at all.
    for call in ["pwrite64,ftruncate,fdatasync", "rename", "openat"] {
        let Some(failing) = Failing::attach(polls.child.id(), call) else {
            eprintln!("skipped: no strace: EIO of {call} was not tried");
            return;
        };
        rig.write_chart("app", call);
        let next = rig.repository.commit(call).unwrap();
        let told = ("StorageFailed".to_owned(), served.clone());
        assert_eq!(polls.poll(), told, "{call}");
        drop(failing);
        served = next;
        assert_eq!(polls.poll(), ("Ready".to_owned(), served.clone()), "{call}");
    }
}
