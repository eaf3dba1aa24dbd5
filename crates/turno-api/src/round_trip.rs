//! Views survive serialization and deserialization.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::admin::*;
use crate::adopt::*;
use crate::history::*;
use crate::ids::*;
use crate::inbox::*;
use crate::lock::*;
use crate::once::*;
use crate::outbox::*;
use crate::schema::*;

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(answer: &T) {
    let text = serde_json::to_string(answer).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), answer, "{text}");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn attribution() -> Attribution {
    Attribution {
        user: Some("1".into()),
        pid: Some(7),
        ..Attribution::default()
    }
}

#[test]
fn locks() {
    comes_back(&LockHolder {
        resource: "PRESTAMO/1".into(),
        mode: "exclusive".into(),
        owner: "a".into(),
        token: Token(7),
        holds: 2,
        attribution: attribution(),
        acquired_at: at(1),
        expires_at: at(31),
        remaining: Duration::from_millis(29_500),
        waiters: 3,
    });
    comes_back(&HistoryEntry {
        id: Some(4),
        at: at(9),
        part: Part::Lock,
        event: HistoryEvent::Late,
        resource: "PRESTAMO/1".into(),
        count: None,
        token: Some(Token(7)),
        mode: Some("shared".into()),
        owner: None,
        attribution: Attribution::default(),
        acquired_at: Some(at(1)),
        expires_at: None,
        actor: None,
        reason: Some("renew".into()),
    });
    comes_back(&Holder {
        user: None,
        service: Some("caja".into()),
        description: None,
        acquired_at: at(1),
        expires_at: at(2),
    });
    comes_back(&LeaseId {
        resource: "a@b".into(),
        token: Token(7),
    });
}

#[test]
fn items() {
    let claim = ClaimId {
        item: ItemId(17),
        token: Uuid::from_u128(1),
    };
    comes_back(&Settled {
        done: 1,
        stale: vec![claim],
    });
    comes_back(&PushedItem {
        id: ItemId(17),
        duplicate: true,
    });
    for oldest_pending in [None, Some(Duration::from_millis(5))] {
        comes_back(&QueueStats {
            queue: "mail".into(),
            total: 6,
            pending: 1,
            scheduled: 1,
            processing: 1,
            completed: 2,
            failed: 1,
            oldest_pending,
        });
    }
    comes_back(&ItemView {
        id: ItemId(17),
        state: ItemState::Failed,
        payload: Some("{}".into()),
        key: None,
        group: Some("g".into()),
        priority: Some(1),
        attempts: 5,
        abandoned: 1,
        worker: Some("w".into()),
        pushed_at: Some(at(1)),
        at: None,
        errors: vec![AttemptError {
            attempt: 5,
            at: at(2),
            kind: "failed".into(),
            error: "no".into(),
            worker: None,
        }],
    });
}

#[test]
fn events() {
    comes_back(&OutboxStats {
        total: 1,
        pending: 1,
        scheduled: 0,
        processing: 0,
        dispatched: 0,
        dead: 0,
        blocked: 0,
        parked_keys: 0,
        oldest_pending: Some(Duration::from_millis(5)),
    });
    comes_back(&EventView {
        seq: ItemId(3),
        id: Uuid::from_u128(2),
        state: EventState::Dead,
        kind: Some("TicketCreatedEvent".into()),
        key: Some("7".into()),
        correlation_id: None,
        traceparent: None,
        headers: [("tenant".to_owned(), "north".to_owned())].into(),
        payload: Some("1".into()),
        refused: 5,
        doubtful: 0,
        by: None,
        emitted_at: Some(at(1)),
        at: Some(at(2)),
        errors: Vec::new(),
    });
}

#[test]
fn keys() {
    comes_back(&OnceRun {
        worker: Some("w".into()),
        attempt: 2,
        began_at: at(1),
        expires_at: at(2),
        remaining: Duration::from_millis(1),
    });
    comes_back(&OnceView {
        claim: OnceClaim {
            key: "pago/77".into(),
            token: Token(7),
        },
        key: "pago/77".into(),
        state: OnceState::InFlight,
        attempt: 1,
        fingerprint: None,
        worker: None,
        scope: None,
        began_at: at(1),
        expires_at: at(2),
        late: 0,
        answer: None,
    });
}

#[test]
fn upkeep() {
    comes_back(&Swept {
        expired: 1,
        once: 2,
        ..Swept::default()
    });
    comes_back(&Migrated {
        from: None,
        to: 1,
        missing_roles: vec!["turno_app".to_owned()],
        changed_settings: vec![ChangedSetting {
            name: "notify".into(),
            before: "on".into(),
            value: "off".into(),
        }],
    });
    comes_back(&Finding::warning("clock", "it is late"));
    comes_back(&AdoptedStats {
        total: 1,
        ..AdoptedStats::default()
    });
    comes_back(&AdoptedRow {
        id: "1".into(),
        token: Token(7),
        attempt: 1,
    });
    comes_back(&Adoption {
        table: "notes".into(),
        id: "id".into(),
        user: None,
        shape: Shape::Processed,
        columns: vec!["processed".into()],
        indexes: Vec::new(),
        functions: Vec::new(),
        replaced: vec!["public.acquire_processing_lock(uuid,integer)".to_owned()],
    });
}
