//! From a document to schemas that can check values.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use foldhash::fast::RandomState;
use regex::Regex;

use super::decimal::Decimal;
use super::document::Json;
use super::format::Format;
use super::message::Violation;
use super::plain::is_plainly_valid;
use super::resources::{Draft, Place, Root, is_anchor, load};
use super::url::{append, decode, join, location, split};
use super::validate;
use crate::text::quote;
use gotmpl::Value;

/// A compiled `values.schema.json`, with all that it refers to.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(super) parts: Vec<Part>,
    start: usize,
}

/// The index of a part in [`Schema::parts`].
pub(super) type Index = usize;

/// One schema of a document. Keywords that say nothing about validity are left out.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// `URL#POINTER`, percent-encoded.
    pub(super) location: String,
    pub(super) draft: u16,
    /// The resource that it lies in.
    pub(super) resource: Index,
    pub(super) dynamic_anchors: BTreeMap<String, Index>,
    pub(super) boolean: Option<bool>,
    pub(super) reference: Option<Index>,
    pub(super) recursive_ref: Option<Index>,
    pub(super) recursive_anchor: bool,
    pub(super) dynamic_ref: Option<(Index, String)>,
    pub(super) dynamic_anchor: String,
    pub(super) types: Vec<Type>,
    pub(super) enumeration: Option<Vec<Json>>,
    pub(super) constant: Option<Json>,
    pub(super) not: Option<Index>,
    pub(super) all_of: Vec<Index>,
    pub(super) any_of: Vec<Index>,
    pub(super) one_of: Vec<Index>,
    pub(super) condition: Option<Index>,
    pub(super) then: Option<Index>,
    pub(super) otherwise: Option<Index>,
    pub(super) format: Option<Format>,
    pub(super) object: ObjectRules,
    pub(super) array: ArrayRules,
    pub(super) string: StringRules,
    pub(super) number: NumberRules,
    pub(super) all_properties_evaluated: bool,
    pub(super) all_items_evaluated: bool,
    pub(super) items_evaluated: usize,
}

#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) required: Vec<String>,
    pub(super) names: Option<Index>,
    pub(super) properties: BTreeMap<String, Index>,
    pub(super) patterns: Vec<(Regex, Index)>,
    pub(super) additional: Option<Additional>,
    pub(super) dependencies: BTreeMap<String, Dependency>,
    pub(super) dependent_required: BTreeMap<String, Vec<String>>,
    pub(super) dependent_schemas: BTreeMap<String, Index>,
    pub(super) unevaluated: Option<Index>,
}

#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) unique: bool,
    pub(super) contains: Option<Index>,
    pub(super) min_contains: Option<usize>,
    pub(super) max_contains: Option<usize>,
    /// `items` as a list, or `prefixItems`.
    pub(super) prefix: Vec<Index>,
    /// `items` as one schema.
    pub(super) items: Option<Index>,
    /// `additionalItems`, up to 2019-09.
    pub(super) additional: Option<Additional>,
    pub(super) unevaluated: Option<Index>,
}

#[derive(Debug, Default)]
pub(super) struct StringRules {
    pub(super) min: Option<usize>,
    pub(super) max: Option<usize>,
    /// With its text as it was written.
    pub(super) pattern: Option<(String, Regex)>,
}

#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) minimum: Option<Decimal>,
    pub(super) maximum: Option<Decimal>,
    pub(super) exclusive_minimum: Option<Decimal>,
    pub(super) exclusive_maximum: Option<Decimal>,
    pub(super) multiple_of: Option<Decimal>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Additional {
    Allowed(bool),
    Schema(Index),
}

#[derive(Debug)]
pub(super) enum Dependency {
    Names(Vec<String>),
    Schema(Index),
}

/// JSON types, in the order in which errors list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Type {
    Null,
    Boolean,
    Number,
    Integer,
    String,
    Array,
    Object,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [
            Self::Null,
            Self::Boolean,
            Self::Number,
            Self::Integer,
            Self::String,
            Self::Array,
            Self::Object,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
    }
}

impl Schema {
    /// Compiles a document. The error is Go's text.
    pub(crate) fn compile(url: &str, text: &[u8]) -> Result<Arc<Self>, String> {
        let document = Json::parse(text)?;
        let root = Root::new(url, Rc::new(document))?;
        check_against_metaschema(&root, text)?;
        let mut compiler = Compiler::new(false);
        compiler.roots.insert(url.to_owned(), root);
        compiler.run(url).map(Arc::new)
    }

    /// The meta-schema of a draft, with formats asserted.
    pub(super) fn metaschema(draft: Draft) -> Result<Self, String> {
        Compiler::new(true).run(draft.url())
    }

    /// The violation that a value is guilty of, with those inside it.
    pub(crate) fn validate(&self, value: &Value) -> Option<Violation> {
        validate::validate(self, self.start, value)
    }
}

fn check_against_metaschema(root: &Root, text: &[u8]) -> Result<(), String> {
    let Some(resource) = root.resource("") else {
        return Ok(());
    };
    if is_plainly_valid(&root.document, resource.draft) {
        return Ok(());
    }
    let metaschema = Schema::metaschema(resource.draft)?;
    let value = goyaml::read_json_value(text).map_err(|error| error.to_string())?;
    match metaschema.validate(&value) {
        None => Ok(()),
        Some(violation) => Err(format!(
            "{} is not valid against metaschema: {violation}",
            quote(&location(&root.url, ""))
        )),
    }
}

struct Compiler {
    roots: BTreeMap<String, Root>,
    parts: Vec<Part>,
    places: Vec<Place>,
    known: HashMap<Place, Index, RandomState>,
    assert_format: bool,
}

/// How many schemas a document may hold.
const MAX_PARTS: usize = 500_000;

impl Compiler {
    fn new(assert_format: bool) -> Self {
        Self {
            roots: BTreeMap::new(),
            parts: Vec::new(),
            places: Vec::new(),
            known: HashMap::default(),
            assert_format,
        }
    }

    fn run(mut self, url: &str) -> Result<Schema, String> {
        self.load(url)?;
        let start = self.enqueue(url, String::new());
        let mut next = 0;
        while let Some(place) = self.places.get(next).cloned() {
            if next > MAX_PARTS {
                return Err(format!("schema {} is too large", quote(url)));
            }
            let part = self.compile(&place)?;
            if let Some(slot) = self.parts.get_mut(next) {
                *slot = part;
            }
            next += 1;
        }
        Ok(Schema {
            parts: self.parts,
            start,
        })
    }

    fn load(&mut self, url: &str) -> Result<(), String> {
        if !self.roots.contains_key(url) {
            let root = Root::new(url, Rc::new(load(url)?))?;
            self.roots.insert(url.to_owned(), root);
        }
        Ok(())
    }

    fn enqueue(&mut self, url: &str, pointer: String) -> Index {
        let place = Place {
            url: url.to_owned(),
            pointer,
        };
        if let Some(index) = self.known.get(&place) {
            return *index;
        }
        let index = self.parts.len();
        self.parts.push(Part::default());
        self.places.push(place.clone());
        self.known.insert(place, index);
        index
    }

    fn compile(&mut self, place: &Place) -> Result<Part, String> {
        let Some(root) = self.roots.get_mut(&place.url) else {
            return Err(format!("failing loading {}", quote(&place.url)));
        };
        root.ensure(&place.pointer)?;
        let document = Rc::clone(&root.document);
        let Some(resource) = root.resource(&place.pointer).cloned() else {
            return Err(format!("failing loading {}", quote(&place.url)));
        };
        let mut part = Part {
            location: location(&place.url, &place.pointer),
            draft: resource.draft as u16,
            resource: self.enqueue(&place.url, resource.pointer.clone()),
            ..Part::default()
        };
        if resource.draft >= Draft::V2020 && resource.pointer == place.pointer {
            for (name, pointer) in &resource.anchors {
                if resource.dynamic_anchors.contains(name) {
                    let index = self.enqueue(&place.url, pointer.clone());
                    part.dynamic_anchors.insert(name.clone(), index);
                }
            }
        }
        match document.at(&place.pointer) {
            Some(Json::Bool(value)) => part.boolean = Some(*value),
            Some(Json::Object(object)) if object.is_empty() => part.boolean = Some(true),
            Some(Json::Object(object)) => {
                let mut keywords = Keywords {
                    compiler: self,
                    object,
                    place,
                    base: &resource.id,
                    draft: resource.draft,
                };
                keywords.fill(&mut part)?;
            }
            _ => {}
        }
        part.note_evaluated();
        Ok(part)
    }
}

impl Part {
    fn note_evaluated(&mut self) {
        self.all_properties_evaluated = self.object.additional.is_some();
        let array = &self.array;
        self.all_items_evaluated = array.items.is_some() || array.additional.is_some();
        self.items_evaluated = array.prefix.len();
    }
}

/// The keywords of one schema.
struct Keywords<'a> {
    compiler: &'a mut Compiler,
    object: &'a BTreeMap<String, Json>,
    place: &'a Place,
    base: &'a str,
    draft: Draft,
}

impl Keywords<'_> {
    fn fill(&mut self, part: &mut Part) -> Result<(), String> {
        part.reference = self.reference("$ref")?;
        if self.draft < Draft::V2019 && part.reference.is_some() {
            // In old drafts nothing counts beside a reference.
            return Ok(());
        }
        self.applicators(part);
        self.array(part);
        self.object(part)?;
        self.validation(part);
        self.string(part)?;
        self.number(part);
        if self.compiler.assert_format || self.draft < Draft::V2019 {
            part.format = self.text("format").and_then(Format::by_name);
        }
        if self.draft >= Draft::V2019 {
            part.recursive_ref = self.reference("$recursiveRef")?;
            part.recursive_anchor = self.boolean("$recursiveAnchor") == Some(true);
        }
        if self.draft >= Draft::V2020 {
            self.dynamic(part)?;
        }
        Ok(())
    }

    fn applicators(&mut self, part: &mut Part) {
        part.all_of = self.list("allOf");
        part.any_of = self.list("anyOf");
        part.one_of = self.list("oneOf");
        part.not = self.one("not");
        if self.draft < Draft::V7 {
            return;
        }
        part.condition = self.one("if");
        if part.condition.is_some() {
            let known = self.boolean("if");
            if known != Some(false) {
                part.then = self.one("then");
            }
            if known != Some(true) {
                part.otherwise = self.one("else");
            }
        }
    }

    fn array(&mut self, part: &mut Part) {
        let rules = &mut part.array;
        let is_list = self
            .object
            .get("items")
            .is_some_and(|items| items.as_array().is_some());
        if self.draft >= Draft::V2020 {
            rules.prefix = self.list("prefixItems");
            rules.items = self.one("items");
        } else if is_list {
            rules.prefix = self.list("items");
            rules.additional = self.additional("additionalItems");
        } else {
            rules.items = self.one("items");
        }
        rules.min = self.count("minItems");
        rules.max = self.count("maxItems");
        rules.unique = self.boolean("uniqueItems") == Some(true);
        if self.draft >= Draft::V6 {
            rules.contains = self.one("contains");
        }
        if self.draft >= Draft::V2019 {
            if rules.contains.is_some() {
                rules.min_contains = self.count("minContains");
                rules.max_contains = self.count("maxContains");
            }
            rules.unevaluated = self.one("unevaluatedItems");
        }
    }

    fn object(&mut self, part: &mut Part) -> Result<(), String> {
        let rules = &mut part.object;
        rules.properties = self.map("properties");
        for (pattern, index) in self.map("patternProperties") {
            rules
                .patterns
                .push((self.regex("patternProperties", &pattern)?, index));
        }
        rules.additional = self.additional("additionalProperties");
        rules.dependencies = self.dependencies();
        rules.min = self.count("minProperties");
        rules.max = self.count("maxProperties");
        rules.required = self.object.get("required").map(names).unwrap_or_default();
        if self.draft >= Draft::V6 {
            rules.names = self.one("propertyNames");
        }
        if self.draft >= Draft::V2019 {
            rules.dependent_schemas = self.map("dependentSchemas");
            rules.dependent_required = self
                .object
                .get("dependentRequired")
                .and_then(Json::as_object)
                .into_iter()
                .flatten()
                .map(|(name, list)| (name.clone(), names(list)))
                .collect();
            rules.unevaluated = self.one("unevaluatedProperties");
        }
        Ok(())
    }

    fn dependencies(&mut self) -> BTreeMap<String, Dependency> {
        let entries = self.object.get("dependencies").and_then(Json::as_object);
        let mut found = BTreeMap::new();
        for (name, value) in entries.into_iter().flatten() {
            let dependency = match value.as_array() {
                Some(_) => Dependency::Names(names(value)),
                None => {
                    let pointer = append(&append(&self.place.pointer, "dependencies"), name);
                    Dependency::Schema(self.compiler.enqueue(&self.place.url, pointer))
                }
            };
            found.insert(name.clone(), dependency);
        }
        found
    }

    fn validation(&self, part: &mut Part) {
        part.types = match self.object.get("type") {
            Some(Json::String(name)) => Type::parse(name).into_iter().collect(),
            Some(list) => names(list)
                .iter()
                .filter_map(|name| Type::parse(name))
                .collect(),
            None => Vec::new(),
        };
        part.types.sort_unstable();
        part.types.dedup();
        part.enumeration = match self.object.get("enum") {
            Some(Json::Array(items)) => Some(items.clone()),
            _ => None,
        };
        if self.draft >= Draft::V6 {
            part.constant = self.object.get("const").cloned();
        }
    }

    fn string(&self, part: &mut Part) -> Result<(), String> {
        let rules = &mut part.string;
        rules.min = self.count("minLength");
        rules.max = self.count("maxLength");
        if let Some(pattern) = self.text("pattern") {
            rules.pattern = Some((pattern.to_owned(), self.regex("pattern", pattern)?));
        }
        Ok(())
    }

    fn number(&self, part: &mut Part) {
        let rules = &mut part.number;
        let number = |keyword: &str| self.object.get(keyword).and_then(Json::as_decimal);
        rules.multiple_of = number("multipleOf");
        rules.maximum = number("maximum");
        rules.exclusive_maximum = if self.boolean("exclusiveMaximum") == Some(true) {
            rules.maximum.take()
        } else {
            number("exclusiveMaximum")
        };
        rules.minimum = number("minimum");
        rules.exclusive_minimum = if self.boolean("exclusiveMinimum") == Some(true) {
            rules.minimum.take()
        } else {
            number("exclusiveMinimum")
        };
    }

    fn dynamic(&mut self, part: &mut Part) -> Result<(), String> {
        if let Some(target) = self.reference("$dynamicRef")? {
            let text = self.text("$dynamicRef").unwrap_or_default();
            let fragment = decode(split(text).1).unwrap_or_default();
            let anchor = if is_anchor(&fragment) {
                fragment
            } else {
                String::new()
            };
            part.dynamic_ref = Some((target, anchor));
        }
        self.text("$dynamicAnchor")
            .unwrap_or_default()
            .clone_into(&mut part.dynamic_anchor);
        Ok(())
    }

    fn boolean(&self, keyword: &str) -> Option<bool> {
        self.object.get(keyword)?.as_bool()
    }

    fn text(&self, keyword: &str) -> Option<&str> {
        self.object.get(keyword)?.as_str()
    }

    fn count(&self, keyword: &str) -> Option<usize> {
        let number = self.object.get(keyword)?.as_decimal()?.to_i64()?;
        Some(usize::try_from(number).unwrap_or(0))
    }

    fn regex(&self, keyword: &str, pattern: &str) -> Result<Regex, String> {
        super::format::go_regex(pattern).map_err(|error| {
            let place = location(&self.place.url, &append(&self.place.pointer, keyword));
            format!(
                "invalid regex {} at {}: {error}",
                quote(pattern),
                quote(&place)
            )
        })
    }

    fn one(&mut self, keyword: &str) -> Option<Index> {
        self.object.get(keyword)?;
        let pointer = append(&self.place.pointer, keyword);
        Some(self.compiler.enqueue(&self.place.url, pointer))
    }

    fn list(&mut self, keyword: &str) -> Vec<Index> {
        let count = self
            .object
            .get(keyword)
            .and_then(Json::as_array)
            .map_or(0, <[_]>::len);
        let pointer = append(&self.place.pointer, keyword);
        (0..count)
            .map(|at| {
                let pointer = append(&pointer, &at.to_string());
                self.compiler.enqueue(&self.place.url, pointer)
            })
            .collect()
    }

    fn map(&mut self, keyword: &str) -> BTreeMap<String, Index> {
        let entries = self.object.get(keyword).and_then(Json::as_object);
        let pointer = append(&self.place.pointer, keyword);
        entries
            .into_iter()
            .flatten()
            .map(|(name, _)| {
                let index = self
                    .compiler
                    .enqueue(&self.place.url, append(&pointer, name));
                (name.clone(), index)
            })
            .collect()
    }

    fn additional(&mut self, keyword: &str) -> Option<Additional> {
        match self.boolean(keyword) {
            Some(allowed) => Some(Additional::Allowed(allowed)),
            None => self.one(keyword).map(Additional::Schema),
        }
    }

    fn reference(&mut self, keyword: &str) -> Result<Option<Index>, String> {
        let Some(reference) = self.text(keyword) else {
            return Ok(None);
        };
        let (url, fragment) = split(reference);
        let Some(fragment) = decode(fragment) else {
            let quoted = quote(reference);
            return Err(format!("error in parsing {quoted}: invalid URL escape"));
        };
        let url = join(self.base, url);
        let here = self.compiler.roots.get(&self.place.url);
        let place = match here.map(|root| root.resolve(&url, &fragment)) {
            Some(found) => found?,
            None => None,
        };
        if let Some(place) = place {
            return Ok(Some(self.compiler.enqueue(&place.url, place.pointer)));
        }
        self.compiler.load(&url)?;
        let other = self.compiler.roots.get(&url);
        let place = match other.map(|root| root.resolve(&url, &fragment)) {
            Some(found) => found?,
            None => None,
        };
        Ok(place.map(|place| self.compiler.enqueue(&place.url, place.pointer)))
    }
}

/// The strings of a list.
fn names(list: &Json) -> Vec<String> {
    let items = list.as_array().unwrap_or_default();
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}
