//! The private servers start, crash, come back, and leave nothing behind.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use turno_testkit::{PgBouncer, PoolMode, PostgresServer, Process, RedisServer, eventually};

const LONG: Duration = Duration::from_secs(60);

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn setting(client: &Client, name: &str) -> String {
    client
        .query_one("select current_setting($1)", &[&name])
        .await
        .unwrap()
        .get(0)
}

/// The processes whose command line or working directory names `folder`.
fn processes_in(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    processes
        .filter(|process| {
            let cwd = fs::read_link(process.join("cwd")).unwrap_or_default();
            let words = fs::read(process.join("cmdline")).unwrap_or_default();
            cwd.starts_with(folder)
                || String::from_utf8_lossy(&words).contains(&*folder.to_string_lossy())
        })
        .map(|process| process.display().to_string())
        .collect()
}

#[tokio::test]
async fn databases_are_empty_and_apart() {
    let server = PostgresServer::shared();
    let (one, two) = (
        connect(&server.create_database()).await,
        connect(&server.create_database()).await,
    );
    one.batch_execute("create table t ()").await.unwrap();
    two.batch_execute("create table t ()").await.unwrap();
    assert_eq!(setting(&one, "server_encoding").await, "UTF8");
    assert_eq!(setting(&one, "fsync").await, "off");
    assert_eq!(setting(&one, "max_connections").await, "300");
}

#[tokio::test]
async fn settings_are_overridable() {
    let server = PostgresServer::start_with(&[
        ("fsync", "on"),
        ("application_name", "it's"),
        ("max_connections", "20"),
    ])
    .unwrap();
    let client = connect(&server.create_database()).await;
    assert_eq!(setting(&client, "fsync").await, "on");
    assert_eq!(setting(&client, "application_name").await, "it's");
    assert_eq!(setting(&client, "max_connections").await, "20");
}

#[test]
fn a_server_that_does_not_start_shows_its_log() {
    let error = PostgresServer::start_with(&[("no_such_setting", "1")]).unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("unrecognized configuration parameter \"no_such_setting\""),
        "{text}"
    );
}

#[tokio::test]
async fn a_killed_server_comes_back_with_what_was_acknowledged() {
    let server = PostgresServer::start().unwrap();
    let url = server.create_database();
    let client = connect(&url).await;
    client
        .batch_execute("create table t (n int)")
        .await
        .unwrap();
    for round in 1..=2_i64 {
        let client = connect(&url).await;
        client
            .batch_execute("insert into t values (1)")
            .await
            .unwrap();
        // A backend that is busy does not notice by itself that its postmaster is gone.
        let busy = tokio::spawn(async move { client.batch_execute("select pg_sleep(600)").await });
        server.kill_9().unwrap();
        assert!(busy.await.unwrap().is_err());
        assert_eq!(
            processes_in(&server.folder().join("data")),
            Vec::<String>::new()
        );
        server.restart().unwrap();
        let row = connect(&url)
            .await
            .query_one("select count(*) from t", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), round);
    }
    // Twice is harmless, and so is stopping what is dead.
    server.kill_9().unwrap();
    server.kill_9().unwrap();
    server.stop().unwrap();
}

#[tokio::test]
async fn a_stopped_server_refuses_and_comes_back_on_its_port() {
    let server = PostgresServer::start().unwrap();
    let url = server.create_database();
    server.stop().unwrap();
    assert!(tokio_postgres::connect(&url, NoTls).await.is_err());
    server.restart().unwrap();
    connect(&url).await.batch_execute("select 1").await.unwrap();
    // Also without stopping it first.
    server.restart().unwrap();
    connect(&url).await.batch_execute("select 1").await.unwrap();
}

#[tokio::test]
async fn a_pooler_shares_connections_between_transactions() {
    let server = PostgresServer::shared();
    let database = server.create_database();
    let name = database.rsplit('/').next().unwrap();
    let pooler =
        PgBouncer::start_with(server, PoolMode::Transaction, &[("default_pool_size", "1")])
            .unwrap();
    let (one, two) = (
        connect(&pooler.url(name)).await,
        connect(&pooler.url(name)).await,
    );
    let mut backends = Vec::new();
    for client in [&one, &two] {
        let rows = client
            .simple_query("select pg_backend_pid()")
            .await
            .unwrap();
        backends.push(rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }));
    }
    assert!(backends[0].is_some());
    assert_eq!(backends[0], backends[1]);

    pooler.kill_9().unwrap();
    assert!(one.simple_query("select 1").await.is_err());
    pooler.restart().unwrap();
    connect(&pooler.url(name))
        .await
        .simple_query("select 1")
        .await
        .unwrap();
    pooler.stop().unwrap();
}

fn redis(server: &RedisServer, commands: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    stream
        .write_all(format!("{commands}\r\nQUIT\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn redis_forgets_unless_told_to_keep() {
    if Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("skipped: redis-server is not installed, and only the benchmarks need it");
        return;
    }
    let durable = [("appendonly", "yes"), ("appendfsync", "always")];
    for (settings, kept) in [(&[][..], "$-1\r\n"), (&durable[..], "$1\r\n7\r\n")] {
        let server = RedisServer::start_with(settings).unwrap();
        assert_eq!(redis(&server, "SET n 7"), "+OK\r\n+OK\r\n");
        server.kill_9().unwrap();
        server.restart().unwrap();
        assert_eq!(redis(&server, "GET n"), format!("{kept}+OK\r\n"));
        server.stop().unwrap();
    }
}

#[test]
fn dropping_leaves_nothing() {
    let server = PostgresServer::start().unwrap();
    let folder = server.folder();
    assert!(!processes_in(&folder).is_empty());
    drop(server);
    assert_eq!(processes_in(&folder), Vec::<String>::new());
    assert!(!folder.exists());
}

/// Another process, whose servers' folders are all in a folder of its own.
struct Holder {
    process: Process,
    temporary: PathBuf,
}

impl Holder {
    fn spawn(name: &str) -> Self {
        let temporary = std::env::temp_dir().join(format!("turno-{name}-{}", std::process::id()));
        fs::create_dir(&temporary).expect("the name is this process's own");
        // The servers may run as another account.
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&temporary, all).expect("the folder is ours");
        let mut command = Command::new(env!("CARGO_BIN_EXE_turno-servers"));
        command.env("TMPDIR", &temporary);
        let process = Process::spawn(&mut command).expect("the program runs");
        Self { process, temporary }
    }

    fn folders(&self) -> usize {
        fs::read_dir(&self.temporary)
            .expect("the folder is there")
            .count()
    }

    fn kill_and_expect_nothing_left(self) {
        self.process.kill_9();
        eventually(LONG, "the end of all that the process had started", || {
            (self.folders() == 0 && processes_in(&self.temporary).is_empty()).then_some(())
        });
        fs::remove_dir(&self.temporary).expect("the folder is empty");
    }
}

#[test]
fn a_killed_test_process_leaves_nothing() {
    let holder = Holder::spawn("killed");
    holder.process.lines().expect_line("ready", LONG);
    assert_eq!(holder.folders(), 2);
    assert!(!processes_in(&holder.temporary).is_empty());
    holder.kill_and_expect_nothing_left();
}

#[test]
fn a_test_process_killed_while_it_starts_leaves_nothing() {
    let holder = Holder::spawn("starting");
    eventually(LONG, "a server that is being made", || {
        (!processes_in(&holder.temporary).is_empty()).then_some(())
    });
    holder.kill_and_expect_nothing_left();
}
