//! Background tasks: sweep, schedules, relay, and the reload of the certificate.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::http::tls::Tls;

/// First and longest pause after a failure. The pause doubles with each failure.
const RESTART_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Runs the background tasks until shutdown. Then waits for them to end, within [`Options::drain`](crate::Options::drain).
pub(crate) async fn run(app: &Arc<App>, tls: Option<Arc<Tls>>, shutdown: &CancellationToken) {
    let mut tasks = JoinSet::new();
    start(app, tls, shutdown, &mut tasks);
    shutdown.cancelled().await;
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(app.options.drain, ended)
        .await
        .is_err()
    {
        tracing::warn!("background tasks did not end in time; aborting them");
    }
    tasks.shutdown().await;
}

fn start(app: &Arc<App>, tls: Option<Arc<Tls>>, stop: &CancellationToken, tasks: &mut JoinSet<()>) {
    let options = &app.options;
    if let Some((interval, sweep)) = options.sweep.clone() {
        let app = app.clone();
        tasks.spawn(supervise("the sweeper", stop.clone(), move |stop| {
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
        tasks.spawn(supervise("a schedule", stop.clone(), move |stop| {
            schedule.clone().run(stop.cancelled_owned())
        }));
    }
    if let Some(make_relay) = options.relay.clone() {
        tasks.spawn(supervise("the relay", stop.clone(), move |stop| {
            let relay = make_relay.make();
            async move {
                let report = relay.run(stop.cancelled_owned()).await?;
                tracing::info!(?report, "the relay has ended");
                Ok(())
            }
        }));
    }
    if let Some(tls) = tls {
        tasks.spawn(supervise(
            "the certificate watcher",
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
async fn supervise<W>(what: &str, stop: CancellationToken, work: impl Fn(CancellationToken) -> W)
where
    W: Future<Output = turno::Result<()>>,
{
    let mut pause = RESTART_PAUSE.0;
    loop {
        let done = AssertUnwindSafe(async { work(stop.clone()).await }).catch_unwind();
        let done = done.await;
        if stop.is_cancelled() {
            return;
        }
        match done {
            Ok(Ok(())) => tracing::error!("{what} has ended; restarting it in {pause:?}"),
            Ok(Err(error)) => {
                tracing::error!(%error, "{what} has failed; restarting it in {pause:?}");
            }
            Err(_) => tracing::error!("{what} has panicked; restarting it in {pause:?}"),
        }
        if stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_none()
        {
            return;
        }
        pause = (pause * 2).min(RESTART_PAUSE.1);
    }
}
