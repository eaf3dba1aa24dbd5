//! A listening connection is checked without a statement: every ten seconds if the URL has several hosts.

use std::time::SystemTime;
use turno_testkit::sql::client;

use tokio_postgres::Row;
use turno::Settings;
use turno_testkit::{Sql as _, eventually_async};

use crate::actors::{connect, worker};
use crate::common::LONG;
use crate::log::{new_database, server, statements, until_silent};

const LISTENER: &str = "select pid, query, query_start, state_change from pg_stat_activity
    where application_name = 'worker' and datname = current_database() and query like '%turno.notifies%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listening_connection_is_checked_without_a_statement() {
    let (url, database) = new_database();
    let port = format!("127.0.0.1:{}", server().port());
    let hosts = url.replace(&port, &format!("{port},{port}"));
    assert_ne!(hosts, url);
    let turno = connect(&hosts, "worker", Settings::default()).await;
    let _done = worker(&turno, "q");
    until_silent(&[&database]).await;
    let observer = client(&url).await;
    let listener = async || observer.query_typed_one(LISTENER, &[]).await.unwrap();
    let (before, sent) = (listener().await, statements(&database)["worker"]);
    // The server records when a connection becomes idle again, also after a check.
    let after = eventually_async(LONG, "a check", async || {
        let now = listener().await;
        (changed(&now) > changed(&before)).then_some(now)
    })
    .await;
    assert_eq!(asked(&after), asked(&before), "no statement");
    assert_eq!(statements(&database)["worker"], sent, "nothing in the log");
}

/// The control: a check by an empty statement would be detected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_statement_is_noticed() {
    let (url, database) = new_database();
    let checked = client(&format!("{url}?application_name=worker")).await;
    let sql = "select 'turno.notifies'";
    checked.run(sql).await;
    let observer = client(&url).await;
    let before = observer.query_typed_one(LISTENER, &[]).await.unwrap();
    let sent = statements(&database)["worker"];
    checked.run("").await;
    let pid: i32 = before.get("pid");
    let after = format!(
        "select pid, query, query_start, state_change from pg_stat_activity where pid = {pid}"
    );
    let after = observer.query_typed_one(&after, &[]).await.unwrap();
    assert_ne!(asked(&after), asked(&before));
    eventually_async(LONG, "a line in the log", async || {
        (statements(&database)["worker"] > sent).then_some(())
    })
    .await;
}

/// Returns the last statement of a connection, and when it began.
fn asked(row: &Row) -> (i32, String, SystemTime) {
    (row.get("pid"), row.get("query"), row.get("query_start"))
}

fn changed(row: &Row) -> SystemTime {
    row.get("state_change")
}
