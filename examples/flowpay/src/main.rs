//! Locks with fencing: loans and payments behind a GraphQL API.

fn main() {}
