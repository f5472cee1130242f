//! Logs through `tracing`, as logfmt or JSON, to stderr.

use std::fmt;
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer as _, reload};

use super::traces::{TRACE, Traces};

/// The forms of 1.4's `--log-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value` pairs; anything that is not `json` means this, as in 1.4.
    #[default]
    Fmt,
    /// One JSON object a line.
    Json,
}

impl From<&str> for LogFormat {
    fn from(name: &str) -> Self {
        if name == "json" {
            Self::Json
        } else {
            Self::Fmt
        }
    }
}

/// Changes the level of the running daemon.
#[derive(Clone, Debug)]
pub struct LogHandle {
    filter: reload::Handle<EnvFilter, tracing_subscriber::Registry>,
}

impl LogHandle {
    /// Sets the filter: a level (`debug`), or directives (`info,helm_operator::gitsync=trace`).
    ///
    /// # Errors
    /// Says what is wrong with the directives.
    pub fn set(&self, directives: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(directives).map_err(|error| error.to_string())?;
        self.filter
            .reload(filter)
            .map_err(|error| error.to_string())
    }

    /// A handle whose filter filters nothing.
    #[cfg(test)]
    pub(crate) fn detached(directives: &str) -> Self {
        let (filter, handle) = reload::Layer::new(EnvFilter::new(directives));
        // The handle works as long as its layer lives.
        std::mem::forget(filter);
        Self { filter: handle }
    }

    /// The filter in use.
    #[must_use]
    pub fn get(&self) -> String {
        self.filter
            .with_current(ToString::to_string)
            .unwrap_or_default()
    }
}

/// Sends logs to stderr and spans to `traces` from now on.
///
/// # Errors
/// Fails when logs were set up before, or the directives cannot be read.
pub fn init_logs(
    format: LogFormat,
    directives: &str,
    traces: &Traces,
) -> Result<LogHandle, String> {
    let filter = EnvFilter::try_new(directives).map_err(|error| error.to_string())?;
    let (filter, handle) = reload::Layer::new(filter);
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .event_format(Line(format))
        .with_filter(filter.and(filter_fn(is_no_echo)));
    let registry = tracing_subscriber::registry()
        .with(layer)
        .with(traces.layer());
    registry.try_init().map_err(|error| error.to_string())?;
    Ok(LogHandle { filter: handle })
}

/// Whether what is logged cannot be the echo of a line before: the library that watches files tells at `trace` of each
/// write, and the log may be a file in a folder that is watched.
fn is_no_echo(event: &Metadata<'_>) -> bool {
    *event.level() <= Level::INFO || !event.target().starts_with("notify")
}

/// One event as one line: `ts`, `caller`, `component`, then the message under the key that names its
/// severity, then the rest, as 1.4 wrote it.
struct Line(LogFormat);

/// The fields of an event or a span, in order.
#[derive(Default)]
struct Fields {
    message: Option<String>,
    rest: Vec<(&'static str, String)>,
}

impl Fields {
    fn add(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = Some(text),
            name => self.rest.push((name, text)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

/// The keys that 1.4 used instead of levels.
fn severity(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// The part of the daemon that speaks, from the module path: `operator`, `gitsync`, `helm_kube`.
fn component(target: &str) -> &str {
    let inside = target.strip_prefix("helm_operator::").unwrap_or(target);
    inside.split("::").next().unwrap_or(inside)
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = jiff::Timestamp::now().to_string();
        let file = metadata
            .file()
            .and_then(|path| path.rsplit('/').next())
            .unwrap_or("?");
        let caller = format!("{file}:{}", metadata.line().unwrap_or(0));
        let mut pairs: Vec<(&str, String)> = vec![
            ("ts", now),
            ("caller", caller),
            ("component", component(metadata.target()).to_owned()),
        ];
        if let Some(message) = fields.message {
            pairs.push((severity(*metadata.level()), message));
        }
        let mut spans = String::new();
        for span in context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
            .filter(|span| span.metadata().target() != TRACE)
        {
            if let Some(formatted) = span.extensions().get::<FormattedFields<N>>() {
                spans.push(' ');
                spans.push_str(&formatted.fields);
            }
        }
        pairs.extend(fields.rest);
        match self.0 {
            LogFormat::Fmt => write_logfmt(&mut writer, &pairs, &spans),
            LogFormat::Json => write_json(&mut writer, &pairs, &spans),
        }
    }
}

fn write_logfmt(writer: &mut Writer<'_>, pairs: &[(&str, String)], spans: &str) -> fmt::Result {
    for (index, (key, value)) in pairs.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        write!(writer, "{space}{key}={}", logfmt_value(value))?;
    }
    writeln!(writer, "{spans}")
}

/// Quotes what would not read back as one value. Control characters never reach the terminal.
fn logfmt_value(value: &str) -> String {
    let plain = !value.is_empty()
        && value
            .chars()
            .all(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '='));
    if plain {
        value.to_owned()
    } else {
        format!("{value:?}")
    }
}

fn write_json(writer: &mut Writer<'_>, pairs: &[(&str, String)], spans: &str) -> fmt::Result {
    let mut object = serde_json::Map::new();
    for (key, value) in pairs {
        object.insert((*key).to_owned(), value.as_str().into());
    }
    if !spans.is_empty() {
        object.insert("context".to_owned(), spans.trim().into());
    }
    let mut line = Vec::new();
    serde_json::to_writer(&mut line, &object).map_err(|_| fmt::Error)?;
    writeln!(line).map_err(|_| fmt::Error)?;
    writer.write_str(&String::from_utf8_lossy(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_watch_of_files_is_not_heard_at_trace() {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .event_format(Line(LogFormat::Fmt))
            .with_filter(filter_fn(is_no_echo));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "notify::inotify", "a write");
            tracing::warn!(target: "notify::inotify", "too many watches");
            tracing::trace!("a detail");
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("a write"), "{text}");
        assert!(
            text.contains("too many watches") && text.contains("a detail"),
            "{text}"
        );
    }

    fn logged(format: LogFormat) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .event_format(Line(format));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("reconcile", release = "demo/web");
            let _entered = span.enter();
            tracing::warn!(
                revision = "1.2.3",
                text = "a \"b\"\nc",
                "upgrade failed: no"
            );
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn logfmt_lines_hold_what_1_4_put_in_them() {
        let line = logged(LogFormat::Fmt);
        assert!(line.starts_with("ts=2"), "{line}");
        assert!(line.contains(" caller=logs.rs:"), "{line}");
        assert!(
            line.contains(" component=telemetry warning=\"upgrade failed: no\" revision=1.2.3")
        );
        assert!(line.contains(r#" text="a \"b\"\nc""#), "{line}");
        assert!(line.contains("release=\"demo/web\""), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn json_lines_are_objects() {
        let line = logged(LogFormat::Json);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["warning"], "upgrade failed: no");
        assert_eq!(object["text"], "a \"b\"\nc");
        assert_eq!(object["component"], "telemetry");
    }

    #[test]
    fn anything_but_json_is_logfmt() {
        assert_eq!(LogFormat::from("json"), LogFormat::Json);
        assert_eq!(LogFormat::from("xml"), LogFormat::Fmt);
    }
}
