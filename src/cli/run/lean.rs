//! The daemon starts itself again with few arenas.
//!
//! glibc gives an arena to each thread that allocates while others do, up to eight for each core, and keeps in each what
//! was freed there. The daemon has many threads for a moment, when charts are read and rendered, and then lies still for
//! hours: half of its memory was such leftovers. How many arenas there are is read from the environment before `main`,
//! so there is no other way without a system call of C; on musl, which the image is built on, there is nothing to do.

#[cfg(target_env = "gnu")]
use std::os::unix::process::CommandExt as _;
#[cfg(target_env = "gnu")]
use std::process::Command;

/// What is set, unless the environment says something about memory already. Memory from this size on is given back as
/// soon as it is freed: a list of objects, a pack of a git repository, a chart.
#[cfg(target_env = "gnu")]
const SETTINGS: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

/// Replaces the process, once; where that cannot be done it goes on as it is. Nothing may be open yet.
#[cfg(target_env = "gnu")]
pub(super) fn start_again() {
    let mut known = SETTINGS.map(|(name, _)| name).to_vec();
    known.push("GLIBC_TUNABLES");
    if known.iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // It returns only if that fails.
    let _ = command.args(arguments).envs(SETTINGS).exec();
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn start_again() {}
