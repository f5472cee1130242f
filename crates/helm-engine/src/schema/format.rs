//! `format`, which drafts up to 7 assert, and the meta-schemas of all drafts.

use regex::{Regex, RegexBuilder};

use crate::text::quote;

/// A format that is known; others are not checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format(&'static (&'static str, Check));

type Check = fn(&str) -> Result<(), String>;

const FORMATS: &[(&str, Check)] = &[
    ("regex", regex),
    ("json-pointer", json_pointer),
    ("relative-json-pointer", relative_json_pointer),
    ("uuid", uuid),
    ("duration", duration),
    ("period", period),
    ("ipv4", ipv4),
    ("ipv6", ipv6),
    ("hostname", hostname),
    ("email", email),
    ("date", date),
    ("time", time),
    ("date-time", date_time),
    ("uri", uri),
    ("iri", uri),
    ("uri-reference", uri_reference),
    ("iri-reference", uri_reference),
    ("uri-template", uri_template),
    ("semver", semver),
];

impl Format {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        FORMATS.iter().find(|(known, _)| *known == name).map(Self)
    }

    pub(super) fn name(self) -> &'static str {
        self.0.0
    }

    /// The error says what is wrong with the text.
    pub(super) fn check(self, text: &str) -> Result<(), String> {
        (self.0.1)(text)
    }
}

/// Compiles a regular expression of Go's; the error is Go's text.
pub(super) fn go_regex(pattern: &str) -> Result<Regex, String> {
    let translated = sprig::regexp::translate_pattern(pattern)?;
    RegexBuilder::new(&translated)
        .size_limit(10 << 20)
        .build()
        .map_err(|_| format!("error parsing regexp: expression too large: `{pattern}`"))
}

fn fail<T>(text: impl Into<String>) -> Result<T, String> {
    Err(text.into())
}

fn regex(text: &str) -> Result<(), String> {
    go_regex(text).map(|_| ())
}

/// Go's `%q` of a character.
fn quote_char(c: char) -> String {
    let quoted = quote(&c.to_string());
    let inner = quoted.trim_matches('"');
    match c {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        _ => format!("'{inner}'"),
    }
}

fn json_pointer(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    if !text.starts_with('/') {
        return fail("not starting with /");
    }
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '~' && !matches!(rest.next(), Some('0' | '1')) {
            return fail("~ must be followed by 0 or 1");
        }
    }
    Ok(())
}

fn relative_json_pointer(text: &str) -> Result<(), String> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.len() - rest.len();
    if digits == 0 {
        return fail("must start with non-negative integer");
    }
    if digits > 1 && text.starts_with('0') {
        return fail("starts with zero");
    }
    if rest == "#" {
        return Ok(());
    }
    json_pointer(rest)
}

fn uuid(text: &str) -> Result<(), String> {
    const SIZES: [usize; 5] = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = text.split('-').collect();
    if groups.len() != SIZES.len() {
        return fail(format!("must have {} elements", SIZES.len()));
    }
    for (at, (group, size)) in groups.iter().zip(SIZES).enumerate() {
        if group.len() != size {
            let at = at + 1;
            return fail(format!("element {at} must be {size} characters long"));
        }
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return fail(format!("non-hex character {}", quote_char(c)));
        }
    }
    Ok(())
}

fn duration(text: &str) -> Result<(), String> {
    let Some(rest) = text.strip_prefix('P') else {
        return fail("must start with P");
    };
    if rest.is_empty() {
        return fail("nothing after P");
    }
    if let Some(weeks) = rest.strip_suffix('W') {
        if weeks.is_empty() {
            return fail("no number in week");
        }
        return if weeks.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(())
        } else {
            fail("invalid week")
        };
    }
    for (at, part) in rest.split('T').enumerate() {
        if at != 0 && part.is_empty() {
            return fail("no time elements");
        }
        match at {
            0 => duration_part(part, "YMD")?,
            1 => duration_part(part, "HMS")?,
            _ => return fail("more than one T"),
        }
    }
    Ok(())
}

fn duration_part(part: &str, units: &str) -> Result<(), String> {
    let (mut rest, mut left) = (part, units);
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if unit.len() == rest.len() {
            return fail("missing number");
        }
        let Some(c) = unit.chars().next() else {
            return fail("missing unit");
        };
        let Some((_, after)) = left.split_once(c) else {
            let c_text = quote_char(c);
            return fail(if units.contains(c) {
                format!("unit {c_text} out of order")
            } else {
                format!("invalid unit {c_text}")
            });
        };
        left = after;
        rest = unit.get(c.len_utf8()..).unwrap_or_default();
    }
    Ok(())
}

fn period(text: &str) -> Result<(), String> {
    let Some((start, end)) = text.split_once('/') else {
        return fail("missing slash");
    };
    let named = |name: &str, done: Result<(), String>| {
        done.map_err(|error| format!("invalid {name}: {error}"))
    };
    if start.starts_with('P') {
        named("start duration", duration(start))?;
        return named("end date-time", date_time(end));
    }
    named("start date-time", date_time(start))?;
    if end.starts_with('P') {
        return named("end duration", duration(end));
    }
    named("end date-time", date_time(end))
}

fn ipv4(text: &str) -> Result<(), String> {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return fail("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return fail("leading zeros");
        }
        let Ok(number) = group.parse::<i64>() else {
            let group = quote(group);
            return fail(format!("strconv.Atoi: parsing {group}: invalid syntax"));
        };
        if !(0..=255).contains(&number) {
            return fail("decimal must be between 0 and 255");
        }
    }
    Ok(())
}

fn ipv6(text: &str) -> Result<(), String> {
    if !text.contains(':') {
        return fail("missing colon");
    }
    if text.contains('%') {
        return fail("zone id is not a part of ipv6 address");
    }
    match text.parse::<std::net::Ipv6Addr>() {
        Ok(_) => Ok(()),
        Err(_) => fail(format!("ParseAddr({}): unable to parse IP", quote(text))),
    }
}

fn hostname(text: &str) -> Result<(), String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.len() > 253 {
        return fail("more than 253 characters long");
    }
    for label in text.split('.') {
        if label.is_empty() || label.len() > 63 {
            return fail("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return fail("label starts with hyphen");
        }
        if label.ends_with('-') {
            return fail("label ends with hyphen");
        }
        if let Some(c) = label
            .chars()
            .find(|c| !c.is_ascii_alphanumeric() && *c != '-')
        {
            return fail(format!("invalid character {}", quote_char(c)));
        }
    }
    Ok(())
}

fn email(text: &str) -> Result<(), String> {
    if text.len() > 254 {
        return fail("more than 255 characters long");
    }
    let Some((local, domain)) = text.rsplit_once('@') else {
        return fail("missing @");
    };
    if local.len() > 64 {
        return fail("local part more than 64 characters long");
    }
    email_local(local)?;
    let bracketed = domain
        .strip_prefix('[')
        .and_then(|domain| domain.strip_suffix(']'));
    if let Some(address) = bracketed {
        return match address.strip_prefix("IPv6:") {
            Some(address) => {
                ipv6(address).map_err(|error| format!("invalid ipv6 address: {error}"))
            }
            None => ipv4(address).map_err(|error| format!("invalid ipv4 address: {error}")),
        };
    }
    hostname(domain).map_err(|error| format!("invalid domain: {error}"))
}

fn email_local(local: &str) -> Result<(), String> {
    let quoted = local
        .strip_prefix('"')
        .and_then(|local| local.strip_suffix('"'));
    if let Some(inner) = quoted {
        if inner.contains(['\\', '"']) {
            return fail("backslash and quote are not allowed within quoted local part");
        }
        return Ok(());
    }
    if local.starts_with('.') {
        return fail("starts with dot");
    }
    if local.ends_with('.') {
        return fail("ends with dot");
    }
    if local.contains("..") {
        return fail("consecutive dots");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c);
    match local.chars().find(|c| !allowed(*c)) {
        Some(c) => fail(format!("invalid character {}", quote_char(c))),
        None => Ok(()),
    }
}

fn date(text: &str) -> Result<(), String> {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if shape && text.parse::<jiff::civil::Date>().is_ok() {
        return Ok(());
    }
    let quoted = quote(text);
    let number = |range: std::ops::Range<usize>| {
        text.get(range).and_then(|digits| digits.parse::<u8>().ok())
    };
    if shape && number(5..7).is_none_or(|month| month == 0 || month > 12) {
        return fail(format!("parsing time {quoted}: month out of range"));
    }
    if shape {
        return fail(format!("parsing time {quoted}: day out of range"));
    }
    let year = text
        .get(..4)
        .is_some_and(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
    let (rest, wanted) = if year {
        (text.get(4..).unwrap_or_default(), "-")
    } else {
        (text, "2006")
    };
    let rest = quote(rest);
    fail(format!(
        "parsing time {quoted} as \"2006-01-02\": cannot parse {rest} as \"{wanted}\""
    ))
}

fn number_at(text: &str, range: std::ops::Range<usize>) -> Option<i32> {
    text.get(range)?.parse().ok()
}

fn time(text: &str) -> Result<(), String> {
    if text.len() < 9 {
        return fail("less than 9 characters long");
    }
    let bytes = text.as_bytes();
    if bytes.get(2) != Some(&b':') || bytes.get(5) != Some(&b':') {
        return fail("missing colon in correct place");
    }
    let parts = [
        number_at(text, 0..2),
        number_at(text, 3..5),
        number_at(text, 6..8),
    ];
    let [Some(hour), Some(minute), Some(second)] = parts else {
        return fail("invalid hour/min/sec");
    };
    if [hour, minute, second].iter().any(|part| *part < 0) {
        return fail("non-positive hour/min/sec");
    }
    if hour > 23 || minute > 59 || second > 60 {
        return fail("hour/min/sec out of range");
    }
    let mut rest = text.get(8..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == fraction.len() {
            return fail("no digits in second fraction");
        }
    }
    let of_day = if matches!(rest, "z" | "Z") {
        hour * 60 + minute
    } else {
        let utc = hour * 60 + minute - offset(rest)?;
        if utc < 0 { utc + 24 * 60 } else { utc }
    };
    if second >= 60 && of_day != 23 * 60 + 59 {
        return fail("invalid leap second");
    }
    Ok(())
}

/// Minutes east of UTC.
fn offset(text: &str) -> Result<i32, String> {
    if text.len() != 6 {
        return fail("offset must be 6 characters long");
    }
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return fail("offset must begin with plus/minus"),
    };
    if text.as_bytes().get(3) != Some(&b':') {
        return fail("missing colon in offset in correct place");
    }
    let (Some(hour), Some(minute)) = (number_at(text, 1..3), number_at(text, 4..6)) else {
        return fail("invalid hour/min in offset");
    };
    if hour < 0 || minute < 0 {
        return fail("non-positive hour/min in offset");
    }
    if hour > 23 || minute > 59 {
        return fail("hour/min in offset out of range");
    }
    Ok(sign * (hour * 60 + minute))
}

fn date_time(text: &str) -> Result<(), String> {
    if text.len() < 20 {
        return fail("less than 20 characters long");
    }
    let (Some(day), Some(of_day)) = (text.get(..10), text.get(11..)) else {
        return fail("11th character must be t or T");
    };
    if !matches!(text.as_bytes().get(10), Some(b't' | b'T')) {
        return fail("11th character must be t or T");
    }
    date(day).map_err(|error| format!("invalid date element: {error}"))?;
    time(of_day).map_err(|error| format!("invalid time element: {error}"))
}

fn parse_url(text: &str) -> Result<(), String> {
    let quoted = quote(text);
    if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return fail(format!(
            "parse {quoted}: net/url: invalid control character in URL"
        ));
    }
    let first = text.split('/').next().unwrap_or_default();
    if first.starts_with(':') {
        return fail(format!("parse {quoted}: missing protocol scheme"));
    }
    if first.contains(':') && super::url::scheme(text).is_none() {
        return fail(format!(
            "parse {quoted}: first path segment in URL cannot contain colon"
        ));
    }
    if super::url::decode(text).is_none() {
        let at = text.find('%').unwrap_or(0);
        let escape = quote(text.get(at..(at + 3).min(text.len())).unwrap_or("%"));
        return fail(format!("parse {quoted}: invalid URL escape {escape}"));
    }
    let host = text
        .split_once("://")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        Some(host) if host.contains(' ') => fail(format!(
            "parse {quoted}: invalid character \" \" in host name"
        )),
        Some(host) if host.starts_with('[') => {
            let address = host.trim_start_matches('[').split(']').next();
            ipv6(address.unwrap_or_default())
                .map_err(|error| format!("invalid ipv6 address: {error}"))
        }
        _ => Ok(()),
    }
}

fn uri(text: &str) -> Result<(), String> {
    parse_url(text)?;
    if super::url::scheme(text).is_none() {
        return fail("relative url");
    }
    Ok(())
}

fn uri_reference(text: &str) -> Result<(), String> {
    if text.contains('\\') {
        return fail("contains \\");
    }
    parse_url(text)
}

fn uri_template(text: &str) -> Result<(), String> {
    parse_url(text)?;
    let mut open = false;
    for c in text.chars() {
        match c {
            '{' if open => return fail("nested curly braces"),
            '{' => open = true,
            '}' if !open => return fail("nested curly braces"),
            '}' => open = false,
            _ => {}
        }
    }
    if open {
        return fail("no matching closing brace");
    }
    Ok(())
}

fn semver(text: &str) -> Result<(), String> {
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (rest, build) = match text.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (text, None),
    };
    if build == Some("") {
        return fail("build is empty");
    }
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return fail("build identifier is empty");
        }
        if let Some(c) = part.chars().find(|c| !identifier(*c)) {
            let c = quote_char(c);
            return fail(format!("invalid character {c} in build identifier"));
        }
    }
    let (core, pre) = match rest.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (rest, None),
    };
    for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
        semver_prerelease(part)?;
    }
    let numbers: Vec<&str> = core.split('.').collect();
    if numbers.len() != 3 {
        return fail("versionCore must have 3 numbers separated by dot");
    }
    for (number, name) in numbers.iter().zip(["major", "minor", "patch"]) {
        if number.is_empty() {
            return fail(format!("{name} is empty"));
        }
        if number.len() > 1 && number.starts_with('0') {
            return fail(format!("{name} starts with zero"));
        }
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return fail(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}

fn semver_prerelease(part: &str) -> Result<(), String> {
    if part.is_empty() {
        return fail("pre-release identifier is empty");
    }
    if let Some(c) = part
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && *c != '-')
    {
        let c = quote_char(c);
        return fail(format!("invalid character {c} in pre-release identifier"));
    }
    if part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit()) {
        return fail("pre-release numeric identifier starts with zero");
    }
    Ok(())
}
