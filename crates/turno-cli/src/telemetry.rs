//! Traces for an OpenTelemetry collector: over HTTP, in protobuf. Off unless the standard variables name a collector.

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
use turno_server::SetSpanParent;

/// Variables that name a collector. `DISABLED` turns traces off.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// Default name of the service.
const SERVICE: &str = "turno";
/// Timeout for sending the last spans.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The sender of traces.
pub(crate) struct Telemetry {
    provider: SdkTracerProvider,
}

/// Returns how requests get the parent of their span, if traces are sent.
pub(crate) fn set_span_parent() -> Option<SetSpanParent> {
    is_wanted().then_some(parent)
}

fn is_wanted() -> bool {
    let said = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let is_off = std::env::var(DISABLED).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    !is_off && ENDPOINTS.iter().any(said)
}

/// Sets the parent from a valid `traceparent`. Invalid values are ignored.
fn parent(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // An error means that this span is not collected.
    let _ = span.set_parent(context);
}

/// Starts sending traces, if a collector is named. Must not be called inside a runtime: the sender has its own thread.
pub(crate) fn start() -> Result<Option<Telemetry>> {
    if !is_wanted() {
        return Ok(None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client()?)
        .build()
        .with_context(|| format!("traces cannot be sent: check {}", ENDPOINTS.join(", ")))?;
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

/// Builds the HTTP client. Names the crypto provider, because the process default depends on the other linked crates.
fn client() -> Result<reqwest::blocking::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let mut said = ENDPOINTS.iter().filter_map(|name| std::env::var(name).ok());
    let is_plain = said.all(|url| url.starts_with("http:"));
    let tls = if is_plain {
        // A machine without certificates can still use plain HTTP.
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
    /// Returns a layer that takes the spans of server and library, whatever the log level is.
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

    /// Sends the remaining spans. Must not be called inside a runtime.
    pub(crate) fn end(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(TIMEOUT) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}
