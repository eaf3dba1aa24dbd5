//! The statements that the SQLite store sends, in `queries/*.sql`, one file per noun.

crate::store::queries::query_files![
    "access", "admin", "adopt", "inbox", "lock", "once", "outbox", "schedule",
];

/// The text of a named query: `query!(lock_acquire)`.
macro_rules! query {
    ($name:ident) => {{
        // A constant, so that an unknown name fails the compilation.
        const QUERY: &str =
            $crate::store::queries::find($crate::store::sqlite::queries::FILES, stringify!($name));
        QUERY
    }};
}
