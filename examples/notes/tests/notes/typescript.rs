//! "Testing" and "Migration Steps": the same through SQL alone, by TypeScript programs that use only Turno's SQL functions.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use notes::application::{ANA, EVA, note_id};
use notes::service::Step::{Analysis, Transcription};
use turno::Turno;
use turno_testkit::Process;

use crate::LONG;
use crate::test_database::{TestDatabase, end};

pub const DOCUMENTED: [&str; 3] = [
    "scripts/apply-processing-lock-migration.ts",
    "scripts/test-processing-lock.ts",
    "scripts/demo-concurrent-processing-protection.ts",
];

/// Copies the folder and installs its packages, so that nothing is written into the repository. The copy is in the build
/// folder, and packages are installed again only when the lock file has changed.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("notes-ts");
        fs::create_dir_all(&folder).unwrap();
        // Serializes two runs of these tests at the same time.
        let turn = File::create(folder.join(".turn")).unwrap();
        turn.lock().unwrap();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("ts"), &folder);
        install(&folder);
        folder
    })
}

fn install(folder: &Path) {
    let mut npm = npm();
    let wanted = fs::read_to_string(folder.join("package-lock.json")).unwrap();
    let installed = folder.join(".installed");
    if fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return;
    }
    npm.args(["ci", "--no-audit", "--no-fund"]);
    let done = npm.current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "npm ci failed: {said}");
    fs::write(installed, wanted).unwrap();
}

/// Returns the npm command, or panics with a hint if it is not installed.
fn npm() -> Command {
    let there = Command::new("npm")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(
        there.is_ok_and(|status| status.success()),
        "npm is not installed: run `apt-get install nodejs npm`"
    );
    Command::new("npm")
}

/// Returns a command of the packages.
pub fn npx(arguments: &[&str]) -> Command {
    let mut npx = Command::new("npx");
    npx.args(arguments).current_dir(folder());
    npx
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap().path();
        let target = to.join(entry.file_name().unwrap());
        if entry.is_file() {
            fs::copy(&entry, &target).unwrap();
        } else if !entry.ends_with("node_modules") {
            fs::create_dir_all(&target).unwrap();
            copy(&entry, &target);
        }
    }
}

/// Starts one trigger as one process: `npx tsx` would start several, and only the first would be killed.
fn start(place: &TestDatabase, arguments: &[&str]) -> Process {
    let mut node = Command::new("node");
    node.current_dir(folder())
        .args(["--import", "tsx", "scripts/process-notes.ts"])
        .args(arguments);
    place.spawn(&mut node)
}

/// "Apply Migration", "Run the Test Suite", "Demo Concurrent Protection": runs the three commands of the document, and checks
/// the types.
#[tokio::test]
async fn the_documented_commands_work() {
    let place = TestDatabase::before().await;
    // Creates the schema turno, which the adoption needs.
    Turno::connect(&place.url).await.unwrap().close().await;
    let checking = Process::spawn(&mut npx(&["tsc"])).unwrap();
    let mut said = String::new();
    for script in DOCUMENTED {
        let ended = end(&place.spawn(&mut npx(&["tsx", script])));
        assert_eq!(ended.code, Some(0), "{script}: {}", ended.out);
        said += &ended.out;
    }
    // The column width of a table depends on the version of Node.
    said.retain(|character| character != ' ');
    for expected in [
        "migrationapplied,0abandonedlockscleanedup",
        "fail0",
        "│withoutlocks│6│26│14│234│",
        "│withlocks│6│12│0│108│",
    ] {
        assert!(said.contains(expected), "no {expected:?} in:\n{said}");
    }
    let checked = end(&checking);
    assert_eq!(checked.code, Some(0), "{}", checked.out);
    // The application's own notes are unchanged.
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":10,"processing":0,"completed":1,"failed":1}"#
    );
}

/// Before, through SQL alone: three processes, and each of them pays.
#[tokio::test]
async fn without_locks_three_processes_pay_three_times() {
    let place = TestDatabase::before().await;
    let all = ["batch", "cron", "manual"];
    let gate = place.shut(Transcription, &all).await;
    let three = note_id(3);
    let processes = [
        start(&place, &["batch", ANA, "--limit", "1", "--without-locks"]),
        start(&place, &["cron", "--limit", "1", "--without-locks"]),
        start(&place, &["manual", ANA, &three, "--without-locks"]),
    ];
    for who in all {
        place.await_charge(who, Transcription).await;
    }
    gate.open().await.unwrap();
    for process in &processes {
        assert_eq!(end(process).code, Some(0));
    }
    assert_eq!(place.payers(3, Analysis).await, "batch cron manual");
}

/// After: TypeScript and Rust processes on one table at once, with the same functions.
#[tokio::test]
async fn with_locks_typescript_and_rust_share_the_notes() {
    let place = TestDatabase::adopted().await;
    let gate = place.shut(Transcription, &["node"]).await;
    let three = note_id(3);
    let manual = start(&place, &["manual", ANA, &three, "--who", "node"]);
    place.await_charge("node", Transcription).await;
    let others = [
        start(&place, &["cron", "--limit", "4"]),
        start(&place, &["batch", EVA]),
        start(&place, &["manual", ANA, &three, "--who", "second"]),
        place.start(&["cron", "--limit", "4"]),
        place.start(&["batch", "--user", ANA]),
    ];
    let mut said = String::new();
    for process in &others {
        let ended = end(process);
        assert_eq!(ended.code, Some(0));
        said += &ended.out;
    }
    let busy = r#"{"success":false,"error":"Note is currently being processed"}"#;
    assert!(
        said.contains(&format!("second: note {three}: {busy}")),
        "{said}"
    );
    assert_eq!(place.run(&["manual", &three, "--user", ANA]).code, Some(75));
    gate.open().await.unwrap();
    assert_eq!(end(&manual).code, Some(0));
    assert_eq!(place.payers(3, Transcription).await, "node");
    let sum = "select count(*) || ' charges for ' || count(distinct (note_id, step)) from charges";
    assert_eq!(place.ask(sum).await, "22 charges for 22");
}

/// Timeout recovery across languages: a note of a killed process is taken over by a process in the other language.
#[tokio::test]
async fn what_a_killed_process_left_is_taken_over_by_another_language() {
    let place = TestDatabase::adopted().await;
    let gate = place.shut(Transcription, &["node"]).await;
    let victim = start(&place, &["batch", ANA, "--limit", "2", "--who", "node"]);
    place.await_charge("node", Transcription).await;
    victim.kill_9();
    assert!(!victim.wait_timeout(LONG).unwrap().success());
    gate.open().await.unwrap();
    place.minutes_pass(16).await;
    let batch = place.run(&["batch", "--user", ANA]);
    assert!(batch.out.starts_with("batch: 2 abandoned"), "{batch:?}");
    assert_eq!(place.payers(3, Transcription).await, "batch node");
    assert_eq!(
        place.stats(&["--user", ANA]),
        r#"{"total":6,"pending":0,"processing":0,"completed":6,"failed":0}"#
    );
}

/// "Reset All Processing": `processingService.resetStuckProcessing()`, and with `true`.
#[tokio::test]
async fn stuck_notes_are_reset() {
    let place = TestDatabase::adopted().await;
    let lock = "select acquire_processing_lock(id) from notes where title in ('Note 3', 'Note 4')";
    place.tell(lock).await;
    place.minutes_pass(16).await;
    place
        .tell("select acquire_processing_lock(id) from notes where title = 'Note 5'")
        .await;
    let reset = |arguments: &[&str]| {
        let script = ["tsx", "scripts/reset-stuck-processing.ts"];
        let ended = end(&place.spawn(&mut npx(&[&script, arguments].concat())));
        assert_eq!(ended.code, Some(0), "{}", ended.out);
        ended.out
    };
    // Those that were locked for too long, and not the one that is being processed.
    assert_eq!(reset(&[]), "2 notes reset");
    assert_eq!(place.note(3).await, "open, 1 attempts");
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":9,"processing":1,"completed":1,"failed":1}"#
    );
    // With `true`, all that are not processed: the lock of note 5, the attempts of 3 and 4, and the failure of note 2.
    assert_eq!(reset(&["--all"]), "4 notes reset");
    assert_eq!(
        place.stats(&[]),
        r#"{"total":12,"pending":11,"processing":0,"completed":1,"failed":0}"#
    );
    assert_eq!(place.note(2).await, "open, 0 attempts");
}

/// "Check Lock Status", in the document's words.
#[tokio::test]
async fn the_lock_status_is_read_as_in_the_document() {
    let place = TestDatabase::adopted().await;
    let three = note_id(3);
    let status = || {
        let mut command = npx(&["tsx", "scripts/check-lock-status.ts", &three]);
        let ended = end(&place.spawn(&mut command));
        assert_eq!(ended.code, Some(0), "{}", ended.out);
        ended.out
    };
    assert_eq!(status(), "Lock active: false\nProcessed: false");
    place
        .tell("select acquire_processing_lock(id) from notes where title = 'Note 3'")
        .await;
    assert_eq!(status(), "Lock active: true\nProcessed: false");
    place
        .tell("select release_processing_lock(id) from notes where title = 'Note 3'")
        .await;
    assert_eq!(status(), "Lock active: false\nProcessed: true");
}

/// *Lock cleanup logging for operational visibility*, by the TypeScript service.
#[tokio::test]
async fn a_batch_logs_its_cleanup() {
    let place = TestDatabase::adopted().await;
    place
        .tell("select acquire_processing_lock(id) from notes where title = 'Note 4'")
        .await;
    place.minutes_pass(16).await;
    let ended = end(&start(&place, &["batch", ANA, "--limit", "1"]));
    assert_eq!(ended.code, Some(0), "{}", ended.out);
    let first = ended.out.lines().next();
    assert_eq!(first, Some("1 abandoned locks cleaned up"));
}
