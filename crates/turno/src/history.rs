//! History: who held which lock and how that ended, and the actions of operators, with their reasons.
//!
//! [`Turno::history`](crate::Turno::history) returns all entries, [`Turno::lock_history`](crate::Turno::lock_history) those of
//! locks.
//!
//! | part | resource | events |
//! |---|---|---|
//! | lock | the resource | acquired (held now), released, expired, taken over, broken, renewed late, late |
//! | inbox | the queue | requeued, discarded, reset |
//! | outbox | none | requeued, discarded |
//! | once | the key | forgotten, resolved |
//!
//! An entry is written in the transaction of the change that it records. A call that changed nothing writes no entry.

pub use crate::store::{History, HistoryEntry, HistoryEvent, LockHistory, Part, SWEPT_FAILED};
