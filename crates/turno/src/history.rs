//! History: who held which lock and how that ended, and the actions of operators, with their reasons.
//!
//! [`Turno::history`](crate::Turno::history) returns the entries; `part` of its parameters selects those of one component.
//!
//! | part | resource | events |
//! |---|---|---|
//! | lock | the resource | acquired (held now), released, expired, taken over, broken, renewed late, late |
//! | inbox | the queue | requeued, discarded, reset |
//! | outbox | none | requeued, discarded |
//! | once | the key | forgotten, resolved |
//!
//! An entry is written in the transaction of the change that it records. A call that changed nothing writes no entry.

pub use crate::store::{History, HistoryEntry, HistoryEvent, Part, SWEPT_FAILED};
