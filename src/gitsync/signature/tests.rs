use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::*;

/// A repository and the keys to sign commits of it.
struct Rig {
    directory: tempfile::TempDir,
}

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

impl Rig {
    fn new() -> Self {
        let rig = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        rig.git(&["init", "--quiet"]);
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.directory.path())
            .env("GNUPGHOME", self.path("gnupg"))
            .env("HOME", self.directory.path())
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = self.command("git");
        command
            .args(["-c", "user.name=T", "-c", "user.email=t@example.invalid"])
            .args(arguments);
        run(&mut command)
    }

    fn ssh_key(&self, name: &str, arguments: &[&str]) -> (String, String) {
        let path = self.path(name);
        run(self
            .command("ssh-keygen")
            .args(["-q", "-N", "", "-f"])
            .arg(&path)
            .args(arguments));
        let public = std::fs::read_to_string(path.with_extension("pub")).unwrap();
        (path.to_str().unwrap().to_owned(), public)
    }

    /// A commit that is signed with these settings: its id and its raw object.
    fn commit(&self, settings: &[&str]) -> (gix::ObjectId, Vec<u8>) {
        let mut arguments: Vec<&str> = settings
            .iter()
            .flat_map(|setting| ["-c", setting])
            .collect();
        arguments.extend(["commit", "--quiet", "--allow-empty", "--message", "signed"]);
        if !settings.is_empty() {
            arguments.push("--gpg-sign");
        }
        self.git(&arguments);
        let id = self.git(&["rev-parse", "HEAD"]);
        let raw = run(self.command("git").args(["cat-file", "commit", "HEAD"]));
        (
            gix::ObjectId::from_hex(id.trim().as_bytes()).unwrap(),
            raw.into_bytes(),
        )
    }
}

fn signers(entries: &[(&str, &str)]) -> Result<Signers, SourceError> {
    let data: SecretData = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), *value))
        .collect();
    Signers::read(
        &data,
        &SecretRef {
            namespace: "team".into(),
            name: "signers".into(),
        },
    )
}

fn refusal(signers: &Signers, commit: &(gix::ObjectId, Vec<u8>)) -> String {
    let error = signers.check(commit.0, &commit.1).unwrap_err();
    assert_eq!(error.reason(), Reason::SignatureInvalid);
    error.to_string()
}

/// A commit is taken with the right key, and refused changed, with a wrong key and unsigned.
fn check_all(commit: &(gix::ObjectId, Vec<u8>), right: &Signers, wrong: &Signers, what: &str) {
    right
        .check(commit.0, &commit.1)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(refusal(wrong, commit).contains("another key"), "{what}");
    let text = String::from_utf8(commit.1.clone()).unwrap();
    let changed = (
        commit.0,
        text.replace("\n\nsigned", "\n\nforged").into_bytes(),
    );
    assert!(refusal(right, &changed).contains("does not fit"), "{what}");
}

#[test]
fn ssh_signatures_of_every_kind_of_key_are_checked() {
    let rig = Rig::new();
    let (_, other) = rig.ssh_key("other", &["-t", "ed25519"]);
    let wrong = signers(&[("other.pub", &other)]).unwrap();
    for (name, arguments) in [
        ("ed25519", &["-t", "ed25519"][..]),
        ("p256", &["-t", "ecdsa", "-b", "256"]),
        ("p384", &["-t", "ecdsa", "-b", "384"]),
        ("p521", &["-t", "ecdsa", "-b", "521"]),
        ("rsa", &["-t", "rsa", "-b", "2048"]),
    ] {
        let (private, public) = rig.ssh_key(name, arguments);
        let commit = rig.commit(&["gpg.format=ssh", &format!("user.signingkey={private}")]);
        let right = signers(&[("other.pub", &other), ("signer.pub", &public)]).unwrap();
        check_all(&commit, &right, &wrong, name);
        let allowed = format!("# who may\n*@example.invalid namespaces=\"git\" {public}");
        let right = signers(&[("allowed_signers", &allowed)]).unwrap();
        right.check(commit.0, &commit.1).unwrap();
    }
}

/// The path of a GnuPG home with a key of each kind.
fn gnupg(rig: &Rig, kind: &str, usage: &str) -> (String, String) {
    let home = rig.path("gnupg");
    if !home.exists() {
        std::fs::create_dir(&home).unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let user = format!("{kind} <{kind}@example.invalid>");
    let mut generate = rig.command("gpg");
    generate.args([
        "--batch",
        "--quiet",
        "--passphrase",
        "",
        "--quick-generate-key",
    ]);
    run(generate.arg(&user).args([kind, usage, "never"]));
    let list = run(rig
        .command("gpg")
        .args(["--batch", "--with-colons", "--list-keys", &user]));
    let id = list
        .lines()
        .find_map(|line| line.strip_prefix("fpr:::::::::"))
        .unwrap();
    let id = id.trim_end_matches(':').to_owned();
    let public = run(rig
        .command("gpg")
        .args(["--batch", "--armor", "--export", &id]));
    (id, public)
}

fn has_gpg() -> bool {
    let found = Command::new("gpg").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: gpg is missing");
    }
    found
}

fn stop_agent(rig: &Rig) {
    let _ = rig.command("gpgconf").args(["--kill", "all"]).output();
}

#[test]
fn openpgp_signatures_of_every_kind_of_key_are_checked() {
    if !has_gpg() {
        return;
    }
    let rig = Rig::new();
    let (_, other) = gnupg(&rig, "ed25519/eddsa", "sign");
    let wrong = signers(&[("other.asc", &other)]).unwrap();
    for kind in [
        "ed25519", "nistp256", "nistp384", "nistp521", "rsa2048", "rsa3072",
    ] {
        let (id, public) = gnupg(&rig, kind, "sign");
        let commit = rig.commit(&["gpg.format=openpgp", &format!("user.signingkey={id}")]);
        let right = signers(&[("other.asc", &other), ("signer.asc", &public)]).unwrap();
        check_all(&commit, &right, &wrong, kind);
    }
    stop_agent(&rig);
}

#[test]
fn a_subkey_may_sign_for_its_key() {
    if !has_gpg() {
        return;
    }
    let rig = Rig::new();
    let (id, _) = gnupg(&rig, "ed25519", "cert");
    run(rig.command("gpg").args([
        "--batch",
        "--passphrase",
        "",
        "--quick-add-key",
        &id,
        "rsa2048",
        "sign",
        "never",
    ]));
    let public = run(rig
        .command("gpg")
        .args(["--batch", "--armor", "--export", &id]));
    let commit = rig.commit(&["gpg.format=openpgp", &format!("user.signingkey={id}")]);
    signers(&[("signer.asc", &public)])
        .unwrap()
        .check(commit.0, &commit.1)
        .unwrap();
    stop_agent(&rig);
}

#[test]
fn a_commit_without_a_signature_is_refused() {
    let rig = Rig::new();
    let (_, public) = rig.ssh_key("key", &["-t", "ed25519"]);
    let signers = signers(&[("signer.pub", &public)]).unwrap();
    let text = refusal(&signers, &rig.commit(&[]));
    assert!(
        text.contains("is not signed") && text.contains("secret team/signers"),
        "{text}"
    );
}

#[test]
fn a_signature_for_another_purpose_is_refused() {
    let rig = Rig::new();
    let (private, public) = rig.ssh_key("key", &["-t", "ed25519"]);
    let (id, raw) = rig.commit(&[]);
    let file = rig.path("message");
    std::fs::write(&file, &raw).unwrap();
    run(rig
        .command("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", "file", "-f", &private])
        .arg(&file));
    let signature = std::fs::read_to_string(file.with_extension("sig")).unwrap();
    let header = format!("\ngpgsig {}\n\n", signature.trim().replace('\n', "\n "));
    let forged = String::from_utf8(raw)
        .unwrap()
        .replacen("\n\n", &header, 1)
        .into_bytes();
    let signers = signers(&[("signer.pub", &public)]).unwrap();
    assert!(refusal(&signers, &(id, forged)).contains("not understood"));
}

#[test]
fn a_secret_without_keys_lets_nothing_pass() {
    for entries in [
        &[][..],
        &[("signer.pub", "garbage")],
        &[(
            "x.asc",
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END",
        )],
    ] {
        assert_eq!(
            signers(entries).unwrap_err().reason(),
            Reason::SignatureInvalid
        );
    }
    assert!(!Path::new("/nonexistent").exists());
}

proptest::proptest! {
    #[test]
    fn no_signature_makes_the_reader_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
        use base64::Engine;
        let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
        for begin in ["-----BEGIN SSH SIGNATURE-----", "-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP PUBLIC KEY BLOCK-----"] {
            let armored = format!("{begin}\n\n{base64}\n-----END X-----");
            let _ = ssh::verify(&armored, b"x", &[]);
            let _ = openpgp::verify(&armored, b"x", &openpgp::read_keys(&armored));
        }
        let mut magic = b"SSHSIG\0\0\0\x01".to_vec();
        magic.extend(&bytes);
        let base64 = base64::engine::general_purpose::STANDARD.encode(&magic);
        let _ = ssh::verify(&format!("-----BEGIN SSH SIGNATURE-----\n{base64}\n-----END"), b"x", &[]);
    }
}
