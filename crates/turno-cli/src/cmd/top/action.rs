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
pub(super) enum Action {
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
    /// Asks for the answer of a key; [`Action::Resolve`] follows, which asks for the reason.
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
pub(super) enum ActionOutcome {
    Done(String),
    /// Another caller was faster.
    Nothing(String),
}

impl Action {
    /// Returns the key of the action. It is the same in the dashboard.
    pub(super) fn key(&self) -> char {
        match self {
            Action::Break { .. } => 'b',
            Action::RequeueAll { .. } | Action::Requeue { .. } | Action::RequeueEvent { .. } => 'r',
            Action::Discard { .. } | Action::DiscardEvent { .. } => 'd',
            Action::Reset { .. } => 's',
            Action::Forget { .. } => 'f',
            Action::Answer { .. } | Action::Resolve { .. } => 'c',
        }
    }

    /// Returns the verb of the action.
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Action::Break { .. } => "break",
            Action::RequeueAll { .. } => "requeue all",
            Action::Requeue { .. } | Action::RequeueEvent { .. } => "requeue",
            Action::Discard { .. } | Action::DiscardEvent { .. } => "discard",
            Action::Reset { .. } => "reset stuck",
            Action::Forget { .. } => "forget",
            Action::Answer { .. } | Action::Resolve { .. } => "resolve",
        }
    }

    pub(super) fn title(&self) -> &'static str {
        match self {
            Action::Break { .. } => "Break this lock?",
            Action::RequeueAll { .. } => "Requeue all failed items?",
            Action::Requeue { .. } => "Requeue this item?",
            Action::RequeueEvent { .. } => "Requeue this event?",
            Action::Discard { .. } => "Discard this item?",
            Action::DiscardEvent { .. } => "Discard this event?",
            Action::Reset { .. } => "Reset stuck items?",
            Action::Forget { .. } => "Forget this key?",
            Action::Answer { .. } | Action::Resolve { .. } => "Resolve this key?",
        }
    }

    /// Returns the label of the input.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Action::Answer { .. } => "Answer in JSON (optional): ",
            _ => "Reason: ",
        }
    }

    /// Whether the input is valid: an answer in JSON or none, or a reason.
    pub(super) fn accepts(&self, typed: &str) -> bool {
        match self {
            Action::Answer { .. } => {
                typed.is_empty() || serde_json::from_str::<&RawValue>(typed).is_ok()
            }
            _ => !typed.is_empty(),
        }
    }

    /// Returns the next prompt after this input; `None` if there is none.
    pub(super) fn next(&self, typed: &str) -> Option<Action> {
        match self {
            Action::Answer { key } => Some(Action::Resolve {
                key: key.clone(),
                answer: Some(typed.to_owned()).filter(|text| !text.is_empty()),
            }),
            _ => None,
        }
    }

    /// Returns the effect of the action.
    pub(super) fn meaning(&self) -> String {
        match self {
            Action::Break {
                resource, holder, ..
            } => {
                format!("Takes {resource} from {holder}; its token is rejected from now on.")
            }
            Action::RequeueAll { queue, failed } => {
                format!("Requeues {failed} failed items of {queue} with all their attempts.")
            }
            Action::Requeue { queue, id } => {
                format!("Requeues item {id} of {queue} with all its attempts.")
            }
            Action::RequeueEvent { kind, .. } => {
                format!("Publishes {kind} again, and the events parked behind it.")
            }
            Action::Discard { queue, id } => {
                format!(
                    "Deletes item {id} of {queue} with its payload and errors. This cannot be undone."
                )
            }
            Action::DiscardEvent { kind, .. } => {
                format!("{kind} will never be published. This cannot be undone.")
            }
            Action::Reset { queue } => format!(
                "Takes items of {queue} from workers that have been processing them for longer than 15 minutes. Other workers can claim them."
            ),
            Action::Answer { key } => {
                format!("Every request for {key} gets this answer. The work is not done again.")
            }
            Action::Resolve { key, answer } => match answer {
                Some(answer) => format!("Every request for {key} gets the answer {answer}"),
                None => {
                    format!(
                        "Every request for {key} gets the response that the work is done and its answer was not stored."
                    )
                }
            },
            Action::Forget { key } => {
                format!(
                    "The next request for {key} does the work. If the work was already done, it is done twice."
                )
            }
        }
    }

    /// Performs the action.
    pub(super) async fn carry_out(
        &self,
        turno: &Turno,
        user: Option<&str>,
        reason: &str,
    ) -> turno::Result<ActionOutcome> {
        match self {
            Action::Break {
                resource, token, ..
            } => {
                let mut lock = turno.lock(resource);
                if let Some(user) = user {
                    lock = lock.user(user);
                }
                let broken = lock.force_break(*token, reason);
                Ok(match broken.await? {
                    BreakOutcome::Broken => ActionOutcome::Done(format!("{resource} was broken")),
                    BreakOutcome::NotHeld => ActionOutcome::Nothing(format!(
                        "token {token} does not hold {resource} any more: nothing was broken"
                    )),
                })
            }
            Action::Reset { queue } => {
                let reset = inbox(turno, queue, user, reason).reset(STUCK).await?;
                Ok(match reset {
                    0 => ActionOutcome::Nothing(format!(
                        "no item of {queue} is stuck: nothing was reset"
                    )),
                    _ => counted("reset", "item", reset),
                })
            }
            Action::Answer { key } => resolve(turno, key, None, user, reason).await,
            Action::Resolve { key, answer } => {
                resolve(turno, key, answer.as_deref(), user, reason).await
            }
            Action::RequeueAll { queue, .. } => requeue(turno, queue, None, user, reason).await,
            Action::Requeue { queue, id } => {
                requeue(turno, queue, Some(&[*id]), user, reason).await
            }
            Action::RequeueEvent { id, .. } => {
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
            Action::Discard { queue, id } => {
                let inbox = inbox(turno, queue, user, reason);
                Ok(counted(
                    "discarded",
                    "item",
                    inbox.discard(Some(&[*id])).await?,
                ))
            }
            Action::DiscardEvent { id, .. } => {
                // The user who discards an event is stored with it, so there must be one.
                let user = user.map_or_else(crate::cmd::outbox::login, str::to_owned);
                let outbox = turno.outbox().reason(reason);
                Ok(counted(
                    "discarded",
                    "event",
                    outbox.discard(&[*id], &user).await?,
                ))
            }
            Action::Forget { key } => Ok(match once(turno, key, user, reason).forget().await? {
                true => ActionOutcome::Done(format!("{key} was forgotten")),
                false => ActionOutcome::Nothing(format!(
                    "{key} is in flight, or does not exist any more: nothing was forgotten"
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
) -> turno::Result<ActionOutcome> {
    Ok(
        match once(turno, key, user, reason).resolve(answer).await? {
            OnceResolved::Resolved => ActionOutcome::Done(format!("{key} is done")),
            OnceResolved::InFlight(_) => {
                ActionOutcome::Nothing(format!("{key} is in flight again: nothing was changed"))
            }
            OnceResolved::Answered => {
                ActionOutcome::Nothing(format!("{key} already has an answer: nothing was changed"))
            }
            OnceResolved::NotFound => ActionOutcome::Nothing(format!(
                "{key} does not exist any more: nothing was changed"
            )),
        },
    )
}

async fn requeue(
    turno: &Turno,
    queue: &str,
    ids: Option<&[ItemId]>,
    user: Option<&str>,
    reason: &str,
) -> turno::Result<ActionOutcome> {
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

fn counted(done: &str, what: &str, count: u64) -> ActionOutcome {
    match count {
        0 => ActionOutcome::Nothing(format!("another caller was faster: nothing was {done}")),
        1 => ActionOutcome::Done(format!("1 {what} was {done}")),
        _ => ActionOutcome::Done(format!("{count} {what}s were {done}")),
    }
}
