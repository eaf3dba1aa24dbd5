//! "Troubleshooting": operator actions on notes that appear stuck.

use crate::test_database::TestDatabase;

const LOCK: &str =
    "select acquire_processing_lock(id) from notes where title in ('Note 3', 'Note 4')";

/// "Stuck Processing": *aggressive cleanup* by an operator, with a timeout of 5 minutes.
#[tokio::test]
async fn a_manual_cleanup_can_be_aggressive() {
    let place = TestDatabase::adopted().await;
    place.tell(LOCK).await;
    place.minutes_pass(6).await;
    assert_eq!(place.run(&["cleanup"]).out, "0 abandoned locks cleaned up");
    let cleaned = place.run(&["cleanup", "--timeout-minutes", "5"]);
    assert_eq!(cleaned.out, "2 abandoned locks cleaned up");
    let note = place.note(3).await;
    assert!(note.starts_with("open, 1 attempts, abandoned"), "{note}");
}

/// `resetStuckProcessing`: stuck notes are pending again, others are not changed.
#[tokio::test]
async fn what_is_stuck_is_reset() {
    let place = TestDatabase::adopted().await;
    place.tell(LOCK).await;
    place.minutes_pass(16).await;
    place
        .tell("select acquire_processing_lock(id) from notes where title = 'Note 5'")
        .await;
    assert_eq!(place.run(&["reset"]).out, "2 notes reset");
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":9,"processing":1,"completed":1,"failed":1}"#
    );
    assert_eq!(place.note(3).await, "open, 1 attempts");
}

/// "Reset All Processing", `resetStuckProcessing(true)`: resets *all unprocessed notes*; processed ones are not changed.
#[tokio::test]
async fn everything_that_is_not_processed_is_reset() {
    let place = TestDatabase::adopted().await;
    place.tell(LOCK).await;
    // Two locks, and the failure that existed before.
    assert_eq!(place.run(&["reset", "--all"]).out, "3 notes reset");
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":11,"processing":0,"completed":1,"failed":0}"#
    );
    assert_eq!(place.note(2).await, "open, 0 attempts");
}
