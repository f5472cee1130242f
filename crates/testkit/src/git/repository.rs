//! A repository made by the real git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// A bare repository as a server holds it, and a work tree that commits and pushes to it, without the server.
///
/// The first branch is `main`. Authors and dates are fixed, so that equal content gives equal commits.
#[derive(Debug)]
pub struct GitRepository {
    bare: PathBuf,
    work: PathBuf,
    url: String,
}

impl GitRepository {
    pub(super) fn create(bare: PathBuf, work: PathBuf, url: String) -> Result<Self> {
        fs::create_dir_all(&work).context("making a work tree")?;
        let repository = Self { bare, work, url };
        let bare = repository.bare.as_os_str();
        run(git()
            .args(["init", "--quiet", "--bare", "--initial-branch=main"])
            .arg(bare))?;
        repository.git(&["init", "--quiet", "--initial-branch=main"])?;
        run(repository
            .command()
            .args(["remote", "add", "origin"])
            .arg(bare))?;
        // As the large hosts have it: any commit can be asked for by its id.
        repository.configure("uploadpack.allowAnySHA1InWant", "true")?;
        repository.configure("uploadpack.allowFilter", "true")?;
        Ok(repository)
    }

    /// The URL on the server, without credentials.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bare repository on disk, for tests that damage it.
    #[must_use]
    pub fn bare(&self) -> &Path {
        &self.bare
    }

    /// The work tree on disk.
    #[must_use]
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Sets an option of the bare repository, such as `uploadpack.allowFilter`.
    ///
    /// # Errors
    /// When git refuses.
    pub fn configure(&self, option: &str, value: &str) -> Result<()> {
        run(git()
            .arg("-C")
            .arg(&self.bare)
            .args(["config", option, value]))
        .map(drop)
    }

    /// Writes a file of the work tree, with the directories above it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
        let path = self.work.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        }
        fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
    }

    /// Copies a directory into the work tree.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn write_directory(&self, path: &str, source: &Path) -> Result<()> {
        let entries =
            fs::read_dir(source).with_context(|| format!("reading {}", source.display()))?;
        for entry in entries {
            let entry = entry?;
            let below = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.write_directory(&below, &entry.path())?;
            } else {
                self.write(&below, fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }

    /// Removes a file or a directory of the work tree.
    ///
    /// # Errors
    /// When git does not know it.
    pub fn remove(&self, path: &str) -> Result<()> {
        self.git(&["rm", "-r", "--quiet", "--", path]).map(drop)
    }

    /// Commits the whole work tree on the current branch, pushes it, and returns the commit id. A commit without
    /// changes is allowed.
    ///
    /// # Errors
    /// When the push is no fast-forward.
    pub fn commit(&self, message: &str) -> Result<String> {
        self.commit_locally(message)?;
        self.git(&["push", "--quiet", "origin", "HEAD"])?;
        self.head()
    }

    /// Commits the whole work tree with the submodule at `path` standing at `commit` of the repository at `url`, and
    /// pushes it. No other submodule stays in `.gitmodules`.
    ///
    /// # Errors
    /// When git refuses.
    pub fn commit_submodule(&self, path: &str, url: &str, commit: &str) -> Result<String> {
        let text = format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
        self.write(".gitmodules", text)?;
        self.git(&["add", "--all"])?;
        // After the rest: it has no directory in the work tree, and would be taken for removed.
        let entry = format!("160000,{commit},{path}");
        self.git(&["update-index", "--add", "--cacheinfo", &entry])?;
        self.git(&["commit", "--quiet", "--message", "With a submodule"])?;
        self.git(&["push", "--quiet", "origin", "HEAD"])?;
        self.head()
    }

    /// As [`commit`](Self::commit), signed with the private OpenSSH key in the file `key`.
    ///
    /// # Errors
    /// When there is no `ssh-keygen`, which signs.
    pub fn commit_signed(&self, message: &str, key: &Path) -> Result<String> {
        self.git(&["add", "--all"])?;
        let key = format!("user.signingkey={}", key.display());
        let signing = ["-c", "gpg.format=ssh", "-c", &key];
        let commit = ["commit", "--quiet", "--gpg-sign", "--message", message];
        self.git(&[&signing[..], &commit].concat())?;
        self.git(&["push", "--quiet", "origin", "HEAD"])?;
        self.head()
    }

    /// Writes one file and commits it.
    ///
    /// # Errors
    /// As [`GitRepository::write`] and [`GitRepository::commit`].
    pub fn commit_file(&self, path: &str, content: impl AsRef<[u8]>) -> Result<String> {
        self.write(path, content)?;
        self.commit(&format!("write {path}"))
    }

    /// Replaces the last commit of the current branch by one with the work tree as it is, and forces the push.
    ///
    /// # Errors
    /// When there is no commit yet.
    pub fn amend(&self, message: &str) -> Result<String> {
        self.git(&["add", "--all"])?;
        self.git(&[
            "commit",
            "--quiet",
            "--allow-empty",
            "--amend",
            "--message",
            message,
        ])?;
        self.force_push()
    }

    /// Moves the current branch and the work tree to another commit, and forces the push.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn reset(&self, commit: &str) -> Result<String> {
        self.git(&["reset", "--quiet", "--hard", commit])?;
        self.force_push()
    }

    /// Replaces the current branch by a history that has nothing in common with it, holding the work tree as it is.
    ///
    /// # Errors
    /// When git refuses.
    pub fn rewrite(&self, message: &str) -> Result<String> {
        let branch = self.git(&["symbolic-ref", "--short", "HEAD"])?;
        self.git(&["checkout", "--quiet", "--orphan", "rewritten"])?;
        self.commit_locally(message)?;
        self.git(&[
            "branch",
            "--quiet",
            "--force",
            "--move",
            "rewritten",
            branch.trim(),
        ])?;
        self.force_push()
    }

    fn force_push(&self) -> Result<String> {
        self.git(&["push", "--quiet", "--force", "origin", "HEAD"])?;
        self.head()
    }

    /// Makes a branch at the current commit, pushes it, and commits go to it from now on.
    ///
    /// # Errors
    /// When it exists.
    pub fn branch(&self, name: &str) -> Result<()> {
        self.git(&["checkout", "--quiet", "-b", name])?;
        self.git(&["push", "--quiet", "origin", "HEAD"]).map(drop)
    }

    /// Commits go to this branch from now on, and the work tree is as the branch has it.
    ///
    /// # Errors
    /// When there is no such branch.
    pub fn checkout(&self, branch: &str) -> Result<()> {
        self.git(&["checkout", "--quiet", branch]).map(drop)
    }

    /// Removes a branch from the server.
    ///
    /// # Errors
    /// When there is no such branch.
    pub fn delete_branch(&self, name: &str) -> Result<()> {
        self.git(&["push", "--quiet", "--delete", "origin", name])
            .map(drop)
    }

    /// Sets a tag at the current commit and pushes it, by force if it is elsewhere: lightweight without a message,
    /// annotated with one.
    ///
    /// # Errors
    /// When git refuses.
    pub fn tag(&self, name: &str, message: Option<&str>) -> Result<()> {
        match message {
            None => self.git(&["tag", "--force", name])?,
            Some(message) => {
                self.git(&["tag", "--force", "--annotate", "--message", message, name])?
            }
        };
        self.git(&[
            "push",
            "--quiet",
            "--force",
            "origin",
            &format!("refs/tags/{name}"),
        ])
        .map(drop)
    }

    /// The id of the current commit.
    ///
    /// # Errors
    /// When there is none yet.
    pub fn head(&self) -> Result<String> {
        Ok(self.git(&["rev-parse", "HEAD"])?.trim().to_owned())
    }

    /// Runs git in the work tree.
    ///
    /// # Errors
    /// When git fails; then with what it printed.
    pub fn git(&self, arguments: &[&str]) -> Result<String> {
        run(self.command().args(arguments))
    }

    fn commit_locally(&self, message: &str) -> Result<()> {
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message])
            .map(drop)
    }

    fn command(&self) -> Command {
        let mut command = git();
        command.arg("-C").arg(&self.work);
        command
    }
}

/// git without the user's configuration, with a fixed author and clock.
fn git() -> Command {
    let mut command = Command::new("git");
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    command
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Test");
        command.env(format!("GIT_{role}_EMAIL"), "test@example.invalid");
        command.env(format!("GIT_{role}_DATE"), "2024-01-01T00:00:00Z");
    }
    command
}
