//! A chart in one render: with the dependencies that are enabled, under the names they go by.

use std::borrow::Cow;

use gotmpl::{Map, Str, Value};
use goyaml::Tree;

use crate::chart::{Chart, Dependency};
use crate::coalesce::{Keys, deep_copy};

/// A chart as its parent sees it. Charts are shared and never changed; what processing decides is
/// kept here.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub(crate) chart: &'a Chart,
    alias: Option<&'a str>,
    processed: Option<Processed<'a>>,
    /// The defaults with what was imported from subcharts.
    values: Option<Map>,
}

#[derive(Clone)]
struct Processed<'a> {
    children: Vec<Node<'a>>,
    /// The dependencies of `Chart.yaml` that are enabled, under their aliases.
    dependencies: Option<Vec<Dependency>>,
}

impl<'a> Node<'a> {
    /// A chart as it was loaded.
    pub(crate) fn new(chart: &'a Chart) -> Self {
        Self {
            chart,
            alias: None,
            processed: None,
            values: None,
        }
    }

    /// The same under another name.
    pub(crate) fn named(mut self, alias: &'a str) -> Self {
        if !alias.is_empty() {
            self.alias = Some(alias);
        }
        self
    }

    pub(crate) fn name(&self) -> &'a str {
        self.alias.unwrap_or(&self.chart.metadata.name)
    }

    /// The subcharts: those that were chosen, or before any choice all that there are.
    pub(crate) fn children(&self) -> Cow<'_, [Self]> {
        match &self.processed {
            Some(processed) => Cow::Borrowed(&processed.children),
            None => {
                let charts = self.chart.dependencies.iter();
                Cow::Owned(charts.map(|chart| Self::new(chart)).collect())
            }
        }
    }

    pub(crate) fn children_mut(&mut self) -> &mut [Self] {
        let children = self.children().into_owned();
        let processed = self.processed.get_or_insert_with(|| Processed {
            children,
            dependencies: self
                .chart
                .metadata
                .dependencies
                .as_ref()
                .map(|list| list.iter().flatten().cloned().collect()),
        });
        &mut processed.children
    }

    pub(crate) fn has_child(&self, name: &[u8]) -> bool {
        match &self.processed {
            Some(processed) => processed
                .children
                .iter()
                .any(|child| child.name().as_bytes() == name),
            None => self
                .chart
                .dependencies
                .iter()
                .any(|chart| chart.name().as_bytes() == name),
        }
    }

    /// The dependencies in `Chart.yaml`, after the choice those that are enabled. `None` is not the
    /// same as an empty list.
    pub(crate) fn dependencies(&self) -> Option<Cow<'_, [Dependency]>> {
        match &self.processed {
            Some(processed) => processed.dependencies.as_deref().map(Cow::Borrowed),
            None => {
                let all = self.chart.metadata.dependencies.as_ref()?;
                Some(Cow::Owned(all.iter().flatten().cloned().collect()))
            }
        }
    }

    /// Records the choice.
    pub(crate) fn choose(&mut self, children: Vec<Self>, dependencies: Vec<Dependency>) {
        self.processed = Some(Processed {
            children,
            dependencies: Some(dependencies).filter(|list| !list.is_empty()),
        });
    }

    pub(crate) fn set_dependencies(&mut self, list: Vec<Dependency>) {
        if let Some(processed) = &mut self.processed {
            processed.dependencies = Some(list);
        }
    }

    pub(crate) fn set_values(&mut self, values: Map) {
        self.values = Some(values);
    }

    /// The values after imports, if there were dependencies to import from.
    pub(crate) fn imported_values(&self) -> Option<&Map> {
        self.values.as_ref()
    }

    /// A deep copy of the defaults, key by key.
    pub(crate) fn default_values(&self, keys: &Keys) -> Vec<(Str, Value)> {
        if let Some(values) = &self.values {
            return values
                .entries()
                .iter()
                .filter(|(key, _)| keys.contain(key))
                .map(|(key, value)| (key.clone(), deep_copy(value)))
                .collect();
        }
        match &self.chart.values {
            Some(Tree::Map(entries)) => entries
                .iter()
                .filter(|(key, _)| keys.contain(key))
                .map(|(key, tree)| (key.clone(), tree.to_value()))
                .collect(),
            _ => Vec::new(),
        }
    }
}
