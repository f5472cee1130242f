//! URLs out of text.

use std::net::{IpAddr, Ipv6Addr};

use gotmpl::strconv::quote;

use super::escape::{Encoding, unescape};

/// The parts of a URL, unescaped except for the query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: Vec<u8>,
    pub(super) opaque: Vec<u8>,
    pub(super) user: Option<UserInfo>,
    pub(super) host: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) query: Vec<u8>,
    pub(super) fragment: Vec<u8>,
}

/// The name and password in a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserInfo {
    pub(super) name: Vec<u8>,
    pub(super) password: Option<Vec<u8>>,
}

/// Go's `url.Parse`. The error has its text.
pub(super) fn parse(text: &[u8]) -> Result<Url, String> {
    let (before, fragment) = cut(text, b'#').unwrap_or((text, b""));
    let mut url =
        parse_reference(before).map_err(|error| format!("parse {}: {error}", quote(before)))?;
    url.fragment = unescape(fragment, Encoding::Fragment)
        .map_err(|error| format!("parse {}: {error}", quote(text)))?;
    Ok(url)
}

/// What stands before and after the first such byte.
fn cut(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(separator, text)?;
    let (before, after) = text.split_at(at);
    Some((before, after.get(1..).unwrap_or_default()))
}

fn parse_reference(text: &[u8]) -> Result<Url, String> {
    if text.iter().any(u8::is_ascii_control) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url::default();
    if text == b"*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (rest, query) = cut(rest, b'?').unwrap_or((rest, b""));
    url.query = query.to_vec();
    let mut rest = rest;
    if !rest.starts_with(b"/") {
        if !scheme.is_empty() {
            url.opaque = rest.to_vec();
            return Ok(url);
        }
        let segment = rest.split(|byte| *byte == b'/').next();
        if segment.is_some_and(|segment| segment.contains(&b':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if rest.starts_with(b"//") && (!scheme.is_empty() || !rest.starts_with(b"///")) {
        let after = rest.get(2..).unwrap_or_default();
        let end = memchr::memchr(b'/', after).unwrap_or(after.len());
        let (authority, path) = after.split_at(end);
        rest = path;
        (url.user, url.host) = parse_authority(&url.scheme, authority)?;
    }
    url.path = unescape(rest, Encoding::Path)?;
    Ok(url)
}

fn split_scheme(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let of_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let end = text.iter().position(|byte| !of_scheme(byte));
    let (scheme, rest) = text.split_at(end.unwrap_or(text.len()));
    match (rest.strip_prefix(b":"), scheme.first()) {
        (Some(_), None) => Err("missing protocol scheme".to_owned()),
        (Some(rest), Some(first)) if first.is_ascii_alphabetic() => Ok((scheme, rest)),
        _ => Ok((b"", text)),
    }
}

fn parse_authority(scheme: &[u8], authority: &[u8]) -> Result<(Option<UserInfo>, Vec<u8>), String> {
    let Some(at) = memchr::memrchr(b'@', authority) else {
        return Ok((None, parse_host(scheme, authority)?));
    };
    let (user, host) = authority.split_at(at);
    let host = parse_host(scheme, host.get(1..).unwrap_or_default())?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !user.iter().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = match cut(user, b':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    let user = UserInfo {
        name: unescape(name, Encoding::UserPassword)?,
        password: password
            .map(|password| unescape(password, Encoding::UserPassword))
            .transpose()?,
    };
    Ok((Some(user), host))
}

fn parse_host(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, String> {
    match memchr::memrchr(b'[', host) {
        Some(0) => return parse_bracketed(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // Only where a host is known to be one are further colons an error.
    let colon = match scheme {
        b"http" | b"https" => memchr::memchr(b':', host),
        _ => memchr::memrchr(b':', host),
    };
    if let Some(colon) = colon {
        check_port(host.get(colon..).unwrap_or_default())?;
    }
    unescape(host, Encoding::Host)
}

fn parse_bracketed(host: &[u8]) -> Result<Vec<u8>, String> {
    let close = memchr::memrchr(b']', host).ok_or("missing ']' in host")?;
    let (literal, port) = host.split_at(close);
    let port = port.get(1..).unwrap_or_default();
    check_port(port)?;
    let port = unescape(port, Encoding::Host)?;
    let literal = literal.get(1..).unwrap_or_default();
    let zone = memchr::memmem::find(literal, b"%25").unwrap_or(literal.len());
    let (address, zone) = literal.split_at(zone);
    let mut name = unescape(address, Encoding::Host)?;
    name.extend_from_slice(&unescape(zone, Encoding::Zone)?);
    check_address(&name)?;
    Ok([b"[", &name[..], b"]", &port].concat())
}

fn check_port(port: &[u8]) -> Result<(), String> {
    if is_port(port) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", quote(port)))
}

/// Nothing, or a colon and digits.
fn is_port(port: &[u8]) -> bool {
    match port.split_first() {
        None => true,
        Some((b':', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

/// An IPv6 address, perhaps with a zone.
fn check_address(name: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(name);
    let address = text.split_once('%').map_or(&*text, |(address, _)| address);
    if address.parse::<Ipv6Addr>().is_ok() {
        return Ok(());
    }
    if text.parse::<IpAddr>().is_ok() {
        return Err("invalid IP-literal".to_owned());
    }
    Err(format!(
        "invalid host: ParseAddr({}): unable to parse IP",
        quote(name)
    ))
}

/// A host without its port and brackets.
pub(super) fn hostname(host: &[u8]) -> &[u8] {
    let colon = memchr::memrchr(b':', host).filter(|colon| {
        let port = host.get(*colon..).unwrap_or_default();
        is_port(port)
    });
    let name = host.get(..colon.unwrap_or(host.len())).unwrap_or_default();
    name.strip_prefix(b"[")
        .and_then(|inner| inner.strip_suffix(b"]"))
        .unwrap_or(name)
}
