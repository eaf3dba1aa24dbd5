//! The SQL interface: the functions of schema `turno`, as any language calls them.

mod calls;
mod limits;
mod notified;
mod once;
mod operator_actions;
mod readers;
mod rights;
mod rules;
mod side_by_side;
mod transactions;

use tokio_postgres::{Client, Row};
use turno_testkit::conformance::TestStore;

async fn test_store() -> (TestStore, Client) {
    let test_store = TestStore::postgres();
    test_store.turno().await.close().await;
    let client = test_store.postgres_connection().await;
    (test_store, client)
}

async fn one(client: &Client, sql: &str) -> Row {
    client
        .query_one(sql, &[])
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

async fn word(client: &Client, sql: &str) -> String {
    one(client, sql).await.get(0)
}

/// Returns the SQLSTATE of a call; `00000` if it succeeded.
async fn code(client: &Client, sql: &str) -> String {
    match client.query(sql, &[]).await {
        Ok(_) => "00000".into(),
        Err(error) => error
            .code()
            .unwrap_or_else(|| panic!("{sql}: {error:?}"))
            .code()
            .to_owned(),
    }
}
