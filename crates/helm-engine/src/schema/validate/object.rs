//! Keywords for objects.

use gotmpl::{Map, Value};

use super::{Check, Scope};
use crate::schema::compare::missing;
use crate::schema::compile::{Additional, Dependency, Index};
use crate::schema::message::{count, quote, quote_all};

impl Check<'_> {
    pub(super) fn object(&mut self, map: &Map) {
        let rules = &self.part.object;
        let size = map.len();
        if let Some(min) = rules.min.filter(|min| size < *min) {
            self.note(|| format!("minProperties: got {}, want {}", count(size), count(min)));
        }
        if let Some(max) = rules.max.filter(|max| size > *max) {
            self.note(|| format!("maxProperties: got {}, want {}", count(size), count(max)));
        }
        let missing = missing(map, &rules.required);
        match missing.as_slice() {
            [] => {}
            [one] => self.note(|| format!("missing property {}", quote(one))),
            many => {
                let many = quote_all(many.iter().copied());
                self.note(|| format!("missing properties {many}"));
            }
        }
        if self.quick && !self.found.is_empty() {
            return;
        }
        self.dependencies(map);
        self.properties(map);
        if self.part.draft == 4 {
            return;
        }
        if let Some(names) = rules.names {
            self.property_names(names, map);
        }
        if self.part.draft >= 2019 {
            self.dependent(map);
        }
    }

    pub(super) fn dependencies(&mut self, map: &Map) {
        for (name, dependency) in &self.part.object.dependencies {
            if !map.contains(name.as_bytes()) {
                continue;
            }
            match dependency {
                Dependency::Names(wanted) => self.requires(map, name, wanted),
                Dependency::Schema(schema) => {
                    let violation = self.same_value(*schema, "", false).err();
                    self.found.extend(violation);
                }
            }
        }
    }

    pub(super) fn requires(&mut self, map: &Map, name: &str, wanted: &[String]) {
        let missing = missing(map, wanted);
        if !missing.is_empty() {
            self.note(|| {
                let missing = quote_all(missing.iter().copied());
                format!("properties {missing} required, if {} exists", quote(name))
            });
        }
    }

    pub(super) fn properties(&mut self, map: &Map) {
        let rules = &self.part.object;
        let mut refused = Vec::new();
        for (name, value) in crate::coalesce::snapshot(map) {
            if self.quick && !self.found.is_empty() {
                return;
            }
            let text = name.to_text();
            let mut evaluated = false;
            if let Some(schema) = rules.properties.get(&*text) {
                evaluated = true;
                self.inner_value(*schema, &value, text.to_string());
            }
            for (pattern, schema) in &rules.patterns {
                if pattern.is_match(&text) {
                    evaluated = true;
                    self.inner_value(*schema, &value, text.to_string());
                }
            }
            match rules.additional {
                Some(additional) if !evaluated => {
                    evaluated = true;
                    match additional {
                        Additional::Allowed(true) => {}
                        Additional::Allowed(false) => refused.push(text.to_string()),
                        Additional::Schema(schema) => {
                            self.inner_value(schema, &value, text.to_string());
                        }
                    }
                }
                _ => {}
            }
            if evaluated {
                self.unevaluated.properties.remove(&name);
            }
        }
        if !refused.is_empty() {
            self.note(|| {
                let refused = quote_all(refused.iter().map(String::as_str));
                format!("additional properties {refused} not allowed")
            });
        }
    }

    pub(super) fn property_names(&mut self, schema: Index, map: &Map) {
        for (name, _) in crate::coalesce::snapshot(map) {
            let scope = Scope {
                part: schema,
                keyword: "",
                value_id: 0,
                depth: self.scope.depth + 1,
                parent: None,
            };
            let text = name.to_text().into_owned();
            if let Some(violation) = self.context.root(schema, &Value::String(name), &scope) {
                self.note_with(
                    || format!("invalid propertyName {}", quote(&text)),
                    violation.causes,
                );
            }
        }
    }

    pub(super) fn dependent(&mut self, map: &Map) {
        let rules = &self.part.object;
        for (name, schema) in &rules.dependent_schemas {
            if map.contains(name.as_bytes()) {
                let violation = self.same_value(*schema, "", false).err();
                self.found.extend(violation);
            }
        }
        for (name, wanted) in &rules.dependent_required {
            if map.contains(name.as_bytes()) {
                self.requires(map, name, wanted);
            }
        }
    }
}
