//! The SQL interface: the functions of schema `turno`, as any language calls them.

mod calls;
mod due_later;
mod limits;
mod notified;
mod once;
mod operator_actions;
mod plans;
mod readers;
mod rights;
mod rules;
mod side_by_side;
mod sweep_reads;
mod transactions;

use tokio_postgres::Client;
use turno_testkit::conformance::TestStore;

async fn test_store() -> (TestStore, Client) {
    let test_store = TestStore::postgres();
    test_store.turno().await.close().await;
    let client = test_store.postgres_connection().await;
    (test_store, client)
}
