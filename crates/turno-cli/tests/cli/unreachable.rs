//! A store that becomes unreachable: the command is stopped before its lease could have expired.

use std::process::Stdio;
use std::time::Duration;

use turno_testkit::{PostgresServer, Process, TcpProxy, eventually};

use crate::common::{Fixture, Kind, LONG, ask_postgres, is_running};

const TTL: &str = "4s";

/// Ignores SIGTERM, so that it must be killed.
const STUBBORN: &str = "trap 'echo got TERM' TERM; echo pid $$; while :; do sleep 0.02; done";

/// Returns the remaining time of the lease in ms, by the database's clock.
fn left_ms(fixture: &Fixture) -> i64 {
    let sql = "select floor(extract(epoch from expires_at - clock_timestamp()) * 1000)::bigint from turno.lock";
    ask_postgres(&fixture.store, sql).parse().unwrap()
}

fn expires_at(fixture: &Fixture) -> String {
    ask_postgres(&fixture.store, "select expires_at from turno.lock")
}

/// Starts a command under a lock, with a network to the database that can fail. Its lease has been renewed once.
async fn guarded(fixture: &Fixture) -> (TcpProxy, Process, String) {
    let server = PostgresServer::shared();
    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
        .await
        .unwrap();
    let through = proxy.url_for(&fixture.store);
    let mut command = fixture.command(&[
        "--store", &through, "run", "--lock", "job", "--ttl", TTL, "--", "sh", "-c", STUBBORN,
    ]);
    let process = Process::spawn(command.stderr(Stdio::null())).unwrap();
    let pid = process.lines().expect_line("pid", LONG);
    let first = expires_at(fixture);
    // The control: with a network, the lease lives past its first expiry.
    eventually(LONG, "a renewal", || {
        (expires_at(fixture) > first).then_some(())
    });
    let past = format!("select clock_timestamp() > '{first}'");
    eventually(LONG, "the first expiry to pass", || {
        (ask_postgres(&fixture.store, &past) == "t").then_some(())
    });
    assert!(is_running(&pid), "renewed, the command lives");
    (proxy, process, pid)
}

fn stopped_in_time(fixture: &Fixture, process: &Process, pid: &str) {
    process.lines().expect_line("got TERM", LONG);
    let left = left_ms(fixture);
    assert!(left > 0, "TERM came {} ms after the expiry", -left);
    assert!(is_running(pid), "TERM came first, and did not end it");
    eventually(LONG, "the command to be killed", || {
        (!is_running(pid)).then_some(())
    });
    let left = left_ms(fixture);
    assert!(left > 0, "KILL came {} ms after the expiry", -left);
    assert_eq!(process.wait_timeout(LONG).unwrap().code(), Some(1));
    // No other caller could have acquired it meanwhile, and one can now.
    fixture.json(0, "lock acquire job --wait 30s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_ends_the_command_before_its_lease() {
    let fixture = Fixture::new(Kind::Postgres);
    let (proxy, process, pid) = guarded(&fixture).await;
    proxy.black_hole();
    stopped_in_time(&fixture, &process, &pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_line_ends_the_command_before_its_lease() {
    let fixture = Fixture::new(Kind::Postgres);
    let (proxy, process, pid) = guarded(&fixture).await;
    proxy.cut().await;
    stopped_in_time(&fixture, &process, &pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_outage_is_survived() {
    let fixture = Fixture::new(Kind::Postgres);
    let (proxy, process, pid) = guarded(&fixture).await;
    let before = expires_at(&fixture);
    proxy.cut().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    proxy.restore().await.unwrap();
    eventually(LONG, "a renewal after the outage", || {
        (expires_at(&fixture) > before).then_some(())
    });
    assert!(is_running(&pid));
    process.kill_9();
}
