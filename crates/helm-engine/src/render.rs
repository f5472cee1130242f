//! Rendering a chart: from values to manifests, hooks and notes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use gotmpl::{Budget, CycleGuard, Functions, Limits, Map, MissingKey, Options, TemplateSet, Value};
use goyaml::Tree;
use sprig::Environment;
use sprig::helm::{Lookup, MESSAGE_END, MESSAGE_START, RenderHost};

use crate::capabilities::Capabilities;
use crate::chart::{Chart, Crd, own_crds};
use crate::coalesce::{Coalescing, Mode, tree_to_map};
use crate::compiled::Compiled;
use crate::context::{self, Renderable};
use crate::error::{RenderError, reformat_exec, reformat_parse};
use crate::log::LogLine;
use crate::manifest::{INSTALL_ORDER, Manifest, base_name, sort_manifests_of};
use crate::node::Node;
use crate::record::{Hook, StoredChart, StoredFile};
use crate::{dependencies, schema, version};

/// What a render depends on besides chart and values.
#[derive(Clone)]
pub struct RenderOptions {
    /// `.Release.Name`
    pub release_name: String,
    /// `.Release.Namespace`
    pub namespace: String,
    /// `.Release.Revision`
    pub revision: i64,
    /// `.Release.IsInstall`
    pub is_install: bool,
    /// `.Release.IsUpgrade`
    pub is_upgrade: bool,
    /// `.Capabilities`
    pub capabilities: Capabilities,
    /// The cluster that `lookup` asks; `None` makes every lookup an empty map.
    pub lookup: Option<Arc<dyn Lookup>>,
    /// Put the files of `crds/` at the head of the manifest, as `--include-crds` does.
    pub include_crds: bool,
    /// Replace the text of Secrets in the manifest by a comment.
    pub hide_secrets: bool,
    /// Do not check the values against `values.schema.json`.
    pub skip_schema: bool,
    /// Put the notes of subcharts into [`Rendered::notes`] too, in the order of their paths.
    pub subchart_notes: bool,
    /// As `helm lint` renders: `required` and `fail` do not fail.
    pub lint: bool,
    /// Chance, clock, time zone, network.
    pub environment: Environment,
    /// What the templates may use of steps, depth, output and memory.
    pub limits: Limits,
    /// Fill [`Rendered::chart`]; `helm template` has no need of it.
    pub keep_chart: bool,
}

impl Default for RenderOptions {
    /// The first install of `release-name` in `default`, without a cluster.
    fn default() -> Self {
        Self {
            release_name: "release-name".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_install: true,
            is_upgrade: false,
            capabilities: Capabilities::default(),
            lookup: None,
            include_crds: false,
            hide_secrets: false,
            skip_schema: false,
            subchart_notes: false,
            lint: false,
            environment: Environment::default(),
            limits: Limits::default(),
            keep_chart: false,
        }
    }
}

/// A rendered chart.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The manifest as Helm stores it: every document behind `---` and `# Source: …`.
    pub manifest: String,
    /// The documents that are no hooks, in install order.
    pub manifests: Vec<Manifest>,
    /// The hooks, in install order of their kinds.
    pub hooks: Vec<Hook>,
    /// The text of `NOTES.txt`.
    pub notes: String,
    /// The files of `crds/` of this chart and of the subcharts that are enabled.
    pub crds: Vec<Crd>,
    /// What a release record keeps of the chart, if [`RenderOptions::keep_chart`] asked for it.
    pub chart: Option<StoredChart>,
    /// Helm's log lines, without time and source.
    pub warnings: Vec<LogLine>,
    /// What `required` and `fail` said in lint mode.
    pub lint_notes: Vec<String>,
}

/// Renders a chart with a user's values, a map.
///
/// The work is that of Helm's install: dependencies are chosen, values coalesced and checked,
/// templates executed, and what they printed is split and sorted. Templates are parsed on the first
/// render of a chart and kept in it.
///
/// # Errors
/// See [`RenderError`]. A chart can fail but not crash, hang or use more than the limits say.
///
/// ```
/// use helm_engine::{Limits, RenderOptions, load_files, render, values};
///
/// let files = [
///     ("Chart.yaml", "{apiVersion: v2, name: demo, version: 1.0.0}"),
///     ("values.yaml", "greeting: hello\n"),
///     ("templates/map.yaml", "kind: ConfigMap\ndata: {a: {{ .Values.greeting }}}\n"),
/// ];
/// let chart = load_files(files, &Limits::default()).unwrap().chart;
/// let user = values::read_values(b"greeting: welcome").unwrap();
/// let rendered = render(&chart, &user, &RenderOptions::default()).unwrap();
/// assert_eq!(
///     rendered.manifest,
///     "---\n# Source: demo/templates/map.yaml\nkind: ConfigMap\ndata: {a: welcome}\n\n"
/// );
/// ```
pub fn render(
    chart: &Chart,
    values: &Tree,
    options: &RenderOptions,
) -> Result<Rendered, RenderError> {
    let mut warnings = Vec::new();
    let mut rendered = render_telling(chart, values, options, &mut warnings)?;
    rendered.warnings = warnings;
    Ok(rendered)
}

/// [`render`], with Helm's log lines in `warnings` even if it fails: they often say why.
///
/// # Errors
/// See [`RenderError`].
pub fn render_telling(
    chart: &Chart,
    values: &Tree,
    options: &RenderOptions,
    warnings: &mut Vec<LogLine>,
) -> Result<Rendered, RenderError> {
    let node = dependencies::process(chart, values, warnings).map_err(RenderError::Dependencies)?;
    let mut host = RenderHost::default();
    let printed = print_templates(&node, values, options, &mut host, warnings)?;
    let mut rendered = assemble(&node, printed, options, warnings)?;
    rendered.lint_notes = host.lint_notes;
    Ok(rendered)
}

/// What each template of a chart prints, by its path, before any of it is read as a manifest: what Helm's
/// `engine.Render` returns for the values that its `ToRenderValues` makes. Partials, whose names begin with `_`, are
/// not in it; `NOTES.txt` is.
///
/// # Errors
/// See [`RenderError`]; never one of manifests.
///
/// ```
/// use helm_engine::{Limits, RenderOptions, load_files, render_templates, values};
///
/// let files = [
///     ("Chart.yaml", "{apiVersion: v2, name: demo, version: 1.0.0}"),
///     ("templates/NOTES.txt", "Installed as {{ .Release.Name }}."),
/// ];
/// let chart = load_files(files, &Limits::default()).unwrap().chart;
/// let user = values::read_values(b"").unwrap();
/// let printed = render_templates(&chart, &user, &RenderOptions::default()).unwrap();
/// assert_eq!(printed["demo/templates/NOTES.txt"], "Installed as release-name.");
/// ```
pub fn render_templates(
    chart: &Chart,
    values: &Tree,
    options: &RenderOptions,
) -> Result<BTreeMap<String, String>, RenderError> {
    let mut warnings = Vec::new();
    let node =
        dependencies::process(chart, values, &mut warnings).map_err(RenderError::Dependencies)?;
    let mut host = RenderHost::default();
    print_templates(&node, values, options, &mut host, &mut warnings).map(|printed| printed.files)
}

/// The part of a render up to the texts of the templates.
fn print_templates(
    node: &Node<'_>,
    values: &Tree,
    options: &RenderOptions,
    host: &mut RenderHost,
    warnings: &mut Vec<LogLine>,
) -> Result<Printed, RenderError> {
    let coalesced = Coalescing {
        mode: Mode::Coalesce,
        warnings,
    }
    .values(node, tree_to_map(Some(values)))?;
    if !options.skip_schema {
        schema::validate(node, &coalesced).map_err(RenderError::Schema)?;
    }
    check_kube_version(node.chart, &options.capabilities)?;
    let renderables = context::collect(node, coalesced, options);
    host.lookup.clone_from(&options.lookup);
    host.lint_mode = options.lint;
    execute(node.chart, renderables, options, host)
}

/// Renders a chart and returns what each file printed, as `helm lint` looks at it; `None` where
/// that gives up without a word, because the values of dependencies do not fit.
pub(crate) fn render_files(
    chart: &Chart,
    values: &Tree,
    options: &RenderOptions,
) -> Result<Option<Printed>, RenderError> {
    let mut warnings = Vec::new();
    let Ok(node) = dependencies::process(chart, values, &mut warnings) else {
        return Ok(None);
    };
    let mut coalesce = |values| {
        Coalescing {
            mode: Mode::Coalesce,
            warnings: &mut warnings,
        }
        .values(&node, values)
    };
    // Helm coalesces twice here.
    let Ok(once) = coalesce(tree_to_map(Some(values))) else {
        return Ok(None);
    };
    let coalesced = coalesce(once)?;
    if !options.skip_schema {
        schema::validate(&node, &coalesced).map_err(RenderError::Schema)?;
    }
    let renderables = context::collect(&node, coalesced, options);
    let mut host = RenderHost::default();
    host.lint_mode = true;
    execute(chart, renderables, options, &mut host).map(Some)
}

/// The dependencies that the values leave, and the values that all of them see.
fn process<'c>(chart: &'c Chart, values: &Tree) -> Result<(Node<'c>, Map), RenderError> {
    let mut warnings = Vec::new();
    let node =
        dependencies::process(chart, values, &mut warnings).map_err(RenderError::Dependencies)?;
    let coalesced = Coalescing {
        mode: Mode::Coalesce,
        warnings: &mut warnings,
    }
    .values(&node, tree_to_map(Some(values)))?;
    Ok((node, coalesced))
}

/// Checks values against the chart's `values.schema.json` and those of its subcharts, as [`render`] does
/// first.
///
/// # Errors
/// Says what does not fit, in Helm's words.
pub fn validate_values(chart: &Chart, values: &Tree) -> Result<(), RenderError> {
    let (node, coalesced) = process(chart, values)?;
    schema::validate(&node, &coalesced).map_err(RenderError::Schema)
}

/// The values that templates of this chart see, subcharts' included: `helm get values --all`.
///
/// # Errors
/// A subchart's values are no map.
pub fn coalesce_values(chart: &Chart, values: &Tree) -> Result<Tree, RenderError> {
    let (_, coalesced) = process(chart, values)?;
    Ok(tree(&Value::Map(coalesced)))
}

/// Lays a user's values over older ones with the rules for null of an upgrade: a null in `values`
/// removes the key.
#[must_use]
pub fn coalesce_tables(values: &Tree, under: &Tree) -> Tree {
    let (over, under) = (tree_to_map(Some(values)), tree_to_map(Some(under)));
    let mut warnings = Vec::new();
    Coalescing {
        mode: Mode::Coalesce,
        warnings: &mut warnings,
    }
    .tables(&over, &under, "", Mode::Coalesce);
    tree(&Value::Map(over))
}

/// The release name that a template of `--name-template` makes. It is the person's own, and may
/// read the variables of the process.
///
/// # Errors
/// Go's text for a template that is malformed or fails.
pub fn name_from_template(
    template: &str,
    variables: &sprig::Variables,
) -> Result<String, RenderError> {
    let functions = sprig::functions_with_variables(&Environment::default(), variables);
    let mut set = TemplateSet::new("name-template");
    set.parse("name-template", template, &functions)
        .map_err(|error| RenderError::Parse(error.to_string()))?;
    let printed = set
        .execute(
            "name-template",
            &Value::Nil,
            &functions,
            &mut RenderHost::default(),
            Options::default(),
            &mut Budget::default(),
        )
        .map_err(|error| {
            // The marks are for the errors of charts.
            let text = error.to_string().replace(MESSAGE_START, "");
            RenderError::Execute(text.replace(MESSAGE_END, ""))
        })?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// A value as a tree; template values that came from trees are always some.
fn tree(value: &Value) -> Tree {
    match value {
        Value::Nil => Tree::Null,
        Value::Bool(value) => Tree::Bool(*value),
        Value::Int(value) | Value::Int64(value) => Tree::Int64(*value),
        Value::Float64(value) => Tree::Float64(*value),
        Value::String(text) => Tree::String(text.clone()),
        Value::List(list) => Tree::List(list.items().iter().map(tree).collect()),
        Value::Map(map) => Tree::Map(
            map.entries()
                .iter()
                .map(|(key, value)| (key.clone(), tree(value)))
                .collect(),
        ),
        other => Tree::from_value(other).unwrap_or_default(),
    }
}

fn check_kube_version(chart: &Chart, capabilities: &Capabilities) -> Result<(), RenderError> {
    let constraint = &chart.metadata.kube_version;
    let kube_version = &capabilities.kube_version;
    if constraint.is_empty() || version::satisfies(constraint, kube_version.as_str()) {
        return Ok(());
    }
    Err(RenderError::KubeVersion {
        constraint: constraint.clone(),
        version: kube_version.version.clone(),
    })
}

/// What templates printed, by their paths.
#[derive(Default)]
pub(crate) struct Printed {
    /// The texts, with U+FFFD in place of what is no UTF-8.
    pub(crate) files: BTreeMap<String, String>,
    /// The bytes of those that are no UTF-8.
    pub(crate) broken: BTreeMap<String, Vec<u8>>,
}

impl Printed {
    /// Takes what a file printed, without every `<no value>`, wherever that comes from.
    fn add(&mut self, path: &str, printed: Vec<u8>) {
        let text = String::from_utf8(printed).unwrap_or_else(|error| {
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            self.broken.insert(path.to_owned(), error.into_bytes());
            text
        });
        let text = match memchr::memmem::find(text.as_bytes(), NO_VALUE.as_bytes()) {
            Some(_) => text.replace(NO_VALUE, ""),
            None => text,
        };
        self.files.insert(path.to_owned(), text);
    }
}

const NO_VALUE: &str = "<no value>";

/// Executes all templates in Helm's order.
fn execute(
    chart: &Chart,
    renderables: Vec<Renderable>,
    options: &RenderOptions,
    host: &mut RenderHost,
) -> Result<Printed, RenderError> {
    // Templates can make a map hold itself. The guard outlives the values, and frees such maps.
    let _cycles = CycleGuard::new();
    let mut renderables = renderables;
    let functions = sprig::functions(&options.environment);
    sort_renderables(&mut renderables);
    let compiled = compile(chart, &renderables, &functions)?;
    let mut budget = Budget::new(options.limits);
    let mut all = Printed::default();
    for renderable in &renderables {
        if base_name(&renderable.path).starts_with('_') {
            continue;
        }
        context::set_template(renderable);
        let printed = compiled
            .set
            .execute(
                &renderable.path,
                &context::named(&renderable.context),
                &functions,
                host,
                Options {
                    missing_key: MissingKey::Zero,
                },
                &mut budget,
            )
            .map_err(|error| RenderError::Execute(reformat_exec(&error)))?;
        all.add(&renderable.path, printed);
    }
    Ok(all)
}

/// Deepest first, and among equals the last by name first.
fn sort_renderables(renderables: &mut Vec<Renderable>) {
    renderables.sort_by(|left, right| (right.depth, &right.path).cmp(&(left.depth, &left.path)));
    // Of two files of one path the later one counts, as in Go's map.
    renderables.dedup_by(|later, earlier| {
        let same = later.path == earlier.path;
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
}

fn compile(
    chart: &Chart,
    renderables: &[Renderable],
    functions: &Functions,
) -> Result<Arc<Compiled>, RenderError> {
    let sources = renderables
        .iter()
        .map(|renderable| (renderable.path.as_str().into(), renderable.text.clone()))
        .collect();
    chart.compiled.get_or_compile(sources, |sources| {
        let mut set = TemplateSet::new("gotpl");
        set.parse_all(sources, functions).map_err(|error| {
            let path = error.name.to_text();
            RenderError::Parse(reformat_parse(&path, &error))
        })?;
        Ok(set)
    })
}

const NOTES: &str = "NOTES.txt";

fn assemble(
    node: &Node<'_>,
    mut printed: Printed,
    options: &RenderOptions,
    warnings: &mut Vec<LogLine>,
) -> Result<Rendered, RenderError> {
    let notes = take_notes(node, &mut printed.files, options.subchart_notes);
    let sorted = sort_manifests_of(&printed.files, &printed.broken, INSTALL_ORDER, warnings);
    let (hooks, manifests) = match sorted {
        Ok(sorted) => sorted,
        Err(error) => {
            let partial = all_files(&printed.files);
            return Err(RenderError::Manifest { error, partial });
        }
    };
    let mut crds = Vec::new();
    collect_crds(node, node.name(), &mut crds);
    Ok(Rendered {
        manifest: join(&crds, &manifests, options),
        manifests,
        hooks,
        notes,
        crds,
        chart: options.keep_chart.then(|| stored_chart(node)),
        warnings: Vec::new(),
        lint_notes: Vec::new(),
    })
}

fn take_notes(
    node: &Node<'_>,
    files: &mut BTreeMap<String, String>,
    with_subcharts: bool,
) -> String {
    let own = format!("{}/templates/{NOTES}", node.name());
    let mut notes = String::new();
    files.retain(|path, text| {
        if !path.ends_with(NOTES) {
            return true;
        }
        if with_subcharts || *path == own {
            if !notes.is_empty() {
                notes.push('\n');
            }
            notes.push_str(text);
        }
        false
    });
    notes
}

/// All that was printed, for a person who looks for the fault in it.
fn all_files(files: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    for (path, content) in files {
        if !content.trim().is_empty() {
            push_document(&mut out, path, content);
        }
    }
    out
}

fn join(crds: &[Crd], manifests: &[Manifest], options: &RenderOptions) -> String {
    let size: usize = manifests
        .iter()
        .map(|manifest| manifest.content.len() + manifest.path.len() + 20)
        .sum();
    let mut out = String::with_capacity(size);
    if options.include_crds {
        for crd in crds {
            push_document(&mut out, &crd.path, &crd.data.to_text());
        }
    }
    for manifest in manifests {
        let is_secret = manifest.kind == "Secret" && manifest.api_version == "v1";
        let content = if options.hide_secrets && is_secret {
            "# HIDDEN: The Secret output has been suppressed"
        } else {
            &manifest.content
        };
        push_document(&mut out, &manifest.path, content);
    }
    out
}

fn push_document(out: &mut String, path: &str, content: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "---\n# Source: {path}\n{content}");
}

fn collect_crds(node: &Node<'_>, path: &str, found: &mut Vec<Crd>) {
    found.extend(own_crds(&node.chart.files, path));
    for child in node.children().iter() {
        collect_crds(child, &format!("{path}/charts/{}", child.name()), found);
    }
}

fn stored_chart(node: &Node<'_>) -> StoredChart {
    let chart = node.chart;
    let mut metadata = chart.metadata.clone();
    metadata.dependencies = node
        .dependencies()
        .map(|list| list.iter().cloned().map(Some).collect());
    let values = match node.imported_values() {
        Some(values) => Some(tree(&Value::Map(Map::clone(values)))),
        None => chart.values.clone(),
    };
    StoredChart {
        metadata,
        lock: chart.lock.clone(),
        templates: chart.templates.iter().map(StoredFile::from).collect(),
        values,
        schema: chart.schema.clone(),
        schema_modified: chart.schema_modified,
        files: chart.files.iter().map(StoredFile::from).collect(),
        modified: chart.modified,
    }
}
