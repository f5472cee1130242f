//! Programs that never outlive the test process.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a waiting test looks again. Short against every wait, long against the cost of a look.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);

const SUPERVISE: &str = include_str!("supervise.sh");

/// A running program: killed when this is dropped, and also when the test process dies in any way.
///
/// Between us and the program stands a small shell script whose stdin is a pipe that we hold. When we are gone the
/// kernel closes the pipe and the script kills the program, so that not even a SIGKILL of the test leaves an orphan.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    controls: Controls,
}

/// A handle that signals a [`Process`] from elsewhere, such as from the fault proxy.
#[derive(Clone, Debug)]
pub struct Controls {
    pid: u32,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    supervisor: Child,
    stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts `command` with its output appended to the file `log`.
    ///
    /// # Errors
    /// When there is no shell, or when the command names no program. A program that cannot be executed shows as a
    /// process that exits with status 127 and says so in the log.
    pub fn spawn(name: &str, command: &Command, log: &Path) -> Result<Self> {
        let mut supervisor = supervised(command, log)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let stdin = supervisor.stdin.take();
        let pid = read_pid(&mut supervisor).with_context(|| format!("starting {name}"))?;
        let inner = Arc::new(Mutex::new(Inner { supervisor, stdin }));
        Ok(Self {
            name: name.to_owned(),
            log: log.to_owned(),
            controls: Controls { pid, inner },
        })
    }

    /// The process id of the program itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.controls.pid
    }

    /// A handle to signal the program with; it does not keep the program alive.
    #[must_use]
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Everything that the program has printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until `ready` holds.
    ///
    /// # Errors
    /// When the program ends first or the time is over; both with the end of its log.
    pub fn wait_until(&self, limit: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let end = Instant::now() + limit;
        while !ready() {
            if let Some(status) = self.controls.try_wait()? {
                bail!(
                    "{} ended early with {status}; its log ends:\n{}",
                    self.name,
                    self.tail()
                );
            }
            if Instant::now() > end {
                bail!(
                    "{} is not ready after {limit:?}; its log ends:\n{}",
                    self.name,
                    self.tail()
                );
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Waits until the log holds `text`.
    ///
    /// # Errors
    /// When the program ends first or the time is over.
    pub fn wait_for_log(&self, text: &str, limit: Duration) -> Result<()> {
        self.wait_until(limit, || self.log().contains(text))
            .with_context(|| format!("waiting for {text:?} in the log"))
    }

    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.controls.stop_now();
    }
}

impl Controls {
    /// The process id of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal by its short name: `TERM`, `STOP`, `CONT`, `HUP` …
    ///
    /// # Errors
    /// When the program has ended.
    pub fn signal(&self, name: &str) -> Result<()> {
        let mut inner = self.lock();
        let stdin = inner.stdin.as_mut().context("the program was stopped")?;
        writeln!(stdin, "{name}").context("the program has ended")
    }

    /// Kills the program with SIGKILL and returns when it is gone.
    ///
    /// # Errors
    /// When it does not go, which only a process stuck in the kernel can do.
    pub fn kill(&self) -> Result<()> {
        // A program that is already gone is what the caller wants.
        let _ = self.signal("KILL");
        self.wait(Duration::from_secs(10)).map(drop)
    }

    /// Waits for the program to end by itself. A program ended by signal `n` shows as exit code `128 + n`.
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub fn wait(&self, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > end {
                bail!("process {} still runs after {limit:?}", self.pid);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The exit status, if the program has ended.
    ///
    /// # Errors
    /// When the kernel refuses to say.
    pub fn try_wait(&self) -> Result<Option<ExitStatus>> {
        Ok(self.lock().supervisor.try_wait()?)
    }

    fn stop_now(&self) {
        let mut inner = self.lock();
        drop(inner.stdin.take());
        let _ = inner.supervisor.wait();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same command, run by the supervisor script in a process group of its own, so that a Ctrl-C at the terminal
/// reaches the test first and the order of the ends is ours.
fn supervised(command: &Command, log: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(SUPERVISE).arg("supervise").arg(log);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0);
    shell
}

fn read_pid(supervisor: &mut Child) -> Result<u32> {
    let stdout = supervisor
        .stdout
        .take()
        .context("the supervisor has no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    line.trim()
        .parse()
        .with_context(|| format!("the supervisor said {line:?}, not a process id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    fn alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}/cmdline")).exists()
    }

    fn log() -> tempfile::NamedTempFile {
        tempfile::NamedTempFile::new().unwrap()
    }

    #[test]
    fn program_is_gone_when_dropped() {
        let log = log();
        let process = Process::spawn("sleeper", &shell("exec sleep 600"), log.path()).unwrap();
        let pid = process.pid();
        assert!(alive(pid));
        drop(process);
        assert!(!alive(pid));
    }

    #[test]
    fn exit_status_and_output_are_seen() {
        let log = log();
        let process = Process::spawn("speaker", &shell("echo hello; exit 7"), log.path()).unwrap();
        let status = process.controls().wait(Duration::from_secs(10)).unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(process.log(), "hello\n");
    }

    #[test]
    fn early_end_is_an_error_with_the_log() {
        let log = log();
        let process = Process::spawn("failer", &shell("echo no port; exit 1"), log.path()).unwrap();
        let error = process
            .wait_until(Duration::from_secs(10), || false)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("ended early") && error.contains("no port"),
            "{error}"
        );
    }

    #[test]
    fn kill_returns_when_the_program_is_gone() {
        let log = log();
        let process = Process::spawn("sleeper", &shell("exec sleep 600"), log.path()).unwrap();
        process.controls().kill().unwrap();
        assert!(!alive(process.pid()));
        assert_eq!(
            process.controls().wait(Duration::ZERO).unwrap().code(),
            Some(128 + 9)
        );
    }

    #[test]
    fn signals_reach_the_program_by_name() {
        let log = log();
        let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
        let process = Process::spawn("trapper", &shell(script), log.path()).unwrap();
        process
            .wait_for_log("ready", Duration::from_secs(10))
            .unwrap();
        process.controls().signal("TERM").unwrap();
        assert_eq!(
            process
                .controls()
                .wait(Duration::from_secs(10))
                .unwrap()
                .code(),
            Some(3)
        );
        assert!(process.log().ends_with("bye\n"));
    }

    #[test]
    fn program_is_gone_when_its_owner_is_killed() {
        // The owner is a shell that holds the pipe as a test process would, and is then killed with SIGKILL.
        let log = log();
        let owner = format!(
            "sleep 600 | sh -c '{}' supervise {} sleep 601",
            SUPERVISE.replace('\'', "'\\''"),
            log.path().display()
        );
        let mut owner = Command::new("sh")
            .args(["-c", &owner])
            .stdout(Stdio::piped())
            // The shell says who was killed.
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = read_pid(&mut owner).unwrap();
        assert!(alive(pid));
        // The holder of the pipe is the `sleep 600`, a child of the owner.
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", owner.id())).unwrap();
        let holder = children.split_whitespace().next().unwrap();
        assert!(
            Command::new("kill")
                .args(["-s", "KILL", holder])
                .status()
                .unwrap()
                .success()
        );
        owner.wait().unwrap();
        assert!(!alive(pid));
    }
}
