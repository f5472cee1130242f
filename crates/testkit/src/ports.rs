//! Free ports on loopback.

use std::net::TcpListener;

use anyhow::{Context, Result};

/// `N` different ports that were free a moment ago, for programs that cannot pick one themselves.
///
/// Another program may take one before ours does: whoever starts a server on one tries again with new ports.
///
/// # Errors
/// When the system has none left.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut ports = [0; N];
    // All listeners stay open until every port is known, so that no port is given out twice.
    let mut listeners = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
        *port = listener
            .local_addr()
            .context("looking for a free port")?
            .port();
        listeners.push(listener);
    }
    Ok(ports)
}
