//! "Error Handling": failed attempts are tracked, their messages kept, and the attempts counted.

use notes::application::{ANA, EVA, note_id};
use notes::service::Step::{Analysis, Transcription};

use crate::test_database::TestDatabase;

/// *Failed processing attempts are properly tracked*, *error messages preserved for debugging*, *attempt counters*; the next
/// run retries, and a success clears the error.
#[tokio::test]
async fn an_error_is_recorded_and_the_note_tried_again() {
    let place = TestDatabase::adopted().await;
    place
        .tell("update notes set audio = null where title = 'Note 3'")
        .await;
    let failed = place.run(&["manual", &note_id(3), "--user", ANA]);
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.out.ends_with("failed: the note has no audio"),
        "{failed:?}"
    );
    assert_eq!(
        place.note(3).await,
        "open, 1 attempts, the note has no audio"
    );
    assert_eq!(place.payers(3, Transcription).await, "");
    place
        .tell("update notes set audio = '3.ogg' where title = 'Note 3'")
        .await;
    assert_eq!(place.run(&["cron", "--limit", "20"]).code, Some(0));
    assert_eq!(
        place.note(3).await,
        "processed, 2 attempts, words of 3.ogg by cron, gist of words of 3.ogg by cron"
    );
}

/// A note whose second step fails does not pay for the first step twice.
#[tokio::test]
async fn a_step_that_is_done_is_not_paid_for_again() {
    let place = TestDatabase::adopted().await;
    place
        .tell("update notes set audio = 'silence.ogg' where title = 'Note 3'")
        .await;
    for attempt in 1..=2 {
        assert_eq!(
            place.run(&["manual", &note_id(3), "--user", ANA]).code,
            Some(1)
        );
        let expected = format!("open, {attempt} attempts, there are no words to analyse");
        assert_eq!(place.note(3).await, expected);
    }
    assert_eq!(place.payers(3, Transcription).await, "manual");
    assert_eq!(place.payers(3, Analysis).await, "");
}

/// The document retries forever. Here a note that fails each time is skipped after five attempts, until a user processes it
/// manually.
#[tokio::test]
async fn after_five_attempts_only_a_person_tries_again() {
    let place = TestDatabase::adopted().await;
    place
        .tell("update notes set audio = null where title = 'Note 3'")
        .await;
    for _ in 0..7 {
        assert_eq!(place.run(&["cron", "--limit", "20"]).code, Some(0));
    }
    assert_eq!(
        place.note(3).await,
        "open, 5 attempts, the note has no audio"
    );
    assert_eq!(
        place.run(&["manual", &note_id(3), "--user", ANA]).code,
        Some(1)
    );
    assert_eq!(
        place.note(3).await,
        "open, 6 attempts, the note has no audio"
    );
}

/// Invalid input: nothing is locked, and nothing is paid.
#[tokio::test]
async fn a_note_that_is_not_there_or_not_yours_costs_nothing() {
    let place = TestDatabase::adopted().await;
    for (note, user) in [(note_id(99), ANA), (note_id(3), EVA)] {
        let refusal = place.refusal(&["manual", &note, "--user", user]);
        assert_eq!(refusal, "Error: Note not found\n");
    }
    let refusal = place.refusal(&["manual", "3", "--user", ANA]);
    assert!(refusal.contains("uuid"), "{refusal}");
    assert_eq!(place.run(&["manual", &note_id(3)]).code, Some(2));
    assert_eq!(place.ask("select count(*)::text from charges").await, "0");
    assert_eq!(place.note(3).await, "open, 0 attempts");
}
