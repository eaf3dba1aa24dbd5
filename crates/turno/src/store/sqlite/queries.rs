//! The statements that the SQLite store sends, in `queries/*.sql`, one file per noun.

use crate::store::queries::{Query, count, expanded, parse, query_files};

const RULES_FILE: &str = include_str!("queries/rules.sql");
const RULES_AS_WRITTEN: [Query; count(RULES_FILE)] = parse(RULES_FILE);

/// When a lock may be taken and when an item may be claimed. A rule may use others that use none.
pub(crate) const RULES: [Query; count(RULES_FILE)] =
    parse(expanded!(RULES_FILE, &RULES_AS_WRITTEN));

query_files![
    &RULES; "admin", "adopt", "inbox", "lock", "once", "outbox",
];

/// The text of a named query: `query!(lock_acquire)`. Without its comment, because the cache of prepared statements hashes it.
macro_rules! query {
    ($name:ident) => {{
        // A constant, so that an unknown name fails the compilation.
        const QUERY: &str = $crate::store::queries::condition($crate::store::queries::find(
            $crate::store::sqlite::queries::FILES,
            stringify!($name),
        ));
        QUERY
    }};
}

/// Rules that a test has changed, in its own thread.
#[cfg(test)]
pub(crate) mod changed {
    use std::cell::RefCell;

    use super::RULES;
    use crate::store::queries::condition;

    thread_local! {
        static CHANGED: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    }

    /// Restores the rules when it is dropped.
    #[must_use]
    pub(crate) struct Changed;

    impl Drop for Changed {
        fn drop(&mut self) {
            CHANGED.with_borrow_mut(Vec::clear);
        }
    }

    /// Replaces the condition of a rule in all queries that use it. A query with a copy of the condition is not changed.
    pub(crate) fn change(rule: &str, to: &str) -> Changed {
        let (_, text) = RULES.iter().find(|(name, _)| *name == rule).unwrap();
        let change = (
            format!("/* {rule} */ ({})", condition(text)),
            format!("/* {rule} */ ({to})"),
        );
        CHANGED.with_borrow_mut(|changed| changed.push(change));
        Changed
    }

    /// The text of a statement with the changed rules.
    pub(crate) fn apply(sql: &str) -> String {
        CHANGED.with_borrow(|changed| {
            let statement = sql.to_owned();
            changed
                .iter()
                .fold(statement, |sql, (from, to)| sql.replace(from, to))
        })
    }
}
