//! Operator actions: key, confirmation and outcome of each.

use std::time::Duration;

use serde_json::value::RawValue;
use turno::inbox::{Inbox, ItemId};
use turno::lock::BreakOutcome;
use turno::once::{Once, OnceResolved};
use turno::{Token, Turno};
use uuid::Uuid;

/// Items that a worker has had for longer than this count as stuck.
const STUCK: Duration = Duration::from_secs(15 * 60);

/// An action on the selected row, with the values that the row had when it was selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    Break {
        resource: String,
        token: Token,
        holder: String,
    },
    RequeueAll {
        queue: String,
        failed: u64,
    },
    Requeue {
        queue: String,
        id: ItemId,
    },
    RequeueEvent {
        id: Uuid,
        kind: String,
    },
    Discard {
        queue: String,
        id: ItemId,
    },
    DiscardEvent {
        id: Uuid,
        kind: String,
    },
    Reset {
        queue: String,
    },
    Forget {
        key: String,
    },
    /// Asks for the answer of a key; [`Deed::Resolve`] follows, which asks for the reason.
    Answer {
        key: String,
    },
    Resolve {
        key: String,
        /// As JSON text; `None` if the operator knows none.
        answer: Option<String>,
    },
}

/// Outcome of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Done(String),
    /// Another caller was faster.
    Nothing(String),
}

impl Deed {
    /// Returns the key of the action. It is the same in the dashboard.
    pub(super) fn key(&self) -> char {
        match self {
            Deed::Break { .. } => 'b',
            Deed::RequeueAll { .. } | Deed::Requeue { .. } | Deed::RequeueEvent { .. } => 'r',
            Deed::Discard { .. } | Deed::DiscardEvent { .. } => 'd',
            Deed::Reset { .. } => 's',
            Deed::Forget { .. } => 'f',
            Deed::Answer { .. } | Deed::Resolve { .. } => 'c',
        }
    }

    /// Returns the verb of the action.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Deed::Break { .. } => "break",
            Deed::RequeueAll { .. } => "requeue all",
            Deed::Requeue { .. } | Deed::RequeueEvent { .. } => "requeue",
            Deed::Discard { .. } | Deed::DiscardEvent { .. } => "discard",
            Deed::Reset { .. } => "reset stuck",
            Deed::Forget { .. } => "forget",
            Deed::Answer { .. } | Deed::Resolve { .. } => "it was done",
        }
    }

    pub(super) fn title(&self) -> &'static str {
        match self {
            Deed::Break { .. } => "Break this lock?",
            Deed::RequeueAll { .. } => "Requeue all failed items?",
            Deed::Requeue { .. } => "Requeue this item?",
            Deed::RequeueEvent { .. } => "Requeue this event?",
            Deed::Discard { .. } => "Discard this item?",
            Deed::DiscardEvent { .. } => "Discard this event?",
            Deed::Reset { .. } => "Reset stuck items?",
            Deed::Forget { .. } => "Forget this key?",
            Deed::Answer { .. } | Deed::Resolve { .. } => "Say that it was done?",
        }
    }

    /// Returns the label of the input.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Deed::Answer { .. } => "Answer, in JSON, or none: ",
            _ => "Reason: ",
        }
    }

    /// Whether the input is valid: an answer in JSON or none, or a reason.
    pub(super) fn accepts(&self, typed: &str) -> bool {
        match self {
            Deed::Answer { .. } => {
                typed.is_empty() || serde_json::from_str::<&RawValue>(typed).is_ok()
            }
            _ => !typed.is_empty(),
        }
    }

    /// What is asked for next, once this was typed; `None` if nothing is left to ask for.
    pub(super) fn next(&self, typed: &str) -> Option<Deed> {
        match self {
            Deed::Answer { key } => Some(Deed::Resolve {
                key: key.clone(),
                answer: Some(typed.to_owned()).filter(|text| !text.is_empty()),
            }),
            _ => None,
        }
    }

    /// What it means.
    pub(super) fn meaning(&self) -> String {
        match self {
            Deed::Break {
                resource, holder, ..
            } => {
                format!("{resource} is taken from {holder}; its token is refused from now on.")
            }
            Deed::RequeueAll { queue, failed } => {
                format!("{failed} of {queue}: tried again, with all their attempts before them.")
            }
            Deed::Requeue { queue, id } => {
                format!("{id} of {queue}: tried again, with all its attempts before it.")
            }
            Deed::RequeueEvent { kind, .. } => {
                format!("{kind} is published again; what was parked behind it comes with it.")
            }
            Deed::Discard { queue, id } => {
                format!("{id} of {queue} is deleted for good, with its payload and errors.")
            }
            Deed::DiscardEvent { kind, .. } => {
                format!("{kind} is given up for good: nobody will ever receive it.")
            }
            Deed::Reset { queue } => format!(
                "What a worker has had for longer than 15 minutes is taken from it, and given to another worker of {queue}."
            ),
            Deed::Answer { key } => {
                format!("Each request for {key} gets this answer, and the work is not done again.")
            }
            Deed::Resolve { key, answer } => match answer {
                Some(answer) => format!("Each request for {key} gets the answer {answer}"),
                None => {
                    format!(
                        "Each request for {key} is answered: it is done, and its answer was not stored."
                    )
                }
            },
            Deed::Forget { key } => {
                format!("Whoever asks next for {key} does the work: twice, if it was done.")
            }
        }
    }

    /// Does it. What was typed is the reason.
    pub(super) async fn carry_out(
        &self,
        turno: &Turno,
        user: Option<&str>,
        reason: &str,
    ) -> turno::Result<Told> {
        match self {
            Deed::Break {
                resource, token, ..
            } => {
                let mut lock = turno.lock(resource);
                if let Some(user) = user {
                    lock = lock.user(user);
                }
                let broken = lock.force_break(*token, reason);
                Ok(match broken.await? {
                    BreakOutcome::Broken => Told::Done(format!("{resource} is broken open")),
                    BreakOutcome::NotHeld => Told::Nothing(format!(
                        "token {token} does not hold {resource} any more: nothing was broken"
                    )),
                })
            }
            Deed::Reset { queue } => {
                let reset = inbox(turno, queue, user, reason).reset(STUCK).await?;
                Ok(match reset {
                    0 => Told::Nothing(format!("nothing is stuck in {queue}: nothing was reset")),
                    _ => counted("reset", "item", reset),
                })
            }
            Deed::Answer { key } => resolve(turno, key, None, user, reason).await,
            Deed::Resolve { key, answer } => {
                resolve(turno, key, answer.as_deref(), user, reason).await
            }
            Deed::RequeueAll { queue, .. } => requeue(turno, queue, None, user, reason).await,
            Deed::Requeue { queue, id } => requeue(turno, queue, Some(&[*id]), user, reason).await,
            Deed::RequeueEvent { id, .. } => {
                let mut outbox = turno.outbox().reason(reason);
                if let Some(user) = user {
                    outbox = outbox.user(user);
                }
                Ok(counted(
                    "requeued",
                    "event",
                    outbox.requeue(Some(&[*id])).await?,
                ))
            }
            Deed::Discard { queue, id } => {
                let inbox = inbox(turno, queue, user, reason);
                Ok(counted(
                    "discarded",
                    "item",
                    inbox.discard(Some(&[*id])).await?,
                ))
            }
            Deed::DiscardEvent { id, .. } => {
                // The user who discards an event is stored with it, so there must be one.
                let user = user.map_or_else(crate::cmd::outbox::login, str::to_owned);
                let outbox = turno.outbox().reason(reason);
                Ok(counted(
                    "discarded",
                    "event",
                    outbox.discard(&[*id], &user).await?,
                ))
            }
            Deed::Forget { key } => Ok(match once(turno, key, user, reason).forget().await? {
                true => Told::Done(format!("{key} was forgotten")),
                false => Told::Nothing(format!(
                    "{key} is in flight, or gone: nothing was forgotten"
                )),
            }),
        }
    }
}

fn once(turno: &Turno, key: &str, user: Option<&str>, reason: &str) -> Once {
    let once = turno.once(key).reason(reason);
    match user {
        Some(user) => once.user(user),
        None => once,
    }
}

async fn resolve(
    turno: &Turno,
    key: &str,
    answer: Option<&str>,
    user: Option<&str>,
    reason: &str,
) -> turno::Result<Told> {
    Ok(
        match once(turno, key, user, reason).resolve(answer).await? {
            OnceResolved::Resolved => Told::Done(format!("{key} is done")),
            OnceResolved::InFlight(_) => {
                Told::Nothing(format!("{key} has begun anew: nothing was changed"))
            }
            OnceResolved::Answered => {
                Told::Nothing(format!("{key} has an answer: nothing was changed"))
            }
            OnceResolved::NotFound => Told::Nothing(format!("{key} is gone: nothing was changed")),
        },
    )
}

async fn requeue(
    turno: &Turno,
    queue: &str,
    ids: Option<&[ItemId]>,
    user: Option<&str>,
    reason: &str,
) -> turno::Result<Told> {
    let requeued = inbox(turno, queue, user, reason).requeue(ids).await?;
    Ok(counted("requeued", "item", requeued))
}

/// Returns a queue with the user and reason of an action.
fn inbox(turno: &Turno, queue: &str, user: Option<&str>, reason: &str) -> Inbox {
    let inbox = turno.inbox(queue).reason(reason);
    match user {
        Some(user) => inbox.user(user),
        None => inbox,
    }
}

fn counted(done: &str, what: &str, count: u64) -> Told {
    match count {
        0 => Told::Nothing(format!("somebody was faster: nothing was {done}")),
        1 => Told::Done(format!("1 {what} was {done}")),
        _ => Told::Done(format!("{count} {what}s were {done}")),
    }
}
