//! Turno's own connections work over TLS too: notifications, leader election, detection of a pooler.

use std::time::Duration;

use turno::Turno;
use turno::store::postgres::{PostgresStore, Target};
use turno::store::{Leadership, OutboxLead, OutboxStore as _, Severity, Store as _};
use turno_testkit::conformance::acquired;
use turno_testkit::{PgBouncer, PoolMode, PostgresServer, eventually_async};

use crate::fixture::TlsFixture;

const LONG: Duration = Duration::from_secs(60);

async fn new_database() -> String {
    tokio::task::spawn_blocking(|| {
        let fixture = TlsFixture::shared();
        format!(
            "{}&sslmode=verify-full&{}",
            fixture.create_database(),
            fixture.root()
        )
    })
    .await
    .unwrap()
}

async fn severity(turno: &Turno, check: &str) -> (Severity, String) {
    let findings = turno.store().diagnose().await.unwrap();
    let finding = findings.into_iter().find(|finding| finding.check == check);
    let finding = finding.unwrap();
    (finding.severity, finding.detail.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_woken_by_an_encrypted_notification() {
    let url = new_database().await;
    let turno = Turno::connect(&url).await.unwrap();
    let lease = acquired(turno.lock("loan/1")).await;
    let waiter = turno.clone();
    let waiting = tokio::spawn(async move {
        let lock = waiter.lock("loan/1").wait(LONG);
        lock.acquire().await.unwrap().acquired().is_some()
    });
    let (client, connection) = Target::parse(&url).unwrap().connect().await.unwrap();
    tokio::spawn(connection);
    let listening = "
        select count(*)
        from pg_stat_activity a
        join pg_stat_ssl s using (pid)
        where a.query like 'select turno.notifies%'
          and a.datname = current_database()
          and s.ssl";
    eventually_async(LONG, "an encrypted listener", async || {
        let count: i64 = client.query_one(listening, &[]).await.unwrap().get(0);
        (count == 1).then_some(())
    })
    .await;
    lease.release().await.unwrap();
    assert!(waiting.await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_leads_over_an_encrypted_session() {
    let url = new_database().await;
    let store = PostgresStore::connect(&url, 2).await.unwrap();
    store.migrate().await.unwrap();
    let ask = OutboxLead {
        lock_id: 42,
        relay: "first".to_owned(),
    };
    let Leadership::Alone(session) = store.outbox_lead(&ask).await.unwrap() else {
        panic!("it is the only one");
    };
    let (client, connection) = Target::parse(&url).unwrap().connect().await.unwrap();
    tokio::spawn(connection);
    let sql = "
        select s.ssl
        from pg_stat_activity a
        join pg_stat_ssl s using (pid)
        where a.application_name = 'turno relay first'
          and a.datname = current_database()";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
    assert!(matches!(
        store.outbox_lead(&ask).await.unwrap(),
        Leadership::Busy(_)
    ));
    drop(session);
}

/// Only a cancellation ends the statement: the timeouts in the URL are longer than the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_gives_up_is_cancelled_over_an_encrypted_connection() {
    let url = new_database().await;
    let limits = "options=-clock_timeout%3D10min%20-cstatement_timeout%3D10min";
    let turno = Turno::builder()
        .connections(1)
        .call_timeout(Duration::from_millis(500))
        .connect(&format!("{url}&{limits}"))
        .await
        .unwrap();
    let target = Target::parse(&url).unwrap();
    let (mut blocker, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);
    let (observer, connection) = target.connect().await.unwrap();
    tokio::spawn(connection);
    let open = blocker.transaction().await.unwrap();
    open.batch_execute("select turno.once_begin('pay/1')")
        .await
        .unwrap();
    let begun = turno.once("pay/1").begin().await;
    assert!(begun.unwrap_err().is_unavailable());
    let waiting = "
        select count(*)
        from pg_stat_activity
        where datname = current_database()
          and wait_event_type = 'Lock'";
    eventually_async(LONG, "no statement waits", async || {
        let count: i64 = observer.query_one(waiting, &[]).await.unwrap().get(0);
        (count == 0).then_some(())
    })
    .await;
    open.rollback().await.unwrap();
    assert!(turno.once("pay/1").status().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_is_noticed_behind_tls() {
    let direct = Turno::connect(&new_database().await).await.unwrap();
    assert_eq!(severity(&direct, "pooler").await.0, Severity::Ok);
    let (encryption, detail) = severity(&direct, "encryption").await;
    assert_eq!(encryption, Severity::Ok);
    assert!(detail.contains("TLSv1.3"), "{detail}");

    let (url, pooler) = tokio::task::spawn_blocking(|| {
        let files = TlsFixture::shared().server.folder();
        let file = |name: &str| files.join(name).display().to_string();
        let pooler = PgBouncer::start_with(
            PostgresServer::shared(),
            PoolMode::Transaction,
            &[
                ("client_tls_sslmode", "require"),
                ("client_tls_cert_file", &file("server.crt")),
                ("client_tls_key_file", &file("server.key")),
            ],
        );
        (PostgresServer::shared().create_database(), pooler.unwrap())
    })
    .await
    .unwrap();
    let url = pooler.url(url.rsplit('/').next().unwrap());
    let plain = Target::parse(&format!("{url}?sslmode=disable")).unwrap();
    assert!(
        plain.connect().await.is_err(),
        "the pooler accepts only TLS"
    );
    let pooled = Turno::connect(&format!("{url}?sslmode=require")).await;
    assert_eq!(
        severity(&pooled.unwrap(), "pooler").await.0,
        Severity::Warning
    );
}

#[tokio::test]
async fn a_server_without_tls_is_still_recognised_as_direct() {
    let url = tokio::task::spawn_blocking(|| PostgresServer::shared().create_database());
    let turno = Turno::connect(&url.await.unwrap()).await.unwrap();
    assert_eq!(severity(&turno, "pooler").await.0, Severity::Ok);
    let (encryption, detail) = severity(&turno, "encryption").await;
    assert_eq!(encryption, Severity::Ok);
    assert!(detail.contains("this machine"), "{detail}");
}

/// sqlx, with the same settings.
#[cfg(feature = "sqlx-postgres")]
#[tokio::test]
async fn sqlx_connects_the_same_way() {
    use sqlx::{ConnectOptions as _, Row as _};

    let url = new_database().await;
    let target = Target::parse(&format!("{url}&options=-c%20geqo%3Doff")).unwrap();
    let mut connection = target.sqlx_options().unwrap().connect().await.unwrap();
    let sql = "select ssl, current_setting('geqo') from pg_stat_ssl where pid = pg_backend_pid()";
    let row = sqlx::query(sql).fetch_one(&mut connection).await.unwrap();
    assert!(row.get::<bool, _>(0));
    assert_eq!(row.get::<String, _>(1), "off");

    let other = TlsFixture::shared().other_root();
    let url = format!("{url}&sslrootcert={}", other.display());
    let options = Target::parse(&url).unwrap().sqlx_options().unwrap();
    assert!(options.connect().await.is_err(), "another authority");
}
