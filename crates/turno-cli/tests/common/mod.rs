//! A folder, a store, and the real `turno` in it.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]
#![allow(dead_code, reason = "each test program uses its part")]

pub mod arguments;
pub mod refusing;

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use turno::store::postgres::Target;
use turno_testkit::{PostgresServer, Process, migrated_database};

use self::arguments::Arguments;

/// The program under test.
pub const TURNO: &str = env!("CARGO_BIN_EXE_turno");
/// Long enough for a busy machine. A test that succeeds does not wait for it.
pub const LONG: Duration = Duration::from_secs(60);

/// Kind of store that a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// A working folder, and a store for one test: a database with the schema, or a file that does not exist yet.
#[derive(Debug)]
pub struct Fixture {
    pub kind: Kind,
    pub folder: TempDir,
    pub store: String,
}

impl Fixture {
    pub fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = match kind {
            Kind::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
            Kind::Postgres => migrated_database(),
        };
        Fixture {
            kind,
            folder,
            store,
        }
    }

    /// Replaces a database with the schema by an empty one.
    pub fn without_schema(mut self) -> Self {
        if self.kind == Kind::Postgres {
            self.store = PostgresServer::shared().create_database();
        }
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command for any program, in the folder, with only the store in its environment.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("TURNO_")) {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.folder.path())
            .env("TURNO_STORE", &self.store)
            .env("LC_ALL", "C")
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null());
        command
    }

    /// Returns `turno` with these arguments, not started yet.
    pub fn command(&self, arguments: impl Arguments) -> Command {
        let mut command = self.program(TURNO);
        command.args(arguments.words());
        command
    }

    /// Runs `turno` to its end.
    #[track_caller]
    pub fn turno(&self, arguments: impl Arguments) -> Done {
        Done::of(self.command(arguments).output().unwrap())
    }

    /// Runs `turno --json`, and expects it to exit with `code` and to print one object.
    #[track_caller]
    pub fn json(&self, code: i32, arguments: impl Arguments) -> Value {
        let mut command = self.command("--json");
        let done = command.args(arguments.words()).output();
        Done::of(done.unwrap()).expect(code).json()
    }

    /// Starts `turno` and reads its output line by line. Its standard error is not read.
    pub fn start(&self, arguments: impl Arguments) -> Process {
        Process::spawn(self.command(arguments).stderr(Stdio::null())).unwrap()
    }

    /// Reads one value directly from the store. `{lock}` and similar placeholders in `sql` are its tables.
    pub fn ask(&self, sql: &str) -> String {
        match self.kind {
            Kind::Sqlite => {
                let sql = sql.replace('{', "turno_").replace('}', "");
                let db = rusqlite::Connection::open(self.path("store.db")).unwrap();
                db.query_row(&sql, [], |row| {
                    row.get::<_, rusqlite::types::Value>(0).map(shown)
                })
                .unwrap()
            }
            Kind::Postgres => {
                ask_postgres(&self.store, &sql.replace('{', "turno.").replace('}', ""))
            }
        }
    }

    /// Changes the store directly.
    pub fn tell(&self, sql: &str) {
        match self.kind {
            Kind::Sqlite => {
                let sql = sql.replace('{', "turno_").replace('}', "");
                rusqlite::Connection::open(self.path("store.db"))
                    .unwrap()
                    .execute_batch(&sql)
                    .unwrap();
            }
            Kind::Postgres => drop(ask_postgres(
                &self.store,
                &sql.replace('{', "turno.").replace('}', ""),
            )),
        }
    }

    /// Returns whether `turno` reports a resource as held.
    #[track_caller]
    pub fn is_locked(&self, resource: &str) -> bool {
        self.json(0, &["lock", "status", resource])["locked"]
            .as_bool()
            .unwrap()
    }
}

fn shown(value: rusqlite::types::Value) -> String {
    use rusqlite::types::Value;
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        other => format!("{other:?}"),
    }
}

/// Returns the first value of the last result, as text; empty if there is none.
pub fn ask_postgres(url: &str, sql: &str) -> String {
    let (url, sql) = (url.to_owned(), sql.to_owned());
    // On a separate thread, because the caller may be in a runtime already.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (client, connection) = Target::parse(&url).unwrap().connect().await.unwrap();
            let connection = tokio::spawn(connection);
            let answers = client.simple_query(&sql).await.unwrap();
            drop(client);
            connection.await.unwrap().unwrap();
            answers
                .into_iter()
                .rev()
                .find_map(|answer| match answer {
                    tokio_postgres::SimpleQueryMessage::Row(row) => {
                        Some(row.get(0).unwrap_or_default().to_owned())
                    }
                    _ => None,
                })
                .unwrap_or_default()
        })
    })
    .join()
    .unwrap()
}

/// Result of a finished `turno`.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn of(output: Output) -> Self {
        Done {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Returns standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Returns standard error as JSON, without warnings.
    #[track_caller]
    pub fn error(&self) -> Value {
        let is_warning = |line: &&str| line.starts_with(r#"{"code":"warning""#);
        let warnings = self.err.split_inclusive('\n').take_while(is_warning);
        let start = warnings.map(str::len).sum();
        serde_json::from_str(&self.err[start..])
            .unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Runs `turno` with this standard input.
pub fn piped(fixture: &Fixture, arguments: impl Arguments, input: &[u8]) -> Done {
    let mut command = fixture.command(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Done::of(child.wait_with_output().unwrap())
}

/// Returns the text of a field.
#[track_caller]
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("no text {field} in {value}"))
}

/// Returns the state of a process, as the kernel's letter; `None` if it has ended.
pub fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns whether a process exists and is not a zombie.
pub fn is_running(pid: &str) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Runs one body as a test on each store.
#[allow(unused_macros, reason = "each test program uses its part")]
macro_rules! on_each_store {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name($crate::common::Fixture::new($crate::common::Kind::Sqlite)); })+
        }
        mod postgres {
            $(#[test] fn $name() { super::$name($crate::common::Fixture::new($crate::common::Kind::Postgres)); })+
        }
    };
}
