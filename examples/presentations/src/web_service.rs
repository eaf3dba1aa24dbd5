//! The web service, which counts its calls.

use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::ledger::{Answer, Call, Ledger, Manner};
use crate::web_service_client::{ATTEMPT, INSTANCE};

/// A running service on a free local port. It ends on drop.
#[derive(Debug)]
pub struct WebService {
    /// URL of the service.
    pub url: String,
    ledger: watch::Sender<Ledger>,
    server: JoinHandle<()>,
}

impl WebService {
    /// Starts the service.
    ///
    /// # Errors
    /// Returns an error if no port is available.
    pub async fn start(manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let ledger = watch::Sender::new(Ledger::new(manner));
        let router = Router::new()
            .route("/presentations/{id}", post(receive))
            .with_state(ledger.clone());
        let server = tokio::spawn(async move {
            // It runs until it is dropped. An error here has no receiver.
            let _ = axum::serve(listener, router).await;
        });
        Ok(WebService {
            url,
            ledger,
            server,
        })
    }

    /// Returns the calls so far.
    pub fn ledger(&self) -> watch::Ref<'_, Ledger> {
        self.ledger.borrow()
    }

    /// Stops waiting for a second caller: all calls get their response.
    pub fn release(&self) {
        self.ledger.send_modify(Ledger::release);
    }

    /// Waits until the calls fulfil a condition.
    ///
    /// # Errors
    /// Returns an error if that takes longer than `timeout`.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        condition: impl FnMut(&Ledger) -> bool,
    ) -> Result<()> {
        let mut ledger = self.ledger.subscribe();
        let met = tokio::time::timeout(timeout, ledger.wait_for(condition)).await;
        met.map(drop)
            .with_context(|| format!("waited {timeout:?} in vain for calls of the web service"))
    }

    /// Waits until the calls fulfil a condition (true), or nothing has changed for the given time (false).
    pub async fn settles(
        &self,
        timeout: Duration,
        mut condition: impl FnMut(&Ledger) -> bool,
    ) -> bool {
        let mut ledger = self.ledger.subscribe();
        loop {
            if condition(&ledger.borrow_and_update()) {
                return true;
            }
            let changed = tokio::time::timeout(timeout, ledger.changed()).await;
            if changed.is_err() {
                return false;
            }
        }
    }
}

impl Drop for WebService {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(
    State(ledger): State<watch::Sender<Ledger>>,
    Path(presentation): Path<Uuid>,
    headers: HeaderMap,
) -> StatusCode {
    let number = |name| headers.get(name)?.to_str().ok()?.parse().ok();
    let (Some(instance), Some(attempt)) = (number(INSTANCE), number(ATTEMPT)) else {
        return StatusCode::BAD_REQUEST;
    };
    let mut watched = ledger.subscribe();
    let mut call = 0;
    ledger.send_modify(|ledger| {
        call = ledger.calls.len();
        ledger.calls.push(Call {
            presentation,
            instance,
            attempt,
            answer: None,
        });
    });
    let verdict = watched.wait_for(|ledger| ledger.verdict(call).is_some());
    let answer = verdict.await.ok().and_then(|ledger| ledger.verdict(call));
    ledger.send_modify(|ledger| ledger.calls[call].answer = answer);
    match answer {
        Some(Answer::Accepted) => StatusCode::OK,
        Some(Answer::Refused) | None => StatusCode::SERVICE_UNAVAILABLE,
    }
}
