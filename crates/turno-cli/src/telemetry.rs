//! Traces for a collector of OpenTelemetry: over HTTP, in protobuf; off, unless the standard variables name one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rustls_platform_verifier::Verifier;
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use turno_server::serve::Adopt;

/// The variables that name a collector, and the one that says no.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// How the service is called, if nobody says.
const SERVICE: &str = "turno";
/// How long the last spans may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// What sends traces.
pub(crate) struct Telemetry {
    provider: SdkTracerProvider,
}

/// How requests get their parents, if anybody collects their spans.
pub(crate) fn adopt() -> Option<Adopt> {
    is_wanted().then_some(parent)
}

fn is_wanted() -> bool {
    let said = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let is_off = std::env::var(DISABLED).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    !is_off && ENDPOINTS.iter().any(said)
}

/// `traceparent`, if it is one; whatever else the header says is ignored.
fn parent(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // An error says that nobody collects this span.
    let _ = span.set_parent(context);
}

/// Begins, if a collector is named. Not inside a runtime: what sends has a thread of its own.
pub(crate) fn start() -> Result<Option<Telemetry>> {
    if !is_wanted() {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client()?)
        .build()
        .with_context(|| format!("traces cannot be sent: look at {}", ENDPOINTS.join(", ")))?;
    let mut resource = Resource::builder();
    if std::env::var("OTEL_SERVICE_NAME").map_or(true, |name| name.is_empty()) {
        resource = resource.with_service_name(SERVICE);
    }
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build();
    Ok(Some(Telemetry { provider }))
}

/// With the cryptography that is named here: what the process would choose by itself depends on what else is linked.
fn client() -> Result<reqwest::blocking::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let mut said = ENDPOINTS.iter().filter_map(|name| std::env::var(name).ok());
    let is_plain = said.all(|url| url.starts_with("http:"));
    let tls = if is_plain {
        // A machine without certificates may still speak plainly.
        tls.with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth()
    } else {
        tls.dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(provider)?))
            .with_no_client_auth()
    };
    Ok(reqwest::blocking::Client::builder()
        .tls_backend_preconfigured(tls)
        .build()?)
}

impl Telemetry {
    /// Takes what the server and the library tell of, however quiet the log is.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let ours = Targets::new()
            .with_target("turno", Level::INFO)
            .with_target("turno_server", Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_filter(ours)
    }

    /// Sends what was not sent yet. Not inside a runtime.
    pub(crate) fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(PATIENCE) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}
