//! Software between an application and its database: nothing is left behind in a pooler, and a plain proxy is not treated as one.

use turno::Turno;
use turno::store::Severity;
use turno_testkit::conformance::acquired;
use turno_testkit::faults::client;
use turno_testkit::{PgBouncer, PoolMode, PostgresServer, Sql as _, TcpProxy, eventually_async};

use crate::LONG;

const RESOURCE: &str = "PRESTAMO/123";

async fn new_database() -> String {
    tokio::task::spawn_blocking(|| PostgresServer::shared().create_database())
        .await
        .unwrap()
}

async fn severity(turno: &Turno) -> Severity {
    let findings = turno.store().diagnose().await.unwrap();
    findings
        .into_iter()
        .find(|finding| finding.check == "pooler")
        .unwrap()
        .severity
}

/// A `listen` that is left behind in a pool sends notifications to the next client of that connection. Some
/// drivers treat a notification in the middle of a response as an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_listening_behind_a_pooler() {
    let database = new_database().await;
    let name = database.rsplit('/').next().unwrap();
    // One server connection, so that anything left behind on it is found.
    let pooler = PgBouncer::start_with(
        PostgresServer::shared(),
        PoolMode::Transaction,
        &[("default_pool_size", "1")],
    )
    .unwrap();
    let other = client(&pooler.url(name)).await;
    let listening = async || -> i64 {
        let rows = other
            .query_typed("select count(*) from pg_listening_channels()", &[])
            .await
            .unwrap();
        rows[0].get(0)
    };

    let turno = Turno::connect(&pooler.url(name)).await.unwrap();
    assert_eq!(severity(&turno).await, Severity::Warning);
    let first = acquired(turno.lock(RESOURCE).ttl(LONG)).await;
    let waiter = tokio::spawn({
        let turno = turno.clone();
        async move { turno.lock(RESOURCE).ttl(LONG).wait(LONG).acquire().await }
    });
    eventually_async(LONG, "the waiter to sign in", async || {
        let status = turno.store().lock_status(RESOURCE).await.unwrap();
        (status.waiters == 1).then_some(())
    })
    .await;
    first.release().await.unwrap();
    let _second = waiter.await.unwrap().unwrap().acquired().unwrap();
    assert_eq!(listening().await, 0);

    // Control: the query above does find a `listen` that another client left behind.
    let careless = client(&pooler.url(name)).await;
    careless.run("listen turno_lock").await;
    assert_eq!(listening().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_proxy_is_no_pooler() {
    let database = new_database().await;
    let target = ([127, 0, 0, 1], PostgresServer::shared().port()).into();
    let proxy = TcpProxy::start(target).await.unwrap();
    let turno = Turno::connect(&proxy.url_for(&database)).await.unwrap();
    assert_eq!(severity(&turno).await, Severity::Ok);
}
