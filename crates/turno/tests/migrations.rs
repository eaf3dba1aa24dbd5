//! The schema: created once by concurrent programs, rejected if it is newer, the same if it is created by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "migrations/counters.rs"]
mod counters;
#[path = "migrations/golden.rs"]
mod golden;
#[path = "migrations/roles.rs"]
mod roles;
#[path = "migrations/settings.rs"]
mod settings;

use std::time::Duration;

use turno::access::{AccessNew, Role};
use turno::history::{History, HistoryEvent};
use turno::store::{SCHEMA_VERSION, postgres, sqlite};
use turno::{Migrate, Turno};
use turno_testkit::Sql as _;
use turno_testkit::conformance::{TestStore, acquired};

fn test_stores() -> [TestStore; 2] {
    [TestStore::sqlite(), TestStore::empty_postgres()]
}

/// Returns tables, functions and rights, as text that can be compared.
async fn shape(test_store: &TestStore) -> String {
    if test_store.is_sqlite() {
        let db = test_store.sqlite_connection();
        let mut ask = db
            .prepare("select sql from sqlite_schema where sql is not null order by name")
            .unwrap();
        let rows: Vec<String> = ask
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        return rows.join(";\n");
    }
    let client = test_store.postgres_connection().await;
    let mut lines = Vec::new();
    for sql in [
        "select concat_ws(' ', c.relname, c.relkind, c.relpersistence, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
           pg_get_expr(d.adbin, d.adrelid), c.relacl) \
         from pg_class c join pg_attribute a on a.attrelid = c.oid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum \
         where c.relnamespace = 'turno'::regnamespace and a.attnum > 0 and not a.attisdropped order by c.relname, a.attnum",
        "select concat_ws(' ', pg_get_functiondef(p.oid), p.proacl, obj_description(p.oid)) from pg_proc p \
         where p.pronamespace = 'turno'::regnamespace order by p.oid::regprocedure::text",
        "select indexdef from pg_indexes where schemaname = 'turno' order by indexname",
    ] {
        lines.extend(
            client
                .query(sql, &[])
                .await
                .unwrap()
                .iter()
                .map(|row| row.get::<_, String>(0)),
        );
    }
    lines.join("\n")
}

fn script(test_store: &TestStore) -> String {
    if test_store.is_sqlite() {
        sqlite::script()
    } else {
        postgres::script()
    }
}

async fn execute(test_store: &TestStore, sql: &str) {
    if test_store.is_sqlite() {
        test_store.sqlite_connection().execute_batch(sql).unwrap();
    } else {
        test_store.postgres_connection().await.run(sql).await;
    }
}

fn migrations(test_store: &TestStore) -> &'static str {
    if test_store.is_sqlite() {
        "turno_migration"
    } else {
        "turno.migration"
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_start_together_all_succeed() {
    for test_store in test_stores() {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let url = test_store.url().to_owned();
            tasks.spawn(async move { Turno::connect(&url).await.map(drop) });
        }
        for connected in tasks.join_all().await {
            connected.unwrap();
        }
        let turno = test_store.turno().await;
        assert_eq!(
            turno.store().schema_version().await.unwrap(),
            Some(SCHEMA_VERSION)
        );
        let _lease = acquired(turno.lock("r")).await;
    }
}

/// Migrates to a future version, which programs from `oldest_program` on may use, or only programs of that version.
async fn migrate_to_tomorrow(test_store: &TestStore, oldest_program: Option<u32>) -> u32 {
    let newer = SCHEMA_VERSION + 1;
    let table = migrations(test_store);
    let at = if test_store.is_sqlite() {
        "0"
    } else {
        "clock_timestamp()"
    };
    let oldest = oldest_program.map_or("null".to_owned(), |version| version.to_string());
    execute(test_store, &format!("insert into {table} (version, name, applied_at, oldest_program) values ({newer}, 'from_the_future', {at}, {oldest})")).await;
    newer
}

#[tokio::test]
async fn a_newer_schema_that_is_compatible_is_used_and_left_alone() {
    for test_store in test_stores() {
        test_store.turno().await.close().await;
        let newer = migrate_to_tomorrow(&test_store, Some(SCHEMA_VERSION)).await;
        let before = shape(&test_store).await;
        for migrate in [Migrate::Auto, Migrate::Never] {
            let turno = Turno::builder()
                .migrate(migrate)
                .connect(test_store.url())
                .await
                .unwrap();
            let lease = acquired(turno.lock("r")).await;
            lease.release().await.unwrap();
            let schema = turno.store().schema().await.unwrap().unwrap();
            assert_eq!(
                (schema.version, schema.oldest_program),
                (newer, SCHEMA_VERSION)
            );
            assert!(schema.is_usable());
            let migrated = turno.store().migrate().await.unwrap();
            assert_eq!((migrated.from, migrated.to), (Some(newer), newer));
            let findings = turno.store().diagnose().await.unwrap();
            let said = findings.iter().find(|finding| finding.check == "schema");
            assert!(said.unwrap().detail.contains("compatible"), "{said:?}");
        }
        assert_eq!(shape(&test_store).await, before);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    for (test_store, oldest_program) in test_stores().into_iter().chain(test_stores()).zip([
        None,
        None,
        Some(SCHEMA_VERSION + 1),
        Some(SCHEMA_VERSION + 1),
    ]) {
        test_store.turno().await.close().await;
        let newer = migrate_to_tomorrow(&test_store, oldest_program).await;
        let before = shape(&test_store).await;
        for migrate in [Migrate::Auto, Migrate::Never] {
            let error = Turno::builder()
                .migrate(migrate)
                .connect(test_store.url())
                .await
                .unwrap_err();
            assert!(error.is_schema(), "{error:?}");
            let said = error.to_string();
            assert!(
                said.contains(&newer.to_string()) && said.contains("upgrade this program"),
                "{said}"
            );
        }
        assert_eq!(shape(&test_store).await, before);
        let examined = Turno::builder()
            .migrate(Migrate::Unchecked)
            .connect(test_store.url())
            .await
            .unwrap();
        assert_eq!(
            examined.store().schema_version().await.unwrap(),
            Some(newer)
        );
        assert!(examined.store().migrate().await.unwrap_err().is_schema());
    }
}

#[tokio::test]
async fn without_leave_to_migrate_an_empty_store_is_refused() {
    for test_store in test_stores() {
        let error = Turno::builder()
            .migrate(Migrate::Never)
            .connect(test_store.url())
            .await
            .unwrap_err();
        assert!(
            error.is_schema() && error.to_string().contains("turno migrate"),
            "{error:?}"
        );
        let turno = Turno::builder()
            .migrate(Migrate::Unchecked)
            .connect(test_store.url())
            .await
            .unwrap();
        assert_eq!(turno.store().schema_version().await.unwrap(), None);
        let error = turno.lock("r").acquire().await.unwrap_err();
        assert!(
            error.is_schema() && error.to_string().contains("turno migrate"),
            "{error:?}"
        );
        assert_eq!(turno.store().migrate().await.unwrap().from, None);
        Turno::builder()
            .migrate(Migrate::Never)
            .connect(test_store.url())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        let lease = acquired(turno.lock("r")).await;
        let before = shape(&test_store).await;
        for _ in 0..2 {
            let migrated = turno.store().migrate().await.unwrap();
            assert_eq!(
                (migrated.from, migrated.to),
                (Some(SCHEMA_VERSION), SCHEMA_VERSION)
            );
        }
        assert_eq!(shape(&test_store).await, before);
        assert!(turno.lock("r").acquire().await.unwrap().is_busy());
        lease.release().await.unwrap();
    }
}

/// A program that starts does not wait for a long transaction of another program if the schema exists already.
#[tokio::test]
async fn starting_waits_for_no_writer() {
    let test_store = TestStore::sqlite();
    test_store.turno().await.close().await;
    let writer = test_store.sqlite_connection();
    writer.execute_batch("begin immediate").unwrap();
    test_store.turno().await.close().await;
    writer.execute_batch("rollback").unwrap();
}

/// The control of the test above: if the schema must be written, the program waits for the same transaction.
#[tokio::test]
async fn making_the_schema_waits_for_a_writer() {
    let test_store = TestStore::sqlite();
    let writer = test_store.sqlite_connection();
    writer
        .execute_batch("pragma journal_mode = wal; begin immediate")
        .unwrap();
    let mut starting = std::pin::pin!(test_store.turno());
    let early = tokio::time::timeout(Duration::from_millis(200), &mut starting).await;
    assert!(early.is_err(), "it did not wait");
    writer.execute_batch("rollback").unwrap();
    starting.await.close().await;
}

#[tokio::test]
async fn the_printed_script_makes_the_same_schema() {
    for (migrated, hand_made) in test_stores().into_iter().zip(test_stores()) {
        migrated.turno().await.close().await;
        execute(&hand_made, &script(&hand_made)).await;
        assert_eq!(shape(&migrated).await, shape(&hand_made).await);
        let turno = Turno::builder()
            .migrate(Migrate::Never)
            .connect(hand_made.url())
            .await
            .unwrap();
        acquired(turno.lock("r")).await.release().await.unwrap();
    }
}

/// Reverts the schema to version 6: removes what version 7 adds, and restores what it replaces.
const BEFORE_SQLITE: &str = include_str!("migrations/to_version_6.sqlite.sql");
const BEFORE_POSTGRES: &str = include_str!("migrations/to_version_6.postgres.sql");

/// Removes what the versions after 9 add.
const TO_VERSION_9: &str = include_str!("migrations/to_version_9.postgres.sql");

/// A program of the previous version that keeps running while the schema changes, with prepared statements.
struct Running {
    client: tokio_postgres::Client,
    forget: tokio_postgres::Statement,
}

impl Running {
    async fn start(test_store: &TestStore) -> Self {
        let client = test_store.postgres_connection().await;
        let forget = client.prepare("select turno.once_forget($1)").await;
        let running = Running {
            client,
            forget: forget.unwrap(),
        };
        assert!(!running.forgets("unknown").await);
        running
    }

    async fn forgets(&self, key: &str) -> bool {
        let row = self.client.query_one(&self.forget, &[&key]).await;
        row.unwrap().get(0)
    }
}

/// From the last version with different tables: existing data is kept, and new features work.
#[tokio::test]
async fn an_older_version_is_brought_up_to_date() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        let lease = acquired(turno.lock("r")).await;
        let ended = acquired(turno.lock("e")).await;
        ended.release().await.unwrap();
        turno.inbox("q").push(&1).await.unwrap();
        turno
            .once("k")
            .run(async || Ok::<_, String>(7))
            .await
            .unwrap();
        let history = turno.history(History::default()).await.unwrap();
        turno.close().await;
        let newest = shape(&test_store).await;
        let before = if test_store.is_sqlite() {
            BEFORE_SQLITE
        } else {
            BEFORE_POSTGRES
        };
        if !test_store.is_sqlite() {
            execute(&test_store, TO_VERSION_9).await;
        }
        execute(&test_store, before).await;
        assert_ne!(shape(&test_store).await, newest);
        let refused = Turno::builder()
            .migrate(Migrate::Never)
            .connect(test_store.url())
            .await;
        assert!(refused.unwrap_err().is_schema());
        let running = match test_store.is_sqlite() {
            true => None,
            false => Some(Running::start(&test_store).await),
        };
        let turno = test_store.turno().await;
        assert_eq!(
            turno.store().schema_version().await.unwrap(),
            Some(SCHEMA_VERSION)
        );
        assert_eq!(shape(&test_store).await, newest);
        assert!(turno.lock("r").acquire().await.unwrap().is_busy());
        assert_eq!(turno.inbox("q").stats().await.unwrap().pending, 1);
        lease.detach();
        assert_eq!(turno.history(History::default()).await.unwrap(), history);
        match running {
            Some(running) => assert!(running.forgets("k").await),
            None => assert!(turno.once("k").forget().await.unwrap()),
        }
        let entries = turno.store().history(&History::default()).await.unwrap();
        assert_eq!(entries.len(), 2, "{entries:?}");
        assert_eq!(entries[0].event, HistoryEvent::Forgotten);
        assert_eq!(
            entries[1], history[1],
            "what is new comes after what was there"
        );
        let new = AccessNew::new("a", Role::Read);
        let (view, text) = turno.access_create(new).await.unwrap();
        let known = turno.access_verify(text.as_str()).await.unwrap();
        assert_eq!(known, Some(view));
        assert!(turno.sweep(&Default::default()).await.unwrap().is_empty());
    }
}

fn needs_operator(error: &turno::Error) {
    assert!(
        error.is_refused() && error.to_string().contains("grant turno_operator to"),
        "{error:?}"
    );
}

/// A role that may only call the functions needs no other right, once the schema exists.
#[tokio::test]
async fn a_role_with_few_rights_is_enough() {
    let test_store = TestStore::postgres();
    test_store.turno().await.close().await;
    let url = test_store.url_as("app");
    for migrate in [Migrate::Never, Migrate::Auto] {
        let turno = Turno::builder()
            .migrate(migrate)
            .connect(&url)
            .await
            .unwrap();
        let lease = acquired(turno.lock("r")).await;
        lease.renew().await.unwrap();
        assert_eq!(turno.lock("r").status().await.unwrap().holders.len(), 1);
        lease.release().await.unwrap();
        let shared = acquired(turno.lock("s").shared()).await;
        let refused = turno.lock("s").force_break(shared.token(), "why").await;
        needs_operator(&refused.unwrap_err());
        let both = turno.locks(["a", "b"]).acquire().await.unwrap();
        both.acquired().unwrap().release().await.unwrap();
        let once = turno.once("k").wait(std::time::Duration::from_millis(1));
        assert_eq!(once.run(async || Ok::<_, String>(7)).await.unwrap(), 7);
        assert!(turno.once("k").status().await.unwrap().is_some());
        turno.once_list(Default::default()).await.unwrap();
        needs_operator(&turno.once("k").forget().await.unwrap_err());
        let resolved = turno.once("k").resolve(None).await;
        needs_operator(&resolved.unwrap_err());
        assert!(!turno.history(History::default()).await.unwrap().is_empty());
        needs_operator(&turno.sweep(&Default::default()).await.unwrap_err());
        shared.release().await.unwrap();
    }
    let operator = Turno::connect(&test_store.url_as("operator"))
        .await
        .unwrap();
    let lease = operator.lock("r").acquire().await.unwrap();
    let lease = lease.acquired().unwrap();
    operator
        .lock("r")
        .force_break(lease.token(), "why")
        .await
        .unwrap();
    lease.detach();
    assert!(operator.once("k").forget().await.unwrap());
    operator.sweep(&Default::default()).await.unwrap();
    let admin = test_store.postgres_connection_as("postgres").await;
    admin.run("create role stranger login").await;
    let stranger = test_store.url_as("stranger");
    let error = Turno::connect(&stranger).await.unwrap_err();
    assert!(
        error.is_refused() && error.to_string().contains("turno_app"),
        "{error:?}"
    );
}
