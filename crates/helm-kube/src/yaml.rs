//! From YAML to JSON, as the Kubernetes clients do it.

use serde_json::Value;

/// Reads one document.
///
/// # Errors
/// The text is no YAML; the error is the cause alone.
pub(crate) fn to_json(document: &str) -> Result<Value, String> {
    serde_yaml::from_str(document).map_err(|error| error.to_string())
}
