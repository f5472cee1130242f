//! Traces of reconciliations, sent to an OpenTelemetry collector over HTTP: cargo feature `otel`.
//!
//! A trace is a reconciliation: `reconcile`, and in it `fetch`, `render` and `apply`. The usual variables of the
//! environment say where to and how: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`,
//! `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and the rest.

#[cfg(feature = "otel")]
use opentelemetry::trace::TracerProvider as _;
#[cfg(feature = "otel")]
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// The target of the spans that traces are made of. Logs do not show them, and no log level hides them.
pub(crate) const TRACE: &str = "trace";

/// The variables that say where traces are sent; without them none are.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// Sends traces, if the environment says where to; what is not sent yet is sent when it is dropped.
#[derive(Debug, Default)]
pub struct Traces {
    #[cfg(feature = "otel")]
    provider: Option<SdkTracerProvider>,
}

fn is_wanted() -> bool {
    let filled = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    ENDPOINTS.iter().any(filled)
}

#[cfg(feature = "otel")]
impl Traces {
    /// Traces as the environment says.
    ///
    /// # Errors
    /// The variables make no sense.
    pub fn from_environment(version: &'static str) -> Result<Self, String> {
        if !is_wanted() {
            return Ok(Self::default());
        }
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .build()
            .map_err(|error| format!("{error}: traces to OTEL_EXPORTER_OTLP_ENDPOINT"))?;
        // The name that the environment gives wins.
        let mut resource = opentelemetry_sdk::Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("helm-operator");
        }
        let attribute = opentelemetry::KeyValue::new("service.version", version);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.with_attribute(attribute).build())
            .build();
        Ok(Self {
            provider: Some(provider),
        })
    }

    pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.provider.as_ref()?.tracer("helm-operator");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        Some(
            layer.with_filter(tracing_subscriber::filter::filter_fn(|metadata| {
                metadata.target() == TRACE
            })),
        )
    }

    /// Whether traces are wanted that this build cannot send.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        false
    }
}

#[cfg(feature = "otel")]
impl Drop for Traces {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.provider.as_ref().map(SdkTracerProvider::shutdown) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

#[cfg(not(feature = "otel"))]
impl Traces {
    /// No traces: this build has none.
    ///
    /// # Errors
    /// Never.
    pub fn from_environment(_version: &'static str) -> Result<Self, String> {
        Ok(Self::default())
    }

    pub(super) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        None::<tracing_subscriber::layer::Identity>
    }

    /// Whether traces are wanted that this build cannot send.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        is_wanted()
    }
}
