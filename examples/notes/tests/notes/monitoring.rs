//! "Monitoring": the statistics, and the cleanup of abandoned locks.

use notes::application::{ANA, note_id};
use notes::service::Step::Transcription;

use crate::test_database::{TestDatabase, end};

/// *Clear distinction between pending, processing, completed, and failed*, of one user and of all. `processing` notes have an
/// active lock, `pending` ones wait.
#[tokio::test]
async fn the_statistics_tell_the_states_apart() {
    let place = TestDatabase::adopted().await;
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":10,"processing":0,"completed":1,"failed":1}"#
    );
    let gate = place.shut(Transcription, &["batch"]).await;
    let batch = place.start(&["batch", "--user", ANA, "--limit", "2"]);
    place.await_charge("batch", Transcription).await;
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":8,"processing":2,"completed":1,"failed":1}"#
    );
    assert_eq!(
        place.stats(&["--user", ANA]),
        r#"{"total":6,"pending":3,"processing":2,"completed":1,"failed":0}"#
    );
    gate.open().await.unwrap();
    assert_eq!(end(&batch).code, Some(0));
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":8,"processing":0,"completed":3,"failed":1}"#
    );
}

/// "Cleanup Frequency": *when getting processing statistics*. Abandoned notes count as failed, not as processing.
#[tokio::test]
async fn statistics_clean_up_first() {
    let place = TestDatabase::adopted().await;
    place
        .tell("select acquire_processing_lock(id) from notes where title = 'Note 3'")
        .await;
    place.minutes_pass(16).await;
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":9,"processing":0,"completed":1,"failed":2}"#
    );
    let note = place.note(3).await;
    assert!(note.starts_with("open, 1 attempts, abandoned"), "{note}");
}

/// "Cleanup Frequency": *before each batch processing operation*, and *lock cleanup logging*.
#[tokio::test]
async fn a_batch_cleans_up_first_and_says_so() {
    let place = TestDatabase::adopted().await;
    place
        .tell("select acquire_processing_lock(id) from notes where title = 'Note 4'")
        .await;
    place.minutes_pass(16).await;
    let batch = place.run(&["batch", "--user", ANA, "--limit", "1"]);
    assert!(
        batch.out.starts_with("batch: 1 abandoned locks cleaned up"),
        "{batch:?}"
    );
}

/// "Check Lock Status", as the document reads it: a lock is active while `processing_started_at` is set.
#[tokio::test]
async fn the_note_itself_tells_whether_it_is_locked() {
    let place = TestDatabase::adopted().await;
    let status = "select concat(processing_started_at is not null, ' ', processed_at is not null) from notes where title = 'Note 3'";
    assert_eq!(place.ask(status).await, "f f");
    let gate = place.shut(Transcription, &["manual"]).await;
    let manual = place.start(&["manual", &note_id(3), "--user", ANA]);
    place.await_charge("manual", Transcription).await;
    assert_eq!(place.ask(status).await, "t f");
    gate.open().await.unwrap();
    assert_eq!(end(&manual).code, Some(0));
    assert_eq!(place.ask(status).await, "f t");
}
