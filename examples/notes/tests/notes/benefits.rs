//! "Benefits", before and after: cron, manual and batch triggers at once, as three processes and more.

use notes::application::{ANA, EVA, note_id};
use notes::service::Step::{Analysis, Transcription};
use turno_testkit::{Process, eventually};

use crate::LONG;
use crate::test_database::{TestDatabase, end};

const WITHOUT: &str = "--without-locks";
const ALL: [&str; 3] = ["batch", "cron", "manual"];

/// Starts the three triggers, each of which finds note 3 first.
fn three(place: &TestDatabase, options: &[&str]) -> [Process; 3] {
    let three = note_id(3);
    [
        place.start(&[&["batch", "--user", ANA, "--limit", "1"], options].concat()),
        place.start(&[&["cron", "--limit", "1"], options].concat()),
        place.start(&[&["manual", &three, "--user", ANA], options].concat()),
    ]
}

/// Before: *race conditions possible*, *duplicate processing costs*, and, under "Problem Solved", *wasted resources* and *race
/// conditions in database updates*: three processes have processed the note, and its counter says one.
#[tokio::test]
async fn without_locks_three_triggers_pay_three_times() {
    let place = TestDatabase::before().await;
    let gate = place.shut(Transcription, &ALL).await;
    let processes = three(&place, &[WITHOUT]);
    for who in ALL {
        place.await_charge(who, Transcription).await;
    }
    gate.open().await.unwrap();
    for process in &processes {
        assert_eq!(end(process).code, Some(0));
    }
    for step in [Transcription, Analysis] {
        assert_eq!(place.payers(3, step).await, "batch cron manual");
    }
    let note = place.note(3).await;
    assert!(note.starts_with("processed, 1 attempts"), "{note}");
}

/// After: *guaranteed exclusive processing*, *cost optimization through prevention of duplicates*; "Lock Acquisition": the
/// second process is informed that the note is being processed.
#[tokio::test]
async fn with_locks_the_same_three_pay_once() {
    let place = TestDatabase::adopted().await;
    let gate = place.shut(Transcription, &ALL).await;
    let manual = place.start(&["manual", &note_id(3), "--user", ANA]);
    place.await_charge("manual", Transcription).await;
    let [batch, cron, second] = three(&place, &[]);
    let second = end(&second);
    assert_eq!(second.code, Some(75));
    assert!(
        second.out.ends_with("Note is currently being processed"),
        "{second:?}"
    );
    // Triggers that take any free note take another one.
    place.await_charge("batch", Transcription).await;
    place.await_charge("cron", Transcription).await;
    gate.open().await.unwrap();
    for process in [manual, batch, cron] {
        assert_eq!(end(&process).code, Some(0));
    }
    for step in [Transcription, Analysis] {
        assert_eq!(place.payers(3, step).await, "manual");
    }
    assert_eq!(duplicates(&place).await, "0");
    assert_eq!(
        place.note(3).await,
        "processed, 1 attempts, words of 3.ogg by manual, gist of words of 3.ogg by manual"
    );
}

/// After, under load: eight processes and all notes, in any distribution.
#[tokio::test]
async fn with_locks_eight_processes_pay_for_each_note_once() {
    let place = TestDatabase::adopted().await;
    let mut processes = Vec::new();
    for user in [ANA, EVA] {
        processes.push(place.start(&["batch", "--user", user]));
        processes.push(place.start(&["cron", "--limit", "4"]));
    }
    for number in [3, 5, 8, 12] {
        let user = if number % 2 == 1 { ANA } else { EVA };
        processes.push(place.start(&["manual", &note_id(number), "--user", user]));
    }
    for process in &processes {
        let code = end(process).code;
        assert!(matches!(code, Some(0 | 75)), "{code:?}");
    }
    assert_eq!(duplicates(&place).await, "0");
    assert_eq!(place.ask("select count(*)::text from charges").await, "22");
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":0,"processing":0,"completed":12,"failed":0}"#
    );
}

/// Before: *inconsistent state updates*. The transcription is from one run, the analysis from another.
#[tokio::test]
async fn without_locks_a_note_is_of_two_runs() {
    let place = TestDatabase::before().await;
    let (manual, cron) = interleaved(&place, &[WITHOUT]).await;
    assert_eq!((manual, cron), (Some(0), Some(0)));
    assert_eq!(
        place.note(3).await,
        "processed, 1 attempts, words of 3.ogg by manual, gist of words of 3.ogg by cron"
    );
}

/// After: *consistent state management*. The second process does not get the lock, and takes another note.
#[tokio::test]
async fn with_locks_a_note_is_of_one_run() {
    let place = TestDatabase::adopted().await;
    let (manual, cron) = interleaved(&place, &[]).await;
    assert_eq!((manual, cron), (Some(0), Some(0)));
    assert_eq!(
        place.note(3).await,
        "processed, 1 attempts, words of 3.ogg by manual, gist of words of 3.ogg by manual"
    );
}

/// The button's transcription overlaps the cron job's analysis: one begins and ends before the other.
async fn interleaved(place: &TestDatabase, options: &[&str]) -> (Option<i32>, Option<i32>) {
    let words = place.shut(Transcription, &["manual"]).await;
    let gist = place.shut(Analysis, &["cron"]).await;
    let three = note_id(3);
    let manual = place.start(&[&["manual", &three, "--user", ANA], options].concat());
    place.await_charge("manual", Transcription).await;
    let cron = place.start(&[&["cron", "--limit", "1"], options].concat());
    place.await_charge("cron", Analysis).await;
    words.open().await.unwrap();
    let manual = end(&manual).code;
    gist.open().await.unwrap();
    (manual, end(&cron).code)
}

/// Before: *no protection against stuck processes*. Money was spent, and the note shows no attempt.
#[tokio::test]
async fn without_locks_a_process_that_dies_leaves_no_trace() {
    let place = TestDatabase::before().await;
    let gate = place.shut(Transcription, &["manual"]).await;
    let manual = place.start(&["manual", &note_id(3), "--user", ANA, WITHOUT]);
    place.await_charge("manual", Transcription).await;
    manual.kill_9();
    eventually(LONG, "its end", || manual.wait_timeout(LONG));
    gate.open().await.unwrap();
    assert_eq!(place.note(3).await, "open, 0 attempts");
    assert_eq!(place.payers(3, Transcription).await, "manual");
}

/// *`SKIP LOCKED` prevents waiting for locked rows*: another session changes note 3 in a transaction that stays open.
#[tokio::test]
async fn no_caller_waits_for_a_row_that_another_changes() {
    let place = TestDatabase::adopted().await;
    let mut other = place.db.begin().await.unwrap();
    sqlx::raw_sql("update notes set title = 'Call Eva' where title = 'Note 3'")
        .execute(&mut *other)
        .await
        .unwrap();
    assert_eq!(place.run(&["cron", "--limit", "20"]).code, Some(0));
    let manual = place.run(&["manual", &note_id(3), "--user", ANA]);
    assert_eq!(manual.code, Some(75), "{manual:?}");
    other.commit().await.unwrap();
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":1,"processing":0,"completed":11,"failed":0}"#
    );
}

/// "Batch Processing Protection": *each note is automatically locked when retrieved*, also those processed later.
#[tokio::test]
async fn a_batch_locks_all_its_notes_when_it_takes_them() {
    let place = TestDatabase::adopted().await;
    let gate = place.shut(Transcription, &["batch"]).await;
    let batch = place.start(&["batch", "--user", ANA]);
    place.await_charge("batch", Transcription).await;
    assert_eq!(
        place.stats(&["--user", ANA]),
        r#"{"total":6,"pending":0,"processing":5,"completed":1,"failed":0}"#
    );
    let nothing_left = place.run(&["batch", "--user", ANA, "--who", "late"]);
    assert_eq!(nothing_left.out, "late: 0 abandoned locks cleaned up");
    gate.open().await.unwrap();
    assert_eq!(end(&batch).code, Some(0));
}

/// Returns charges for a step that was charged before.
async fn duplicates(place: &TestDatabase) -> String {
    place
        .ask("select (count(*) - count(distinct (note_id, step)))::text from charges")
        .await
}
