//! Ways of coordinating instances: those of the document, and Turno's.

use clap::ValueEnum;
use uuid::Uuid;

/// Way of coordinating instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// *Problema original*: select unprocessed rows, process them, mark them.
    PlainSelect,
    /// *Solución implementada*, with the mark committed before the web service is called.
    ConditionalUpdate,
    /// *Solución implementada* as in the document: mark and call in one transaction.
    ConditionalUpdateInTransaction,
    /// *Alternativa 1*: `SELECT … FOR UPDATE SKIP LOCKED`.
    SkipLocked,
    /// *Alternativa 2*: each instance has its share of the ids.
    HashPartition,
    /// *Alternativa 3*: the plain select at isolation level REPEATABLE READ.
    RepeatableRead,
    /// Turno's inbox, with a worker in each instance.
    Turno,
}

/// Instances that share the table with Turno's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fleet {
    /// All instances use Turno.
    Uniform,
    /// Some instances still use the document's statements, as during a roll-out.
    Mixed,
}

impl Strategy {
    /// Name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::PlainSelect => "plain select",
            Strategy::ConditionalUpdate => "conditional update, committed first",
            Strategy::ConditionalUpdateInTransaction => "conditional update, one transaction",
            Strategy::SkipLocked => "select for update skip locked",
            Strategy::HashPartition => "hash partitioning",
            Strategy::RepeatableRead => "repeatable read",
            Strategy::Turno => "Turno's inbox",
        }
    }

    /// Returns whether a store supports it. The document rejects `SKIP LOCKED` because of H2; here it is SQLite that does not
    /// support it.
    pub fn is_possible_on(self, store: &str) -> bool {
        self != Strategy::SkipLocked || store.starts_with("postgres")
    }
}

/// Returns the instance that a presentation belongs to: `MOD(ABS(HASH(id)), totalInstances)`.
///
/// No hash is needed, because most of a UUID is random. SQLite has no hash function that the condition could call.
pub fn partition(id: Uuid, total_instances: u32) -> u32 {
    let rest = id.as_u128() % u128::from(total_instances.max(1));
    u32::try_from(rest).unwrap_or_default()
}
