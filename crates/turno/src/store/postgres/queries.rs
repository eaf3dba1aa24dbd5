//! The statements that the PostgreSQL store sends, in `queries/*.sql`, one file per noun.

// The rules of PostgreSQL are functions of the schema.
crate::store::queries::query_files![
    &[]; "admin", "adopt", "inbox", "lock", "once", "outbox",
];

/// The text of a named query: `query!(lock_acquire)`.
macro_rules! query {
    ($name:ident) => {{
        // A constant, so that an unknown name fails the compilation.
        const QUERY: &str = $crate::store::queries::find(
            $crate::store::postgres::queries::FILES,
            stringify!($name),
        );
        QUERY
    }};
}
