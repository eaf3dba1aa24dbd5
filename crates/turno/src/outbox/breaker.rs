//! The circuit breaker: while the other side is not there, nothing is taken and nothing is charged.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::sink::{Outage, Sink};

/// The first pause before the other side is asked again, and the longest; it doubles.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often an outage that goes on is mentioned.
const MENTION: Duration = Duration::from_secs(60);

/// Waits until events can be published, saying what is wrong meanwhile. False if told to stop first.
pub(super) async fn closed(sink: &dyn Sink, stop: &CancellationToken) -> bool {
    let began = Instant::now();
    let mut mentioned: Option<(Instant, Outage)> = None;
    let mut pause = PAUSES.0;
    loop {
        let asked = tokio::select! {
            asked = sink.ready() => asked,
            () = stop.cancelled() => return false,
        };
        let Err(outage) = asked else {
            if mentioned.is_some() {
                tracing::info!(sink = sink.name(), after = ?began.elapsed(), "the sink is there again; going on");
            }
            return true;
        };
        let again = mentioned
            .as_ref()
            .is_none_or(|(when, what)| *what != outage || when.elapsed() > MENTION);
        if again {
            tracing::warn!(sink = sink.name(), %outage, "nothing can be published; no attempt is spent, and it is tried again");
            mentioned = Some((Instant::now(), outage));
        }
        tokio::select! {
            () = tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())) => {}
            () = stop.cancelled() => return false,
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}
