//! Labels of events.

use turno::outbox::EventState;

/// Returns the label of the time of a state.
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
