//! Background tasks: sweep, schedules, relay, and the reload of the certificate.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turno::outbox::Relay;

use super::App;
use super::tls::Tls;

/// First and longest pause after a failure. The pause doubles with each failure.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Factory of the server's relay. Called at the start, and again if a relay fails.
#[derive(Clone)]
pub struct MakeRelay(Arc<dyn Fn() -> Relay + Send + Sync>);

impl MakeRelay {
    /// Creates a factory. `make` is called for each relay, so its sink must be usable by all of them.
    pub fn new(make: impl Fn() -> Relay + Send + Sync + 'static) -> Self {
        MakeRelay(Arc::new(make))
    }
}

impl fmt::Debug for MakeRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeRelay")
    }
}

/// Runs the background tasks until shutdown. Then waits for them to end, within [`Options::drain`](super::Options::drain).
pub(super) async fn run(app: &Arc<App>, tls: Option<Arc<Tls>>, shutdown: &CancellationToken) {
    let mut tasks = JoinSet::new();
    start(app, tls, shutdown, &mut tasks);
    shutdown.cancelled().await;
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(app.options.drain, ended)
        .await
        .is_err()
    {
        tracing::warn!("background work did not end in time, and is cut off");
    }
    tasks.shutdown().await;
}

fn start(app: &Arc<App>, tls: Option<Arc<Tls>>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let options = &app.options;
    if let Some((interval, sweep)) = options.sweep.clone() {
        let app = app.clone();
        tasks.spawn(keep("the sweeper", stop.clone(), move |stop| {
            let metrics = app.metrics.clone();
            let sweeper = app.turno.sweeper().every(interval);
            let sweeper = sweeper
                .retention(sweep.clone())
                .on_sweep(move |swept| metrics.sweeper.swept(&swept));
            async move {
                sweeper.run(stop.cancelled_owned()).await;
                Ok(())
            }
        }));
    }
    for schedule in options.schedules.clone() {
        tasks.spawn(keep("a schedule", stop.clone(), move |stop| {
            schedule.clone().run(stop.cancelled_owned())
        }));
    }
    if let Some(MakeRelay(make)) = options.relay.clone() {
        tasks.spawn(keep("the relay", stop.clone(), move |stop| {
            let relay = make();
            async move {
                let report = relay.run(stop.cancelled_owned()).await?;
                tracing::info!(?report, "the relay has ended");
                Ok(())
            }
        }));
    }
    if let Some(tls) = tls {
        tasks.spawn(keep(
            "the look at the certificate",
            stop.clone(),
            move |stop| {
                let tls = tls.clone();
                async move {
                    stop.run_until_cancelled(tls.watch()).await;
                    Ok(())
                }
            },
        ));
    }
}

/// Runs a task until `stop` is cancelled. Restarts it if it fails or panics: a failed task does not end the server.
async fn keep<W>(what: &str, stop: CancellationToken, work: impl Fn(CancellationToken) -> W)
where
    W: Future<Output = turno::Result<()>>,
{
    let mut pause = PAUSE.0;
    loop {
        let done = AssertUnwindSafe(async { work(stop.clone()).await }).catch_unwind();
        let done = done.await;
        if stop.is_cancelled() {
            return;
        }
        match done {
            Ok(Ok(())) => tracing::error!("{what} has ended; it is begun again in {pause:?}"),
            Ok(Err(error)) => {
                tracing::error!(%error, "{what} has failed; it is begun again in {pause:?}");
            }
            Err(_) => tracing::error!("{what} has a bug; it is begun again in {pause:?}"),
        }
        if stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_none()
        {
            return;
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}
