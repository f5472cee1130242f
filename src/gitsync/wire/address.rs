//! Which network addresses a remote may have.
//!
//! The URL of a repository is written by tenants. It must not make the daemon talk to the metadata service of a cloud
//! or, unless the options allow it, to what listens on loopback next to the daemon. Names are checked where they are
//! resolved for the connection itself, so that a name which changes its address in between gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::gitsync::{Reason, SourceError};

/// Amazon's metadata service over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
/// Alibaba's metadata service.
const METADATA_ALIBABA: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);

/// An address that a remote may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("address {0} is not allowed for a repository: it is {1}")]
pub(crate) struct AddressRefused(IpAddr, &'static str);

impl From<AddressRefused> for SourceError {
    fn from(error: AddressRefused) -> Self {
        Self::new(Reason::InvalidSource, error.to_string())
    }
}

/// Checks one address.
///
/// # Errors
/// [`AddressRefused`] for link-local, loopback (unless `allow_loopback`), unspecified, multicast and metadata
/// addresses, also in their IPv4-in-IPv6 forms.
pub(crate) fn check_address(address: IpAddr, allow_loopback: bool) -> Result<(), AddressRefused> {
    let refused = |why| Err(AddressRefused(address, why));
    match canonical(address) {
        ip if ip.is_loopback() && !allow_loopback => refused("loopback"),
        ip if ip.is_unspecified() => refused("the unspecified address"),
        ip if ip.is_multicast() => refused("a multicast address"),
        IpAddr::V4(ip) if ip.is_link_local() => refused("link-local"),
        IpAddr::V4(ip) if ip.is_broadcast() => refused("the broadcast address"),
        IpAddr::V4(METADATA_ALIBABA) | IpAddr::V6(METADATA_V6) => refused("a metadata service"),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => refused("link-local"),
        _ => Ok(()),
    }
}

/// The IPv4 address that is meant by an IPv6 one: mapped, translated (RFC 2765), compatible, of 6to4 (RFC 3056), or
/// behind a prefix of NAT64 (RFC 6052, RFC 8215).
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(ip) = address else {
        return address;
    };
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0x64, 0xff9b, 0 | 1, .., high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x2002, high, low, ..] => inner(high, low),
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => inner(high, low),
        _ => address.to_canonical(),
    }
}

/// Checks `host` when it is an address and no name.
///
/// # Errors
/// As [`check_address`].
pub(crate) fn check_literal(host: &str, allow_loopback: bool) -> Result<(), AddressRefused> {
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => check_address(address, allow_loopback),
        Err(_) => Ok(()),
    }
}

/// The resolver of the system, without the addresses that are refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuardedResolver {
    /// Loopback addresses may be used.
    pub(crate) allow_loopback: bool,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_loopback = self.allow_loopback;
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                check_address(address.ip(), allow_loopback)?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s09_addresses_of_the_machine_and_of_metadata_services_are_refused() {
        for hostile in [
            "169.254.169.254",
            "127.0.0.1",
            "0.0.0.0",
            "::",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "::ffff:169.254.169.254",
            "::ffff:127.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b:1::a9fe:a9fe",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "2002:7f00:1::",
            "[::1]",
        ] {
            assert!(check_literal(hostile, false).is_err(), "{hostile}");
        }
    }

    #[test]
    fn addresses_of_a_cluster_and_of_the_world_are_allowed() {
        for address in [
            "10.96.0.7",
            "192.168.1.1",
            "140.82.121.4",
            "fd00::7",
            "64:ff9b::8c52:7904",
            "::8c52:7904",
            "2606:50c0::1",
        ] {
            assert!(check_literal(address, false).is_ok(), "{address}");
        }
        assert!(check_literal("127.0.0.1", true).is_ok());
        assert!(check_literal("169.254.169.254", true).is_err());
        assert!(check_literal("git.example.com", false).is_ok());
    }
}
