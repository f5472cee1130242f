//! Which subcharts take part, under which names, and what the parent imports of their values.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gotmpl::{Map, Str, Value};
use goyaml::Tree;

use crate::chart::{Chart, Dependency};
use crate::coalesce::{
    Coalescing, Keys, Mode, TypeMismatch, deep_copy, deep_copy_map, tree_to_map,
};
use crate::log::LogLine;
use crate::node::Node;
use crate::version;

/// Chooses the subcharts of a chart by conditions and tags, names them by their aliases, and imports
/// what `import-values` asks for.
pub(crate) fn process<'a>(
    chart: &'a Chart,
    user: &Tree,
    warnings: &mut Vec<LogLine>,
) -> Result<Node<'a>, TypeMismatch> {
    let mut root = Node::new(chart);
    let values = tree_to_map(Some(user));
    choose(&mut root, &Scope::User(&values), "", &[user], warnings)?;
    import_all(&mut root, warnings)?;
    Ok(root)
}

/// Values in which conditions and tags are looked up. They are put together on demand, and only
/// those under the keys that are asked for: most subcharts ask for few, and each has the values of
/// all its siblings in scope.
enum Scope<'s, 'a> {
    User(&'s Map),
    Chart {
        parent: &'s Self,
        /// The chart as it was when its turn came, with all of its dependencies.
        node: &'s Node<'a>,
    },
}

impl Scope<'_, '_> {
    /// A copy of the values under some keys.
    fn values(&self, keys: &Keys, warnings: &mut Vec<LogLine>) -> Result<Map, TypeMismatch> {
        match self {
            Self::User(values) => Ok(Map::from_entries(
                values
                    .entries()
                    .iter()
                    .filter(|(key, _)| keys.contain(key))
                    .map(|(key, value)| (key.clone(), deep_copy(value))),
            )),
            Self::Chart { parent, node } => {
                let values = parent.values(keys, warnings)?;
                let mode = Mode::Coalesce;
                Coalescing { mode, warnings }.some_values(node, values, keys)
            }
        }
    }
}

/// The first keys of the paths that tags and conditions look at.
fn switch_keys(dependencies: &[Dependency], path: &str) -> Keys {
    let first = |path: &str| Str::from(path.split('.').next().unwrap_or(path));
    let mut keys = BTreeSet::from([Str::from("tags")]);
    for dependency in dependencies {
        let conditions = dependency.condition.trim().split(',');
        keys.extend(conditions.map(|condition| first(&format!("{path}{condition}"))));
    }
    Keys::Some(keys)
}

fn choose<'a>(
    node: &mut Node<'a>,
    parent: &Scope<'_, 'a>,
    path: &str,
    layers: &[&Tree],
    warnings: &mut Vec<LogLine>,
) -> Result<(), TypeMismatch> {
    if node.dependencies().is_none() {
        return Ok(());
    }
    let layers: Vec<&Tree> = layers.iter().copied().chain(&node.chart.values).collect();
    let (children, mut dependencies) = candidates(node);
    let mut all = node.clone();
    all.choose(children, dependencies.clone());
    let scope = Scope::Chart { parent, node: &all };
    if may_mismatch(&all, &layers) {
        // Helm puts all values together, also those of subcharts that are off: what does not fit
        // is told here. What is logged is logged again later.
        scope.values(&Keys::All, &mut Vec::new())?;
    }
    for dependency in &mut dependencies {
        dependency.enabled = true;
    }
    if dependencies.iter().any(has_switch) {
        let keys = switch_keys(&dependencies, path);
        let values = scope.values(&keys, warnings)?;
        apply_tags(&mut dependencies, &values, warnings);
        apply_conditions(&mut dependencies, &values, path, warnings);
    }
    let off: HashSet<String> = dependencies
        .iter()
        .filter(|dependency| !dependency.enabled)
        .map(|dependency| dependency.name.clone())
        .collect();
    let mut children: Vec<Node<'a>> = all
        .children()
        .iter()
        .filter(|child| !off.contains(child.name()))
        .cloned()
        .collect();
    for child in &mut children {
        let path = format!("{path}{}.", child.name());
        choose(child, &scope, &path, &layers, warnings)?;
    }
    dependencies.retain(|dependency| !off.contains(&dependency.name));
    node.choose(children, dependencies);
    Ok(())
}

/// Whether one of the layers of values has something else than a map where a subchart's values
/// belong.
fn may_mismatch(node: &Node<'_>, layers: &[&Tree]) -> bool {
    node.children().iter().any(|child| {
        let mut below = Vec::with_capacity(layers.len() + 1);
        for layer in layers {
            match layer.get(child.name()) {
                None => {}
                Some(values @ Tree::Map(_)) => below.push(values),
                Some(_) => return true,
            }
        }
        below.extend(&child.chart.values);
        may_mismatch(child, &below)
    })
}

fn has_switch(dependency: &Dependency) -> bool {
    !dependency.condition.is_empty() || !dependency.tags.is_empty()
}

/// The subcharts that `Chart.yaml` does not name, and then for each of its dependencies the first
/// chart that fits; and the dependencies under their aliases.
fn candidates<'a>(node: &Node<'a>) -> (Vec<Node<'a>>, Vec<Dependency>) {
    let chart = node.chart;
    let wanted: Vec<&'a Dependency> = chart.requested().collect();
    let existing = node.children();
    let mut by_name: BTreeMap<&str, Vec<&Dependency>> = BTreeMap::new();
    for dependency in &wanted {
        by_name
            .entry(&dependency.name)
            .or_default()
            .push(dependency);
    }
    let is_wanted = |child: &Node<'_>| {
        by_name.get(child.name()).is_some_and(|dependencies| {
            dependencies
                .iter()
                .any(|dependency| version::satisfies(&dependency.version, version_of(child)))
        })
    };
    let mut children: Vec<Node<'a>> = existing
        .iter()
        .filter(|child| !is_wanted(child))
        .cloned()
        .collect();
    let mut dependencies = Vec::with_capacity(wanted.len());
    for dependency in wanted {
        let found = existing.iter().find(|child| {
            child.name() == dependency.name
                && version::satisfies(&dependency.version, version_of(child))
        });
        children.extend(found.map(|child| child.clone().named(&dependency.alias)));
        let mut dependency = dependency.clone();
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
        dependencies.push(dependency);
    }
    (children, dependencies)
}

fn version_of<'a>(node: &Node<'a>) -> &'a str {
    &node.chart.metadata.version
}

/// A chart is off if a tag of it is false and none is true.
fn non_bool(name: &'static str, value: &str, dependency: &Dependency) -> LogLine {
    LogLine::warn("returned non-bool value")
        .with(name, value)
        .with("chart", &*dependency.name)
}

fn apply_tags(dependencies: &mut [Dependency], values: &Map, warnings: &mut Vec<LogLine>) {
    let Some(Value::Map(tags)) = values.get(b"tags") else {
        return;
    };
    for dependency in dependencies {
        let (mut on, mut off) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag.as_bytes()) {
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                None => {}
                Some(_) => {
                    warnings.push(non_bool("tag", tag, dependency));
                }
            }
        }
        dependency.enabled = on || !off;
    }
}

/// The first path of a condition that leads to a boolean decides.
fn apply_conditions(
    dependencies: &mut [Dependency],
    values: &Map,
    path: &str,
    warnings: &mut Vec<LogLine>,
) {
    for dependency in dependencies {
        let paths = dependency.condition.trim().split(',');
        for condition in paths.filter(|condition| !condition.is_empty()) {
            match path_value(values, &format!("{path}{condition}")) {
                Some(Value::Bool(enabled)) => {
                    dependency.enabled = enabled;
                    break;
                }
                None => {}
                Some(_) => {
                    warnings.push(non_bool("path", condition, dependency));
                }
            }
        }
    }
}

/// The value at a path of keys, if it is there and no table.
pub(crate) fn path_value(values: &Map, path: &str) -> Option<Value> {
    let (table, key) = match path.rsplit_once('.') {
        Some((tables, key)) => (table(values, tables)?, key),
        None => (values.clone(), path),
    };
    let value = table.get(key.as_bytes())?;
    (!matches!(value, Value::Map(_))).then_some(value)
}

/// The table at a path of keys.
pub(crate) fn table(values: &Map, path: &str) -> Option<Map> {
    find_table(values, path).ok()
}

/// The table at a path of keys, or the first of them at which there is none.
fn find_table<'p>(values: &Map, path: &'p str) -> Result<Map, &'p str> {
    path.split('.').try_fold(values.clone(), |table, key| {
        match table.get(key.as_bytes()) {
            Some(Value::Map(next)) => Ok(next),
            _ => Err(key),
        }
    })
}

/// Imports values, deepest charts first.
fn import_all(node: &mut Node<'_>, warnings: &mut Vec<LogLine>) -> Result<(), TypeMismatch> {
    if !node.children().is_empty() {
        for child in node.children_mut() {
            import_all(child, warnings)?;
        }
    }
    let Some(dependencies) = node.dependencies() else {
        return Ok(());
    };
    let mut dependencies = dependencies.into_owned();
    let mode = Mode::Merge;
    let values = Coalescing { mode, warnings }.values(node, Map::new())?;
    let imported = Map::new();
    for dependency in &mut dependencies {
        import(dependency, &values, &imported, warnings);
    }
    // What was imported shares maps with the values that it comes from.
    let values = if imported.is_empty() {
        values
    } else {
        deep_copy_map(&values)
    };
    Coalescing { mode, warnings }.tables(&values, &imported, "", mode);
    node.set_values(values);
    node.set_dependencies(dependencies);
    Ok(())
}

/// Lays what one dependency exports under what was imported before, and rewrites the entries of
/// `import-values` as Helm records them.
fn import(dependency: &mut Dependency, values: &Map, imported: &Map, warnings: &mut Vec<LogLine>) {
    let mut rewritten = Vec::new();
    for entry in &dependency.import_values {
        let Some((child, parent)) = import_paths(entry) else {
            continue;
        };
        rewritten.push(Tree::from_iter([
            ("child", Tree::from(child.as_str())),
            ("parent", Tree::from(parent.as_str())),
        ]));
        let name = &dependency.name;
        let path = format!("{name}.{child}");
        match find_table(values, &path) {
            Err(key) => {
                let line = match entry {
                    Tree::String(_) => LogLine::warn("ImportValues missing table"),
                    _ => LogLine::warn("ImportValues missing table from chart").with("chart", name),
                };
                let error = format!("{} is not a table", crate::text::quote(key));
                warnings.push(line.with("error", error));
            }
            Ok(table) => {
                let source = nest(&parent, table);
                let mode = Mode::Merge;
                Coalescing { mode, warnings }.tables(imported, &source, "", mode);
            }
        }
    }
    dependency.import_values = rewritten;
}

/// The child's and the parent's path of an entry of `import-values`.
fn import_paths(entry: &Tree) -> Option<(String, String)> {
    match entry {
        Tree::String(name) => Some((format!("exports.{}", name.to_text()), ".".to_owned())),
        Tree::Map(entries) => {
            let path = |key: &str| entries.get(key.as_bytes()).map_or_else(nil_text, text);
            Some((path("child"), path("parent")))
        }
        _ => None,
    }
}

fn nil_text() -> String {
    "<nil>".to_owned()
}

/// Go's `%v` of a scalar.
fn text(tree: &Tree) -> String {
    match tree {
        Tree::Null => nil_text(),
        Tree::Bool(value) => value.to_string(),
        Tree::Int64(value) => value.to_string(),
        Tree::Float64(value) => value.to_string(),
        Tree::String(text) => text.to_text().into_owned(),
        Tree::List(_) | Tree::Map(_) => String::new(),
    }
}

/// The table as the innermost of tables along a path; `.` is no path.
fn nest(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.rsplit('.').fold(table, |inner, key| {
        Map::from_entries([(Str::from(key), Value::Map(inner))])
    })
}
