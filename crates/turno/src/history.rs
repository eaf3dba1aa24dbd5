//! The audit trail: who had which lock and how that ended, and what people did by hand, with their reasons.
//!
//! [`Turno::history`](crate::Turno::history) has it all; [`Turno::lock_history`](crate::Turno::lock_history) that of locks.
//!
//! | part | resource | events |
//! |---|---|---|
//! | lock | the resource | acquired (held now), released, expired, taken over, broken, renewed late, late |
//! | inbox | the queue | requeued, discarded, reset |
//! | outbox | none | requeued, discarded |
//! | once | the key | forgotten, resolved |
//!
//! An entry is written in the transaction of what it tells. What changed nothing leaves none.

pub use crate::store::{History, HistoryEntry, HistoryEvent, LockHistory, Part, SWEPT_FAILED};
