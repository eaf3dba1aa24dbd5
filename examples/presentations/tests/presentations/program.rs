//! The program as a user starts it.

use std::process::{Output, Stdio};

use presentations::instance::STORE;
use presentations::ledger::Manner;
use presentations::web_service::WebService;
use tokio::process::Command;
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::{LONG, PROGRAM, TestDatabase};

async fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().await.unwrap()
}

/// Returns the words after `name` in the line that begins with it.
fn line<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("{name} is not in\n{table}"));
    line.split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

on_each_store! {
    /// *Alternativas consideradas* and *conclusión*, side by side.
    the_alternatives_are_compared_in_one_table;
    /// A table of that name may belong to another application.
    a_table_that_is_there_already_is_left_alone;
}

async fn the_alternatives_are_compared_in_one_table(place: TestDatabase) {
    place.database.drop_table().await.unwrap();
    let output = run(&["--store", &place.setup.store]).await;
    let table = String::from_utf8_lossy(&output.stdout);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{message}");
    println!("{table}");

    let again = "done again";
    let line = |name: &str| {
        let mut cells = line(&table, name);
        // The speed, which is measured for each way that is possible.
        if cells != ["not on SQLite"] {
            let per_second: f64 = cells.pop().unwrap().parse().unwrap();
            assert!(per_second > 1.0, "{name}: {per_second}");
        }
        cells
    };
    for doubling in ["plain select", "repeatable read"] {
        let cells = line(doubling);
        assert_eq!((cells[0], cells[2]), ("6", "6"), "{doubling}: {cells:?}");
    }
    let lost = "1 lost: processed = true";
    let committed = line("conditional update, committed first");
    assert_eq!(committed, ["6", "6", "0", "no", "6 of 6", lost]);
    let transaction = line("conditional update, one transaction");
    assert_eq!(transaction, ["6", "6", "0", "yes", "6 of 6", again]);
    let left = "2 left: processed = false";
    let partition = line("hash partitioning");
    assert_eq!(partition, ["6", "6", "0", "no", "6 of 6", left]);
    let attempt = "done again, as attempt 2";
    let turno = line("Turno's inbox");
    assert_eq!(turno, ["6", "6", "0", "no", "6 of 6", attempt]);
    let skip_locked = line("select for update skip locked");
    if place.is_postgres() {
        assert_eq!(skip_locked, ["6", "6", "0", "no", "6 of 6", again]);
    } else {
        assert_eq!(skip_locked, ["not on SQLite"]);
    }
    // *Alternativa 3*, *desventajas*, in words.
    let aborted = table.matches("one instance aborted (").count();
    assert_eq!(aborted, 2, "{table}");
}

async fn a_table_that_is_there_already_is_left_alone(place: TestDatabase) {
    let id = Uuid::now_v7();
    place.database.receive(&[id], None).await.unwrap();
    let output = run(&["--store", &place.setup.store]).await;
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("name a store that has none"), "{message}");
    assert_eq!(place.database.unprocessed().await.unwrap(), [id]);
}

/// Invalid input is rejected, with a hint.
#[tokio::test]
async fn fewer_presentations_than_instances_are_refused() {
    let output = run(&["--instances", "4", "--presentations", "3"]).await;
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("--presentations 4"), "{message}");
}

/// *Cambios* 3: the log has the document's messages.
#[tokio::test]
async fn the_log_has_the_words_of_the_document() {
    let place = TestDatabase::sqlite().await;
    let service = WebService::start(Manner::RefuseFirst).await.unwrap();
    let id = Uuid::now_v7();
    place.database.receive(&[id], None).await.unwrap();
    let instance = Command::new(PROGRAM)
        .args(["instance", "--how", "conditional-update"])
        .args(["--service", &service.url, "--every-ms", "1"])
        .args(["--instance-partition", "0", "--total-instances", "1"])
        .env(STORE, &place.setup.store)
        .env("RUST_LOG", "presentations=info")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    service
        .wait_for(LONG, |ledger| ledger.accepted().len() == 1)
        .await
        .unwrap();
    // It exits when its input ends, and has then written its whole log.
    let output = instance.wait_with_output().await.unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    for words in [
        format!("Attempting to process presentation with ID: {id}"),
        format!("Processing presentation with ID: {id}"),
        format!("Error processing presentation {id}: the web service answered 503"),
    ] {
        assert!(log.contains(&words), "{words:?} is not in\n{log}");
    }
}
