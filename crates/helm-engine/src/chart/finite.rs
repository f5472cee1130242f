//! Where `Chart.yaml` and lock files may have `.nan` and `.inf`.
//!
//! On its way from YAML to a struct a document becomes JSON, which has no such numbers. Where the
//! struct wants a string, they have become strings before (`+Inf`); anywhere else they are an error.

use goyaml::{Error, Node};

/// What a struct wants at a place.
pub(crate) enum Shape {
    /// A string.
    Text,
    /// A slice whose items have a shape.
    List(&'static Self),
    /// A map whose values are strings.
    Texts,
    /// A struct of these JSON names; other fields are of no string.
    Struct(&'static [(&'static str, Self)]),
}

const TEXT_LIST: Shape = Shape::List(&Shape::Text);

const MAINTAINER: Shape = Shape::Struct(&[
    ("name", Shape::Text),
    ("email", Shape::Text),
    ("url", Shape::Text),
]);

const DEPENDENCY: Shape = Shape::Struct(&[
    ("name", Shape::Text),
    ("version", Shape::Text),
    ("repository", Shape::Text),
    ("condition", Shape::Text),
    ("tags", TEXT_LIST),
    ("alias", Shape::Text),
]);

/// What is read of `Chart.yaml` before anything else.
pub(crate) const CHART_BASE: Shape = Shape::Struct(&[("apiVersion", Shape::Text)]);

/// `Chart.yaml`, and `requirements.yaml`.
pub(crate) const METADATA: Shape = Shape::Struct(&[
    ("name", Shape::Text),
    ("home", Shape::Text),
    ("sources", TEXT_LIST),
    ("version", Shape::Text),
    ("description", Shape::Text),
    ("keywords", TEXT_LIST),
    ("maintainers", Shape::List(&MAINTAINER)),
    ("icon", Shape::Text),
    ("apiVersion", Shape::Text),
    ("condition", Shape::Text),
    ("tags", Shape::Text),
    ("appVersion", Shape::Text),
    ("annotations", Shape::Texts),
    ("kubeVersion", Shape::Text),
    ("dependencies", Shape::List(&DEPENDENCY)),
    ("type", Shape::Text),
]);

/// `Chart.lock`. Its time is read by a method of its own, and so is no string.
pub(crate) const LOCK: Shape = Shape::Struct(&[
    ("digest", Shape::Text),
    ("dependencies", Shape::List(&DEPENDENCY)),
]);

impl Shape {
    /// Whether JSON can have what becomes of a document on its way into this shape.
    ///
    /// # Errors
    /// As [`Node::check_finite`].
    pub(crate) fn check(&self, node: &Node) -> Result<(), Error> {
        match (self, node) {
            (Self::Text, Node::Float(_)) => Ok(()),
            (Self::List(item), Node::List(items)) => {
                items.iter().try_for_each(|node| item.check(node))
            }
            (Self::Texts, Node::Map(entries)) => {
                entries.values().try_for_each(|node| Self::Text.check(node))
            }
            (Self::Struct(fields), Node::Map(entries)) => {
                entries
                    .iter()
                    .try_for_each(|(name, node)| match field(fields, name.as_bytes()) {
                        Some(shape) => shape.check(node),
                        None => node.check_finite(),
                    })
            }
            _ => node.check_finite(),
        }
    }
}

/// The field of a JSON name: the one of just this name, or else one that differs in case only.
fn field(fields: &'static [(&'static str, Shape)], name: &[u8]) -> Option<&'static Shape> {
    let exact = fields.iter().find(|(known, _)| known.as_bytes() == name);
    exact
        .or_else(|| {
            fields
                .iter()
                .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
        })
        .map(|(_, shape)| shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shape: &Shape, text: &str) -> String {
        let node = goyaml::read_node(text.as_bytes()).unwrap();
        match shape.check(&node) {
            Ok(()) => "good".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn numbers_that_json_lacks_are_good_only_where_strings_are_wanted() {
        const INF: &str = "error converting YAML to JSON: json: unsupported value: +Inf";
        const NAN: &str = "error converting YAML to JSON: json: unsupported value: NaN";
        for (text, expected) in [
            ("version: .inf", "good"),
            ("VERSION: .inf", "good"),
            ("annotations: {a: .inf}", "good"),
            ("keywords: [.nan]", "good"),
            ("maintainers: [{name: .nan}]", "good"),
            ("dependencies: [{tags: [.nan], alias: .inf}]", "good"),
            ("dependencies: [{enabled: .inf}]", INF),
            ("dependencies: [{import-values: [.inf]}]", INF),
            ("deprecated: .nan", NAN),
            ("foo: {bar: [.inf]}", INF),
            ("name: [.inf]", INF),
            ("annotations: [.inf]", INF),
            ("annotations: {a: [.inf]}", INF),
            ("[.nan]", NAN),
        ] {
            assert_eq!(check(&METADATA, text), expected, "{text}");
        }
        assert_eq!(check(&CHART_BASE, "annotations: {a: .inf}"), INF);
        assert_eq!(check(&LOCK, "generated: .nan"), NAN);
    }
}
