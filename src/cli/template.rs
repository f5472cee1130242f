//! `helm-operator template`: prints what a chart renders to, byte for byte as `helm template`.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use goyaml::Tree;
use helm_engine::{
    Capabilities, Chart, Crd, Hook, HookEvent, KubeVersion, Loaded, RenderError, RenderOptions,
    Rendered, render_telling, split_manifests,
};

use super::chart::{Located, SourceFlags, check_release_name, installable};
use super::dependency::update_before;
use super::ignored::{ActionFlags, ClientFlags};
use super::output::{log, note, print, print_bytes};
use super::values::ValuesFlags;
use crate::api::HelmRelease;

/// Render a chart locally and print it, as `helm template` does.
///
/// Nothing is asked of a cluster: capabilities are those of `--kube-version` and `--api-versions`,
/// and `lookup` finds nothing.
///
/// With no chart but `-f FILE`, the file holds HelmReleases, and perhaps the ConfigMaps and Secrets
/// that they take values from: each is rendered from the checkout in `--chart-dir`.
#[derive(Args, Clone, Debug)]
#[command(after_help = super::examples::TEMPLATE, args_override_self = true, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// [NAME] CHART: a release name (default: release-name), and a directory, a packed chart, its URL, `oci://…`,
    /// `ALIAS/NAME`, or a name with --repo
    #[arg(value_name = "NAME CHART", num_args = 0..)]
    pub(crate) positional: Vec<String>,

    #[command(flatten)]
    pub(crate) values: ValuesFlags,

    /// where the charts of HelmReleases lie: a checkout of the repository (default: this folder)
    #[arg(long, value_name = "DIR")]
    pub(crate) chart_dir: Option<PathBuf>,

    #[command(flatten)]
    release: ReleaseFlags,

    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    source: SourceFlags,

    /// update dependencies if they are missing before rendering the chart
    #[arg(long)]
    dependency_update: bool,

    #[command(flatten)]
    unused: UnusedFlags,
}

#[derive(Args, Clone, Debug)]
struct ReleaseFlags {
    /// namespace scope for this request
    #[arg(short, long, env = "HELM_NAMESPACE")]
    namespace: Option<String>,

    /// Kubernetes version used for Capabilities.KubeVersion
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,

    /// Kubernetes api versions used for Capabilities.APIVersions (multiple can be specified)
    #[arg(short, long, value_name = "VERSIONS", value_delimiter = ',')]
    api_versions: Vec<String>,

    /// set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,

    /// generate the name (and omit the NAME parameter)
    #[arg(short, long)]
    generate_name: bool,

    /// specify template used to name the release
    #[arg(long, value_name = "TEMPLATE")]
    name_template: Option<String>,

    /// do not check the values against the schemas of the charts
    #[arg(long)]
    skip_schema_validation: bool,

    /// enable DNS lookups when rendering templates
    #[arg(long)]
    enable_dns: bool,
}

#[derive(Args, Clone, Debug)]
struct OutputFlags {
    /// include CRDs in the templated output
    #[arg(long)]
    include_crds: bool,

    /// skip tests from templated output
    #[arg(long)]
    skip_tests: bool,

    /// leave hooks out of the output
    #[arg(long)]
    no_hooks: bool,

    /// only show manifests rendered from the given templates
    #[arg(short, long, value_name = "TEMPLATE")]
    show_only: Vec<String>,

    /// write the executed templates to files in this directory instead of stdout
    #[arg(long, value_name = "DIR")]
    output_dir: Option<String>,

    /// use the release name in the output-dir path
    #[arg(long)]
    release_name: bool,

    /// print what was rendered even if it is no YAML
    #[arg(long, env = "HELM_DEBUG", value_parser = clap::builder::FalseyValueParser::new())]
    debug: bool,

    /// only `client` is possible here
    #[arg(long, value_name = "client", num_args = 0..=1, default_missing_value = "client", require_equals = true)]
    dry_run: Option<String>,
}

/// Flags of `helm template` that change nothing of what is printed.
#[derive(Args, Clone, Debug)]
struct UnusedFlags {
    #[arg(long, hide = true)]
    hide_notes: bool,
    #[arg(long, hide = true)]
    render_subchart_notes: bool,
    #[arg(long, hide = true)]
    validate: bool,
    #[command(flatten)]
    action: ActionFlags,
    #[command(flatten)]
    client: ClientFlags,
}

impl UnusedFlags {
    /// Says what helm says of flags that are on their way out.
    fn note(&self) {
        for (given, flag) in [
            (self.hide_notes, "hide-notes"),
            (self.render_subchart_notes, "render-subchart-notes"),
        ] {
            if given {
                note(&format!(
                    "Flag --{flag} has been deprecated, this flag has no effect for \
                     'helm template' and will be removed in Helm 5"
                ));
            }
        }
    }
}

/// Renders and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.unused.note();
    arguments.refuse_what_needs_a_cluster()?;
    arguments.release.capabilities()?;
    let (name, chart_name) = arguments.name_and_chart()?;
    let located = arguments.source.locate(&chart_name)?;
    let values = arguments.values.merge()?;
    let chart = installable(arguments.load(&located)?)?;
    arguments.render(chart, &values, name, arguments.release.namespace())
}

impl Arguments {
    /// Loads a chart, and before that fetches what it lacks if that is wanted.
    fn load(&self, located: &Located) -> anyhow::Result<Loaded> {
        let loaded = located.load()?;
        match located {
            Located::Here(path)
                if self.dependency_update
                    && path.is_dir()
                    && !loaded.chart.missing_dependencies().is_empty() =>
            {
                update_before(path, &self.source.chart.login, false)?;
                Ok(located.load()?)
            }
            _ => Ok(loaded),
        }
    }

    /// The flags and what the HelmRelease says itself.
    pub(crate) fn for_release(&self, release: &HelmRelease) -> Self {
        let mut arguments = self.clone();
        arguments.release.skip_schema_validation |= !release.spec.checks_schemas();
        arguments
    }

    /// Renders a chart under a name and prints what it gives.
    pub(crate) fn render(
        &self,
        chart: Chart,
        values: &Tree,
        name: String,
        namespace: String,
    ) -> anyhow::Result<()> {
        self.refuse_what_needs_a_cluster()?;
        check_release_name(&name)?;
        let options = RenderOptions {
            namespace,
            release_name: name,
            capabilities: self.release.capabilities()?,
            is_install: !self.release.is_upgrade,
            is_upgrade: self.release.is_upgrade,
            include_crds: self.output.include_crds,
            skip_schema: self.release.skip_schema_validation,
            environment: self.release.environment(),
            ..RenderOptions::default()
        };
        // The process ends with this command: freeing what it holds, piece by piece, would take
        // longer than many a render.
        let chart = ManuallyDrop::new(chart);
        let mut warnings = Vec::new();
        let done = render_telling(&chart, values, &options, &mut warnings);
        log(&warnings);
        match done {
            Ok(rendered) => {
                let rendered = ManuallyDrop::new(rendered);
                self.output.print(&rendered, &options.release_name)
            }
            Err(error) => self.output.fail(error),
        }
    }

    fn refuse_what_needs_a_cluster(&self) -> anyhow::Result<()> {
        match self.output.dry_run.as_deref() {
            None | Some("client") if !self.unused.validate => Ok(()),
            None | Some("client" | "server") => bail!(
                "--validate and --dry-run=server ask a cluster, which this command never does; \
                 leave them out"
            ),
            Some(other) => {
                let all = match other {
                    "none" => "\"server\" or \"client\"",
                    _ => "\"none\", \"server\", or \"client\"",
                };
                bail!("invalid dry-run value ({other:?}). Must be {all}")
            }
        }
    }

    /// The release name and the chart, as helm takes them from the command line.
    fn name_and_chart(&self) -> anyhow::Result<(String, String)> {
        let release = &self.release;
        match self.positional.as_slice() {
            [] => bail!(
                "\"helm-operator template\" requires at least 1 argument\n\n\
                 Usage:  helm-operator template [NAME] [CHART] [flags]"
            ),
            [chart] => {
                let name = match &release.name_template {
                    Some(template) => name_from(template)?,
                    None => "release-name".to_owned(),
                };
                Ok((name, chart.clone()))
            }
            [_, _] if release.generate_name => {
                bail!("cannot set --generate-name and also specify a name")
            }
            [_, _] if release.name_template.is_some() => {
                bail!("cannot set --name-template and also specify a name")
            }
            [name, chart] => Ok((name.clone(), chart.clone())),
            [_, _, rest @ ..] => bail!(
                "expected at most two arguments, unexpected arguments: {}",
                rest.join(", ")
            ),
        }
    }
}

fn name_from(template: &str) -> anyhow::Result<String> {
    let variables: sprig::Variables = std::sync::Arc::new(|name| std::env::var(name).ok());
    Ok(helm_engine::name_from_template(template, &variables)?)
}

impl ReleaseFlags {
    fn capabilities(&self) -> anyhow::Result<Capabilities> {
        let mut capabilities = Capabilities::default();
        if let Some(text) = self.kube_version.as_deref().filter(|text| !text.is_empty()) {
            capabilities.kube_version = KubeVersion::parse(text)
                .with_context(|| format!("invalid kube version '{text}'"))?;
        }
        capabilities
            .api_versions
            .extend_from_slice(&self.api_versions);
        Ok(capabilities)
    }

    fn namespace(&self) -> String {
        self.namespace
            .clone()
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or_else(|| "default".to_owned())
    }

    fn environment(&self) -> helm_engine::Environment {
        let mut environment = helm_engine::Environment::default();
        if self.enable_dns {
            environment.network = Some(std::sync::Arc::new(helm_engine::SystemSource));
        }
        environment
    }
}

impl OutputFlags {
    fn print(&self, rendered: &Rendered, release_name: &str) -> anyhow::Result<()> {
        if let Some(directory) = self.output_dir.as_deref().filter(|it| !it.is_empty()) {
            return self.write_files(directory, rendered, release_name);
        }
        let manifest = rendered.manifest.trim();
        let mut hooks = "\n".to_owned();
        for hook in self.hooks(rendered) {
            push(&mut hooks, &hook.path, &hook.manifest);
        }
        if self.show_only.is_empty() {
            self.print_crds_and(manifest, rendered)?;
            return print(&hooks);
        }
        print(&self.select(&format!("{manifest}{hooks}"))?)
    }

    /// The manifest, in which definitions are printed as they are, whatever their bytes.
    fn print_crds_and(&self, manifest: &str, rendered: &Rendered) -> anyhow::Result<()> {
        let is_text = |crd: &Crd| std::str::from_utf8(&crd.data).is_ok();
        if !self.include_crds || rendered.crds.iter().all(is_text) {
            return print(manifest);
        }
        let (mut raw, mut length) = (Vec::new(), 0);
        for crd in &rendered.crds {
            let start = raw.len();
            let path = crd.path.as_bytes();
            for part in [&b"---\n# Source: "[..], path, b"\n", &crd.data, b"\n"] {
                raw.extend_from_slice(part);
            }
            length += raw.len() - start - crd.data.len() + crd.data.to_text().len();
        }
        match manifest.get(length..) {
            Some(rest) => raw.extend_from_slice(rest.as_bytes()),
            None => raw.truncate(raw.trim_ascii_end().len()),
        }
        print_bytes(&raw)
    }

    /// A failed render: its error, and with `--debug` what was rendered of it.
    fn fail(&self, error: RenderError) -> anyhow::Result<()> {
        let partial = match &error {
            RenderError::Dependencies(_) | RenderError::Values(_) | RenderError::Schema(_) => {
                bail!(error)
            }
            RenderError::Manifest { partial, .. } => partial.as_str(),
            _ => "",
        };
        if !self.debug {
            bail!("{error}\n\nUse --debug flag to render out invalid YAML");
        }
        print(&format!("{}\n", partial.trim()))?;
        bail!(error)
    }

    fn hooks<'a>(&'a self, rendered: &'a Rendered) -> impl Iterator<Item = &'a Hook> {
        let is_test = |hook: &&Hook| hook.events.contains(&HookEvent::Test);
        rendered
            .hooks
            .iter()
            .filter(move |hook| !(self.no_hooks || self.skip_tests && is_test(hook)))
    }

    /// The documents whose source is one of those that were asked for, in the order of asking.
    fn select(&self, text: &str) -> anyhow::Result<String> {
        let documents: Vec<(&str, &str)> = split_manifests(text)
            .filter_map(|document| Some((source(document)?, document)))
            .collect();
        let mut out = String::new();
        for wanted in &self.show_only {
            let mut found = false;
            for (path, document) in &documents {
                if helm_engine::path_matches(wanted, path) {
                    out.push_str("---\n");
                    out.push_str(document);
                    out.push('\n');
                    found = true;
                }
            }
            if !found {
                bail!("could not find template {wanted} in chart");
            }
        }
        Ok(out)
    }

    /// One file for each template, below the directory; what was written is said on stdout.
    fn write_files(
        &self,
        directory: &str,
        rendered: &Rendered,
        release_name: &str,
    ) -> anyhow::Result<()> {
        let mut written = HashSet::new();
        let mut said = String::new();
        if self.include_crds {
            for crd in &rendered.crds {
                let append = !written.insert(crd.path.as_str());
                write_file(directory, &crd.path, &crd.data, append, &mut said)?;
            }
        }
        let directory = if self.release_name {
            format!("{directory}/{release_name}")
        } else {
            directory.to_owned()
        };
        for manifest in &rendered.manifests {
            let append = !written.insert(manifest.path.as_str());
            write_file(
                &directory,
                &manifest.path,
                manifest.content.as_bytes(),
                append,
                &mut said,
            )?;
        }
        for hook in self.hooks(rendered) {
            // Helm appends to whatever file there is by now, from an earlier run too.
            let append = Path::new(&directory).join(&hook.path).exists();
            let content = hook.manifest.as_bytes();
            write_file(&directory, &hook.path, content, append, &mut said)?;
        }
        said.push('\n');
        print(&said)
    }
}

/// The path of a document's template without the chart's name, from its `# Source: ` line.
fn source(document: &str) -> Option<&str> {
    const MARK: &str = "# Source: ";
    document.lines().find_map(|line| {
        let (_, path) = line.split_once(MARK)?;
        let (chart, rest) = path.split_once('/')?;
        (!chart.is_empty() && !rest.is_empty()).then_some(rest)
    })
}

fn push(out: &mut String, path: &str, content: &str) {
    for part in ["---\n# Source: ", path, "\n", content, "\n"] {
        out.push_str(part);
    }
}

fn write_file(
    directory: &str,
    path: &str,
    content: &[u8],
    append: bool,
    said: &mut String,
) -> anyhow::Result<()> {
    let name = format!("{directory}/{path}");
    if let Some(parent) = Path::new(&name).parent() {
        fs::create_dir_all(parent).with_context(|| format!("mkdir {}", parent.display()))?;
    }
    let mut text = Vec::with_capacity(content.len() + path.len() + 20);
    for part in [
        &b"---\n# Source: "[..],
        path.as_bytes(),
        b"\n",
        content,
        b"\n",
    ] {
        text.extend_from_slice(part);
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .append(append)
        .truncate(!append)
        .open(&name)
        .and_then(|mut file| file.write_all(&text))
        .with_context(|| format!("open {name}"))?;
    said.push_str("wrote ");
    said.push_str(&name);
    said.push('\n');
    Ok(())
}
