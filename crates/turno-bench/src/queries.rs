//! The statements of the benchmarks, by name, and those of the hand-written peers.

#[path = "../../turno/src/store/queries/named.rs"]
mod named;

use named::{Query, count, find, parse};

const FILE: &str = include_str!("queries.sql");
const QUERIES: [Query; count(FILE)] = parse(FILE);
/// The hand-written queue is the same in both programs.
const PEERS_FILE: &str = include_str!("../../turno-bench-peers/src/queries.sql");
const PEERS: [Query; count(PEERS_FILE)] = parse(PEERS_FILE);

/// Returns the text of a query; compilation fails if there is none of this name.
pub const fn query(name: &str) -> &'static str {
    find(&[&QUERIES, &PEERS], name)
}
