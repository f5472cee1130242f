//! The `WWW-Authenticate` header of registries.

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A user name and a password with every request.
    Basic,
    /// A token of this service.
    Bearer {
        /// Where tokens are given.
        realm: String,
        /// For whom.
        service: Option<String>,
    },
}

/// Reads a challenge; the scope is left out, as we know better what we want.
pub(super) fn parse(header: &str) -> Option<Challenge> {
    let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service) = (None, None);
    let mut rest = parameters;
    while let Some((key, value, after)) = parameter(rest) {
        match key.to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value),
            "service" => service = Some(value),
            _ => {}
        }
        rest = after;
    }
    Some(Challenge::Bearer {
        realm: realm?,
        service,
    })
}

/// The next `key=value` or `key="value"`, and what follows it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let text = text.trim_start_matches([' ', ',', '\t']);
    let (key, rest) = text.split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(',').unwrap_or(rest.len());
        return Some((key.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((key.trim(), value, &quoted[at + 1..])),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        for (header, expected) in [
            ("Basic realm=\"x\"", Some(Challenge::Basic)),
            ("basic", Some(Challenge::Basic)),
            (
                r#"Bearer realm="https://a.example/token",service="a.example",scope="repository:x:pull,push""#,
                bearer("https://a.example/token", Some("a.example")),
            ),
            (r#"bearer scope="a,b", realm="r""#, bearer("r", None)),
            ("Bearer realm=r,service=s", bearer("r", Some("s"))),
            (r#"Bearer realm="a\"b""#, bearer("a\"b", None)),
            (r#"Bearer realm="open"#, None),
            ("Bearer", None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(parse(header), expected, "{header}");
        }
    }
}
