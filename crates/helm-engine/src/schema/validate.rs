//! Checking a value against a compiled schema.

mod object;
mod scope;

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use gotmpl::{List, Str, Value};

use super::compare::{duplicates, equals_json, got_want, not_in, type_of};
use super::compile::{Additional, Index, Part, Schema, Type};
use super::decimal::Decimal;
use super::document::Json;
use super::message::{Kind, Violation, count, display, quote};

/// How many schemas may be applied to one value before the answer is given up: a guard against
/// references that multiply.
const MAX_STEPS: usize = 1_000_000;
/// How deep schemas may be applied inside each other.
const MAX_DEPTH: usize = 400;

/// The violation that a value is guilty of.
pub(super) fn validate(schema: &Schema, start: Index, value: &Value) -> Option<Violation> {
    let steps = Cell::new(MAX_STEPS);
    let scope = Scope {
        part: start,
        keyword: "",
        value_id: 0,
        depth: 0,
        parent: None,
    };
    let checking = Checking {
        schema,
        steps: &steps,
    };
    checking.root(start, value, &scope)
}

#[derive(Clone, Copy)]
struct Checking<'a> {
    schema: &'a Schema,
    steps: &'a Cell<usize>,
}

/// The schemas that are being applied, innermost first.
struct Scope<'a> {
    part: Index,
    /// The keyword that led here, if it refers.
    keyword: &'static str,
    /// Equal for schemas that are applied to the same value.
    value_id: usize,
    depth: usize,
    parent: Option<&'a Self>,
}

/// What no keyword has looked at yet.
#[derive(Clone, Default)]
struct Unevaluated {
    properties: BTreeSet<Str>,
    items: BTreeSet<usize>,
}

impl Unevaluated {
    fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.items.is_empty()
    }

    fn keep_common(&mut self, other: &Self) {
        self.properties
            .retain(|name| other.properties.contains(name));
        self.items.retain(|at| other.items.contains(at));
    }
}

/// One schema applied to one value.
struct Check<'a> {
    context: Checking<'a>,
    part: &'a Part,
    value: &'a Value,
    path: &'a mut Vec<String>,
    scope: &'a Scope<'a>,
    unevaluated: Unevaluated,
    found: Vec<Violation>,
    /// Only whether there is a violation counts.
    quick: bool,
}

type Outcome = Result<Unevaluated, Violation>;

impl<'a> Checking<'a> {
    fn root(self, start: Index, value: &Value, scope: &Scope<'_>) -> Option<Violation> {
        let violation = self
            .apply(start, value, &mut Vec::new(), scope, false, false)
            .err()?;
        let causes = if violation.is_group() {
            violation.causes
        } else {
            vec![violation]
        };
        let location = self.part(start)?.location.clone();
        Some(Violation {
            path: Vec::new(),
            kind: Kind::Schema(location),
            causes,
        })
    }

    fn part(self, index: Index) -> Option<&'a Part> {
        self.schema.parts.get(index)
    }

    fn apply(
        self,
        index: Index,
        value: &Value,
        path: &mut Vec<String>,
        scope: &Scope<'_>,
        caller_needs: bool,
        quick: bool,
    ) -> Outcome {
        let Some(part) = self.part(index) else {
            return Ok(Unevaluated::default());
        };
        let unevaluated = unevaluated(value, part, caller_needs);
        let check = Check {
            context: self,
            part,
            value,
            path,
            scope,
            unevaluated,
            found: Vec::new(),
            quick,
        };
        check.run()
    }
}

fn unevaluated(value: &Value, part: &Part, caller_needs: bool) -> Unevaluated {
    let mut all = Unevaluated::default();
    match value {
        Value::Map(map)
            if !part.all_properties_evaluated
                && (caller_needs || part.object.unevaluated.is_some()) =>
        {
            all.properties = map.entries().keys().cloned().collect();
        }
        Value::List(list)
            if !part.all_items_evaluated && (caller_needs || part.array.unevaluated.is_some()) =>
        {
            all.items = (part.items_evaluated..list.items().len()).collect();
        }
        _ => {}
    }
    all
}

impl Check<'_> {
    fn run(mut self) -> Outcome {
        match self.part.boolean {
            Some(true) => return Ok(self.unevaluated),
            Some(false) => return self.fail("false schema"),
            None => {}
        }
        if let Some(text) = self.too_much() {
            return Err(self.violation(Kind::Said(text)));
        }
        if let Some(earlier) = self.scope.cycle() {
            return Err(self.cycle(earlier));
        }
        if let Some(text) = self.wrong_as_a_whole() {
            return Err(self.violation(Kind::Said(text)));
        }
        if let Some(target) = self.part.reference {
            let violation = self.reference(target, "$ref");
            if self.part.draft < 2019 {
                return violation.map_or(Ok(self.unevaluated), Err);
            }
            self.found.extend(violation);
        }
        self.by_type();
        if self.found.is_empty() || !self.quick {
            if self.part.draft >= 2019 {
                self.references();
            }
            self.conditions();
            if self.part.draft >= 2019 {
                self.rest();
            }
        }
        self.finish()
    }

    fn finish(mut self) -> Outcome {
        match self.found.len() {
            0 => Ok(self.unevaluated),
            1 => self.found.pop().map_or(Ok(self.unevaluated), Err),
            _ => {
                let causes = std::mem::take(&mut self.found);
                let mut violation = self.violation(Kind::Group);
                violation.causes = causes;
                Err(violation)
            }
        }
    }

    fn fail(&self, text: &str) -> Outcome {
        Err(self.violation(Kind::Said(text.to_owned())))
    }

    fn violation(&self, kind: Kind) -> Violation {
        let (path, kind) = if self.quick {
            (
                Vec::new(),
                if kind == Kind::Group {
                    kind
                } else {
                    Kind::Unsaid
                },
            )
        } else {
            (self.path.clone(), kind)
        };
        Violation {
            path,
            kind,
            causes: Vec::new(),
        }
    }

    /// Notes a violation; its text is made only if somebody will read it.
    fn note(&mut self, text: impl FnOnce() -> String) {
        let kind = if self.quick {
            Kind::Unsaid
        } else {
            Kind::Said(text())
        };
        let violation = self.violation(kind);
        self.found.push(violation);
    }

    fn note_with(&mut self, text: impl FnOnce() -> String, causes: Vec<Violation>) {
        self.note(text);
        if let Some(last) = self.found.last_mut() {
            last.causes = causes;
        }
    }

    fn too_much(&self) -> Option<String> {
        let left = self.context.steps.get().checked_sub(1);
        self.context.steps.set(left.unwrap_or(0));
        if left.is_none() {
            return Some("the schema takes too many steps to check".to_owned());
        }
        (self.scope.depth > MAX_DEPTH).then(|| "the schema nests too deeply".to_owned())
    }

    fn cycle(&self, earlier: &Scope<'_>) -> Violation {
        let [here, there] = [self.scope, earlier].map(|scope| scope.keywords(self.context));
        let url = crate::text::quote(&self.part.location);
        self.violation(Kind::Said(format!(
            "both {here} and {there} resolve to {url} causing reference cycle"
        )))
    }

    /// Violations after which nothing else of this schema is looked at.
    fn wrong_as_a_whole(&self) -> Option<String> {
        let Some(kind) = type_of(self.value) else {
            return Some("invalid jsonType".to_owned());
        };
        let part = self.part;
        let fits = |wanted: &Type| {
            *wanted == kind
                || (*wanted == Type::Integer
                    && Decimal::of(self.value).is_some_and(Decimal::is_integer))
        };
        if !part.types.is_empty() && !part.types.iter().any(fits) {
            let wanted: Vec<&str> = part.types.iter().map(|wanted| wanted.name()).collect();
            return Some(format!("got {}, want {}", kind.name(), wanted.join(" or ")));
        }
        if let Some(wanted) = &part.constant
            && !equals_json(self.value, wanted)
        {
            return Some(match wanted {
                Json::Array(_) | Json::Object(_) => "'const' failed".to_owned(),
                wanted => format!("value must be {}", display(wanted)),
            });
        }
        if let Some(wanted) = &part.enumeration
            && !wanted.iter().any(|item| equals_json(self.value, item))
        {
            return Some(not_in(wanted));
        }
        if let (Some(format), Value::String(text)) = (&part.format, self.value) {
            let text = text.to_text();
            let error = format.check(&text).err()?;
            return Some(format!(
                "{} is not valid {}: {error}",
                quote(&text),
                format.name()
            ));
        }
        None
    }

    fn by_type(&mut self) {
        match self.value {
            Value::Map(map) => self.object(map),
            Value::List(list) => self.array(list),
            Value::String(text) => self.string(&text.to_text()),
            Value::Float64(_) | Value::Int64(_) | Value::Int(_) => self.number(),
            _ => {}
        }
    }

    fn array(&mut self, list: &List) {
        let rules = &self.part.array;
        let items = list.items();
        let size = items.len();
        if let Some(min) = rules.min.filter(|min| size < *min) {
            self.note(|| format!("minItems: got {}, want {}", count(size), count(min)));
        }
        if let Some(max) = rules.max.filter(|max| size > *max) {
            self.note(|| format!("maxItems: got {}, want {}", count(size), count(max)));
        }
        if rules.unique
            && let Some((first, second)) = duplicates(items)
        {
            self.note(|| {
                let (first, second) = (count(first), count(second));
                format!("items at {first} and {second} are equal")
            });
        }
        for (at, (item, schema)) in items.iter().zip(&rules.prefix).enumerate() {
            self.inner_value(*schema, item, at.to_string());
        }
        let evaluated = rules.prefix.len().min(size);
        let rest = items.get(evaluated..).unwrap_or_default();
        if let Some(schema) = rules.items {
            self.inner_items(schema, rest, evaluated);
        }
        match rules.additional {
            Some(Additional::Allowed(false)) if !rest.is_empty() => {
                let rest = count(rest.len());
                self.note(|| format!("last {rest} additionalItem(s) not allowed"));
            }
            Some(Additional::Schema(schema)) => self.inner_items(schema, rest, evaluated),
            _ => {}
        }
        if let Some(schema) = rules.contains {
            self.contains(schema, items);
        }
    }

    fn inner_items(&mut self, schema: Index, items: &[Value], start: usize) {
        for (at, item) in items.iter().enumerate() {
            self.inner_value(schema, item, (start + at).to_string());
        }
    }

    fn contains(&mut self, schema: Index, items: &[Value]) {
        let rules = &self.part.array;
        let mut causes = Vec::new();
        let mut matched = Vec::new();
        for (at, item) in items.iter().enumerate() {
            match self.other_value(schema, item, at.to_string()) {
                Err(violation) => causes.push(violation),
                Ok(_) => {
                    matched.push(at);
                    if self.part.draft >= 2020 {
                        self.unevaluated.items.remove(&at);
                    }
                }
            }
        }
        let places = || {
            let places: Vec<String> = matched.iter().map(usize::to_string).collect();
            places.join(" ")
        };
        let found = matched.len();
        match rules.min_contains {
            Some(min) if found < min => {
                let text = || match found {
                    0 => format!(
                        "min {} items required to match contains schema, but none matched",
                        count(min)
                    ),
                    _ => format!(
                        "min {} items required to match contains schema, \
                         but matched {} items at {}",
                        count(min),
                        count(found),
                        places()
                    ),
                };
                self.note_with(text, causes);
            }
            None if found == 0 => {
                self.note_with(|| "no items match contains schema".to_owned(), causes);
            }
            _ => {}
        }
        if let Some(max) = rules.max_contains.filter(|max| found > *max) {
            self.note(|| {
                format!(
                    "max {} items required to match contains schema, but matched {} items at {}",
                    count(max),
                    count(found),
                    places()
                )
            });
        }
    }

    fn string(&mut self, text: &str) {
        let rules = &self.part.string;
        if rules.min.is_some() || rules.max.is_some() {
            let size = text.chars().count();
            if let Some(min) = rules.min.filter(|min| size < *min) {
                self.note(|| format!("minLength: got {}, want {}", count(size), count(min)));
            }
            if let Some(max) = rules.max.filter(|max| size > *max) {
                self.note(|| format!("maxLength: got {}, want {}", count(size), count(max)));
            }
        }
        if let Some((pattern, regex)) = &rules.pattern
            && !regex.is_match(text)
        {
            self.note(|| format!("{} does not match pattern {}", quote(text), quote(pattern)));
        }
    }

    fn number(&mut self) {
        let Some(value) = Decimal::of(self.value) else {
            return;
        };
        let rules = &self.part.number;
        let bounds = [
            ("minimum", rules.minimum, &[Ordering::Less][..]),
            ("maximum", rules.maximum, &[Ordering::Greater]),
            (
                "exclusiveMinimum",
                rules.exclusive_minimum,
                &[Ordering::Less, Ordering::Equal],
            ),
            (
                "exclusiveMaximum",
                rules.exclusive_maximum,
                &[Ordering::Greater, Ordering::Equal],
            ),
        ];
        for (name, bound, refused) in bounds {
            if let Some(bound) = bound.filter(|bound| refused.contains(&value.compare(*bound))) {
                self.note(|| got_want(name, value, bound));
            }
        }
        if let Some(unit) = rules
            .multiple_of
            .filter(|unit| !value.is_multiple_of(*unit))
        {
            self.note(|| got_want("multipleOf", value, unit));
        }
    }

    fn references(&mut self) {
        if let Some(target) = self.part.recursive_ref {
            let is_recursive = self
                .context
                .part(target)
                .is_some_and(|part| part.recursive_anchor);
            let target = if is_recursive {
                self.scope.recursive_anchor(self.context, target)
            } else {
                target
            };
            let violation = self.reference(target, "$recursiveRef");
            self.found.extend(violation);
        }
        if let Some((target, anchor)) = &self.part.dynamic_ref {
            let part = self.context.part(*target);
            let is_dynamic =
                !anchor.is_empty() && part.is_some_and(|part| part.dynamic_anchor == *anchor);
            let target = if is_dynamic {
                self.scope.dynamic_anchor(self.context, anchor, *target)
            } else {
                *target
            };
            let violation = self.reference(target, "$dynamicRef");
            self.found.extend(violation);
        }
    }

    fn conditions(&mut self) {
        let part = self.part;
        if let Some(not) = part.not
            && self.same_value(not, "", true).is_ok()
        {
            self.note(|| "'not' failed".to_owned());
        }
        self.all_of();
        self.any_of();
        self.one_of();
        if let Some(condition) = part.condition {
            let branch = if self.same_value(condition, "", true).is_ok() {
                part.then
            } else {
                part.otherwise
            };
            let violation = branch.and_then(|branch| self.same_value(branch, "", false).err());
            self.found.extend(violation);
        }
    }

    fn all_of(&mut self) {
        let mut causes = Vec::new();
        for schema in &self.part.all_of {
            if let Err(violation) = self.same_value(*schema, "", false) {
                causes.push(violation);
                if self.quick {
                    break;
                }
            }
        }
        if !causes.is_empty() {
            self.note_with(|| "'allOf' failed".to_owned(), causes);
        }
    }

    fn any_of(&mut self) {
        let mut causes = Vec::new();
        let mut matched = self.part.any_of.is_empty();
        for schema in &self.part.any_of {
            match self.same_value(*schema, "", false) {
                Err(violation) => causes.push(violation),
                Ok(()) => {
                    matched = true;
                    // Whoever asks for what is left needs all of them.
                    if self.unevaluated.is_empty() {
                        break;
                    }
                }
            }
        }
        if !matched {
            self.note_with(|| "'anyOf' failed".to_owned(), causes);
        }
    }

    fn one_of(&mut self) {
        let mut causes = Vec::new();
        let mut matched = None;
        for (at, schema) in self.part.one_of.iter().enumerate() {
            match (self.same_value(*schema, "", matched.is_some()), matched) {
                (Err(violation), None) => causes.push(violation),
                (Err(_), Some(_)) => {}
                (Ok(()), None) => matched = Some(at),
                (Ok(()), Some(first)) => {
                    self.note(|| {
                        let (first, second) = (count(first), count(at));
                        format!("'oneOf' failed, subschemas {first}, {second} matched")
                    });
                    break;
                }
            }
        }
        if matched.is_none() && !self.part.one_of.is_empty() {
            self.note_with(|| "'oneOf' failed, none matched".to_owned(), causes);
        }
    }

    /// What nothing has looked at.
    fn rest(&mut self) {
        if let (Some(schema), Value::Map(map)) = (self.part.object.unevaluated, self.value) {
            for name in std::mem::take(&mut self.unevaluated.properties) {
                if let Some(value) = map.get(&name) {
                    self.inner_value(schema, &value, name.to_text().into_owned());
                }
            }
        }
        if let (Some(schema), Value::List(list)) = (self.part.array.unevaluated, self.value) {
            for at in std::mem::take(&mut self.unevaluated.items) {
                if let Some(item) = list.items().get(at) {
                    self.inner_value(schema, item, at.to_string());
                }
            }
        }
    }

    /// Applies another schema to the same value.
    fn same_value(
        &mut self,
        schema: Index,
        keyword: &'static str,
        quick: bool,
    ) -> Result<(), Violation> {
        let scope = Scope {
            part: schema,
            keyword,
            value_id: self.scope.value_id,
            depth: self.scope.depth + 1,
            parent: Some(self.scope),
        };
        let needs = !self.unevaluated.is_empty();
        let quick = self.quick || quick;
        let left = self
            .context
            .apply(schema, self.value, self.path, &scope, needs, quick)?;
        self.unevaluated.keep_common(&left);
        Ok(())
    }

    /// Applies a schema to a value inside this one.
    fn other_value(&mut self, schema: Index, value: &Value, part: String) -> Outcome {
        let scope = Scope {
            part: schema,
            keyword: "",
            value_id: self.scope.value_id + 1,
            depth: self.scope.depth + 1,
            parent: Some(self.scope),
        };
        self.path.push(part);
        let outcome = self
            .context
            .apply(schema, value, self.path, &scope, false, self.quick);
        self.path.pop();
        outcome
    }

    fn inner_value(&mut self, schema: Index, value: &Value, part: String) {
        let violation = self.other_value(schema, value, part).err();
        self.found.extend(violation);
    }

    fn reference(&mut self, target: Index, keyword: &'static str) -> Option<Violation> {
        let cause = self.same_value(target, keyword, false).err()?;
        let mut violation = self.violation(Kind::Reference);
        violation.causes = if cause.is_group() {
            cause.causes
        } else {
            vec![cause]
        };
        Some(violation)
    }
}
