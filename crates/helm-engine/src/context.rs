//! What templates see: `.Chart`, `.Files`, `.Values`, `.Capabilities`, `.Release`, `.Subcharts`.

mod capabilities;
mod files;
mod glob;
mod metadata;
mod values;

use std::rc::Rc;

use gotmpl::{Map, Str, Value};

use crate::dependencies;
use crate::node::Node;
use crate::render::RenderOptions;

pub(crate) use values::named;

/// A template that is to be rendered.
pub(crate) struct Renderable {
    /// `CHART/templates/x.yaml`.
    pub(crate) path: String,
    /// How many slashes the path has.
    pub(crate) depth: usize,
    pub(crate) text: Str,
    /// The context of its chart, in which `.Template` is set before it is rendered.
    pub(crate) context: Map,
    /// `CHART/templates`.
    pub(crate) base_path: Rc<str>,
}

/// All templates of a chart and its subcharts with their contexts.
pub(crate) fn collect(node: &Node<'_>, values: Map, options: &RenderOptions) -> Vec<Renderable> {
    let mut collecting = Collecting {
        release: Value::Map(release(options)),
        capabilities: capabilities::object(&options.capabilities),
        found: Vec::new(),
    };
    collecting.chart(node, node.name(), values, true);
    collecting.found
}

struct Collecting {
    release: Value,
    capabilities: Value,
    found: Vec<Renderable>,
}

impl Collecting {
    fn chart(&mut self, node: &Node<'_>, path: &str, values: Map, is_root: bool) -> Map {
        let subcharts = Map::new();
        let context = Map::from_entries([
            ("Chart", metadata::chart(node, is_root)),
            ("Files", files::object(&node.chart.files)),
            ("Release", self.release.clone()),
            ("Capabilities", self.capabilities.clone()),
            ("Values", named(&values)),
            ("Subcharts", Value::Map(subcharts.clone())),
        ]);
        for child in node.children().iter() {
            let name = child.name();
            let values = dependencies::table(&values, name).unwrap_or_default();
            let inner = self.chart(child, &format!("{path}/charts/{name}"), values, false);
            subcharts.insert(name.into(), Value::Map(inner));
        }
        self.templates(node, path, &context);
        context
    }

    fn templates(&mut self, node: &Node<'_>, path: &str, context: &Map) {
        let base_path: Rc<str> = format!("{path}/templates").into();
        let is_library = node.chart.metadata.kind.eq_ignore_ascii_case("library");
        for file in &node.chart.templates {
            if is_library && !crate::manifest::base_name(&file.name).starts_with('_') {
                continue;
            }
            let path = format!("{path}/{}", file.name);
            self.found.push(Renderable {
                depth: path.bytes().filter(|byte| *byte == b'/').count(),
                path,
                text: file.data.clone(),
                context: context.clone(),
                base_path: Rc::clone(&base_path),
            });
        }
    }
}

fn release(options: &RenderOptions) -> Map {
    Map::from_entries([
        ("Name", Value::string(options.release_name.as_str())),
        ("Namespace", Value::string(options.namespace.as_str())),
        ("IsUpgrade", Value::Bool(options.is_upgrade)),
        ("IsInstall", Value::Bool(options.is_install)),
        ("Revision", Value::Int(options.revision)),
        ("Service", Value::from("Helm")),
    ])
}

/// Sets `.Template` for the template that is rendered next.
pub(crate) fn set_template(renderable: &Renderable) {
    let template = Map::from_entries([
        ("Name", Value::string(renderable.path.as_str())),
        ("BasePath", Value::string(&*renderable.base_path)),
    ]);
    renderable
        .context
        .insert("Template".into(), named(&template));
}
