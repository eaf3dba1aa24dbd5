//! The private servers start, crash, restart, and leave nothing behind.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use turno_testkit::server::{Nats, RabbitMq};
use turno_testkit::{
    PgBouncer, PoolMode, PostgresServer, Process, RedisServer, Sql as _, eventually, sql,
};

const LONG: Duration = Duration::from_secs(60);

async fn setting(client: &Client, name: &str) -> String {
    client
        .query_one("select current_setting($1)", &[&name])
        .await
        .unwrap()
        .get(0)
}

/// Returns ids and programs of the processes whose command line, environment or working directory contains `folder`.
fn processes_in(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let name = folder.to_string_lossy();
    processes
        .filter(|process| {
            let cwd = fs::read_link(process.join("cwd")).unwrap_or_default();
            let named = |file: &str| {
                let words = fs::read(process.join(file)).unwrap_or_default();
                String::from_utf8_lossy(&words).contains(&*name)
            };
            cwd.starts_with(folder) || named("cmdline") || named("environ")
        })
        .map(|process| {
            let program = fs::read_to_string(process.join("comm")).unwrap_or_default();
            format!("{} {}", process.display(), program.trim_end())
        })
        .collect()
}

/// Returns whether a process of that program uses `folder`.
fn runs_in(folder: &Path, program: &str) -> bool {
    processes_in(folder)
        .iter()
        .any(|process| process.ends_with(&format!(" {program}")))
}

#[tokio::test]
async fn databases_are_empty_and_apart() {
    let server = PostgresServer::shared();
    let (one, two) = (
        sql::client(&server.create_database()).await,
        sql::client(&server.create_database()).await,
    );
    one.run("create table t ()").await;
    two.run("create table t ()").await;
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
    let client = sql::client(&server.create_database()).await;
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
    let client = sql::client(&url).await;
    client.run("create table t (n int)").await;
    for round in 1..=2_i64 {
        let client = sql::client(&url).await;
        client.run("insert into t values (1)").await;
        // A busy backend does not notice by itself that its postmaster has ended.
        let busy = tokio::spawn(async move { client.batch_execute("select pg_sleep(600)").await });
        server.kill_9().unwrap();
        assert!(busy.await.unwrap().is_err());
        assert_eq!(
            processes_in(&server.folder().join("data")),
            Vec::<String>::new()
        );
        server.restart().unwrap();
        let row = sql::client(&url)
            .await
            .query_one("select count(*) from t", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i64>(0), round);
    }
    // A second kill is harmless, and so is stopping a server that has ended.
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
    sql::client(&url).await.run("select 1").await;
    // Also without stopping it first.
    server.restart().unwrap();
    sql::client(&url).await.run("select 1").await;
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
        sql::client(&pooler.url(name)).await,
        sql::client(&pooler.url(name)).await,
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
    sql::client(&pooler.url(name))
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
fn redis_forgets_without_persistence() {
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

/// Returns the first frame that the broker sends after a client's greeting.
fn amqp_answer(broker: &RabbitMq) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, broker.port())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"AMQP\0\0\x09\x01").unwrap();
    let mut header = [0; 7];
    stream.read_exact(&mut header).unwrap();
    let [_, _, _, length @ ..] = header;
    let mut content = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut content).unwrap();
    String::from_utf8_lossy(&content).into_owned()
}

#[test]
fn a_broker_restarts_on_its_port_with_its_definitions() {
    let broker = RabbitMq::start().unwrap();
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", broker.port());
    assert_eq!(broker.url(), url);
    assert!(amqp_answer(&broker).contains("RabbitMQ"));
    assert!(runs_in(&broker.folder(), "erl_child_setup"));

    broker.ctl(&["add_vhost", "kept"]).unwrap();
    broker.kill_9().unwrap();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, broker.port())).is_err());
    assert_only_the_watchdog_is_left_in(&broker.folder());
    broker.restart().unwrap();
    assert!(amqp_answer(&broker).contains("RabbitMQ"));
    assert!(broker.ctl(&["list_vhosts"]).unwrap().contains("kept"));

    broker.stop().unwrap();
    let error = broker.ctl(&["list_vhosts"]).unwrap_err().to_string();
    assert!(error.contains("is the broker stopped?"), "{error}");
    assert_only_the_watchdog_is_left_in(&broker.folder());
    broker.restart().unwrap();
    assert!(amqp_answer(&broker).contains("RabbitMQ"));
    // A second kill is harmless, and so is stopping a server that has ended.
    broker.kill_9().unwrap();
    broker.kill_9().unwrap();
    broker.stop().unwrap();
}

#[track_caller]
fn assert_only_the_watchdog_is_left_in(folder: &Path) {
    let left = processes_in(folder);
    assert!(left.len() == 1 && left[0].ends_with(" sh"), "{left:?}");
}

#[test]
fn a_broker_can_be_made_to_block_publishers() {
    let broker = RabbitMq::start_with("max_message_size = 65536\n").unwrap();
    let ask = |expression| broker.ctl(&["eval", expression]).unwrap();
    let limit = ask("application:get_env(rabbit, max_message_size).");
    assert_eq!(limit.trim(), "{ok,65536}");
    let alarms = || ask("rabbit_alarm:get_alarms().");
    assert_eq!(alarms().trim(), "[]");
    broker.block_publishers().unwrap();
    assert!(alarms().contains("memory"), "{}", alarms());
    broker.unblock_publishers().unwrap();
    assert_eq!(alarms().trim(), "[]");
}

#[test]
fn a_broker_that_does_not_start_shows_its_log() {
    let error = RabbitMq::start_with("no_such_setting = 1\n").unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("no_such_setting"), "{text}");
    let error = Nats::start_with("no_such_setting: 1\n").unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("no_such_setting"), "{text}");
}

/// Sends a request to a subject, and returns the response.
fn nats(server: &Nats, subject: &str, question: &str) -> String {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = question.len();
    write!(
        &stream,
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {length}\r\n{question}\r\n"
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines
        .find(|line| line.starts_with("MSG answer "))
        .expect("the server answers");
    lines.next().expect("a message has a content")
}

#[test]
fn streams_outlive_a_crash() {
    let server = Nats::start_with("max_payload: 1000\n").unwrap();
    assert_eq!(server.url(), format!("nats://127.0.0.1:{}", server.port()));
    let stream = r#"{"name":"kept","subjects":["kept.*"],"storage":"file"}"#;
    let created = nats(&server, "$JS.API.STREAM.CREATE.kept", stream);
    assert!(created.contains("\"max_msgs\":-1"), "{created}");
    for round in 1..=2 {
        let acknowledged = nats(&server, "kept.a", "hello");
        assert_eq!(
            acknowledged,
            format!("{{\"stream\":\"kept\", \"seq\":{round}}}")
        );
        server.kill_9().unwrap();
        assert_only_the_watchdog_is_left_in(&server.folder());
        server.restart().unwrap();
        let info = nats(&server, "$JS.API.STREAM.INFO.kept", "");
        assert!(info.contains(&format!("\"messages\":{round},")), "{info}");
    }
    server.stop().unwrap();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).is_err());
    server.restart().unwrap();
    let info = nats(&server, "$JS.API.STREAM.INFO.kept", "");
    assert!(info.contains("\"messages\":2,"), "{info}");
}

fn expect_that_dropping_leaves_nothing<T>(server: T, folder: &Path, program: &str) {
    assert!(runs_in(folder, program));
    drop(server);
    assert_eq!(processes_in(folder), Vec::<String>::new());
    assert!(!folder.exists());
}

#[test]
fn dropping_leaves_nothing() {
    let server = PostgresServer::start().unwrap();
    let folder = server.folder();
    expect_that_dropping_leaves_nothing(server, &folder, "postgres");
    let server = RabbitMq::start().unwrap();
    let folder = server.folder();
    expect_that_dropping_leaves_nothing(server, &folder, "beam.smp");
    let server = Nats::start().unwrap();
    let folder = server.folder();
    expect_that_dropping_leaves_nothing(server, &folder, "nats-server");
}

/// Another process, whose servers' folders are all in one folder.
struct Holder {
    process: Process,
    temporary: PathBuf,
}

impl Holder {
    fn spawn(name: &str, servers: &[&str]) -> Self {
        let temporary = std::env::temp_dir().join(format!("turno-{name}-{}", std::process::id()));
        fs::create_dir(&temporary).expect("the name is this process's own");
        // The servers may run as another account.
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&temporary, all).expect("the folder is ours");
        let mut command = Command::new(env!("CARGO_BIN_EXE_turno-servers"));
        command.args(servers).env("TMPDIR", &temporary);
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
    let holder = Holder::spawn("killed", &["postgres", "rabbitmq", "nats"]);
    holder.process.lines().expect_line("ready", LONG);
    assert_eq!(holder.folders(), 4);
    for program in ["postgres", "pgbouncer", "beam.smp", "nats-server"] {
        assert!(runs_in(&holder.temporary, program), "{program}");
    }
    holder.kill_and_expect_nothing_left();
}

#[test]
fn a_test_process_killed_while_it_starts_leaves_nothing() {
    // The awaited process stays there once the server has started, so a slow poll cannot miss it.
    for (server, program) in [
        ("postgres", "sh"),
        ("rabbitmq", "beam.smp"),
        ("nats", "nats-server"),
    ] {
        let holder = Holder::spawn(&format!("starting-{server}"), &[server]);
        eventually(LONG, "a server that is being made", || {
            runs_in(&holder.temporary, program).then_some(())
        });
        holder.kill_and_expect_nothing_left();
    }
}
