//! The SQL interface: the functions of schema `turno`, as any language calls them.

mod calls;
mod clocks;
mod due_later;
mod ended_claims;
mod late_looks;
mod limits;
mod notified;
mod once;
mod operator_actions;
mod plans;
mod readers;
mod rights;
mod rules;
mod settings;
mod side_by_side;
mod sweep_reads;
mod transactions;

use tokio_postgres::Client;
use turno_testkit::conformance::TestStore;
use turno_testkit::sql::replace_in_function;

async fn test_store() -> (TestStore, Client) {
    let test_store = TestStore::postgres();
    test_store.turno().await.close().await;
    let client = test_store.postgres_connection().await;
    (test_store, client)
}

/// Changes a function for a control, in the database of the test.
async fn change(client: &Client, function: &str, from: &str, to: &str) {
    let changed = replace_in_function(client, function, from, to).await;
    changed.expect("the function has the text");
}
