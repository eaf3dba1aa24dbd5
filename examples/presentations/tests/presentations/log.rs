//! *Cambios* 3: each way of coordinating instances logs what the document logs, at the document's levels.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::ValueEnum;
use presentations::inbox_repository::InboxRepository;
use presentations::ledger::Manner;
use presentations::scheduler;
use presentations::strategy::Strategy;
use presentations::web_service::WebService;
use tokio::sync::oneshot;
use tracing::Level;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;
use turno::Turno;
use turno_testkit::eventually_async;
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::{LONG, TestDatabase};

on_each_store! {
    /// "Attempting to process…", "Processing…", "… processed successfully", all at level info.
    each_way_logs_what_it_processes;
    /// "… already processed by another instance, skipping" (info). The ways that do not look first say what the drawing says
    /// at T6: "0 filas afectadas, pero ya procesó".
    each_way_logs_what_another_instance_has_processed;
    /// "Error processing presentation …", at level SEVERE, which is error here.
    each_way_logs_an_error;
}

async fn each_way_logs_what_it_processes(place: TestDatabase) {
    for how in ways(&place) {
        let id = Uuid::now_v7();
        let expected = [
            (
                "INFO",
                format!("Attempting to process presentation with ID: {id}"),
            ),
            ("INFO", format!("Processing presentation with ID: {id}")),
            ("INFO", format!("Presentation {id} processed successfully")),
        ];
        expect(
            &place,
            how,
            Manner::AcceptAll,
            (id, State::Unprocessed),
            &expected,
        )
        .await;
    }
}

async fn each_way_logs_what_another_instance_has_processed(place: TestDatabase) {
    for how in ways(&place) {
        let id = Uuid::now_v7();
        let expected = match how {
            Strategy::PlainSelect | Strategy::HashPartition => (
                "WARN",
                format!("Presentation {id}: 0 filas afectadas, pero ya procesó"),
            ),
            _ => (
                "INFO",
                format!("Presentation {id} already processed by another instance, skipping"),
            ),
        };
        let presentation = (id, State::Processed);
        expect(&place, how, Manner::AcceptAll, presentation, &[expected]).await;
    }
}

async fn each_way_logs_an_error(place: TestDatabase) {
    for how in ways(&place) {
        let id = Uuid::now_v7();
        let words = "the web service answered 503 Service Unavailable";
        let expected = format!("Error processing presentation {id}: {words}");
        let presentation = (id, State::Unprocessed);
        expect(
            &place,
            how,
            Manner::RefuseFirst,
            presentation,
            &[("ERROR", expected)],
        )
        .await;
    }
}

fn ways(place: &TestDatabase) -> impl Iterator<Item = Strategy> {
    let possible = |how: &&Strategy| how.is_possible_on(&place.setup.store);
    Strategy::value_variants().iter().filter(possible).copied()
}

/// Whether another instance has marked the presentation.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unprocessed,
    Processed,
}

/// Processes one presentation in this process, and checks that the lines are logged, in order.
async fn expect(
    place: &TestDatabase,
    how: Strategy,
    manner: Manner,
    (id, state): (Uuid, State),
    expected: &[(&str, String)],
) {
    let service = WebService::start(manner).await.unwrap();
    let use_case = place.use_case(how, &service);
    let turno = Turno::connect(&place.setup.store).await.unwrap();
    let inbox = (how == Strategy::Turno).then(|| scheduler::inbox(&turno));
    place.database.receive(&[id], inbox.as_ref()).await.unwrap();
    if state == State::Processed {
        let mut inbox = InboxRepository::begin(&place.database).await.unwrap();
        inbox.try_mark_as_processing(id).await.unwrap();
        inbox.commit().await.unwrap();
    }
    let (log, _guard) = Log::capture();
    if how == Strategy::Turno {
        let (stop, stopped) = oneshot::channel::<()>();
        let (pause, shutdown) = (Duration::from_millis(1), async { drop(stopped.await) });
        let working = scheduler::work(use_case, &turno, LONG, pause, shutdown);
        // The worker ends when the last line is there.
        let logged = async {
            eventually_async(LONG, "the last line", async || {
                let (level, words) = expected.last().unwrap();
                log.has(level, words).then_some(())
            })
            .await;
            drop(stop);
        };
        tokio::join!(working, logged).0.unwrap();
    } else {
        let _ = use_case.execute(id).await;
    }
    let text = log.text();
    let mut rest = text.as_str();
    for (level, words) in expected {
        assert!(
            log.has(level, words),
            "{how:?}: no {level} {words:?} in\n{text}"
        );
        let place = rest.find(words.as_str());
        let place =
            place.unwrap_or_else(|| panic!("{how:?}: {words:?} comes too early in\n{text}"));
        rest = &rest[place..];
    }
}

/// What is logged on this thread, and so by this test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture() -> (Self, DefaultGuard) {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::INFO)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns whether there is a line with this level and these words.
    fn has(&self, level: &str, words: &str) -> bool {
        self.text().lines().any(|line| {
            let (its, rest) = line.trim_start().split_once(' ').unwrap_or_default();
            its == level && rest.ends_with(words)
        })
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}
