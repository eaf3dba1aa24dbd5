//! Relays of an outbox table: what they publish, in which order, and how many rows they read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use turno::outbox::{EventState, Mode, OnDead, Relay, RelayReport};
use turno::sink::{Outage, Outgoing, PublishResult, Sink};
use turno_testkit::conformance::TestStore;
use turno_testkit::eventually_async;
use uuid::Uuid;

use super::outbox_rows::{LONG, Rows};
use super::outbox_table::create_ef_table;
use super::{ask, tell, test_stores};

/// Collects what is published; refuses payloads in a set.
#[derive(Debug, Default)]
struct Collected {
    published: Mutex<Vec<Outgoing>>,
    refuses: BTreeSet<&'static str>,
}

#[async_trait]
impl Sink for Collected {
    fn name(&self) -> String {
        "a list".to_owned()
    }

    async fn ready(&self) -> Result<(), Outage> {
        Ok(())
    }

    async fn publish(&self, events: &[Outgoing]) -> Vec<PublishResult> {
        let result = |event: &Outgoing| match self.refuses.contains(event.payload.as_str()) {
            true => PublishResult::Refused("no".to_owned()),
            false => PublishResult::Sent,
        };
        let results: Vec<PublishResult> = events.iter().map(result).collect();
        let sent = events.iter().zip(&results);
        let sent = sent.filter(|(_, result)| **result == PublishResult::Sent);
        self.published
            .lock()
            .unwrap()
            .extend(sent.map(|(event, _)| event.clone()));
        // So that another relay gets its share.
        tokio::task::yield_now().await;
        results
    }
}

impl Collected {
    fn all(&self) -> Vec<Outgoing> {
        self.published.lock().unwrap().clone()
    }
}

/// Runs relays until the table has no pending row.
async fn run(rows: &Rows<'_>, relays: Vec<Relay>) -> Vec<RelayReport> {
    let stop = CancellationToken::new();
    let started: Vec<_> = relays
        .into_iter()
        .map(|relay| tokio::spawn(relay.run(stop.clone().cancelled_owned())))
        .collect();
    eventually_async(LONG, "all rows to be settled", async || {
        let stats = rows.handle.stats().await.unwrap();
        (stats.pending + stats.processing + stats.scheduled == 0).then_some(())
    })
    .await;
    stop.cancel();
    let mut reports = Vec::new();
    for relay in started {
        reports.push(relay.await.unwrap().unwrap());
    }
    reports
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_at_once_publish_different_rows_in_the_order_of_their_keys() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        let keys: Vec<String> = (0..400).map(|number| format!("k{}", number % 20)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        rows.insert(&keys).await;
        let sink = Arc::new(Collected::default());
        let relay = |name: &str| {
            let relay = rows.handle.relay(sink.clone()).name(name).batch(10);
            relay.poll(Duration::from_millis(20))
        };
        let reports = run(&rows, vec![relay("A"), relay("B")]).await;
        let (a, b) = (reports[0].sent, reports[1].sent);
        assert_eq!(a + b, 400);
        assert!(a > 0 && b > 0, "one relay has published all: {a} and {b}");
        let published = sink.all();
        let unique: BTreeSet<Uuid> = published.iter().map(|event| event.id).collect();
        assert_eq!((published.len(), unique.len()), (400, 400));
        let mut of_key: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for event in &published {
            assert!(!event.possible_duplicate);
            let number = event.payload.parse().unwrap();
            of_key
                .entry(event.key.clone().unwrap())
                .or_default()
                .push(number);
        }
        assert_eq!(of_key.len(), 20);
        for numbers in of_key.values() {
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
        assert_eq!(rows.value(r#"count("DispatchedAt")"#).await, "400");
        assert_eq!(rows.value(r#"sum("Attempts")"#).await, "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_row_parks_its_key_and_a_requeue_publishes_all_in_order() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        let inserted = rows.insert(&["a", "a", "b", "a"]).await;
        let refusing = Arc::new(Collected {
            refuses: BTreeSet::from(["0"]),
            ..Collected::default()
        });
        let relay = |sink: Arc<Collected>| {
            let relay = rows
                .handle
                .relay(sink)
                .mode(Mode::Ordered)
                .on_dead(OnDead::Park);
            relay.backoff(Duration::from_millis(1), Duration::from_millis(1))
        };
        let reports = run(&rows, vec![relay(refusing.clone())]).await;
        // Five attempts of the first, and one refusal of each row behind it.
        assert_eq!(
            (reports[0].sent, reports[0].refused, reports[0].dead),
            (1, 7, 3)
        );
        let stats = rows.handle.stats().await.unwrap();
        assert_eq!(
            (stats.dead, stats.parked_keys, stats.unprocessed),
            (3, 1, 3)
        );
        assert_eq!(rows.handle.requeue(Some(&inserted[..1])).await.unwrap(), 3);
        let sink = Arc::new(Collected::default());
        run(&rows, vec![relay(sink.clone())]).await;
        let published: Vec<String> = sink.all().into_iter().map(|event| event.payload).collect();
        assert_eq!(published, ["0", "1", "3"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_not_json_is_dead_and_the_others_are_published() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        rows.insert(&["", ""]).await;
        tell(&test_store, r#"update "OutboxMessages" set "PayloadJson" = '1, "type": "forged"' where "PayloadJson" = '0'"#).await;
        let sink = Arc::new(Collected::default());
        let reports = run(
            &rows,
            vec![rows.handle.relay(sink.clone()).mode(Mode::Single)],
        )
        .await;
        assert_eq!((reports[0].sent, reports[0].dead), (1, 1));
        assert_eq!(
            sink.all()[0].kind,
            "TicketFlow.Domain.Events.TicketCreatedEvent"
        );
        assert_eq!(sink.all()[0].correlation_id.as_deref(), Some("c1"));
        assert_eq!(rows.value(r#"max("Attempts")"#).await, "5");
    }
}

#[tokio::test]
async fn a_relay_of_a_table_that_is_not_adopted_does_not_start() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        create_ef_table(&test_store).await;
        let relay = turno
            .outbox_table("OutboxMessages")
            .relay(Arc::new(Collected::default()));
        let error = relay.run(std::future::pending()).await.unwrap_err();
        assert_eq!(error.field(), Some("table"));
        assert!(
            error
                .to_string()
                .contains("turno adopt --as outbox OutboxMessages"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_numbers_as_ids_is_published_with_stable_ids() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        tell(&test_store, "create table outbox (id {id}, type text, payload text, created_at timestamp, processed boolean); insert into outbox (type, payload, created_at) values ('a', '1', '2026-11-17 04:00:00'), ('b', '2', '2026-11-17 04:00:00')").await;
        turno.adopt_outbox("outbox").apply().await.unwrap();
        let handle = turno.outbox_table("outbox");
        let before = handle.list(EventState::Pending, None, 1).await.unwrap();
        let rest = handle
            .list(EventState::Pending, before.next.as_deref(), 10)
            .await
            .unwrap();
        assert_eq!(rest.next, None);
        let before = [before.events, rest.events].concat();
        assert_eq!(before.len(), 2);
        assert_eq!((before[0].seq.0, before[1].seq.0), (1, 2));
        let sink = Arc::new(Collected::default());
        let stop = CancellationToken::new();
        let work = tokio::spawn(
            handle
                .relay(sink.clone())
                .run(stop.clone().cancelled_owned()),
        );
        eventually_async(LONG, "both rows", async || {
            (!handle.has_pending().await.unwrap()).then_some(())
        })
        .await;
        stop.cancel();
        work.await.unwrap().unwrap();
        let published: BTreeSet<Uuid> = sink.all().iter().map(|event| event.id).collect();
        assert_eq!(published, before.iter().map(|event| event.id).collect());
        assert_eq!(sink.all()[0].emitted_at.to_string(), "2026-11-17T04:00:00Z");
        let flag = ask(&test_store, "select count(*) from outbox where processed").await;
        assert_eq!(flag, "2");
    }
}

/// The indexes of a table, and whether the planner has statistics.
#[derive(Clone, Copy, PartialEq)]
enum Indexes {
    AsAdopted,
    Analyzed,
    Dropped,
}

const PROCESSED_ROWS: i64 = 20_000;

/// Returns how many rows PostgreSQL reads while a relay publishes a hundred rows of a table with very many processed ones. Waits until
/// at least so many are counted.
async fn rows_read(indexes: Indexes, at_least: i64) -> i64 {
    let test_store = TestStore::postgres();
    let rows = Rows::adopted(&test_store).await;
    tell(&test_store, &format!(r#"insert into "OutboxMessages" ("Id", "Type", "PayloadJson", "OccurredAt", "DispatchedAt", "AggregateId")
        select gen_random_uuid(), 'TicketCreatedEvent', '0', now() - interval '1 day', now(), 'k' || n % 20 from generate_series(1, {PROCESSED_ROWS}) n"#)).await;
    let keys: Vec<String> = (0..100).map(|number| format!("k{}", number % 20)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    rows.insert(&keys).await;
    match indexes {
        Indexes::AsAdopted => {}
        Indexes::Analyzed => tell(&test_store, r#"analyze "OutboxMessages""#).await,
        Indexes::Dropped => {
            let drop = |name: &String| format!(r#"drop index "{name}";"#);
            let sql: String = rows.table.indexes.iter().map(drop).collect();
            tell(&test_store, &sql).await;
        }
    }
    let count = r#"select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables where relname = 'OutboxMessages'"#;
    // The server counts what a session has read when the session ends.
    let sessions = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' and application_name like 'turno%'";
    let before: i64 = ask(&test_store, count).await.parse().unwrap();
    let sink = Arc::new(Collected::default());
    let relay = rows.handle.relay(sink.clone()).batch(10);
    run(&rows, vec![relay]).await;
    assert_eq!(sink.all().len(), 100);
    assert_eq!(rows.handle.stats().await.unwrap().unprocessed, 0);
    drop((rows, sink));
    eventually_async(LONG, "the sessions to end", async || {
        (ask(&test_store, sessions).await == "0").then_some(())
    })
    .await;
    // PostgreSQL 14 counts a moment later.
    eventually_async(LONG, "the rows that were read", async || {
        let after: i64 = ask(&test_store, count).await.parse().unwrap();
        (after - before >= at_least).then_some(after - before)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_reads_no_processed_rows() {
    for indexes in [Indexes::AsAdopted, Indexes::Analyzed] {
        let read = rows_read(indexes, 100).await;
        // A relay on a slow machine looks more often, and each look reads what is not processed.
        assert!(read < PROCESSED_ROWS / 2, "{read}");
    }
    // The control: without the indexes of adopt, each claim reads all rows.
    rows_read(Indexes::Dropped, PROCESSED_ROWS * 5).await;
}
