//! The statements of the benchmarks, by name.

#[path = "../../turno/src/store/queries/named.rs"]
mod named;

use named::{Query, count, find, parse};

const FILE: &str = include_str!("queries.sql");
const QUERIES: [Query; count(FILE)] = parse(FILE);

/// Returns the text of a query; compilation fails if there is none of this name.
pub const fn query(name: &str) -> &'static str {
    find(&[&QUERIES], name)
}
