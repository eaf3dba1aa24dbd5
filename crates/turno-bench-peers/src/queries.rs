//! The statements of the peers, in `queries.sql`, with names as in the library.

#[path = "../../turno/src/store/queries/named.rs"]
mod named;

use named::{Query, count, find, parse};

const FILE: &str = include_str!("queries.sql");
const QUERIES: [Query; count(FILE)] = parse(FILE);

/// Returns the text of a query. As a constant, an unknown name fails the compilation.
pub const fn query(name: &str) -> &'static str {
    find(&[&QUERIES], name)
}
