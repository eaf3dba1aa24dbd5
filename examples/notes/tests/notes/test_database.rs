//! The application's database for one test, and the processes that use it.

use std::process::{Command, Stdio};

use notes::application::{self, note_id};
use notes::service::{Gate, Step};
use sqlx::postgres::{PgPool, PgPoolOptions};
use turno::Turno;
use turno_testkit::{PostgresServer, Process, eventually_async};

use crate::LONG;

/// A database with the application's tables and rows.
pub struct TestDatabase {
    pub url: String,
    pub db: PgPool,
}

/// Exit code and output of a process.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
}

impl TestDatabase {
    /// Creates the application's original tables.
    pub async fn before() -> Self {
        let place = Self::connect(PostgresServer::shared().create_database()).await;
        application::create(&place.db).await.unwrap();
        application::fill(&place.db).await.unwrap();
        place
    }

    /// Connects to an existing database.
    pub async fn connect(url: String) -> Self {
        let pool = PgPoolOptions::new().max_connections(2).connect(&url).await;
        let db = pool.unwrap();
        TestDatabase { url, db }
    }

    /// Creates the application's tables and adopts `notes`.
    pub async fn adopted() -> Self {
        let place = Self::before().await;
        let turno = Turno::connect(&place.url).await.unwrap();
        application::adopt(&turno).await.unwrap();
        turno.close().await;
        place
    }

    /// Starts a process of this example.
    pub fn start(&self, arguments: &[&str]) -> Process {
        self.spawn(Command::new(env!("CARGO_BIN_EXE_notes")).args(arguments))
    }

    /// Starts any program on this database.
    pub fn spawn(&self, command: &mut Command) -> Process {
        Process::spawn(self.here(command)).unwrap()
    }

    /// Runs a process of this example to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        end(&self.start(arguments))
    }

    /// Returns the error message of a process that must fail.
    pub fn refusal(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notes"));
        let output = self.here(command.args(arguments)).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn here<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("TURNO_STORE", &self.url)
            .env("DATABASE_URL", &self.url)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
    }

    /// Returns the statistics as the program prints them.
    pub fn stats(&self, arguments: &[&str]) -> String {
        let ended = self.run(&[&["stats"], arguments].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out
    }

    /// Queries one value, as text; empty if it is null.
    pub async fn ask(&self, sql: &'static str) -> String {
        let value: Option<String> = sqlx::query_scalar(sql).fetch_one(&self.db).await.unwrap();
        value.unwrap_or_default()
    }

    /// Runs statements as the application's owner would.
    pub async fn tell(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.db).await.unwrap();
    }

    /// Makes all locks older, instead of waiting.
    pub async fn minutes_pass(&self, minutes: i32) {
        sqlx::query("update notes set processing_started_at = processing_started_at - make_interval(mins => $1)")
            .bind(minutes)
            .execute(&self.db)
            .await
            .unwrap();
    }

    /// Shuts the gate: from now on the service charges these callers, and does not respond to them.
    pub async fn shut(&self, step: Step, callers: &[&str]) -> Gate {
        Gate::shut(&self.url, step, callers).await.unwrap()
    }

    /// Waits until the service has charged `who`.
    pub async fn await_charge(&self, who: &str, step: Step) {
        let charged = "select exists (select from charges where who = $1 and step = $2)";
        eventually_async(LONG, &format!("a charge for {who}"), async || {
            let asked = sqlx::query_scalar(charged).bind(who).bind(step.as_str());
            let charged: bool = asked.fetch_one(&self.db).await.unwrap();
            charged.then_some(())
        })
        .await;
    }

    /// Returns the callers that paid for a step of a note, in order: `cron manual`.
    pub async fn payers(&self, note: u32, step: Step) -> String {
        let payers = "select string_agg(who, ' ' order by who) from charges where note_id = $1::uuid and step = $2";
        let asked = sqlx::query_scalar(payers).bind(note_id(note));
        let payers: Option<String> = asked.bind(step.as_str()).fetch_one(&self.db).await.unwrap();
        payers.unwrap_or_default()
    }

    /// Returns a note as one line: state, attempts, transcription, analysis, error.
    pub async fn note(&self, note: u32) -> String {
        let line = "select concat_ws(
              ', ',
              case when processed_at is null then 'open' else 'processed' end,
              processing_attempts || ' attempts',
              nullif(transcription, ''),
              analysis,
              error_message)
            from notes
            where id = $1::uuid";
        let asked = sqlx::query_scalar(line).bind(note_id(note));
        asked.fetch_one(&self.db).await.unwrap()
    }
}

/// Waits for a process to end.
#[track_caller]
pub fn end(process: &Process) -> Ended {
    let out = process.lines().rest().join("\n");
    let status = process.wait_timeout(LONG).expect("a process that ends");
    Ended {
        code: status.code(),
        out,
    }
}
