//! State of the server, shared by all handlers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, Request};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use turno::Turno;
use turno::problem::ProblemCode;

use crate::auth::caller::Caller;
use crate::auth::gatekeeper::{Credentials, Gatekeeper};
use crate::http::extract::BodyLimits;
use crate::http::problem::Problem;
use crate::http::rate_limit::RequestLimits;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::overview::{OverviewPoller, TablePoller};
use crate::readiness::Readiness;
use crate::stream::feed::Feeds;

/// State of the server, shared by all handlers.
pub(crate) struct App {
    pub(crate) turno: Turno,
    pub(crate) options: Options,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    limits: RequestLimits,
    readiness: Readiness,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) feeds: Arc<Feeds>,
    /// Cancelled when the server shuts down, which ends the requests that wait.
    pub(crate) closing: CancellationToken,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    pub(crate) fn new(turno: Turno, options: Options) -> Self {
        let closing = CancellationToken::new();
        let overview = Arc::new(OverviewPoller::new(turno.clone(), String::new()));
        let table = options.outbox_table.as_ref();
        let table = table.map(|name| TablePoller::new(turno.outbox_table(name)));
        let metrics = Arc::new(Metrics::new(overview.clone(), table));
        let gatekeeper = Gatekeeper::new(turno.clone(), options.admission, options.hosts.clone());
        let feeds = Feeds::new(overview, metrics.feeds.clone(), closing.clone());
        App {
            gatekeeper: Arc::new(gatekeeper),
            limits: RequestLimits::new(options.max_in_flight, options.rate),
            readiness: Readiness::default(),
            metrics,
            feeds: Arc::new(feeds),
            closing,
            turno,
            options,
        }
    }

    /// Authenticates the caller of a request and applies the limits. The permit counts the request as in flight.
    pub(crate) fn authorize(
        &self,
        request: &Request,
    ) -> impl Future<Output = Result<(OwnedSemaphorePermit, Caller), Problem>> + Send {
        // The future has no reference to the whole request: a body is not `Sync`, so it would not be `Send`.
        let credentials = Credentials::of(request);
        async move {
            let permit = self.limits.enter()?;
            let admitted = self.gatekeeper.admit(&credentials).await?;
            self.limits.count(admitted.rate_key)?;
            Ok((permit, admitted.caller))
        }
    }

    /// Returns `Ok` if the server can process requests, else the reason.
    pub(crate) async fn readiness(&self) -> Result<(), &'static str> {
        if self.closing.is_cancelled() {
            return Err("the server is shutting down");
        }
        self.readiness.check(&self.turno).await
    }

    /// Runs work that may wait. At shutdown it is cancelled, so that no request waits until its timeout.
    pub(crate) async fn until_shutdown<T>(
        &self,
        work: impl Future<Output = turno::Result<T>>,
    ) -> Result<T, Problem> {
        tokio::select! {
            biased;
            done = work => Ok(done?),
            () = self.closing.cancelled() => Err(Problem::new(ProblemCode::ShuttingDown)),
        }
    }

    /// Limits the wait of a request to [`Options::max_wait`].
    pub(crate) fn wait(&self, requested: Duration) -> Duration {
        requested.min(self.options.max_wait)
    }
}

impl FromRef<Arc<App>> for BodyLimits {
    fn from_ref(app: &Arc<App>) -> Self {
        BodyLimits {
            max_bytes: app.options.max_body,
            timeout: app.options.body_timeout,
        }
    }
}
