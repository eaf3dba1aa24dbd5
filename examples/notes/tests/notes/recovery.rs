//! "Timeout Recovery" and "Lock Timeout": processes that crash or hang do not block notes forever.

use notes::application::{ANA, note_id};
use notes::service::Step::{Analysis, Transcription};
use turno_testkit::Process;

use crate::LONG;
use crate::test_database::{TestDatabase, end};

/// Starts a process and kills it while the service transcribes note 3.
async fn killed(place: &TestDatabase) {
    let gate = place.shut(Transcription, &["victim"]).await;
    let victim = manual(place, &["--who", "victim"]);
    place.await_charge("victim", Transcription).await;
    victim.kill_9();
    assert!(!victim.wait_timeout(LONG).unwrap().success());
    gate.open().await.unwrap();
}

fn manual(place: &TestDatabase, options: &[&str]) -> Process {
    let three = note_id(3);
    place.start(&[&["manual", &three, "--user", ANA], options].concat())
}

/// *Automatic recovery from failures*: the note of a killed process is taken over after the timeout, and not before.
#[tokio::test]
async fn the_note_of_a_killed_process_is_taken_over_after_the_timeout() {
    let place = TestDatabase::adopted().await;
    killed(&place).await;
    place.minutes_pass(14).await;
    assert_eq!(end(&manual(&place, &[])).code, Some(75));
    place.minutes_pass(2).await;
    assert_eq!(end(&manual(&place, &[])).code, Some(0));
    assert_eq!(
        place.note(3).await,
        "processed, 2 attempts, words of 3.ogg by manual, gist of words of 3.ogg by manual"
    );
    // The killed process's call is paid. No lock can undo that.
    assert_eq!(place.payers(3, Transcription).await, "manual victim");
    assert_eq!(place.payers(3, Analysis).await, "manual");
}

/// *Handles timeout scenarios automatically*: a cron job takes the note over, too, and needs no cleanup.
#[tokio::test]
async fn a_cron_job_takes_over_what_a_killed_process_left() {
    let place = TestDatabase::adopted().await;
    killed(&place).await;
    place.minutes_pass(16).await;
    let cron = place.run(&["cron", "--limit", "20"]);
    assert!(
        cron.out.starts_with("cron: 1 abandoned locks cleaned up"),
        "{cron:?}"
    );
    let note = place.note(3).await;
    assert!(note.starts_with("processed, 2 attempts"), "{note}");
}

/// *Custom timeout*: a caller with a timeout of 30 minutes does not take over a lock that others could after 15.
#[tokio::test]
async fn the_timeout_is_chosen_per_operation() {
    let place = TestDatabase::adopted().await;
    killed(&place).await;
    place.minutes_pass(20).await;
    assert_eq!(
        end(&manual(&place, &["--timeout-minutes", "30"])).code,
        Some(75)
    );
    assert_eq!(
        end(&manual(&place, &["--timeout-minutes", "20"])).code,
        Some(0)
    );
}

/// A process that hangs for longer than the timeout and then continues writes nothing more, and pays for nothing more. The
/// document's lock has only a time, so that process could end its successor's lock.
#[tokio::test]
async fn a_process_that_was_overtaken_writes_nothing() {
    let place = TestDatabase::adopted().await;
    let slow_gate = place.shut(Transcription, &["slow"]).await;
    let slow = manual(&place, &["--who", "slow"]);
    place.await_charge("slow", Transcription).await;
    place.minutes_pass(16).await;
    let gate = place.shut(Analysis, &["manual"]).await;
    let successor = manual(&place, &[]);
    place.await_charge("manual", Analysis).await;
    slow_gate.open().await.unwrap();
    let slow = end(&slow);
    assert_eq!(slow.code, Some(75));
    assert!(
        slow.out.ends_with("overtaken by another process"),
        "{slow:?}"
    );
    // The successor still works and still holds its lock.
    assert_eq!(end(&manual(&place, &["--who", "third"])).code, Some(75));
    gate.open().await.unwrap();
    assert_eq!(end(&successor).code, Some(0));
    assert_eq!(place.payers(3, Analysis).await, "manual");
    assert_eq!(
        place.note(3).await,
        "processed, 2 attempts, words of 3.ogg by manual, gist of words of 3.ogg by manual"
    );
}

/// The same without locks: the last writer wins, however old its data.
#[tokio::test]
async fn without_locks_a_process_that_hung_overwrites_what_is_done() {
    let place = TestDatabase::before().await;
    let gate = place.shut(Transcription, &["slow"]).await;
    let slow = manual(&place, &["--who", "slow", "--without-locks"]);
    place.await_charge("slow", Transcription).await;
    assert_eq!(end(&manual(&place, &["--without-locks"])).code, Some(0));
    gate.open().await.unwrap();
    assert_eq!(end(&slow).code, Some(0));
    assert_eq!(place.payers(3, Analysis).await, "manual slow");
    let note = place.note(3).await;
    assert!(note.contains("words of 3.ogg by slow"), "{note}");
}

/// A result that an earlier attempt has paid for and stored is not paid for again.
#[tokio::test]
async fn a_note_that_is_taken_over_goes_on_where_it_was() {
    let place = TestDatabase::adopted().await;
    let gate = place.shut(Analysis, &["victim"]).await;
    let victim = manual(&place, &["--who", "victim"]);
    place.await_charge("victim", Analysis).await;
    victim.kill_9();
    assert!(!victim.wait_timeout(LONG).unwrap().success());
    gate.open().await.unwrap();
    place.minutes_pass(16).await;
    assert_eq!(end(&manual(&place, &[])).code, Some(0));
    assert_eq!(place.payers(3, Transcription).await, "victim");
    assert_eq!(place.payers(3, Analysis).await, "manual victim");
}
