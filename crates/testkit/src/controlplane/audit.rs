//! The audit log: who asked for what, in the order of the answers.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// One answered request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEntry {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` …
    pub verb: String,
    /// The path and query.
    pub uri: String,
    /// The user, such as `admin` or `system:serviceaccount:default:default`.
    pub user: String,
    /// The user that the request was made as, if it was made as another one.
    pub impersonated: Option<String>,
    /// The client's `User-Agent`.
    pub agent: String,
    /// The status code of the answer.
    pub code: u16,
}

pub(super) fn read(path: &Path) -> Result<Vec<AuditEntry>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("reading {} (is Options::audit set?)", path.display()))?;
    // The last line may be half written; it ends with a newline when it is whole.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<AuditEntry> {
    let event: Value = serde_json::from_str(line).context("reading a line of the audit log")?;
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let code = event
        .pointer("/responseStatus/code")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    Ok(AuditEntry {
        verb: text("/verb"),
        uri: text("/requestURI"),
        user: text("/user/username"),
        impersonated: Some(text("/impersonatedUser/username")).filter(|user| !user.is_empty()),
        agent: text("/userAgent"),
        code: u16::try_from(code).unwrap_or_default(),
    })
}
