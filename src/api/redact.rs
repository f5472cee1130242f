//! Types whose printed form never shows what a user wrote into them as a secret.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A URL as the user wrote it. `Display` and `Debug` hide its user information; only
/// [`SourceUrl::expose`] gives the whole of it, for the one who connects.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceUrl(String);

impl SourceUrl {
    /// Wraps a URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The whole URL, user information included. Not for messages.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_url(&self.0))
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redact_url(&self.0))
    }
}

impl JsonSchema for SourceUrl {
    fn schema_name() -> Cow<'static, str> {
        "SourceUrl".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Replaces the user information of a URL by `***`, and the values of its query by `***`.
///
/// The scp form `git@host:path` has a user name and no password, and is left as it is.
#[must_use]
pub fn redact_url(url: &str) -> Cow<'_, str> {
    let Some(scheme_end) = url.find("://").map(|at| at + 3) else {
        return Cow::Borrowed(url);
    };
    let (scheme, rest) = url.split_at(scheme_end);
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(authority_end);
    let host = match authority.rsplit_once('@') {
        // `ssh://git@host` tells nothing; a password or a token as the user name might.
        Some((user, host)) if !scheme.starts_with("ssh") || user.contains(':') => {
            format!("***@{host}")
        }
        _ => authority.to_owned(),
    };
    Cow::Owned(format!("{scheme}{host}{}", redact_query(tail)))
}

/// Keeps the names of query parameters and hides their values.
fn redact_query(tail: &str) -> String {
    let Some((path, query)) = tail.split_once('?') else {
        return tail.to_owned();
    };
    let hidden: Vec<String> = query
        .split('&')
        .map(|pair| {
            pair.split_once('=')
                .map_or_else(|| pair.to_owned(), |(name, _)| format!("{name}=***"))
        })
        .collect();
    format!("{path}?{}", hidden.join("&"))
}

/// Values written inline. They may hold secrets, so `Debug` shows their size only.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InlineValues(pub serde_json::Value);

impl fmt::Debug for InlineValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            serde_json::Value::Object(keys) => write!(f, "Values({} keys, redacted)", keys.len()),
            _ => f.write_str("Values(redacted)"),
        }
    }
}

impl JsonSchema for InlineValues {
    fn schema_name() -> Cow<'static, str> {
        "InlineValues".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// As in 1.4: no type at all, so that every JSON value is stored.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_and_query_values_of_a_url_are_hidden() {
        let cases = [
            (
                "https://reader:word@charts.example.com/x",
                "https://***@charts.example.com/x",
            ),
            (
                "https://token@git.example.com",
                "https://***@git.example.com",
            ),
            ("https://a@b:c@host/p", "https://***@host/p"),
            (
                "https://host/p?channel=stable&t",
                "https://host/p?channel=***&t",
            ),
            ("https://host/a@b", "https://host/a@b"),
            (
                "ssh://git@git.example.com:2222/acme/deploy",
                "ssh://git@git.example.com:2222/acme/deploy",
            ),
            (
                "ssh://git:word@git.example.com/acme",
                "ssh://***@git.example.com/acme",
            ),
            (
                "git@git.example.com:acme/deploy",
                "git@git.example.com:acme/deploy",
            ),
            ("stable", "stable"),
        ];
        for (url, shown) in cases {
            assert_eq!(redact_url(url), shown);
            assert_eq!(SourceUrl::new(url).to_string(), shown);
            assert_eq!(format!("{:?}", SourceUrl::new(url)), format!("{shown:?}"));
            assert_eq!(SourceUrl::new(url).expose(), url);
        }
    }

    #[test]
    fn inline_values_do_not_show_in_debug_output() {
        let values = InlineValues(serde_json::json!({"password": "canary"}));
        assert_eq!(format!("{values:?}"), "Values(1 keys, redacted)");
    }
}
