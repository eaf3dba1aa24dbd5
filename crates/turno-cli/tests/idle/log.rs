//! The database's log, as a count of statements by application.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use turno_testkit::PostgresServer;

/// A program that sends nothing for this long is idle.
const SETTLED: Duration = Duration::from_secs(4);
/// Maximum time until programs are idle.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts a server that logs every statement, with the application name.
pub fn start_server() -> PostgresServer {
    let settings = [("log_statement", "all"), ("log_line_prefix", "%a@%d|")];
    PostgresServer::start_with(&settings).unwrap()
}

/// Returns such a server, which no test stops or kills.
pub fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(start_server)
}

/// Creates a database, and returns its URL and name.
pub fn new_database() -> (String, String) {
    let url = server().create_database();
    let name = url.rsplit('/').next().unwrap().to_owned();
    (url, name)
}

/// Returns the URL of a database with an application name.
pub fn as_application(url: &str, name: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}application_name={name}")
}

/// Returns the number of statements sent to a database so far, by application.
pub fn statements(database: &str) -> BTreeMap<String, usize> {
    statements_at(server(), database)
}

fn statements_at(server: &PostgresServer, database: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in server.log().lines() {
        let Some((sender, said)) = line.split_once('|') else {
            continue;
        };
        let Some((application, at)) = sender.rsplit_once('@') else {
            continue;
        };
        if at == database
            && (said.starts_with("LOG:  statement:") || said.starts_with("LOG:  execute "))
        {
            *counts.entry(application.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Waits until no statement was sent to these databases for a while.
pub async fn until_silent(databases: &[&str]) {
    until_silent_at(server(), databases).await;
}

/// The same on another server.
pub async fn until_silent_at(server: &PostgresServer, databases: &[&str]) {
    let count = |name: &&str| statements_at(server, name);
    let now = || -> Vec<_> { databases.iter().map(count).collect() };
    let began = tokio::time::Instant::now();
    let mut before = now();
    loop {
        tokio::time::sleep(SETTLED).await;
        let after = now();
        if before == after {
            return;
        }
        assert!(
            began.elapsed() < TIMEOUT,
            "statements are still sent: {after:?}, after {before:?}"
        );
        before = after;
    }
}
