//! Documents and what can be referred to in them: identifiers, anchors, pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::document::Json;
use super::url::{self, append, decode, join, split};
use crate::text::quote;

/// A version of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    V4 = 4,
    V6 = 6,
    V7 = 7,
    V2019 = 2019,
    V2020 = 2020,
}

impl Draft {
    /// The draft that a `$schema` names.
    fn from_url(text: &str) -> Option<Self> {
        let (text, fragment) = split(text);
        if !fragment.is_empty() {
            return None;
        }
        let text = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"))
            .unwrap_or(text);
        Some(match text {
            "json-schema.org/schema" | "json-schema.org/draft/2020-12/schema" => Self::V2020,
            "json-schema.org/draft/2019-09/schema" => Self::V2019,
            "json-schema.org/draft-07/schema" => Self::V7,
            "json-schema.org/draft-06/schema" => Self::V6,
            "json-schema.org/draft-04/schema" => Self::V4,
            _ => return None,
        })
    }

    pub(super) fn url(self) -> &'static str {
        match self {
            Self::V4 => "http://json-schema.org/draft-04/schema",
            Self::V6 => "http://json-schema.org/draft-06/schema",
            Self::V7 => "http://json-schema.org/draft-07/schema",
            Self::V2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::V2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    pub(super) fn id_keyword(self) -> &'static str {
        if self == Self::V4 { "id" } else { "$id" }
    }

    /// The identifier of a schema without its fragment; in old drafts `$ref` hides it.
    fn id(self, object: &BTreeMap<String, Json>) -> Option<&str> {
        if self < Self::V2019 && object.contains_key("$ref") {
            return None;
        }
        let id = object.get(self.id_keyword())?.as_str()?;
        Some(split(id).0).filter(|id| !id.is_empty())
    }

    /// Keywords that hold one schema, a list of them, or a map of them.
    fn subschemas(self) -> impl Iterator<Item = &'static (Self, Holds, &'static str)> {
        SUBSCHEMAS
            .iter()
            .filter(move |(since, _, _)| *since <= self)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    One,
    List,
    Map,
}

const SUBSCHEMAS: &[(Draft, Holds, &str)] = &[
    (Draft::V4, Holds::Map, "definitions"),
    (Draft::V4, Holds::One, "not"),
    (Draft::V4, Holds::List, "allOf"),
    (Draft::V4, Holds::List, "anyOf"),
    (Draft::V4, Holds::List, "oneOf"),
    (Draft::V4, Holds::Map, "properties"),
    (Draft::V4, Holds::One, "additionalProperties"),
    (Draft::V4, Holds::Map, "patternProperties"),
    (Draft::V4, Holds::One, "items"),
    (Draft::V4, Holds::List, "items"),
    (Draft::V4, Holds::One, "additionalItems"),
    (Draft::V4, Holds::Map, "dependencies"),
    (Draft::V6, Holds::One, "propertyNames"),
    (Draft::V6, Holds::One, "contains"),
    (Draft::V7, Holds::One, "if"),
    (Draft::V7, Holds::One, "then"),
    (Draft::V7, Holds::One, "else"),
    (Draft::V2019, Holds::Map, "$defs"),
    (Draft::V2019, Holds::Map, "dependentSchemas"),
    (Draft::V2019, Holds::One, "unevaluatedProperties"),
    (Draft::V2019, Holds::One, "unevaluatedItems"),
    (Draft::V2019, Holds::One, "contentSchema"),
    (Draft::V2020, Holds::List, "prefixItems"),
];

/// A schema with an identifier of its own; the root of a document is one.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) pointer: String,
    pub(super) draft: Draft,
    pub(super) anchors: BTreeMap<String, String>,
    pub(super) dynamic_anchors: BTreeSet<String>,
}

/// A document and the resources in it, by pointer.
#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) url: String,
    pub(super) document: Rc<Json>,
    resources: BTreeMap<String, Resource>,
    /// Pointers of resources by their identifiers.
    by_id: BTreeMap<String, String>,
    seen: BTreeSet<String>,
    pointer_bytes: usize,
}

/// The most bytes that the pointers of all schemas in a document may take together: a guard against
/// documents that are both deep and wide.
const MAX_POINTER_BYTES: usize = 32 << 20;

/// Where a schema is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) url: String,
    pub(super) pointer: String,
}

impl Root {
    pub(super) fn new(url: &str, document: Rc<Json>) -> Result<Self, String> {
        let mut root = Self {
            url: url.to_owned(),
            document: Rc::clone(&document),
            resources: BTreeMap::new(),
            by_id: BTreeMap::new(),
            seen: BTreeSet::new(),
            pointer_bytes: 0,
        };
        root.collect(&document, url, String::new(), Draft::V2020)?;
        Ok(root)
    }

    /// The resource that a pointer lies in.
    pub(super) fn resource(&self, pointer: &str) -> Option<&Resource> {
        let mut pointer = pointer;
        loop {
            if let Some(found) = self.resources.get(pointer) {
                return Some(found);
            }
            let Some((parent, _)) = pointer.rsplit_once('/') else {
                return self.resources.get("");
            };
            pointer = parent;
        }
    }

    /// Looks at a place that is in no known keyword but was referred to.
    pub(super) fn ensure(&mut self, pointer: &str) -> Result<(), String> {
        if self.seen.contains(pointer) {
            return Ok(());
        }
        let document = Rc::clone(&self.document);
        let Some(schema) = document.at(pointer) else {
            return Err(not_found(&self.url, pointer));
        };
        let Some(resource) = self.resource(pointer) else {
            return Ok(());
        };
        let (base, draft) = (resource.id.clone(), resource.draft);
        self.collect(schema, &base, pointer.to_owned(), draft)
    }

    fn collect(
        &mut self,
        schema: &Json,
        base: &str,
        pointer: String,
        fallback: Draft,
    ) -> Result<(), String> {
        if !self.seen.insert(pointer.clone()) {
            return Ok(());
        }
        self.pointer_bytes += pointer.len();
        if self.pointer_bytes > MAX_POINTER_BYTES {
            return Err(format!("schema {} is too large", quote(&self.url)));
        }
        let Some(object) = schema.as_object() else {
            if pointer.is_empty() {
                self.add(base, &pointer, fallback)?;
            }
            return Ok(());
        };
        let mut draft = self.draft(object, &pointer, fallback)?;
        let mut id = draft.id(object);
        if id.is_none() && !pointer.is_empty() {
            draft = fallback;
            id = draft.id(object);
        }
        let base = match id {
            Some(id) => join(base, id),
            None => base.to_owned(),
        };
        if id.is_some() || pointer.is_empty() {
            self.add(&base, &pointer, draft)?;
        }
        let draft = self
            .resource_by_id(&base)
            .map_or(draft, |found| found.draft);
        self.collect_anchors(object, &base, &pointer)?;
        for (_, holds, keyword) in draft.subschemas() {
            let Some(value) = object.get(*keyword) else {
                continue;
            };
            let pointer = append(&pointer, keyword);
            self.collect_held(value, *holds, &base, &pointer, draft)?;
        }
        Ok(())
    }

    fn collect_held(
        &mut self,
        value: &Json,
        holds: Holds,
        base: &str,
        pointer: &str,
        draft: Draft,
    ) -> Result<(), String> {
        match (holds, value) {
            (Holds::One, value) => self.collect(value, base, pointer.to_owned(), draft),
            (Holds::List, Json::Array(items)) => {
                items.iter().enumerate().try_for_each(|(at, item)| {
                    self.collect(item, base, append(pointer, &at.to_string()), draft)
                })
            }
            (Holds::Map, Json::Object(entries)) => entries
                .iter()
                .try_for_each(|(key, item)| self.collect(item, base, append(pointer, key), draft)),
            _ => Ok(()),
        }
    }

    fn draft(
        &self,
        object: &BTreeMap<String, Json>,
        pointer: &str,
        fallback: Draft,
    ) -> Result<Draft, String> {
        let Some(schema) = object.get("$schema").and_then(Json::as_str) else {
            return Ok(fallback);
        };
        if let Some(draft) = Draft::from_url(schema) {
            return Ok(draft);
        }
        let (schema, _) = split(schema);
        if pointer.is_empty() && schema == self.url {
            return Err(format!("draft {} is not supported", quote(schema)));
        }
        Err(load_error(schema))
    }

    fn add(&mut self, id: &str, pointer: &str, draft: Draft) -> Result<(), String> {
        if let Some(other) = self.resource_by_id(id) {
            if other.pointer == pointer {
                return Ok(());
            }
            return Err(format!(
                "duplicate id {} in {} at {} and {}",
                quote(id),
                quote(&self.url),
                quote(pointer),
                quote(&other.pointer)
            ));
        }
        let resource = Resource {
            id: id.to_owned(),
            pointer: pointer.to_owned(),
            draft,
            anchors: BTreeMap::new(),
            dynamic_anchors: BTreeSet::new(),
        };
        self.by_id.insert(id.to_owned(), pointer.to_owned());
        self.resources.insert(pointer.to_owned(), resource);
        Ok(())
    }

    fn resource_by_id(&self, id: &str) -> Option<&Resource> {
        self.resources.get(self.by_id.get(id)?)
    }

    fn collect_anchors(
        &mut self,
        object: &BTreeMap<String, Json>,
        id: &str,
        pointer: &str,
    ) -> Result<(), String> {
        let url = self.url.clone();
        let place = self.by_id.get(id).map(String::as_str).unwrap_or_default();
        let Some(resource) = self.resources.get_mut(place) else {
            return Ok(());
        };
        let text = |keyword: &str| object.get(keyword).and_then(Json::as_str);
        let draft = resource.draft;
        let mut names = Vec::new();
        if draft < Draft::V2019 {
            if !object.contains_key("$ref")
                && let Some(id) = text(draft.id_keyword())
            {
                let fragment = decode(split(id).1).unwrap_or_default();
                names.extend(Some(fragment).filter(|name| is_anchor(name)));
            }
        } else {
            names.extend(text("$anchor").map(str::to_owned));
        }
        if draft >= Draft::V2020
            && let Some(name) = text("$dynamicAnchor")
        {
            names.push(name.to_owned());
            resource.dynamic_anchors.insert(name.to_owned());
        }
        for name in names {
            match resource.anchors.get(&name) {
                Some(other) if other != pointer => {
                    return Err(format!(
                        "duplicate anchor {} in {} at {} and {}",
                        quote(&name),
                        quote(&url),
                        quote(other),
                        quote(pointer)
                    ));
                }
                _ => {
                    resource.anchors.insert(name, pointer.to_owned());
                }
            }
        }
        Ok(())
    }

    /// The place that a fragment names in the resource with this identifier; `None` if the
    /// document has no such resource.
    pub(super) fn resolve(&self, id: &str, fragment: &str) -> Result<Option<Place>, String> {
        let resource = if id == self.url {
            self.resources.get("")
        } else {
            self.resource_by_id(id)
        };
        let Some(resource) = resource else {
            return Ok(None);
        };
        let pointer = if is_anchor(fragment) {
            let Some(pointer) = resource.anchors.get(fragment) else {
                return Err(format!(
                    "anchor in {} not found in schema {}",
                    quote(&url::location(id, fragment)),
                    quote(&self.url)
                ));
            };
            pointer.clone()
        } else {
            format!("{}{fragment}", resource.pointer)
        };
        Ok(Some(Place {
            url: self.url.clone(),
            pointer,
        }))
    }
}

/// Whether a fragment is a name, not a pointer.
pub(super) fn is_anchor(fragment: &str) -> bool {
    !fragment.is_empty() && !fragment.starts_with('/')
}

pub(super) fn not_found(url: &str, pointer: &str) -> String {
    let location = quote(&url::location(url, pointer));
    format!("json-pointer in {location} not found")
}

/// The documents that a schema can refer to without leaving the process: the meta-schemas.
pub(super) fn load(url: &str) -> Result<Json, String> {
    let path = url
        .strip_prefix("http://json-schema.org/")
        .or_else(|| url.strip_prefix("https://json-schema.org/"));
    let path = if path == Some("schema") {
        Some("draft/2020-12/schema")
    } else {
        path
    };
    if let Some((_, text)) = METASCHEMAS.iter().find(|(known, _)| path == Some(*known)) {
        return Json::parse(text.as_bytes());
    }
    if url.starts_with("urn:") {
        // Helm lets everything pass that a URN might have said.
        return Ok(Json::Bool(true));
    }
    Err(load_error(url))
}

fn load_error(url: &str) -> String {
    let quoted = quote(url);
    match url::scheme(url) {
        Some("http" | "https" | "file") => format!(
            "failing loading {quoted}: references to files and web pages are not followed; \
             put the schema into values.schema.json, or leave out the check of schemas"
        ),
        _ => format!("failing loading {quoted}: no URLLoader registered for {quoted}"),
    }
}

macro_rules! metaschemas {
    ($($path:literal: $file:literal,)*) => {
        &[$(($path, include_str!(concat!("metaschemas/", $file))),)*]
    };
}

const METASCHEMAS: &[(&str, &str)] = metaschemas! {
    "draft-04/schema": "draft-04_schema.json",
    "draft-06/schema": "draft-06_schema.json",
    "draft-07/schema": "draft-07_schema.json",
    "draft/2019-09/schema": "draft_2019-09_schema.json",
    "draft/2019-09/meta/applicator": "draft_2019-09_meta_applicator.json",
    "draft/2019-09/meta/content": "draft_2019-09_meta_content.json",
    "draft/2019-09/meta/core": "draft_2019-09_meta_core.json",
    "draft/2019-09/meta/format": "draft_2019-09_meta_format.json",
    "draft/2019-09/meta/meta-data": "draft_2019-09_meta_meta-data.json",
    "draft/2019-09/meta/validation": "draft_2019-09_meta_validation.json",
    "draft/2020-12/schema": "draft_2020-12_schema.json",
    "draft/2020-12/meta/applicator": "draft_2020-12_meta_applicator.json",
    "draft/2020-12/meta/content": "draft_2020-12_meta_content.json",
    "draft/2020-12/meta/core": "draft_2020-12_meta_core.json",
    "draft/2020-12/meta/format-annotation": "draft_2020-12_meta_format-annotation.json",
    "draft/2020-12/meta/format-assertion": "draft_2020-12_meta_format-assertion.json",
    "draft/2020-12/meta/meta-data": "draft_2020-12_meta_meta-data.json",
    "draft/2020-12/meta/unevaluated": "draft_2020-12_meta_unevaluated.json",
    "draft/2020-12/meta/validation": "draft_2020-12_meta_validation.json",
};
