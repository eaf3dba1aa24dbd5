//! When a session of the pool is replaced.

use std::time::Duration;

use tokio_postgres::Client;
use turno::Turno;
use turno::store::postgres::Target;
use turno_testkit::{PostgresServer, Sql as _, eventually_async};

const LONG: Duration = Duration::from_secs(60);

/// Creates a database, and connects the test to it.
async fn new_database() -> (String, Client) {
    let database = || PostgresServer::shared().create_database();
    let url = tokio::task::spawn_blocking(database).await.unwrap();
    let target = Target::parse(&format!("{url}?application_name=test")).unwrap();
    let (client, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);
    (url, client)
}

/// Returns the oldest session of the pool.
async fn oldest(client: &Client) -> i32 {
    let sql = "
        select pid
        from pg_stat_activity
        where datname = current_database()
          and application_name = 'turno'
          and query not like '%turno.notifies%'
        order by backend_start, pid
        limit 1";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn use_the_store(turno: &Turno) -> turno::Result<()> {
    turno.inbox("work").push("{}").await.map(|_| ())
}

#[tokio::test]
async fn a_session_is_replaced_when_it_is_old() {
    let (url, client) = new_database().await;
    let builder = Turno::builder().connections(1);
    let turno = builder
        .connection_max_age(Duration::from_millis(100))
        .connect(&url)
        .await
        .unwrap();
    use_the_store(&turno).await.unwrap();
    let first = oldest(&client).await;
    eventually_async(LONG, "another session", async || {
        use_the_store(&turno).await.unwrap();
        (oldest(&client).await != first).then_some(())
    })
    .await;
}

/// The control of the test above: a session that is not old is reused.
#[tokio::test]
async fn a_session_that_is_not_old_is_kept() {
    let (url, client) = new_database().await;
    let turno = Turno::builder().connections(1).connect(&url).await.unwrap();
    use_the_store(&turno).await.unwrap();
    let first = oldest(&client).await;
    for _ in 0..20 {
        use_the_store(&turno).await.unwrap();
    }
    assert_eq!(oldest(&client).await, first);
}

/// With one host and no `target_session_attrs`: the error says what to do, and the store recovers when the database accepts
/// writes again, without a restart.
#[tokio::test]
async fn a_read_only_session_is_closed_and_the_store_heals() {
    let (url, client) = new_database().await;
    let turno = Turno::builder().connections(1).connect(&url).await.unwrap();
    use_the_store(&turno).await.unwrap();
    let set = "
        do $$
        begin
          execute format('alter database %I set default_transaction_read_only = on', current_database());
          perform pg_terminate_backend(pid)
          from pg_stat_activity
          where datname = current_database()
            and application_name = 'turno';
        end
        $$";
    client.run(set).await;
    let error = eventually_async(LONG, "the database to be read-only", async || {
        let error = use_the_store(&turno).await.err()?;
        (!error.is_unavailable()).then_some(error)
    })
    .await;
    assert!(error.to_string().contains("read-only"), "{error}");
    let reset = "
        do $$
        begin
          execute format('alter database %I reset default_transaction_read_only', current_database());
        end
        $$";
    client.run(reset).await;
    use_the_store(&turno).await.unwrap();
}
