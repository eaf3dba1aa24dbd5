//! Whether events leave the outbox: who relays, when the last event left, how long the oldest has waited.

use std::time::Duration;

use super::super::PostgresStore;
use super::super::interval::Interval;
use crate::error::Result;
use crate::store::Finding;

/// Events that wait for longer than this are not being relayed.
const RELAY_OVERDUE: Duration = Duration::from_secs(60);

pub(super) async fn finding(store: &PostgresStore) -> Result<[Finding; 1]> {
    let row = store.calls.row(query!(diagnose_relay), &[]).await?;
    let leader: Option<String> = row.get("leader");
    let last: Option<Interval> = row.get("last_age");
    let oldest: Option<Interval> = row.get("oldest_age");
    Ok([relay(
        leader.as_deref(),
        last.map(|age| age.0),
        oldest.map(|age| age.0),
    )])
}

fn relay(leader: Option<&str>, last: Option<Duration>, oldest: Option<Duration>) -> Finding {
    let leads = leader.map_or(String::new(), |leader| format!("; the leader is {leader}"));
    let left = last.map_or("none has ever left".to_owned(), |last| {
        format!("the last one left {last:.0?} ago")
    });
    match oldest {
        Some(oldest) if oldest > RELAY_OVERDUE => Finding::warning(
            "relay",
            format!(
                "an event has waited for {oldest:.0?}, and {left}{leads}: start `turno outbox relay` or the relay of `turno serve`, and look at the broker"
            ),
        ),
        Some(oldest) => Finding::ok(
            "relay",
            format!("the oldest event has waited for {oldest:.1?}, and {left}{leads}"),
        ),
        None => Finding::ok("relay", format!("no event waits, and {left}{leads}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Severity;

    #[test]
    fn an_event_that_waits_for_long_is_a_warning() {
        let long = Some(Duration::from_secs(600));
        let late = relay(None, None, long);
        assert_eq!(late.severity, Severity::Warning);
        assert!(late.detail.contains("none has ever left"), "{late:?}");
        let idle = relay(Some("turno relay a"), long, None);
        assert_eq!(idle.severity, Severity::Ok);
        assert!(idle.detail.contains("turno relay a"), "{idle:?}");
        let busy = relay(None, long, Some(Duration::from_secs(1)));
        assert_eq!(busy.severity, Severity::Ok);
    }
}
