//! A throw-away cluster to try things by hand.

use std::io::{self, Read as _};

use anyhow::{Context, Result};
use testkit::{ControlPlane, Options};

pub(crate) fn run() -> Result<()> {
    let plane = ControlPlane::start(Options {
        full: true,
        ..Options::default()
    })?;
    let kubectl = plane.kubectl()?.get_program().to_owned();
    println!("export KUBECONFIG={}", plane.kubeconfig().display());
    println!("alias kubectl={}", kubectl.display());
    println!("# end with Ctrl-D or Ctrl-C");
    let mut ignored = Vec::new();
    io::stdin()
        .read_to_end(&mut ignored)
        .context("waiting for the end of stdin")?;
    Ok(())
}
