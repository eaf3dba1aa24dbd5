//! Words for events.

use turno::outbox::EventState;

/// What the time of an event's state is called.
pub(super) fn since(state: EventState) -> &'static str {
    match state {
        EventState::Pending | EventState::Scheduled => "due",
        EventState::Processing => "claimed",
        EventState::Dispatched => "dispatched",
        EventState::Dead => "dead",
        EventState::Blocked => "blocked",
        EventState::Discarded => "discarded",
    }
}
