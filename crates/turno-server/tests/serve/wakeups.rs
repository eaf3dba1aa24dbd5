//! A push at one server wakes a claim that waits at another. Without a notification, the claim waits until its next poll:
//! here once a second.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tokio_postgres::Client;
use turno::Turno;
use turno_server::Options;
use turno_testkit::{PostgresServer, Sql as _, eventually_async, sql};

use crate::common::{LONG, Running};

/// Number of rounds. The median counts, so that single outliers do not matter.
const ROUNDS: usize = 5;
/// Half of the interval between two polls.
const HALF: Duration = Duration::from_millis(500);

struct Servers {
    pushed_at: Running,
    waited_at: Running,
    database: Client,
}

impl Servers {
    async fn start() -> Self {
        let url = PostgresServer::shared().create_database();
        let run = async || {
            let turno = Turno::builder().idle_poll_max(2 * HALF);
            Running::on(turno.connect(&url).await.unwrap(), Options::default()).await
        };
        let (pushed_at, waited_at) = (run().await, run().await);
        Servers {
            pushed_at,
            waited_at,
            database: sql::client(&url).await,
        }
    }

    /// Waits until the waiting claim listens and sleeps: no session has sent a statement for a moment.
    async fn until_asleep(&self) {
        self.waited_at.until_a_caller_waits().await;
        let busy = "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
            and (state <> 'idle' or state_change > clock_timestamp() - interval '50 ms')";
        eventually_async(LONG, "a claim that sleeps", async || {
            let hears = self.waited_at.turno.store().wakers().is_live();
            let is_quiet = self.database.query(busy, &[]).await.unwrap().is_empty();
            (hears && is_quiet).then_some(())
        })
        .await;
    }

    /// Returns the median of the time from the push to the claim.
    async fn usually_takes(&self) -> Duration {
        let mut took = Vec::new();
        for n in 0..ROUNDS {
            let wait = json!({"worker": "w", "wait": "60s"});
            let claim = self.waited_at.post("/v1/inbox/jobs/claim", wait);
            let push = async {
                self.until_asleep().await;
                let began = Instant::now();
                let item = json!({"items": [{"payload": n}]});
                self.pushed_at
                    .post("/v1/inbox/jobs", item)
                    .await
                    .expect(201);
                began
            };
            let (claimed, began) = tokio::join!(claim, push);
            took.push(began.elapsed());
            assert_eq!(claimed.expect(200)["items"][0]["payload"], n);
        }
        took.sort_unstable();
        eprintln!("from the push to the claim: {took:?}");
        took[ROUNDS / 2]
    }

    async fn end(self) {
        self.pushed_at.end().await;
        self.waited_at.end().await;
    }
}

#[tokio::test]
async fn a_push_at_one_server_wakes_a_claim_at_another() {
    let servers = Servers::start().await;
    let took = servers.usually_takes().await;
    assert!(took < HALF, "{took:?}");
    servers.end().await;
}

/// The control: if the functions send no notification, the item is found at the next poll.
#[tokio::test]
async fn without_a_notification_a_claim_sleeps_on() {
    let servers = Servers::start().await;
    let mute = "create or replace function turno.wake(channel text, name text) returns void language sql as ''";
    servers.database.run(mute).await;
    let took = servers.usually_takes().await;
    assert!(took > HALF, "{took:?}");
    servers.end().await;
}
