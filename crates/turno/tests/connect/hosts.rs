//! Connections of an application, with several hosts in the URL.

use std::net::TcpListener;
use std::time::Duration;

use turno::store::postgres::{Environment, Target};
use turno_testkit::PostgresServer;

/// Longer than anything takes that ends at all, and shorter than the timeout of the silent host.
const LONG: Duration = Duration::from_secs(60);

/// Returns whether a connection with these parameters succeeds.
async fn is_connected(hosts: &str, ports: &str) -> bool {
    let conninfo = format!(
        "host={hosts} port={ports} user=owner dbname=postgres connect_timeout=600 target_session_attrs=read-write"
    );
    let target = Target::parse_with(&conninfo, &Environment::default()).unwrap();
    let connecting = tokio::time::timeout(LONG, target.connect());
    connecting.await.is_ok_and(|connected| connected.is_ok())
}

/// Like a frozen server: the operating system accepts the connection, and there is no response.
#[tokio::test]
async fn a_silent_first_host_does_not_use_up_the_time_of_the_next() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    let port = PostgresServer::shared().port();
    assert!(is_connected("127.0.0.1,127.0.0.1", &format!("{silent},{port}")).await);
}

#[tokio::test]
async fn a_first_host_that_refuses_is_passed_over() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = free.local_addr().unwrap().port();
    drop(free);
    let port = PostgresServer::shared().port();
    assert!(is_connected("127.0.0.1,127.0.0.1", &format!("{refusing},{port}")).await);
}

/// The message contains all errors, because each host may have a different reason.
#[tokio::test]
async fn the_error_names_the_reason_of_each_host() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = free.local_addr().unwrap().port();
    drop(free);
    let port = PostgresServer::shared().port();
    let conninfo =
        format!("host=127.0.0.1,127.0.0.1 port={refusing},{port} user=owner dbname=there_is_none");
    let target = Target::parse_with(&conninfo, &Environment::default()).unwrap();
    let error = target.connect().await.err().unwrap().to_string();
    assert!(error.contains("refused"), "{error}");
    assert!(error.contains("there_is_none"), "{error}");
}
