//! A roll-out: old processes, which call the document's functions through SQL, and new ones, which call Turno's with tokens, on
//! the same notes at once.

use std::time::Duration;

use notes::application::{self, ANA, note_id};
use notes::processing::LOCK_TIMEOUT;
use notes::service::Step::Transcription;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use turno::Turno;
use turno::adopt::{Acquire, Release};
use turno_testkit::eventually_async;

use crate::LONG;
use crate::test_database::{TestDatabase, end};

/// The document's functions.
const DOCUMENT: &str = include_str!("../../sql/document_functions.sql");
/// The document's timeout.
const TIMEOUT: Duration = LOCK_TIMEOUT;
/// Notes of a busy run, beside the twelve that are there.
const MANY: &str = "insert into notes (id, user_id, title, audio)
    select format('00000000-0000-4000-8000-%s', lpad(n::text, 12, '0'))::uuid, 'a0000000-0000-4000-8000-000000000000',
      'Note ' || n, n || '.ogg'
    from generate_series(13, 150) n";

/// An old process: it calls the document's functions by their names, and knows no token. Each call is parsed anew, because
/// the functions may be replaced meanwhile.
struct Old {
    db: PgConnection,
    who: String,
}

/// Whether a function was replaced between the moment when PostgreSQL had found it and its call. The call has done nothing.
fn was_replaced(error: &sqlx::Error) -> bool {
    let error = error.to_string();
    error.contains("cache lookup failed for function")
        || error.contains("return type mismatch in function")
}

impl Old {
    async fn new(place: &TestDatabase, who: &str) -> Self {
        Old {
            db: PgConnection::connect(&place.url).await.unwrap(),
            who: who.to_owned(),
        }
    }

    /// `supabase.rpc('acquire_processing_lock', …)`.
    async fn acquire(&mut self, id: &str) -> bool {
        loop {
            let acquire = sqlx::query_scalar("select acquire_processing_lock($1::uuid, 15)");
            let asked = acquire.bind(id).persistent(false);
            match asked.fetch_one(&mut self.db).await {
                Err(error) if was_replaced(&error) => {}
                answer => return answer.unwrap(),
            }
        }
    }

    /// `supabase.rpc('get_next_notes_for_processing', …)`.
    async fn next(&mut self, limit: i32) -> Vec<String> {
        let next = "select id::text from get_next_notes_for_processing(null, $1, 15)";
        loop {
            let asked = sqlx::query_scalar(next).bind(limit).persistent(false);
            match asked.fetch_all(&mut self.db).await {
                Err(error) if was_replaced(&error) => {}
                answer => return answer.unwrap(),
            }
        }
    }

    /// Transcribes and analyses, and pays for both.
    async fn process(&mut self, id: &str) {
        for (step, cents) in [("transcription", 12), ("analysis", 6)] {
            let pay =
                "insert into charges (note_id, step, cents, who) values ($1::uuid, $2, $3, $4)";
            let paid = sqlx::query(pay)
                .bind(id)
                .bind(step)
                .bind(cents)
                .bind(&self.who);
            paid.execute(&mut self.db).await.unwrap();
        }
        let save = "update notes set transcription = $2, analysis = $2 where id = $1::uuid";
        let saved = sqlx::query(save).bind(id).bind(&self.who);
        saved.persistent(false).execute(&mut self.db).await.unwrap();
    }

    /// `supabase.rpc('release_processing_lock', …)`.
    async fn release(&mut self, id: &str) {
        loop {
            let release = sqlx::query("select release_processing_lock($1::uuid)").bind(id);
            match release.persistent(false).execute(&mut self.db).await {
                Err(error) if was_replaced(&error) => {}
                answer => {
                    answer.unwrap();
                    return;
                }
            }
        }
    }

    /// A batch, until there is nothing left for it.
    async fn batches(mut self) {
        loop {
            let ids = self.next(3).await;
            if ids.is_empty() {
                return;
            }
            for id in ids {
                self.process(&id).await;
                self.release(&id).await;
            }
        }
    }

    /// The button, for each note.
    async fn buttons(mut self) {
        for number in 3..=150 {
            let id = note_id(number);
            if self.acquire(&id).await {
                self.process(&id).await;
                self.release(&id).await;
            }
        }
    }
}

/// The application with the document's functions, before Turno.
async fn document() -> TestDatabase {
    let place = TestDatabase::before().await;
    place.tell(DOCUMENT).await;
    place
}

/// The same after `notes migrate --replace`.
async fn replaced() -> (TestDatabase, Turno) {
    let place = document().await;
    let turno = Turno::connect(&place.url).await.unwrap();
    application::adopt_over(&turno).await.unwrap();
    (place, turno)
}

async fn await_all(place: &TestDatabase) {
    // What a process had taken when the others found nothing more is processed by it.
    eventually_async(LONG, "all notes", async || {
        assert_eq!(place.run(&["cron", "--limit", "200"]).code, Some(0));
        let open = place
            .ask("select count(*)::text from notes where processed_at is null")
            .await;
        (open == "0").then_some(())
    })
    .await;
}

/// Checks that each of the 149 open notes was paid for once, by old processes and by new ones.
async fn check(place: &TestDatabase) {
    let duplicates = "select (count(*) - count(distinct (note_id, step)))::text from charges";
    assert_eq!(place.ask(duplicates).await, "0");
    assert_eq!(place.ask("select count(*)::text from charges").await, "298");
    let kinds =
        "select string_agg(distinct (who like 'old%')::text, ' ' order by (who like 'old%')::text)
        from charges";
    assert_eq!(place.ask(kinds).await, "false true");
}

/// Safe after `--replace`: four old processes and six new ones, on all notes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_processes_pay_for_each_note_once() {
    let (place, _turno) = replaced().await;
    place.tell(MANY).await;
    let mut old = JoinSet::new();
    for number in 0..2 {
        old.spawn(
            Old::new(&place, &format!("old batch {number}"))
                .await
                .batches(),
        );
        old.spawn(
            Old::new(&place, &format!("old button {number}"))
                .await
                .buttons(),
        );
    }
    let new: Vec<_> = (0..6)
        .map(|_| place.start(&["cron", "--limit", "10"]))
        .collect();
    for process in &new {
        assert_eq!(end(process).code, Some(0));
    }
    while let Some(ended) = old.join_next().await {
        ended.unwrap();
    }
    await_all(&place).await;
    check(&place).await;
}

/// Safe meanwhile, too: the functions are replaced while old processes are at work. A call that PostgreSQL is just about to make
/// fails without an effect, and is made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_functions_are_replaced_while_old_processes_work() {
    let place = document().await;
    place.tell(MANY).await;
    let mut old = JoinSet::new();
    for number in 0..3 {
        old.spawn(
            Old::new(&place, &format!("old batch {number}"))
                .await
                .batches(),
        );
    }
    eventually_async(LONG, "the old ones to begin", async || {
        (place.ask("select count(*)::text from charges").await != "0").then_some(())
    })
    .await;
    let turno = Turno::connect(&place.url).await.unwrap();
    application::adopt_over(&turno).await.unwrap();
    let new: Vec<_> = (0..3)
        .map(|_| place.start(&["cron", "--limit", "10"]))
        .collect();
    for process in &new {
        assert_eq!(end(process).code, Some(0));
    }
    while let Some(ended) = old.join_next().await {
        ended.unwrap();
    }
    await_all(&place).await;
    let duplicates = "select (count(*) - count(distinct (note_id, step)))::text from charges";
    assert_eq!(place.ask(duplicates).await, "0");
    assert_eq!(place.ask("select count(*)::text from charges").await, "298");
}

/// A lock from before the replacement is respected, and its holder releases it with the document's call.
#[tokio::test]
async fn a_lock_from_before_is_respected_and_released() {
    let place = document().await;
    let mut old = Old::new(&place, "old").await;
    let three = note_id(3);
    assert!(old.acquire(&three).await);
    let turno = Turno::connect(&place.url).await.unwrap();
    application::adopt_over(&turno).await.unwrap();
    let manual = place.run(&["manual", &three, "--user", ANA]);
    assert_eq!(manual.code, Some(75), "{manual:?}");
    old.process(&three).await;
    old.release(&three).await;
    assert_eq!(place.note(3).await, "processed, 1 attempts, old, old");
}

/// A connection that has prepared the call of a function which returned nothing cannot make it any more: it has to reconnect.
#[tokio::test]
async fn a_prepared_call_is_made_on_a_new_connection() {
    let place = document().await;
    let release = "select release_processing_lock($1::uuid)";
    let mut prepared = PgConnection::connect(&place.url).await.unwrap();
    let call = sqlx::query(release).bind(note_id(3));
    call.execute(&mut prepared).await.unwrap();
    let turno = Turno::connect(&place.url).await.unwrap();
    application::adopt_over(&turno).await.unwrap();
    let call = sqlx::query(release).bind(note_id(3));
    let error = call.execute(&mut prepared).await.unwrap_err().to_string();
    assert!(
        error.contains("cached plan must not change result type"),
        "{error}"
    );
    let mut fresh = PgConnection::connect(&place.url).await.unwrap();
    let call = sqlx::query(release).bind(note_id(3));
    call.execute(&mut fresh).await.unwrap();
}

/// A new process hangs for longer than the timeout, and an old one takes its note over. After `--replace` that is a lock of
/// Turno with a token of its own, and the late release changes nothing.
#[tokio::test]
async fn a_new_process_that_hung_does_not_end_the_lock_of_an_old_one() {
    let (place, turno) = replaced().await;
    assert_eq!(late_release(&place, &turno).await, Release::Stale);
    assert!(place.note(3).await.starts_with("open"));
}

/// The control: with `--suffix`, the document's functions stay beside Turno's. They take a note over without a new token, so
/// the late release ends the lock of the old process.
#[tokio::test]
async fn control_with_a_suffix_it_does() {
    let place = document().await;
    let turno = Turno::connect(&place.url).await.unwrap();
    let beside = turno.adopt("notes").id("id").user("user_id").suffix("v2");
    beside.apply().await.unwrap();
    assert_eq!(late_release(&place, &turno).await, Release::Released);
    assert!(place.note(3).await.starts_with("processed"));
}

async fn late_release(place: &TestDatabase, turno: &Turno) -> Release {
    let notes = turno.adopted("notes");
    let three = note_id(3);
    let Acquire::Acquired { token } = notes.acquire(&three, TIMEOUT).await.unwrap() else {
        panic!("the note is free");
    };
    place.minutes_pass(16).await;
    assert!(Old::new(place, "old").await.acquire(&three).await);
    notes.release(&three, token).await.unwrap()
}

/// Not safe, as in the document: an old process that hung releases without a token, and so ends the lock of its successor. A
/// new successor gets "stale" from its own release, and writes nothing over it; an old one does not notice.
#[tokio::test]
async fn an_old_process_that_hung_ends_the_lock_of_its_successor() {
    let (place, turno) = replaced().await;
    let notes = turno.adopted("notes");
    let three = note_id(3);
    let mut old = Old::new(&place, "old").await;
    assert!(old.acquire(&three).await);
    place.minutes_pass(16).await;
    let Acquire::Acquired { token } = notes.acquire(&three, TIMEOUT).await.unwrap() else {
        panic!("the lock is too old");
    };
    old.release(&three).await;
    assert!(place.note(3).await.starts_with("processed, 2 attempts"));
    let late = notes.release_with_error(&three, token, "the service is down");
    assert_eq!(late.await.unwrap(), Release::Stale);
}

/// Not safe: a process from before the document's locks pays too, whatever lock there is.
#[tokio::test]
async fn control_a_process_without_locks_pays_too() {
    let (place, _turno) = replaced().await;
    let gate = place.shut(Transcription, &["manual"]).await;
    let three = note_id(3);
    let new = place.start(&["manual", &three, "--user", ANA]);
    place.await_charge("manual", Transcription).await;
    let arguments = [
        "manual",
        &three,
        "--user",
        ANA,
        "--without-locks",
        "--who",
        "old",
    ];
    assert_eq!(place.run(&arguments).code, Some(0));
    gate.open().await.unwrap();
    end(&new);
    assert_eq!(place.payers(3, Transcription).await, "manual old");
}
