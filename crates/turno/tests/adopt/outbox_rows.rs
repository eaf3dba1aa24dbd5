//! Rows of an outbox table: which a relay claims, in which order, and what the outcomes leave in the application's columns.

use std::time::Duration;

use turno::Turno;
use turno::outbox::{EventState, OnDead, OutboxTable};
use turno::store::{
    AdoptedOutboxTable, AfterRefusal, History, HistoryEvent, Order, OutboxClaim, OutboxRow,
    OutboxRowsSettle, Part,
};
use turno_testkit::conformance::TestStore;
use uuid::Uuid;

use super::outbox_table::create_ef_table;
use super::{ask, tell, test_stores};

pub(super) const LONG: Duration = Duration::from_secs(60);

/// An adopted table of Entity Framework.
pub(super) struct Rows<'a> {
    pub(super) test_store: &'a TestStore,
    pub(super) turno: Turno,
    pub(super) table: AdoptedOutboxTable,
    pub(super) handle: OutboxTable,
}

impl<'a> Rows<'a> {
    pub(super) async fn adopted(test_store: &'a TestStore) -> Self {
        let turno = test_store.turno().await;
        create_ef_table(test_store).await;
        let table = turno.adopt_outbox("OutboxMessages").apply().await.unwrap();
        let handle = turno.outbox_table("OutboxMessages");
        Rows {
            test_store,
            turno,
            table,
            handle,
        }
    }

    /// Inserts rows with these keys, as the application does; their payloads count from zero.
    pub(super) async fn insert(&self, keys: &[&str]) -> Vec<Uuid> {
        let ids: Vec<Uuid> = keys.iter().map(|_| Uuid::now_v7()).collect();
        let values: Vec<String> = keys
            .iter()
            .zip(&ids)
            .enumerate()
            .map(|(number, (key, id))| {
                let key = if key.is_empty() { "null".to_owned() } else { format!("'{key}'") };
                format!("('{}', 'TicketFlow.Domain.Events.TicketCreatedEvent', '{number}', '2026-11-17 04:00:{:02}.{:03}+00:00', 'c{number}', {key})",
                    id.to_string().to_uppercase(), number / 1000, number % 1000)
            })
            .collect();
        tell(self.test_store, &format!(r#"insert into "OutboxMessages" ("Id", "Type", "PayloadJson", "OccurredAt", "CorrelationId", "AggregateId") values {}"#, values.join(", "))).await;
        ids
    }

    async fn claim_with(
        &self,
        limit: u32,
        order: Order,
        lease: Duration,
    ) -> (Uuid, Vec<OutboxRow>) {
        let ask = OutboxClaim {
            relay: "r".into(),
            limit,
            lease,
            order,
            token: Uuid::now_v7(),
        };
        let rows = self
            .turno
            .store()
            .outbox_table_claim(&self.table, &ask)
            .await
            .unwrap();
        (ask.token, rows)
    }

    async fn claim(&self, limit: u32) -> (Uuid, Vec<OutboxRow>) {
        self.claim_with(limit, Order::ByKey, LONG).await
    }

    async fn settle(&self, ask: &OutboxRowsSettle) -> turno::store::OutboxSettled {
        self.turno
            .store()
            .outbox_table_settle(&self.table, ask)
            .await
            .unwrap()
    }

    pub(super) async fn value(&self, expression: &str) -> String {
        ask(
            self.test_store,
            &format!(r#"select {expression} from "OutboxMessages""#),
        )
        .await
    }
}

fn settlement(token: Uuid) -> OutboxRowsSettle {
    OutboxRowsSettle {
        token,
        sent: Vec::new(),
        refused: Vec::new(),
        doubtful: Vec::new(),
        deferred: Vec::new(),
    }
}

fn payloads(rows: &[OutboxRow]) -> Vec<&str> {
    rows.iter().map(|row| row.payload.as_str()).collect()
}

fn ids(rows: &[OutboxRow]) -> Vec<String> {
    rows.iter().map(|row| row.id.clone()).collect()
}

#[tokio::test]
async fn one_row_of_a_key_at_a_time_the_oldest_first() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        rows.insert(&["a", "a", "b", "", "b", ""]).await;
        let (first, claimed) = rows.claim(10).await;
        assert_eq!(payloads(&claimed), ["0", "2", "3", "5"]);
        assert_eq!(claimed[0].correlation_id.as_deref(), Some("c0"));
        assert_eq!(claimed[0].key.as_deref(), Some("a"));
        // The others wait for these, also if they are given back.
        assert_eq!(rows.claim(10).await.1.len(), 0);
        let settled = rows
            .settle(&OutboxRowsSettle {
                sent: ids(&claimed[..1]),
                ..settlement(first)
            })
            .await;
        assert_eq!((settled.sent, settled.returned, settled.stale), (1, 3, 0));
        let (_, claimed) = rows.claim(10).await;
        assert_eq!(payloads(&claimed), ["1", "2", "3", "5"]);
        // The control: without the order of keys, the rest is claimed at once.
        let (_, claimed) = rows.claim_with(10, Order::AsEmitted, LONG).await;
        assert_eq!(payloads(&claimed), ["4"]);
    }
}

#[tokio::test]
async fn two_relays_claim_different_rows_and_an_expired_claim_is_taken_over_with_a_label() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        rows.insert(&[""; 10]).await;
        let (first, mine) = rows.claim(5).await;
        let (_, others) = rows.claim(10).await;
        assert_eq!(payloads(&mine), ["0", "1", "2", "3", "4"]);
        assert_eq!(payloads(&others), ["5", "6", "7", "8", "9"]);
        assert!(others.iter().all(|row| row.doubtful == 0));
        // The control: without the claim, another relay gets the same rows, and knows that they may have been published.
        let ended = rows
            .turno
            .store()
            .outbox_table_recover(&rows.table)
            .await
            .unwrap();
        assert_eq!(ended, 10);
        let (_, again) = rows.claim(5).await;
        assert_eq!(ids(&again), ids(&mine));
        assert!(again.iter().all(|row| row.doubtful == 1));
        // The first relay comes back too late, and records nothing.
        let late = OutboxRowsSettle {
            sent: ids(&mine),
            ..settlement(first)
        };
        let settled = rows.settle(&late).await;
        assert_eq!((settled.sent, settled.stale), (0, 5));
        assert!(
            !rows
                .turno
                .store()
                .outbox_table_extend(&rows.table, first, LONG)
                .await
                .unwrap()
        );
        assert_eq!(rows.value(r#"count("DispatchedAt")"#).await, "0");
    }
}

#[tokio::test]
async fn a_repeated_claim_or_settlement_changes_nothing_more() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        rows.insert(&[""; 4]).await;
        let ask = OutboxClaim {
            relay: "r".into(),
            limit: 2,
            lease: LONG,
            order: Order::ByKey,
            token: Uuid::now_v7(),
        };
        let store = rows.turno.store();
        let first = store.outbox_table_claim(&rows.table, &ask).await.unwrap();
        let again = store.outbox_table_claim(&rows.table, &ask).await.unwrap();
        assert_eq!((first.len(), ids(&again)), (2, ids(&first)));
        let sent = OutboxRowsSettle {
            sent: ids(&first),
            ..settlement(ask.token)
        };
        for _ in 0..2 {
            let settled = rows.settle(&sent).await;
            assert_eq!((settled.sent, settled.stale), (2, 0));
        }
        assert_eq!(rows.value(r#"count("DispatchedAt")"#).await, "2");
    }
}

#[tokio::test]
async fn a_refusal_counts_an_attempt_and_the_last_one_makes_the_row_dead() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        let inserted = rows.insert(&["a", "a"]).await;
        for attempt in 1..=5 {
            let (token, claimed) = rows.claim(10).await;
            assert_eq!(payloads(&claimed), ["0"]);
            assert_eq!(claimed[0].refused, attempt - 1);
            let next = match attempt {
                5 => AfterRefusal::Dead(OnDead::Block),
                _ => AfterRefusal::Retry(Duration::ZERO),
            };
            let error = format!("{attempt}: unroutable, {}", "x".repeat(100));
            let refused = vec![(claimed[0].id.clone(), error, next)];
            let settled = rows
                .settle(&OutboxRowsSettle {
                    refused,
                    ..settlement(token)
                })
                .await;
            assert_eq!(settled.refused, 1);
        }
        assert_eq!(rows.value(r#"max("Attempts")"#).await, "5");
        assert!(
            rows.value(r#"max("Error")"#)
                .await
                .starts_with("5: unroutable, xxx")
        );
        // The document's own query finds it, and its key is blocked.
        assert_eq!(
            rows.value(r#"count(case when "Attempts" >= 3 and "DispatchedAt" is null then 1 end)"#)
                .await,
            "1"
        );
        assert_eq!(rows.claim(10).await.1.len(), 0);
        let blocked = rows
            .handle
            .list(EventState::Blocked, None, 10)
            .await
            .unwrap()
            .events;
        assert_eq!(blocked.len(), 1);
        assert_eq!((blocked[0].id, blocked[0].refused), (inserted[0], 5));
        assert!(blocked[0].errors[0].error.starts_with("5: unroutable"));
        let stats = rows.handle.stats().await.unwrap();
        assert_eq!((stats.unprocessed, stats.blocked, stats.pending), (2, 1, 1));
        assert_eq!((stats.attempts, stats.more), (5, false));
        assert!(stats.oldest_pending.is_some());
        assert_eq!(rows.handle.requeue(Some(&[inserted[1]])).await.unwrap(), 0);
        assert_eq!(rows.handle.requeue(Some(&[inserted[0]])).await.unwrap(), 1);
        assert_eq!(payloads(&rows.claim(10).await.1), ["0"]);
    }
}

#[tokio::test]
async fn a_deferred_row_waits_without_an_attempt_and_a_doubtful_one_is_labelled() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        rows.insert(&["", ""]).await;
        let (token, claimed) = rows.claim(10).await;
        let deferred = vec![(claimed[0].id.clone(), LONG)];
        let doubtful = vec![claimed[1].id.clone()];
        rows.settle(&OutboxRowsSettle {
            deferred,
            doubtful,
            ..settlement(token)
        })
        .await;
        let stats = rows.handle.stats().await.unwrap();
        assert_eq!((stats.scheduled, stats.pending), (1, 1));
        let (_, claimed) = rows.claim(10).await;
        assert_eq!(payloads(&claimed), ["1"]);
        assert_eq!((claimed[0].doubtful, claimed[0].refused), (1, 0));
        assert_eq!(rows.handle.stats().await.unwrap().processing, 1);
    }
}

#[tokio::test]
async fn a_page_begins_where_the_last_one_ended_whatever_happens_meanwhile() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        let inserted = rows.insert(&[""; 9]).await;
        // Two with the same time are ordered by their ids.
        tell(&test_store, r#"update "OutboxMessages" set "OccurredAt" = '2026-11-17 04:00:00.003+00:00' where "PayloadJson" in ('4', '5')"#).await;
        let mut listed = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let list = rows.handle.list(EventState::Pending, after.as_deref(), 2);
            let page = list.await.unwrap();
            listed.extend(page.events.iter().map(|event| event.id));
            let Some(next) = page.next else { break };
            after = Some(next);
            // Rows of the pages before are published, which would shift a page that is counted from the first row.
            let (token, claimed) = rows.claim_with(1, Order::AsEmitted, LONG).await;
            let sent = ids(&claimed);
            rows.settle(&OutboxRowsSettle {
                sent,
                ..settlement(token)
            })
            .await;
        }
        assert_eq!(listed, inserted);
        let dispatched = rows.handle.list(EventState::Dispatched, None, 10);
        assert_eq!(dispatched.await.unwrap().events.len(), 4);
        for wrong in ["7", "WyJub3doZW4iXQ", "WyJub3doZW4iLCJub3doZXJlIl0x"] {
            let list = rows.handle.list(EventState::Pending, Some(wrong), 2);
            assert_eq!(list.await.unwrap_err().field(), Some("after"), "{wrong}");
        }
    }
}

/// Returns the history of the table, newest first: what happened, to how many rows, by whom and why.
async fn history(rows: &Rows<'_>) -> Vec<(HistoryEvent, u64, String, String)> {
    let ask = History {
        resource: Some(rows.table.table.clone()),
        part: Some(Part::Outbox),
        ..History::default()
    };
    let entries = rows.turno.history(ask).await.unwrap().into_iter();
    let shown = entries.map(|entry| {
        let user = entry.actor.unwrap_or_default();
        let reason = entry.reason.unwrap_or_default();
        (entry.event, entry.count.unwrap_or(0), user, reason)
    });
    shown.collect()
}

#[tokio::test]
async fn a_discarded_row_is_never_published_and_the_history_says_by_whom() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        let inserted = rows.insert(&["a", "a", "b", "c"]).await;
        // The first row is dead and blocks its key, the third one is claimed.
        let (token, claimed) = rows.claim(1).await;
        let dead = AfterRefusal::Dead(OnDead::Block);
        let refused = vec![(claimed[0].id.clone(), "no".to_owned(), dead)];
        rows.settle(&OutboxRowsSettle {
            refused,
            ..settlement(token)
        })
        .await;
        let (_, claimed) = rows.claim(1).await;
        assert_eq!(payloads(&claimed), ["2"]);
        let operator = rows.handle.clone().reason("a test ticket");
        let chosen = [inserted[0], inserted[2], inserted[3]];
        // The claimed row may be published at this moment, so it is left out.
        assert_eq!(operator.discard(&chosen, "ana").await.unwrap(), 2);
        assert_eq!(operator.discard(&chosen, "ana").await.unwrap(), 0);
        let discarded = rows.handle.list(EventState::Discarded, None, 10).await;
        let discarded = discarded.unwrap().events;
        let found: Vec<Uuid> = discarded.iter().map(|event| event.id).collect();
        assert_eq!(found, [inserted[0], inserted[3]]);
        let error = &discarded[1].errors[0].error;
        assert_eq!(error, "discarded by ana: a test ticket");
        let dispatched = rows.handle.list(EventState::Dispatched, None, 10).await;
        assert_eq!(dispatched.unwrap().events.len(), 0);
        // The row behind the dead one goes on. The control: it waited until now.
        assert_eq!(payloads(&rows.claim(10).await.1), ["1"]);
        let expected = (
            HistoryEvent::Discarded,
            2,
            "ana".to_owned(),
            "a test ticket".to_owned(),
        );
        assert_eq!(history(&rows).await, [expected]);
        let invalid = rows.handle.discard(&chosen, "").await.unwrap_err();
        assert_eq!(invalid.field(), Some("user"));
    }
}

#[tokio::test]
async fn all_dead_rows_are_requeued_and_the_history_says_by_whom() {
    for test_store in test_stores() {
        let rows = Rows::adopted(&test_store).await;
        rows.insert(&[""; 1200]).await;
        tell(
            &test_store,
            r#"update "OutboxMessages" set "Attempts" = 5 where "PayloadJson" <> '7'"#,
        )
        .await;
        let operator = rows.handle.clone().user("ben").reason("fixed");
        assert_eq!(operator.requeue(None).await.unwrap(), 1199);
        assert_eq!(operator.requeue(None).await.unwrap(), 0);
        let stats = rows.handle.stats().await.unwrap();
        assert_eq!((stats.pending, stats.dead), (1200, 0));
        let entry = |count| {
            (
                HistoryEvent::Requeued,
                count,
                "ben".to_owned(),
                "fixed".to_owned(),
            )
        };
        assert_eq!(history(&rows).await, [entry(199), entry(1000)]);
    }
}

#[tokio::test]
async fn an_action_that_the_role_cannot_record_changes_nothing() {
    let test_store = TestStore::postgres();
    let rows = Rows::adopted(&test_store).await;
    let inserted = rows.insert(&[""]).await;
    tell(&test_store, r#"update "OutboxMessages" set "Attempts" = 5; grant select, update on "OutboxMessages" to app"#).await;
    let turno = Turno::connect(&test_store.url_as("app")).await.unwrap();
    let as_app = turno.outbox_table("OutboxMessages");
    assert_eq!(as_app.stats().await.unwrap().dead, 1);
    for refused in [
        as_app.requeue(None).await,
        as_app.discard(&inserted, "ana").await,
    ] {
        let error = refused.unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert!(error.to_string().contains("turno_operator"), "{error}");
    }
    assert_eq!(as_app.stats().await.unwrap().dead, 1);
    tell(
        &test_store,
        r#"grant select, update on "OutboxMessages" to operator"#,
    )
    .await;
    let turno = Turno::connect(&test_store.url_as("operator"))
        .await
        .unwrap();
    let as_operator = turno.outbox_table("OutboxMessages");
    assert_eq!(as_operator.requeue(None).await.unwrap(), 1);
}
