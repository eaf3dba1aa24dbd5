//! A thousand waiting and a thousand slow clients do not disturb the others.

use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_postgres::NoTls;
use turno::Turno;
use turno::lock::Acquire;
use turno_server::Options;
use turno_testkit::{PostgresServer, eventually_async};

use crate::common::{LONG, Running};
use crate::raw::{Raw, get, post};

/// Number of clients that wait for locks, and of those that wait for items.
const WAITING: usize = 500;
/// Number of slow clients, in each of four ways.
const SLOW: usize = 250;
/// Number of queues in which clients wait for items.
const QUEUES: usize = 10;
/// Longer than the test.
const WAIT: Duration = Duration::from_secs(600);
/// Maximum number of transactions per second of all waiting clients together.
const QUIET: f64 = 200.0;
/// Duration of the measurement.
const WINDOW: Duration = Duration::from_secs(3);

/// Raises the limit of open files, because both ends of each connection are in this process.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

struct Crowd {
    locks: Vec<Raw>,
    claims: Vec<Raw>,
    _slow: Vec<Raw>,
}

impl Crowd {
    async fn start(server: &Running) -> Self {
        let turno = &server.turno;
        let held = (0..WAITING).map(|n| {
            let lock = turno.lock(format!("held/{n}")).owner("holder").ttl(WAIT);
            async move {
                let Ok(Acquire::Acquired(lease)) = lock.acquire().await else {
                    panic!("not free");
                };
                drop(lease.detach());
            }
        });
        join_all(held).await;
        let locks = (0..WAITING).map(|n| {
            let ask = json!({"resource": format!("held/{n}"), "owner": "waiter", "wait": "10m"});
            Raw::saying_owned(server.address, post("/v1/locks", &ask.to_string()))
        });
        let locks = join_all(locks).await;
        let claims = (0..WAITING).map(|n| {
            let ask = json!({"worker": n.to_string(), "wait": "10m"}).to_string();
            let path = format!("/v1/inbox/q{}/claim", n % QUEUES);
            Raw::saying_owned(server.address, post(&path, &ask))
        });
        let claims = join_all(claims).await;
        let lock = post("/v1/locks", &json!({"resource": "never"}).to_string());
        let ways = [
            "GET /v1/locks HTTP/1.1\r\nhost: localh".to_owned(),
            lock[..lock.len() - 1].to_owned(),
            get("/v1/inbox/big/items?state=pending"),
            String::new(),
        ];
        let slow = (0..4 * SLOW).map(|n| Raw::saying_owned(server.address, ways[n % 4].clone()));
        Crowd {
            locks,
            claims,
            _slow: join_all(slow).await,
        }
    }
}

/// Work of another client; all its responses must be as expected.
async fn work(server: &Running, worker: usize) {
    for n in 0..50 {
        let name = format!("work/{worker}/{n}");
        let lease = server.post("/v1/locks", json!({"resource": name})).await;
        let id = lease.expect(201)["id"]
            .as_str()
            .unwrap()
            .replace('/', "%2F");
        server.delete(&format!("/v1/leases/{id}")).await.expect(204);
        let item = json!({"items": [{"payload": n}]});
        server.post("/v1/inbox/work", item).await.expect(201);
    }
}

/// Returns the number of transactions of the database.
async fn transactions(url: &str) -> i64 {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let row = client
        .query_one(
            "select (xact_commit + xact_rollback)::bigint from pg_stat_database where datname = current_database()",
            &[],
        )
        .await
        .unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    row.get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiting_and_a_thousand_slow_clients_do_not_disturb() {
    allow_many_files();
    let url = PostgresServer::shared().create_database();
    let turno = Turno::builder().connections(8).connect(&url).await.unwrap();
    let options = Options {
        max_wait: WAIT,
        ..Options::default()
    };
    let server = Running::on(turno, options).await;
    let big = "x".repeat(100_000);
    for _ in 0..30 {
        server.turno.inbox("big").push(&big).await.unwrap();
    }
    for n in 0..QUEUES {
        // A queue without a push is unknown, and is polled more often.
        let queue = server.turno.inbox(format!("q{n}"));
        queue.push(&0).await.unwrap();
        let claimed = queue.claim().take().await.unwrap();
        queue.complete(&[claimed[0].claim]).await.unwrap();
    }
    let mut crowd = Crowd::start(&server).await;
    eventually_async(LONG, "all who wait for locks", async || {
        let last = server
            .turno
            .lock(format!("held/{}", WAITING - 1))
            .status()
            .await;
        (last.unwrap().waiters == 1).then_some(())
    })
    .await;

    join_all((0..8).map(|worker| work(&server, worker))).await;

    // No other client is active, so all transactions now are caused by those that wait. The statistics are delayed, so they
    // are read several times.
    eventually_async(LONG, "a store that is left alone", async || {
        let (before, began) = (transactions(&url).await, Instant::now());
        tokio::time::sleep(WINDOW).await;
        let cost = (transactions(&url).await - before) as f64 / began.elapsed().as_secs_f64();
        let many = 2 * WAITING;
        eprintln!("{many} who wait cost {cost:.0} transactions a second");
        (cost < QUIET).then_some(())
    })
    .await;

    // All are still waiting, and get what they wait for.
    for n in 0..WAITING {
        let resource = format!("held/{n}");
        let status = server.turno.lock(&resource).status().await.unwrap();
        let token = status.holders[0].token;
        server.turno.lock(&resource).release(token).await.unwrap();
    }
    for waiter in join_all(crowd.locks.iter_mut().map(Raw::head)).await {
        assert!(waiter.starts_with("HTTP/1.1 201"), "{waiter}");
    }
    for n in 0..QUEUES {
        let items = (0..WAITING / QUEUES).map(|n| json!({"payload": n}));
        let items: Vec<Value> = items.collect();
        server
            .post(&format!("/v1/inbox/q{n}"), json!({"items": items}))
            .await
            .expect(201);
    }
    for waiter in join_all(crowd.claims.iter_mut().map(Raw::head)).await {
        assert!(waiter.starts_with("HTTP/1.1 200"), "{waiter}");
    }
    let stats = server.turno.inbox_stats("q").await.unwrap();
    let claimed: u64 = stats.iter().map(|queue| queue.processing).sum();
    assert_eq!(claimed as usize, WAITING, "one each, none twice");
    drop(crowd);
    server.end().await;
}
