//! The guides' code under faults: a missing access token (401), a busy lock (409), a database that is down (503), a server that
//! is killed and restarted or does not respond, and handlers that take longer than their lease.
//!
//! The definitions of a guide are run with a driver of this test instead of the guide's own calls (blocks marked `use`). No
//! critical section may run without its lock, and no item may be lost or take effect twice.

use std::io::Write as _;
use std::process::{ChildStdin, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use turno_testkit::{PostgresServer, Process, eventually};
use uuid::Uuid;

use crate::block::{BlockKind, Language, Program, blocks};
use crate::common::{Fixture, Kind, LONG, ask_postgres};
use crate::http::ask;
use crate::{page, program};

/// A guide, and how its code is made faster.
struct Guide {
    language: Program,
    page: &'static str,
    driver: &'static str,
    /// Texts of the guide and their replacements: shorter timeouts and leases.
    shorter: [(&'static str, &'static str); 2],
    /// Number of items that its worker claims at once.
    batch: u64,
}

const TYPESCRIPT: Guide = Guide {
    language: Program::TypeScript,
    page: include_str!("../../../../docs/from-typescript.md"),
    driver: include_str!("faults/driver.ts"),
    shorter: [
        ("const RETRY_TIMEOUT = 10;", "const RETRY_TIMEOUT = 6;"),
        ("const LEASE = 30;", "const LEASE = 10;"),
    ],
    batch: 2,
};
const PYTHON: Guide = Guide {
    language: Program::Python,
    page: include_str!("../../../../docs/from-python.md"),
    driver: include_str!("faults/driver.py"),
    shorter: [
        ("\nRETRY_TIMEOUT = 10 ", "\nRETRY_TIMEOUT = 6 "),
        ("\nLEASE = 30 ", "\nLEASE = 10 "),
    ],
    batch: 2,
};
const JAVA: Guide = Guide {
    language: Program::Java,
    page: include_str!("../../../../docs/from-java.md"),
    driver: include_str!("faults/driver.java"),
    shorter: [
        (
            "RETRY_TIMEOUT = Duration.ofSeconds(10)",
            "RETRY_TIMEOUT = Duration.ofSeconds(6)",
        ),
        (
            "LEASE = Duration.ofSeconds(30)",
            "LEASE = Duration.ofSeconds(10)",
        ),
    ],
    batch: 1,
};

/// Waits of a worker's claim, and of an acquire or a begin, in the guides and in this test.
const SHORTER_WAITS: [(&str, &str); 2] = [("\"20s\"", "\"1s\""), ("\"2s\"", "\"500ms\"")];
/// Path of the heartbeat, and one without effect.
const NO_HEARTBEAT: (&str, &str) = ("/extend", "/no-such-path");
/// All handlers of a batch together take longer than a lease of this test, which is longer than the pauses of a busy machine.
const BATCH_DURATION: Duration = Duration::from_secs(13);
/// Number of items that are processed while server and database are killed.
const ITEMS: u64 = 30;
/// Below the range of ephemeral ports: a client that keeps connecting cannot take the server's port.
const FIRST_PORT: u16 = 12_000;
const PORTS: u16 = 20_000;

/// The user's tables. Letters have no key, so that a duplicate is visible.
const TABLES: &str = "
    create table loan (id integer primary key, balance numeric not null);
    create table letter (invoice integer);
    insert into loan values (123, 1000);
";

impl Guide {
    /// Returns the definitions of the page and the driver, as one program for a server and a database.
    fn program(&self, site: &Site, replaced: &[(&str, &str)]) -> String {
        let blocks = blocks(self.page).unwrap();
        let is_definition =
            |kind: BlockKind| kind == BlockKind::Run(Language::Program(self.language));
        let mut text: String = blocks
            .iter()
            .filter(|block| is_definition(block.kind) && !block.is_use)
            .map(|block| block.text.as_str())
            .collect();
        for (said, meant) in self.shorter.iter().chain(&SHORTER_WAITS).chain(replaced) {
            assert!(text.contains(said), "{said:?} is not on the page");
            text = text.replace(said, meant);
        }
        text.push_str(self.driver);
        page::known_on(&site.fixture, &site.address()).meant(&text)
    }
}

/// A database, and a server on it that can be killed and restarted on the same port.
struct Site {
    fixture: Fixture,
    port: u16,
    server: Mutex<Option<Process>>,
}

impl Site {
    fn new(store: String) -> Self {
        let fixture = Fixture {
            kind: Kind::Postgres,
            folder: tempfile::tempdir().unwrap(),
            store,
        };
        fixture.turno(&["migrate"]).expect(0);
        fixture.tell(TABLES);
        let (port, server) = eventually(LONG, "a free port", || {
            let [first, second, ..] = Uuid::new_v4().into_bytes();
            let port = FIRST_PORT + u16::from_le_bytes([first, second]) % PORTS;
            Some(port).zip(serve(&fixture, port))
        });
        Site {
            fixture,
            port,
            server: Mutex::new(Some(server)),
        }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn kill_server(&self) {
        let server = self.server.lock().unwrap().take().expect("a server");
        server.kill_9();
        server.wait_timeout(LONG).expect("a killed server ends");
    }

    /// Freezes the server: it accepts connections meanwhile, but does not respond.
    fn freeze_server(&self, meanwhile: impl FnOnce()) {
        let server = self.server.lock().unwrap();
        let server = server.as_ref().expect("a server");
        server.stop();
        meanwhile();
        server.cont();
    }

    fn start_server(&self) {
        let server = eventually(LONG, "a server", || serve(&self.fixture, self.port));
        *self.server.lock().unwrap() = Some(server);
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let response = ask(&self.address(), &format!("POST {path}"), None, body).unwrap();
        assert!(response.status < 300, "{response:?}");
        serde_json::from_str(&response.body).unwrap()
    }

    fn push(&self, invoices: impl IntoIterator<Item = u64>, duration: Duration) {
        let items: Vec<Value> = invoices
            .into_iter()
            .map(|invoice| json!({"payload": {"invoice": invoice, "ms": duration.as_millis()}}))
            .collect();
        self.post("/v1/inbox/letters", &json!({"items": items}));
    }

    fn query(&self, sql: &str) -> String {
        ask_postgres(&self.fixture.store, sql)
    }

    fn letters(&self) -> u64 {
        self.query("select count(*) from letter").parse().unwrap()
    }

    fn completed(&self) -> u64 {
        let completed = "select completed from turno.inbox_stats('letters')";
        self.query(completed).parse().unwrap()
    }

    /// Claims as another worker until `is_over`. Returns true if it got an item.
    fn steals(&self, is_over: impl Fn() -> bool) -> bool {
        let body = json!({"worker": "another", "limit": 10, "wait": "200ms"});
        while !is_over() {
            let claimed = self.post("/v1/inbox/letters/claim", &body);
            if claimed["items"] != json!([]) {
                return true;
            }
        }
        false
    }
}

/// Starts a server on this port, or returns `None` if it cannot listen there.
fn serve(fixture: &Fixture, port: u16) -> Option<Process> {
    let listen = format!("127.0.0.1:{port}");
    let mut command = fixture.command(&["serve", "--listen", &listen]);
    let process = Process::spawn(command.stderr(Stdio::null())).unwrap();
    process.lines().next(LONG)?;
    Some(process)
}

/// A running program of a guide that reads commands.
struct Driver {
    process: Process,
    input: ChildStdin,
}

impl Driver {
    fn start(guide: &Guide, site: &Site, replaced: &[(&str, &str)]) -> Self {
        let text = guide.program(site, replaced);
        let mut command = program::built(&site.fixture, guide.language, &text);
        let process = Process::spawn(command.stdin(Stdio::piped()).stderr(Stdio::null())).unwrap();
        let input = process.take_stdin().unwrap();
        Driver { process, input }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Returns the next status line of a command: `inside` its critical section, `done`, or `error …`.
    #[track_caller]
    fn outcome(&self) -> String {
        let is_outcome = |line: &str| {
            ["inside", "done", "error"]
                .iter()
                .any(|word| line.starts_with(word))
        };
        loop {
            let line = self.process.lines().next(LONG).expect("an outcome");
            if is_outcome(&line) {
                return line;
            }
        }
    }

    /// Runs a command that must fail without entering its critical section.
    #[track_caller]
    fn fails(&mut self, command: &str, why: &str) {
        self.say(command);
        let outcome = self.outcome();
        let is_refused = outcome.starts_with("error") && outcome.contains(why);
        assert!(is_refused, "{command}: {outcome:?} and not {why:?}");
    }

    /// Runs a command that must get its lock; `meanwhile` runs during the critical section.
    #[track_caller]
    fn locks(&mut self, resource: &str, meanwhile: impl FnOnce()) {
        self.say(&format!("lock {resource}"));
        assert_eq!(self.outcome(), "inside");
        meanwhile();
        self.say("go");
        assert_eq!(self.outcome(), "done");
    }
}

/// Runs all faults, one after the other, on a private database server.
fn withstands_faults(guide: &Guide) {
    let postgres = PostgresServer::start().unwrap();
    let site = Site::new(postgres.create_database());
    let mut driver = Driver::start(guide, &site, &[]);
    program::check_types(&site.fixture, guide.language);

    // The server is killed during the critical section, whose own transaction is guarded and commits.
    driver.locks("killed", || site.kill_server());
    driver.fails("lock dead", "/v1/locks");
    site.start_server();
    site.freeze_server(|| driver.fails("lock silent", "/v1/locks"));

    // 409.
    let lease = site.post("/v1/locks", &json!({"resource": "busy", "ttl": "60s"}));
    driver.fails("lock busy", "locked by another operation");
    let release = format!("DELETE /v1/leases/{}", lease["id"].as_str().unwrap());
    ask(&site.address(), &release, None, &Value::Null)
        .unwrap()
        .expect(204);
    driver.locks("busy", || {});

    // Server and database are killed while a worker is active.
    site.push(1..=ITEMS, Duration::from_millis(20));
    driver.say("work letters");
    let some_done = |number| {
        eventually(LONG, "letters", || (site.letters() >= number).then_some(()));
    };
    some_done(ITEMS / 6);
    site.kill_server();
    site.start_server();
    some_done(ITEMS / 2);
    postgres.kill_9().unwrap();
    postgres.restart().unwrap();
    eventually(LONG, "all items", || {
        (site.completed() == ITEMS).then_some(())
    });
    driver.say("stop");
    assert_eq!(driver.outcome(), "done");
    let letters = "select count(*) || ' ' || count(distinct invoice) from letter";
    assert_eq!(site.query(letters), format!("{ITEMS} {ITEMS}"));

    // 503.
    postgres.kill_9().unwrap();
    driver.fails("lock down", "503");
    driver.fails("pay down", "503");
    postgres.restart().unwrap();
    driver.locks("down", || {});
    driver.say("pay up");
    assert_eq!(driver.outcome(), "done");

    // 401.
    site.fixture
        .turno(&["token", "create", "ana", "--role", "admin"])
        .expect(0);
    await_token_needed(&site);
    driver.fails("lock closed", "401");
    driver.fails("pay closed", "401");
    driver.fails("work letters", "401");

    // Three locks and one payment succeeded.
    assert_eq!(site.query("select balance from loan"), "987");
}

/// Waits until the running server requires a token, which takes seconds after the first one was created.
fn await_token_needed(site: &Site) {
    eventually(LONG, "a server that needs a token", || {
        let response = ask(&site.address(), "GET /v1/locks", None, &Value::Null)?;
        (response.status == 401).then_some(())
    });
}

/// Handlers that take longer than a lease keep their items, and so do those that wait in the same batch.
fn slow_handlers_keep_their_items(guide: &Guide) {
    let site = Site::new(PostgresServer::shared().create_database());
    let mut driver = Driver::start(guide, &site, &[]);
    let each = BATCH_DURATION / u32::try_from(guide.batch).unwrap();
    site.push(1..=guide.batch, each);
    driver.say("work letters");
    driver.process.lines().expect_line("begin", LONG);
    let is_stolen = site.steals(|| site.completed() == guide.batch);
    assert!(!is_stolen, "an item was claimed twice");
    assert_eq!(site.letters(), guide.batch);
}

/// The control: without the heartbeat, another worker gets an item whose handler is still running.
fn items_are_claimed_twice_without_a_heartbeat(guide: &Guide) {
    let site = Site::new(PostgresServer::shared().create_database());
    let mut driver = Driver::start(guide, &site, &[NO_HEARTBEAT]);
    site.push([1], BATCH_DURATION);
    driver.say("work letters");
    driver.process.lines().expect_line("begin", LONG);
    assert!(
        site.steals(|| site.completed() == 1),
        "the control found nothing"
    );
}

/// The control: without the check of the status, 401 is mistaken for a lock.
fn a_critical_section_runs_without_a_lock_if_statuses_are_ignored() {
    let site = Site::new(PostgresServer::shared().create_database());
    site.fixture
        .turno(&["token", "create", "ana", "--role", "admin"])
        .expect(0);
    await_token_needed(&site);
    let unchecked = ("expected.includes(answer.status)", "true");
    let mut driver = Driver::start(&TYPESCRIPT, &site, &[unchecked]);
    driver.say("lock closed");
    assert_eq!(driver.outcome(), "inside", "the control found nothing");
}

/// Concurrently, because each of them mostly waits.
#[test]
fn the_guides_code_withstands_faults() {
    thread::scope(|scope| {
        for guide in [&TYPESCRIPT, &PYTHON, &JAVA] {
            scope.spawn(move || withstands_faults(guide));
            scope.spawn(move || slow_handlers_keep_their_items(guide));
            scope.spawn(move || items_are_claimed_twice_without_a_heartbeat(guide));
        }
        scope.spawn(a_critical_section_runs_without_a_lock_if_statuses_are_ignored);
    });
}
