//! Parses the policy for requests from the arguments.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use turno::once::Probe;
use turno::once::http::{
    InFlight, Policy, ProbeRequest, Prober, StoredResponse, Template, Unknown,
};

use crate::application::Application;
use crate::handler::KEY;

/// Timeout of a wait, longer than any test.
const WAIT: Duration = Duration::from_secs(240);

pub fn of(in_flight: &str, unknown: &str, application: Arc<Application>) -> Result<Policy> {
    let in_flight = match in_flight {
        "conflict" => InFlight::Conflict,
        "wait" => InFlight::Wait(WAIT),
        "template" => InFlight::Template(Template::new(
            200,
            r#"{"resultadoOperacion": "02", "diagnosticoProcesar": "532", "folio": {"$request": "/folio"}}"#,
        )?),
        word => bail!("{word:?} is neither conflict nor wait nor template"),
    };
    let unknown = match unknown {
        "refuse" => Unknown::Refuse,
        "rerun" => Unknown::Rerun,
        "probe" => Unknown::Ask(Arc::new(Ledger(application))),
        word => bail!("{word:?} is neither refuse nor rerun nor probe"),
    };
    Ok(Policy::new("pagos").in_flight(in_flight).unknown(unknown))
}

/// Probe: a run that has paid has left a row in the table `effect`.
struct Ledger(Arc<Application>);

#[async_trait]
impl Prober for Ledger {
    async fn probe(&self, asked: &ProbeRequest<'_>) -> Probe<StoredResponse> {
        let key = asked.head.headers.get(KEY);
        let Some(key) = key.and_then(|key| key.to_str().ok()) else {
            return Probe::Unsure;
        };
        match self.0.paid(key).await {
            Ok(Some(answer)) => Probe::Done(StoredResponse {
                status: 200,
                headers: Vec::new(),
                body: Some(answer),
                base64: None,
            }),
            Ok(None) => Probe::NotDone,
            Err(_) => Probe::Unsure,
        }
    }
}
