//! A quick look at a schema that spares most of them the check against their meta-schema.
//!
//! Compiling a meta-schema takes longer than rendering a small chart. Nearly all schemas use a few
//! dozen keywords in the plainest way, which every draft allows; that is seen at a glance.

use std::collections::BTreeMap;

use super::document::Json;
use super::resources::Draft;

/// How deep the glance goes. What is deeper goes to the meta-schema.
const MAX_DEPTH: usize = 200;

/// Lists up to this length are looked through for entries that are equal.
const MAX_LIST: usize = 100;

/// Whether the meta-schema of this draft surely accepts the document; `false` says nothing.
pub(super) fn is_plainly_valid(document: &Json, draft: Draft) -> bool {
    match document {
        Json::Object(object) => Glance { draft }.schema_object(object, 0),
        _ => false,
    }
}

struct Glance {
    draft: Draft,
}

impl Glance {
    fn schema(&self, schema: &Json, depth: usize) -> bool {
        match schema {
            Json::Object(object) => {
                depth < MAX_DEPTH
                    && !object.contains_key("$schema")
                    && self.schema_object(object, depth + 1)
            }
            Json::Bool(_) => self.draft >= Draft::V6,
            _ => false,
        }
    }

    fn schema_object(&self, object: &BTreeMap<String, Json>, depth: usize) -> bool {
        object
            .iter()
            .all(|(keyword, value)| self.keyword(object, keyword, value, depth))
    }

    fn keyword(
        &self,
        object: &BTreeMap<String, Json>,
        keyword: &str,
        value: &Json,
        depth: usize,
    ) -> bool {
        match keyword {
            // The URL of a draft, or the document would have been refused before.
            "$schema" | "title" | "description" | "$comment" | "format" => is_string(value),
            "default" | "const" => true,
            "examples" => value.as_array().is_some(),
            "$ref" => value.as_str().is_some_and(is_plain_reference),
            "type" => is_type(value),
            "enum" => value.as_array().is_some_and(is_set),
            "required" => value
                .as_array()
                .is_some_and(|items| is_set(items) && items.iter().all(is_string)),
            "properties" | "definitions" | "$defs" | "dependentSchemas" => value
                .as_object()
                .is_some_and(|entries| entries.values().all(|schema| self.schema(schema, depth))),
            "patternProperties" => value.as_object().is_some_and(|entries| {
                let mut entries = entries.iter();
                entries.all(|(name, schema)| is_plain_pattern(name) && self.schema(schema, depth))
            }),
            "pattern" => value.as_str().is_some_and(is_plain_pattern),
            "items" if value.as_array().is_some() => {
                self.draft < Draft::V2020 && self.list(value, depth)
            }
            "additionalProperties" | "additionalItems" => {
                value.as_bool().is_some() || self.schema(value, depth)
            }
            "items"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems" => self.schema(value, depth),
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => self.list(value, depth),
            "minimum" | "maximum" => is_number(value),
            "exclusiveMinimum" => self.exclusive(object, "minimum", value),
            "exclusiveMaximum" => self.exclusive(object, "maximum", value),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" => is_count(value),
            "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" => value.as_bool().is_some(),
            _ => is_unknown(keyword),
        }
    }

    fn list(&self, value: &Json, depth: usize) -> bool {
        value.as_array().is_some_and(|items| {
            !items.is_empty() && items.iter().all(|item| self.schema(item, depth))
        })
    }

    /// In draft 4 a flag of the bound, since then a bound of its own.
    fn exclusive(&self, object: &BTreeMap<String, Json>, bound: &str, value: &Json) -> bool {
        if self.draft == Draft::V4 {
            return value.as_bool().is_some() && object.contains_key(bound);
        }
        is_number(value)
    }
}

/// Whether no draft has a keyword of this name: such are ignored, whatever they hold.
fn is_unknown(keyword: &str) -> bool {
    const KNOWN: [&str; 17] = [
        "id",
        "dependencies",
        "dependentRequired",
        "minContains",
        "maxContains",
        "multipleOf",
        "divisibleBy",
        "disallow",
        "extends",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "media",
        "links",
        "base",
        "vocabulary",
        "anchor",
    ];
    !keyword.starts_with('$') && !KNOWN.contains(&keyword)
}

fn is_string(value: &Json) -> bool {
    value.as_str().is_some()
}

fn is_number(value: &Json) -> bool {
    matches!(value, Json::Number(_))
}

fn is_count(value: &Json) -> bool {
    matches!(value, Json::Number(text) if text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Not empty, and no two entries are equal.
fn is_set(items: &[Json]) -> bool {
    let differs = |(at, item): (usize, &Json)| {
        is_plain_scalar(item) && items.iter().skip(at + 1).all(|other| item != other)
    };
    !items.is_empty() && items.len() <= MAX_LIST && items.iter().enumerate().all(differs)
}

/// Numbers may be equal in value and not in text, except for these.
fn is_plain_scalar(value: &Json) -> bool {
    match value {
        Json::String(_) | Json::Bool(_) | Json::Null => true,
        Json::Number(_) => is_count(value),
        Json::Array(_) | Json::Object(_) => false,
    }
}

fn is_type(value: &Json) -> bool {
    let is_name = |item: &Json| {
        item.as_str()
            .and_then(super::compile::Type::parse)
            .is_some()
    };
    match value {
        Json::Array(items) => is_set(items) && items.iter().all(is_name),
        _ => is_name(value),
    }
}

/// `#/definitions/name` and the like.
fn is_plain_reference(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.-$".contains(&byte);
    text.strip_prefix('#')
        .is_some_and(|fragment| fragment.bytes().all(plain))
}

/// A pattern that is well-formed, and cannot grow large when it is compiled.
fn is_plain_pattern(text: &str) -> bool {
    let counted = text
        .bytes()
        .zip(text.bytes().skip(1))
        .any(|(brace, next)| brace == b'{' && next.is_ascii_digit());
    text.len() < 200
        && !counted
        && !text.contains("\\p")
        && !text.contains("\\P")
        && sprig::regexp::translate_pattern(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::compile::Schema;
    use super::*;

    const URLS: [&str; 5] = [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ];
    const DRAFTS: [Draft; 5] = [Draft::V4, Draft::V6, Draft::V7, Draft::V2019, Draft::V2020];

    /// Values of every shape, right and wrong, for every keyword.
    const VALUES: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "3",
        "-1",
        "1.5",
        "1e2",
        "\"\"",
        "\"string\"",
        "\"text\"",
        "\"^[a-z]+$\"",
        "\"(\"",
        "\"#/definitions/a\"",
        "\"#\"",
        "\"%zz\"",
        "[]",
        "[\"string\"]",
        "[\"string\", \"null\"]",
        "[\"a\", \"a\"]",
        "[1, 1.0]",
        "[{}]",
        "[{\"type\": 1}]",
        "[true]",
        "{}",
        "{\"a\": {}}",
        "{\"a\": true}",
        "{\"a\": 1}",
        "{\"(\": {}}",
        "{\"a\": {\"type\": \"strange\"}}",
        "{\"a\": {\"minLength\": -1}}",
        "{\"type\": \"integer\", \"minimum\": 1}",
        "{\"minLength\": \"1\"}",
        "{\"$schema\": \"http://json-schema.org/draft-07/schema#\"}",
    ];

    const KEYWORDS: &[&str] = &[
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$ref",
        "$vocabulary",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "deprecated",
        "description",
        "else",
        "enum",
        "examples",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "id",
        "if",
        "items",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "readOnly",
        "required",
        "strange",
        "then",
        "title",
        "type",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
        "writeOnly",
    ];

    #[test]
    fn what_is_plainly_valid_the_meta_schema_accepts() {
        let mut plain = 0;
        for (url, draft) in URLS.iter().zip(DRAFTS) {
            let check = Schema::metaschema(draft).unwrap();
            for (keyword, value) in KEYWORDS
                .iter()
                .flat_map(|keyword| VALUES.iter().map(move |value| (keyword, value)))
            {
                for bound in ["", ", \"maximum\": 9, \"minimum\": 1"] {
                    let bound = if keyword.ends_with("imum") { "" } else { bound };
                    let text = format!("{{\"$schema\": \"{url}\", \"{keyword}\": {value}{bound}}}");
                    let document = Json::parse(text.as_bytes()).unwrap();
                    if is_plainly_valid(&document, draft) {
                        plain += 1;
                        let value = goyaml::read_json_value(text.as_bytes()).unwrap();
                        let violation = check.validate(&value);
                        assert!(violation.is_none(), "{text}: {}", violation.unwrap());
                    }
                }
            }
        }
        assert!(plain > 1000, "{plain}");
    }

    #[test]
    fn usual_schemas_are_plainly_valid() {
        let text = br##"{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values",
            "type": "object", "required": ["image"], "additionalProperties": false,
            "properties": {"image": {"$ref": "#/definitions/image"},
                "mode": {"enum": ["a", "b", 1]}, "port": {"type": ["integer", "null"],
                "minimum": 1, "maximum": 65535}, "name": {"type": "string", "pattern": "^[a-z-]+$",
                "minLength": 1}, "list": {"type": "array", "items": {"type": "string"}}},
            "definitions": {"image": {"anyOf": [{"type": "string"}, {"type": "object"}],
                "form": true, "hidden": {"a": 1}}}}"##;
        let document = Json::parse(text).unwrap();
        assert!(is_plainly_valid(&document, Draft::V7));
    }
}
