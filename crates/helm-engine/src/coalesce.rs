//! Laying values over each other: the user's over the chart's, the parent's over the child's.
//!
//! This works on template values, whose maps are shared by reference as Go's are: which maps a
//! parent and its children share afterwards is visible to templates, and so part of the result.

use gotmpl::{List, Map, Str, Value};
use std::collections::BTreeSet;

use goyaml::Tree;

use crate::log::LogLine;
use crate::node::Node;

const GLOBAL: &[u8] = b"global";

/// Which rules for null apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// A user's null removes a default, a default that is null does not count.
    Coalesce,
    /// Null is a value like any other.
    Merge,
}

/// Which keys of a chart's values are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    All,
    /// These; `global` is always among them, since it flows into subcharts.
    Some(BTreeSet<Str>),
}

impl Keys {
    pub(crate) fn contain(&self, key: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Some(keys) => key == GLOBAL || keys.contains(key),
        }
    }
}

/// Two kinds of value that do not go together; the text is Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type mismatch on {name}: {found}")]
pub struct TypeMismatch {
    name: String,
    found: String,
}

/// Coalesces a chart's values with a user's, which are copied first.
///
/// Warnings are Helm's log lines without their time.
pub(crate) struct Coalescing<'w> {
    pub(crate) mode: Mode,
    pub(crate) warnings: &'w mut Vec<LogLine>,
}

impl Coalescing<'_> {
    /// The values of a chart and of all that it depends on.
    pub(crate) fn values(&mut self, node: &Node<'_>, user: Map) -> Result<Map, TypeMismatch> {
        self.chart(node, &user, "", self.mode, &Keys::All)?;
        Ok(user)
    }

    /// The same, but only the values under some keys of the chart; `user` holds no others.
    pub(crate) fn some_values(
        &mut self,
        node: &Node<'_>,
        user: Map,
        keys: &Keys,
    ) -> Result<Map, TypeMismatch> {
        self.chart(node, &user, "", self.mode, keys)?;
        Ok(user)
    }

    fn chart(
        &mut self,
        node: &Node<'_>,
        dest: &Map,
        prefix: &str,
        mode: Mode,
        keys: &Keys,
    ) -> Result<(), TypeMismatch> {
        self.own_values(node, dest, prefix, mode, keys);
        let path = concat(prefix, node.name());
        for child in node.children().iter() {
            let name = child.name();
            if !keys.contain(name.as_bytes()) {
                continue;
            }
            let values = match dest.get(name.as_bytes()) {
                None => {
                    let values = Map::new();
                    dest.insert(name.into(), Value::Map(values.clone()));
                    values
                }
                Some(Value::Map(values)) => values,
                Some(other) => {
                    return Err(TypeMismatch {
                        name: name.to_owned(),
                        found: bool_verb(&other),
                    });
                }
            };
            self.globals(&values, dest, &path);
            self.chart(child, &values, &path, mode, &Keys::All)?;
        }
        Ok(())
    }

    /// A chart's own defaults under what is there already.
    fn own_values(&mut self, node: &Node<'_>, dest: &Map, prefix: &str, mode: Mode, keys: &Keys) {
        let path = concat(prefix, node.name());
        for (key, default) in node.default_values(keys) {
            match dest.get(&key) {
                Some(Value::Nil) if mode == Mode::Coalesce => {
                    dest.remove(&key);
                }
                Some(Value::Map(table)) => self.table(node, &table, &key, &default, &path, mode),
                Some(_) => {}
                None => add_default(dest, key, default, mode),
            }
        }
    }

    fn table(
        &mut self,
        node: &Node<'_>,
        table: &Map,
        key: &Str,
        default: &Value,
        path: &str,
        mode: Mode,
    ) {
        let Value::Map(source) = default else {
            if !matches!(default, Value::Nil) {
                let key = key.to_text();
                self.warn(format!(
                    "warning: skipped value for {path}.{key}: Not a table."
                ));
            }
            return;
        };
        let mode = if node.has_child(key) {
            Mode::Merge
        } else {
            mode
        };
        if mode == Mode::Coalesce {
            remove_nil(source);
        }
        self.tables(table, source, &concat(path, &key.to_text()), mode);
    }

    /// Puts `source` under `dest`, key by key.
    pub(crate) fn tables(&mut self, dest: &Map, source: &Map, prefix: &str, mode: Mode) {
        if dest.same(source) {
            return;
        }
        let entries = snapshot(source);
        for (key, value) in snapshot(dest) {
            if matches!(value, Value::Nil) {
                source.insert(key, Value::Nil);
            }
        }
        for (key, value) in entries {
            let full = concat(prefix, &key.to_text());
            self.entry(dest, source, (key, value), &full, mode);
        }
        // Keys that came into the source just now hold null, and the destination has them already.
    }

    fn entry(
        &mut self,
        dest: &Map,
        source: &Map,
        (key, original): (Str, Value),
        full_key: &str,
        mode: Mode,
    ) {
        let value = source.get(&key).unwrap_or(Value::Nil);
        let Some(found) = dest.get(&key) else {
            dest.insert(key, value);
            return;
        };
        let nulled = matches!(found, Value::Nil) && !matches!(original, Value::Nil);
        match (&found, &value) {
            _ if nulled && mode == Mode::Coalesce => {
                dest.remove(&key);
            }
            (Value::Map(found), Value::Map(value)) => self.tables(found, value, full_key, mode),
            (_, Value::Map(_)) => {
                let value = print(&value);
                self.warn(format!(
                    "warning: cannot overwrite table with non table for {full_key} ({value})"
                ));
            }
            (Value::Map(_), Value::Nil) => {}
            (Value::Map(_), value) => {
                let value = print(value);
                self.warn(format!(
                    "warning: destination for {full_key} is a table. \
                     Ignoring non-table value ({value})"
                ));
            }
            _ => {}
        }
    }

    /// The parent's globals over the child's. Maps inside the parent's are not copied, so that
    /// what the child adds to them below the first level shows in the parent, as in Helm.
    fn globals(&mut self, child: &Map, parent: &Map, prefix: &str) {
        let Some(dest) = self.global_table(child, "destination") else {
            return;
        };
        let Some(source) = self.global_table(parent, "source") else {
            return;
        };
        for (key, value) in snapshot(&source) {
            self.global(&dest, key, value, prefix);
        }
        child.insert(GLOBAL.into(), Value::Map(dest));
    }

    fn global_table(&mut self, values: &Map, which: &str) -> Option<Map> {
        match values.get(GLOBAL) {
            None => Some(Map::new()),
            Some(Value::Map(table)) => Some(table),
            Some(_) => {
                self.warn(format!(
                    "warning: skipping globals because {which} global is not a table."
                ));
                None
            }
        }
    }

    fn global(&mut self, dest: &Map, key: Str, value: Value, prefix: &str) {
        let found = dest.get(&key);
        let Value::Map(table) = &value else {
            if matches!(found, Some(Value::Map(_))) {
                self.warn(format!("key {} is table. Skipping", key.to_text()));
            } else {
                dest.insert(key, value);
            }
            return;
        };
        let copy = Map::from_entries(snapshot(table));
        match found {
            None => {}
            Some(Value::Map(found)) => {
                let full_key = concat(prefix, &key.to_text());
                self.tables(&copy, &found, &full_key, Mode::Merge);
            }
            Some(_) => {
                let key = crate::text::quote(&key.to_text());
                self.warn(format!(
                    "Conflict: cannot merge map onto non-map for {key}. Skipping."
                ));
                return;
            }
        }
        dest.insert(key, Value::Map(copy));
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(LogLine::info(text));
    }
}

fn add_default(dest: &Map, key: Str, default: Value, mode: Mode) {
    if mode == Mode::Coalesce {
        match &default {
            Value::Nil => return,
            Value::Map(table) => remove_nil(table),
            _ => {}
        }
    }
    dest.insert(key, default);
}

/// The entries as they are now: the map may change while they are looked at.
pub(crate) fn snapshot(map: &Map) -> Vec<(Str, Value)> {
    map.entries()
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn remove_nil(map: &Map) {
    let mut tables = Vec::new();
    map.entries_mut().retain(|_, value| {
        if let Value::Map(table) = value {
            tables.push(table.clone());
        }
        !matches!(value, Value::Nil)
    });
    tables.iter().for_each(remove_nil);
}

fn concat(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        return key.to_owned();
    }
    format!("{prefix}.{key}")
}

/// A copy that shares no map with the original.
pub(crate) fn deep_copy(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(deep_copy_map(map)),
        Value::List(list) => Value::List(List::typed(
            list.element(),
            list.items().iter().map(deep_copy).collect(),
        )),
        other => other.clone(),
    }
}

/// A copy that shares no map with the original.
pub(crate) fn deep_copy_map(map: &Map) -> Map {
    let entries = map
        .entries()
        .iter()
        .map(|(key, value)| (key.clone(), deep_copy(value)))
        .collect();
    Map::typed(map.element(), entries)
}

/// The map that a tree holds; an empty one for anything else.
pub(crate) fn tree_to_map(tree: Option<&Tree>) -> Map {
    match tree.map(Tree::to_value) {
        Some(Value::Map(map)) => map,
        _ => Map::new(),
    }
}

fn print(value: &Value) -> String {
    let text = gotmpl::fmt::sprint(std::slice::from_ref(value)).unwrap_or_default();
    text.to_text().into_owned()
}

/// Go's `%t` of a value that is no boolean.
fn bool_verb(value: &Value) -> String {
    let text = gotmpl::fmt::sprintf(b"%t", std::slice::from_ref(value)).unwrap_or_default();
    text.to_text().into_owned()
}
