//! The protocol of the notes application, and what tokens add to it; and the flag of the presentations system. On every store.

use std::time::Duration;

use turno::adopt::{Acquire, Release, Reset, Shape, Stats};

use super::{TIMEOUT, age, ask, take, tell, test_stores, with_notes};

#[tokio::test]
async fn a_row_is_locked_by_one_and_processed_once() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 3).await;
        let token = take(&notes, "1").await;
        assert_eq!(notes.acquire("1", TIMEOUT).await.unwrap(), Acquire::Busy);
        let locked = Stats {
            total: 3,
            pending: 2,
            processing: 1,
            ..Stats::default()
        };
        assert_eq!(notes.stats(None).await.unwrap(), locked);
        assert_eq!(notes.release("1", token).await.unwrap(), Release::Released);
        let done = Stats {
            processing: 0,
            completed: 1,
            ..locked
        };
        assert_eq!(notes.stats(None).await.unwrap(), done);
        // A processed row stays processed, whatever its age; and a row that does not exist cannot be locked.
        for id in ["1", "99"] {
            let timeout = Duration::from_millis(1);
            assert_eq!(notes.acquire(id, timeout).await.unwrap(), Acquire::Busy);
        }
        let row = "select processed_at is not null and processing_started_at is null and processing_attempts = 1 from notes where id = 1";
        assert!(["1", "true"].contains(&&*ask(&test_store, row).await));
    }
}

#[tokio::test]
async fn an_old_lock_is_taken_over_and_its_holder_is_stale() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 1).await;
        let first = take(&notes, "1").await;
        age(&test_store, "notes").await;
        // The age of a lock is fixed, and each caller passes its own timeout.
        let two_hours = Duration::from_secs(2 * 60 * 60);
        assert_eq!(notes.acquire("1", two_hours).await.unwrap(), Acquire::Busy);
        let second = take(&notes, "1").await;
        assert!(second > first);
        assert_eq!(notes.release("1", first).await.unwrap(), Release::Stale);
        assert_eq!(
            notes
                .release_with_error("1", first, "too late")
                .await
                .unwrap(),
            Release::Stale
        );
        assert_eq!(notes.stats(None).await.unwrap().processing, 1);
        assert_eq!(notes.release("1", second).await.unwrap(), Release::Released);
        assert_eq!(notes.release("1", first).await.unwrap(), Release::Stale);
        let attempts = "select processing_attempts from notes";
        assert_eq!(ask(&test_store, attempts).await, "2");
    }
}

#[tokio::test]
async fn a_late_release_counts_without_a_takeover() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 1).await;
        let token = take(&notes, "1").await;
        age(&test_store, "notes").await;
        assert_eq!(notes.release("1", token).await.unwrap(), Release::Released);
    }
}

/// The response to a release can be lost, and the release is then sent again.
#[tokio::test]
async fn a_repeated_release_gets_the_same_answer() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 2).await;
        let (done, failed) = (take(&notes, "1").await, take(&notes, "2").await);
        for _ in 0..2 {
            assert_eq!(notes.release("1", done).await.unwrap(), Release::Released);
            let again = notes.release_with_error("2", failed, "why").await.unwrap();
            assert_eq!(again, Release::Released);
        }
        let other = notes
            .release_with_error("2", failed, "other")
            .await
            .unwrap();
        assert_eq!(other, Release::Stale);
        assert_eq!(notes.release("2", failed).await.unwrap(), Release::Stale);
    }
}

#[tokio::test]
async fn a_failed_row_is_tried_again_until_its_attempts_are_spent() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 1).await;
        for attempt in 1..=5 {
            let rows = notes.next(None, 10, TIMEOUT).await.unwrap();
            assert_eq!(rows.len(), 1);
            assert_eq!((&*rows[0].id, rows[0].attempt), ("1", attempt));
            let error = format!("attempt {attempt}");
            let end = notes.release_with_error("1", rows[0].token, &error).await;
            assert_eq!(end.unwrap(), Release::Released);
            assert_eq!(
                ask(&test_store, "select error_message from notes").await,
                error
            );
            assert_eq!(notes.stats(None).await.unwrap().failed, 1);
        }
        assert_eq!(notes.next(None, 10, TIMEOUT).await.unwrap(), []);
        // It can still be acquired by its id, and a success clears the error.
        let token = take(&notes, "1").await;
        assert_eq!(notes.release("1", token).await.unwrap(), Release::Released);
        assert_eq!(
            ask(&test_store, "select error_message from notes").await,
            ""
        );
    }
}

/// A row that kills its workers must not be returned for ever.
#[tokio::test]
async fn an_abandoned_row_spends_its_attempts_too() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 1).await;
        for _ in 0..5 {
            assert_eq!(notes.next(None, 1, TIMEOUT).await.unwrap().len(), 1);
            assert_eq!(notes.next(None, 1, TIMEOUT).await.unwrap(), []);
            age(&test_store, "notes").await;
        }
        assert_eq!(notes.next(None, 1, TIMEOUT).await.unwrap(), []);
        assert_eq!(notes.cleanup(TIMEOUT).await.unwrap(), 1);
        assert_eq!(notes.stats(None).await.unwrap().failed, 1);
    }
}

#[tokio::test]
async fn cleaning_up_marks_what_was_abandoned_as_failed() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 4).await;
        let old = take(&notes, "1").await;
        take(&notes, "2").await;
        age(&test_store, "notes").await;
        take(&notes, "3").await;
        assert_eq!(notes.cleanup(TIMEOUT).await.unwrap(), 2);
        assert_eq!(notes.cleanup(TIMEOUT).await.unwrap(), 0);
        let expected = Stats {
            total: 4,
            pending: 1,
            processing: 1,
            completed: 0,
            failed: 2,
        };
        assert_eq!(notes.stats(None).await.unwrap(), expected);
        let error = ask(&test_store, "select error_message from notes where id = 1").await;
        assert!(error.starts_with("abandoned"), "{error}");
        assert_eq!(notes.release("1", old).await.unwrap(), Release::Stale);
    }
}

#[tokio::test]
async fn the_next_rows_are_those_tried_least_of_whom_was_asked_for() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 6).await;
        let token = take(&notes, "1").await;
        notes.release_with_error("1", token, "why").await.unwrap();
        let ids = async |user, limit| -> Vec<String> {
            let rows = notes.next(user, limit, TIMEOUT).await.unwrap();
            let mut ids: Vec<String> = rows.into_iter().map(|row| row.id).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(None, 2).await, ["2", "3"]);
        assert_eq!(ids(Some("user 0"), 10).await, ["4", "6"]);
        assert_eq!(ids(Some("unknown"), 10).await, [""; 0]);
        assert_eq!(ids(None, 1).await, ["5"]);
        assert_eq!(ids(None, 10).await, ["1"]);
        assert_eq!(ids(None, 10).await, [""; 0]);
        let stats = notes.stats(Some("user 1")).await.unwrap();
        assert_eq!((stats.total, stats.processing), (3, 3));
    }
}

#[tokio::test]
async fn stuck_rows_are_reset_and_all_on_request() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 4).await;
        let done = take(&notes, "1").await;
        notes.release("1", done).await.unwrap();
        let failed = take(&notes, "2").await;
        notes.release_with_error("2", failed, "why").await.unwrap();
        let stuck = take(&notes, "3").await;
        age(&test_store, "notes").await;
        take(&notes, "4").await;
        let reset = notes.reset_stuck(Reset::Stuck(TIMEOUT)).await.unwrap();
        assert_eq!(reset, 1);
        assert_eq!(notes.release("3", stuck).await.unwrap(), Release::Stale);
        let stats = notes.stats(None).await.unwrap();
        assert_eq!(
            (
                stats.pending,
                stats.processing,
                stats.failed,
                stats.completed
            ),
            (1, 1, 1, 1)
        );
        assert_eq!(notes.reset_stuck(Reset::All).await.unwrap(), 3);
        let stats = notes.stats(None).await.unwrap();
        assert_eq!((stats.pending, stats.completed), (3, 1));
        let attempts = "select sum(processing_attempts) from notes where processed_at is null";
        assert_eq!(ask(&test_store, attempts).await, "0");
    }
}

#[tokio::test]
async fn ids_are_text_whatever_their_type() {
    const UUID: &str = "0190f1f4-2b3c-7d4e-8f50-112233445566";
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        let kinds = [
            ("bigint", "9007199254740993"),
            ("integer", "-7"),
            ("smallint", "7"),
            ("uuid", UUID),
            ("text", "a 'quoted' id"),
            ("varchar(36)", UUID),
            ("char(4)", "ab"),
            ("numeric", "17"),
        ];
        for (place, (kind, id)) in kinds.into_iter().enumerate() {
            let table = format!("of_{place}");
            let quoted = id.replace('\'', "''");
            tell(&test_store, &format!("create table {table} (key {kind} primary key); insert into {table} (key) values ('{quoted}')")).await;
            let adopt = turno.adopt(&table).id("key").suffix(&table);
            adopt.apply().await.unwrap();
            let handle = turno.adopted(&table);
            let rows = handle.next(None, 10, TIMEOUT).await.unwrap();
            assert_eq!(rows[0].id.trim_end(), id, "{kind}");
            let held = handle.acquire(id, TIMEOUT).await.unwrap();
            assert_eq!(held, Acquire::Busy, "{kind}");
            let released = handle.release(id, rows[0].token).await.unwrap();
            assert_eq!(released, Release::Released, "{kind}");
            if !test_store.is_sqlite() && kind == "uuid" {
                let error = handle.acquire("17", TIMEOUT).await.unwrap_err();
                assert_eq!(error.field(), Some("id"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_flag_is_turned_by_one() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        tell(&test_store, "create table presentations (id {id}, processed boolean not null default false, processed_at timestamp); insert into presentations (id) values (1), (2)").await;
        let adopt = turno.adopt("presentations").shape(Shape::Processed);
        assert_eq!(adopt.apply().await.unwrap().columns, [""; 0]);
        let inbox = turno.adopted("presentations");
        assert!(inbox.try_mark("1").await.unwrap());
        assert!(!inbox.try_mark("1").await.unwrap());
        assert!(!inbox.try_mark("99").await.unwrap());
        let stats = inbox.stats(None).await.unwrap();
        assert_eq!((stats.total, stats.pending, stats.completed), (2, 1, 1));
        assert_ne!(
            ask(
                &test_store,
                "select processed_at from presentations where id = 1"
            )
            .await,
            ""
        );
        assert!(inbox.unmark("1").await.unwrap());
        assert!(!inbox.unmark("1").await.unwrap());
        assert_eq!(
            ask(
                &test_store,
                "select processed_at from presentations where id = 1"
            )
            .await,
            ""
        );
        assert!(inbox.try_mark("1").await.unwrap());
    }
}

#[tokio::test]
async fn an_invalid_argument_is_named() {
    for test_store in test_stores() {
        let (turno, notes) = with_notes(&test_store, 1).await;
        let field = |error: turno::Error| match error.field() {
            Some(field) => field.to_owned(),
            None => panic!("{error:?}"),
        };
        let zero = Duration::ZERO;
        assert_eq!(
            field(notes.acquire("1", zero).await.unwrap_err()),
            "timeout"
        );
        assert_eq!(
            field(notes.next(None, 1, zero).await.unwrap_err()),
            "timeout"
        );
        assert_eq!(
            field(notes.next(None, 0, TIMEOUT).await.unwrap_err()),
            "limit"
        );
        assert_eq!(field(notes.try_mark("1").await.unwrap_err()), "shape");
        let none = turno.adopted("nothing");
        assert_eq!(
            field(none.acquire("1", TIMEOUT).await.unwrap_err()),
            "table"
        );
        assert_eq!(field(none.stats(None).await.unwrap_err()), "table");
        assert_eq!(field(turno.unadopt("nothing").await.unwrap_err()), "table");
        turno
            .adopt("notes")
            .shape(Shape::Processed)
            .apply()
            .await
            .unwrap();
        assert_eq!(
            field(notes.acquire("1", TIMEOUT).await.unwrap_err()),
            "shape"
        );
    }
}
