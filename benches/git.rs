//! Git: mirrors against the `git` program, in one run.
//!
//! `cargo bench --bench git [-- --fast] [first] [idle] [push]`. Every measured side runs in a process of its own, so that
//! its CPU time and its memory are its own and not those of the server; the table has both sides and their ratio.
//! `--fast` shrinks the repository and the rounds, to see that the bench works; the words choose parts of it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people"
)]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use helm_operator::gitsync::{
    GitSource, Mirrors, Options, ReleaseKey, RepositoryUrl, Schedule, StaticSecrets,
};
use testkit::{GitOptions, GitRepository, GitServer};

/// A part of the bench.
type Part = fn(&GitServer, &Size);

/// How large everything is.
struct Size {
    commits: usize,
    blob: usize,
    mirrors: usize,
    rounds: usize,
    pushes: usize,
    refs: usize,
}

const FULL: Size = Size {
    commits: 50_000,
    blob: 4_000,
    mirrors: 200,
    rounds: 5,
    pushes: 20,
    refs: 10_000,
};
const FAST: Size = Size {
    commits: 1_000,
    blob: 4_000,
    mirrors: 10,
    rounds: 2,
    pushes: 3,
    refs: 100,
};

/// What one side took.
#[derive(Debug, Default, Clone, Copy)]
struct Cost {
    wall: Duration,
    cpu: Duration,
    /// Peak of its largest process, in KiB.
    memory: u64,
    /// The part of it that is no file: pages of a mapped pack belong to the system's cache, which takes them back when it
    /// wants to.
    anonymous: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("child", rest)) = arguments
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return child(rest);
    }
    let size = if arguments.iter().any(|argument| argument == "--fast") {
        FAST
    } else {
        FULL
    };
    let server = GitServer::start(GitOptions::default()).unwrap();
    println!("{:<58} {:>12} {:>12} {:>8}", "", "git", "ours", "ratio");
    let parts: [(&str, Part); 3] = [("first", first_mirror), ("idle", idle), ("push", push)];
    let chosen = |part: &str| arguments.iter().any(|argument| argument == part);
    let all = !parts.iter().any(|(part, _)| chosen(part));
    for (part, run) in parts {
        if all || chosen(part) {
            run(&server, &size);
        }
    }
}

fn row(what: &str, git: f64, ours: f64, unit: &str) {
    println!(
        "{what:<58} {:>12} {:>12} {:>7.1}x",
        format!("{git:.1} {unit}"),
        format!("{ours:.1} {unit}"),
        git / ours.max(1e-9)
    );
}

fn rows(what: &str, git: Cost, ours: Cost) {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    row(
        &format!("{what}: wall time"),
        ms(git.wall),
        ms(ours.wall),
        "ms",
    );
    row(&format!("{what}: CPU"), ms(git.cpu), ms(ours.cpu), "ms");
    let mib = |kib: u64| kib as f64 / 1024.0;
    for (which, git, ours) in [
        ("memory without mapped files", git.anonymous, ours.anonymous),
        ("memory with them", git.memory, ours.memory),
    ] {
        row(&format!("{what}: {which}"), mib(git), mib(ours), "MiB");
    }
}

/// The first mirror of a large repository: its tip, as it is used, and all of its history, as git fetches it.
fn first_mirror(server: &GitServer, size: &Size) {
    let repository = server.repository("large").unwrap();
    import(&repository, size);
    let bytes = size.commits * size.blob / 1_000_000;
    let name = |what: &str| format!("first mirror, {bytes} MB in {} commits{what}", size.commits);
    let middle = format!("main~{}", size.commits / 2);
    let old = testkit::run(
        Command::new("git")
            .arg("-C")
            .arg(repository.bare())
            .args(["rev-parse", &middle]),
    );
    let old = old.unwrap();
    let file = format!("file://{}", repository.bare().display());
    for (over, url) in [("http", repository.url()), ("file", file.as_str())] {
        let git = measure(&["git-clone", url]);
        let tip = measure(&["mirror", url, "charts/c0", "main"]);
        rows(&name(&format!(", {over}")), git, tip);
        // A short id can only be looked up in the whole history.
        let history = measure(&["mirror", url, "charts/c0", &old.trim()[..12]]);
        rows(&name(&format!(", {over}, whole history")), git, history);
    }
}

/// Commits with blobs that do not compress, by `git fast-import` straight into the bare repository.
fn import(repository: &GitRepository, size: &Size) {
    let mut import = Command::new("git")
        .args([
            "-C",
            repository.bare().to_str().unwrap(),
            "fast-import",
            "--quiet",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream = std::io::BufWriter::new(import.stdin.take().unwrap());
    let mut state = 88_172_645_463_325_252_u64;
    let mut blob = vec![0; size.blob];
    for commit in 0..size.commits {
        for chunk in blob.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        }
        let at = 1_700_000_000 + commit;
        let path = format!("charts/c{}/files/data", commit % 100);
        write!(
            stream,
            "commit refs/heads/main\ncommitter T <t@example.invalid> {at} +0000\ndata 1\nc\
             M 100644 inline {path}\ndata {}\n",
            blob.len()
        )
        .unwrap();
        stream.write_all(&blob).unwrap();
        stream.write_all(b"\n\n").unwrap();
    }
    drop(stream);
    assert!(import.wait().unwrap().success());
}

/// Many mirrors of which none has news: one round of polls against one `git fetch` each.
fn idle(server: &GitServer, size: &Size) {
    for refs in [1, size.refs] {
        // One repository with many refs tells what the others would cost.
        let mirrors = if refs > 1 { 1 } else { size.mirrors };
        let repositories: Vec<GitRepository> = (0..mirrors)
            .map(|index| {
                let repository = server.repository(&format!("idle-{refs}-{index}")).unwrap();
                repository
                    .commit_file("app/Chart.yaml", "name: app\n")
                    .unwrap();
                repository
            })
            .collect();
        if refs > 1 {
            let bare = repositories[0].bare().to_str().unwrap();
            let mut update = Command::new("git")
                .args(["-C", bare, "update-ref", "--stdin"])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let head = repositories[0].head().unwrap();
            let mut stdin = update.stdin.take().unwrap();
            for index in 0..refs {
                writeln!(stdin, "create refs/heads/b{index} {head}").unwrap();
            }
            drop(stdin);
            assert!(update.wait().unwrap().success());
        }
        let urls: Vec<&str> = repositories.iter().map(GitRepository::url).collect();
        // The system counts CPU in hundredths of a second: few mirrors need more rounds.
        let rounds = if refs > 1 {
            size.rounds * 8
        } else {
            size.rounds
        };
        let count = u32::try_from(rounds).unwrap();
        let rounds = rounds.to_string();
        let ours = measure(&[&["polls", &rounds][..], &urls].concat());
        server.traffic().forget();
        let again = measure(&[&["polls", "1"][..], &urls].concat());
        let requests = server.traffic().count() as f64 / urls.len() as f64 - 3.0;
        assert!(again.wall > Duration::ZERO);
        let git = measure(&[&["git-fetch", &rounds][..], &urls].concat());
        let per_round = |cost: Cost| Cost {
            wall: cost.wall / count,
            cpu: cost.cpu / count,
            ..cost
        };
        let what = format!("a round of {} idle mirrors with {refs} refs", urls.len());
        rows(&what, per_round(git), per_round(ours));
        println!(
            "{:<58} {:>12} {requests:>12.1}",
            format!("{what}: requests each"),
            ""
        );
    }
}

/// A push of one commit, until the chart of it can be read.
fn push(server: &GitServer, size: &Size) {
    let repository = server.repository("pushed").unwrap();
    repository
        .commit_file("app/Chart.yaml", "name: app\n")
        .unwrap();
    let mut ours = Interactive::start(&["pushes", repository.url()]);
    let mut git = Interactive::start(&["git-pushes", repository.url()]);
    let mut bare = Interactive::start(&["bare-pushes", repository.url()]);
    let (mut our_times, mut git_times, mut bare_times) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..size.pushes {
        let commit = repository
            .commit_file("app/values.yaml", format!("n: {index}\n"))
            .unwrap();
        our_times.push(ours.ask(&commit));
        git_times.push(git.ask(&commit));
        bare_times.push(bare.ask(&commit));
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1000.0
    };
    let (git, our, trips) = (
        median(&mut git_times),
        median(&mut our_times),
        median(&mut bare_times),
    );
    row("a push, until its tree can be read", git, our, "ms");
    println!(
        "{:<58} {:>12} {:>12}",
        "a push: two bare round trips to this server, and the rest",
        format!("{trips:.1} ms"),
        format!("{:.1} ms", our - trips)
    );
    server.traffic().forget();
    let commit = repository
        .commit_file("app/values.yaml", "n: last\n")
        .unwrap();
    let before = server.traffic().count();
    ours.ask(&commit);
    println!(
        "{:<58} {:>12} {:>12}",
        "a push: requests",
        "",
        server.traffic().count() - before
    );
}

/// A child that does something each time it is asked.
struct Interactive {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Interactive {
    fn start(arguments: &[&str]) -> Self {
        let mut child = ourselves(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        answers.read_line(&mut String::new()).unwrap();
        Self { child, answers }
    }

    fn ask(&mut self, commit: &str) -> Duration {
        writeln!(self.child.stdin.as_mut().unwrap(), "{commit}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        Duration::from_nanos(answer.trim().parse().unwrap())
    }
}

impl Drop for Interactive {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn ourselves(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("child").args(arguments).stdout(Stdio::piped());
    command
}

/// Runs a child to its end and reads what it took: its own words for time, `/proc` for memory.
fn measure(arguments: &[&str]) -> Cost {
    let mut child = ourselves(arguments).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (flag, pid) = (Arc::clone(&done), child.id());
    let sampler = std::thread::spawn(move || {
        let (mut whole, mut anonymous) = (0, 0);
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            for pid in descendants(pid) {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
                let status = status.unwrap_or_default();
                whole = kib(&status, "VmHWM:").max(whole);
                anonymous = kib(&status, "RssAnon:").max(anonymous);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        (whole, anonymous)
    });
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    let (memory, anonymous) = sampler.join().unwrap();
    assert!(child.wait().unwrap().success());
    let numbers: Vec<u64> = line
        .split(' ')
        .map(|word| word.trim().parse().unwrap())
        .collect();
    Cost {
        wall: Duration::from_nanos(numbers[0]),
        cpu: Duration::from_millis(numbers[1]),
        memory,
        anonymous,
    }
}

/// A process and all below it.
fn descendants(root: u32) -> Vec<u32> {
    let mut parents = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        parents.insert(pid, parent.unwrap_or(0));
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| **parent == pid)
                .map(|(child, _)| *child),
        );
        at += 1;
    }
    found
}

/// A line of `/proc/…/status`.
fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// CPU milliseconds of this process and of the children that it has waited for.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // utime, stime, cutime, cstime, in hundredths of a second.
    (11..15)
        .map(|index| fields[index].parse::<u64>().unwrap())
        .sum::<u64>()
        * 10
}

/// The measured side, in a process of its own.
fn child(arguments: &[String]) {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let place = tempfile::tempdir().unwrap();
    match words[..] {
        ["git-clone", url] => report(cpu(), || {
            run(git()
                .args(["clone", "--quiet", "--mirror", url])
                .arg(place.path().join("m")));
        }),
        ["mirror", url, path, reference] => with_mirrors(place.path(), async |mirrors| {
            let before = cpu();
            let started = Instant::now();
            let source = GitSource::new(RepositoryUrl::parse(url).unwrap(), path).at(reference);
            mirrors.artifact(&source).await.unwrap();
            print_cost(started, before);
        }),
        ["git-fetch", rounds, ref urls @ ..] => {
            let mirrors: Vec<PathBuf> = (0..urls.len())
                .map(|i| place.path().join(i.to_string()))
                .collect();
            for (url, mirror) in urls.iter().zip(&mirrors) {
                run(git()
                    .args(["clone", "--quiet", "--mirror", url])
                    .arg(mirror));
            }
            report(cpu(), || {
                for _ in 0..rounds.parse::<usize>().unwrap() {
                    for mirror in &mirrors {
                        run(git().arg("-C").arg(mirror).args(["fetch", "--quiet"]));
                    }
                }
            });
        }
        ["polls", rounds, ref urls @ ..] => with_mirrors(place.path(), async |mirrors| {
            for (index, url) in urls.iter().enumerate() {
                let source = GitSource::new(RepositoryUrl::parse(url).unwrap(), "app").at("main");
                mirrors.declare(&release(index), vec![source.clone()]);
                mirrors.artifact(&source).await.unwrap();
            }
            let before = cpu();
            let started = Instant::now();
            for _ in 0..rounds.parse::<usize>().unwrap() {
                mirrors.sync(None).await;
            }
            print_cost(started, before);
        }),
        ["pushes", url] => with_mirrors(place.path(), async |mirrors| {
            let source = GitSource::new(RepositoryUrl::parse(url).unwrap(), "app").at("main");
            mirrors.declare(&release(0), vec![source.clone()]);
            mirrors.artifact(&source).await.unwrap();
            println!("ready");
            for commit in std::io::stdin().lines() {
                // The least pause between two polls is not what is measured.
                tokio::time::sleep(Duration::from_millis(300)).await;
                let commit = commit.unwrap();
                let started = Instant::now();
                mirrors.sync(None).await;
                let artifact = mirrors.artifact(&source).await.unwrap();
                println!("{}", started.elapsed().as_nanos());
                assert_eq!(artifact.revision, commit);
            }
        }),
        ["bare-pushes", url] => bare_pushes(url),
        ["git-pushes", url] => {
            let mirror = place.path().join("m");
            run(git()
                .args(["clone", "--quiet", "--mirror", url])
                .arg(&mirror));
            println!("ready");
            for commit in std::io::stdin().lines() {
                let started = Instant::now();
                run(git().arg("-C").arg(&mirror).args(["fetch", "--quiet"]));
                run(git()
                    .arg("-C")
                    .arg(&mirror)
                    .args(["ls-tree", &format!("{}:app", commit.unwrap())]));
                println!("{}", started.elapsed().as_nanos());
            }
        }
        _ => eprintln!("no such child: {words:?}"),
    }
}

/// The two requests that a push takes, and nothing else: what they cost at this server.
fn bare_pushes(url: &str) {
    let line = |text: &str| format!("{:04x}{text}\n", text.len() + 5);
    let list = ["peel", "symrefs", "ref-prefix refs/heads/main"].map(line);
    let list = format!("{}0001{}0000", line("command=ls-refs"), list.concat());
    let fetch = |commit: &str| {
        let asked = ["ofs-delta".into(), "no-progress".into(), "deepen 1".into()];
        let wants = [format!("want {commit}"), "done".to_owned()];
        let lines: String = asked.iter().chain(&wants).map(|text| line(text)).collect();
        format!("{}0001{lines}0000", line("command=fetch"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = async |body: String| {
        let kind = "application/x-git-upload-pack-request";
        let request = client.post(format!("{url}/git-upload-pack")).body(body);
        let request = request.header("content-type", kind);
        let answer = request.header("git-protocol", "version=2").send();
        answer.await.unwrap().bytes().await.unwrap()
    };
    println!("ready");
    for commit in std::io::stdin().lines() {
        let commit = commit.unwrap();
        let started = Instant::now();
        let refs = runtime.block_on(post(list.clone()));
        let pack = runtime.block_on(post(fetch(&commit)));
        println!("{}", started.elapsed().as_nanos());
        assert!(String::from_utf8_lossy(&refs).contains(&commit));
        assert!(String::from_utf8_lossy(&pack).contains("PACK"));
    }
}

fn git() -> Command {
    let mut command = Command::new("git");
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
}

fn run(command: &mut Command) {
    assert!(
        command.stdout(Stdio::null()).status().unwrap().success(),
        "{command:?}"
    );
}

fn report(before: u64, work: impl FnOnce()) {
    let started = Instant::now();
    work();
    print_cost(started, before);
}

fn print_cost(started: Instant, before: u64) {
    println!("{} {}", started.elapsed().as_nanos(), cpu() - before);
}

fn release(index: usize) -> ReleaseKey {
    ReleaseKey {
        namespace: "bench".into(),
        name: index.to_string().into(),
    }
}

fn with_mirrors(place: &Path, work: impl AsyncFnOnce(&Mirrors)) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut options = Options::new(place.join("cache"));
        options.poll = Schedule::every(Duration::from_secs(86_400)).unwrap();
        options.fetch_grace = Duration::from_secs(600);
        options.policy.allow_http = true;
        options.policy.allow_local = true;
        let mirrors = Mirrors::new(options, Arc::new(StaticSecrets::default())).unwrap();
        work(&mirrors).await;
    });
}
