//! Converts the result of a batch to the result of each event.

use super::batch::{Answer, End, Outcome};
use crate::amqp::fault;
use crate::sink::{Outage, Outgoing, PublishResult, Unroutable, routing_key};

/// What the results depend on, besides the broker.
pub(super) struct Rules<'a> {
    pub(super) exchange: &'a str,
    /// The choice for a type.
    pub(super) unroutable: &'a (dyn Fn(&str) -> Unroutable + Sync),
}

/// Returns the fates of `events`.
pub(super) fn fates(
    events: &[Outgoing],
    rules: Rules<'_>,
    outcome: Outcome,
    end: Option<&End>,
) -> Vec<PublishResult> {
    let broken = end.map(Broken::new);
    let mut answers = outcome.answers.into_iter();
    let result = |event: &Outgoing| {
        let answer = answers.next().unwrap_or(Answer::Unwritten);
        if outcome.returned.contains(&event.id) {
            let reason = unroutable(rules.exchange, &event.kind);
            return match (rules.unroutable)(&event.kind) {
                Unroutable::Dead => PublishResult::Refused(reason),
                Unroutable::Keep => PublishResult::Unrouted(Outage::new(reason)),
                Unroutable::Drop => PublishResult::Dropped(reason),
            };
        }
        match (answer, &broken) {
            (Answer::Acked, _) => PublishResult::Sent,
            (Answer::Nacked, _) => PublishResult::Busy(full(&event.kind)),
            (Answer::Unfit(reason), _) => PublishResult::Refused(reason),
            (_, Some(Broken::ByMessage(reason))) => PublishResult::Suspect(reason.clone()),
            (Answer::Unwritten, broken) => PublishResult::Unsent(outage(broken)),
            (Answer::Unanswered, broken) => PublishResult::Doubtful(outage(broken)),
        }
    };
    events.iter().map(result).collect()
}

/// Cause of a batch that ended early.
enum Broken {
    ByMessage(String),
    ByBroker(Outage),
}

impl Broken {
    fn new(end: &End) -> Self {
        match end {
            End::Failed(error) if fault::blames_message(error) => {
                Broken::ByMessage(fault::explain(error))
            }
            End::Failed(error) => Broken::ByBroker(Outage::new(format!(
                "the connection to RabbitMQ was lost: {}",
                fault::explain(error)
            ))),
            End::Silent => Broken::ByBroker(Outage::new(
                "RabbitMQ does not confirm what was published: it is overloaded, or the network is broken",
            )),
            End::Blocked(reason) => Broken::ByBroker(blocked(reason)),
        }
    }
}

fn outage(broken: &Option<Broken>) -> Outage {
    match broken {
        Some(Broken::ByBroker(outage)) => outage.clone(),
        _ => Outage::new("the connection to RabbitMQ was lost"),
    }
}

pub(super) fn blocked(reason: &str) -> Outage {
    Outage::new(format!(
        "the broker blocks publishers ({reason}): it is short of memory or disk, and takes nothing until it has enough"
    ))
}

/// Returns the outage for a negative acknowledgement. It says nothing about the event: a queue has reached its length limit
/// (`overflow = reject-publish`), or the node that has it cannot write.
fn full(kind: &str) -> Outage {
    Outage::new(format!(
        "the broker does not take routing key {} (basic.nack): a queue that is bound for it is full or not available",
        routing_key(kind)
    ))
}

fn unroutable(exchange: &str, kind: &str) -> String {
    format!(
        "unroutable: no queue is bound to exchange {exchange} for routing key {}",
        routing_key(kind)
    )
}
