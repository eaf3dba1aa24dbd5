//! How soon a change is visible at another server.

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::json;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use turno::Turno;
use turno::access::{AccessNew, Role};
use turno_server::Options;
use turno_testkit::{PostgresServer, eventually_async};

use crate::common::{LONG, Running};
use crate::stream::Listener;

/// How long a revoked token may still be accepted.
const REVOKED: Duration = Duration::from_secs(5);
/// Timeout for changes that are promised within a second, on a busy machine.
const SEEN: Duration = Duration::from_secs(5);

/// Two servers on one store.
struct Two {
    here: Running,
    there: Running,
    _folder: Option<TempDir>,
}

impl Two {
    async fn on_each_store() -> [Self; 2] {
        let folder = TempDir::new().unwrap();
        let file = format!("sqlite:{}", folder.path().join("turno.db").display());
        let database = PostgresServer::shared().create_database();
        [
            Self::start(&file, Some(folder)).await,
            Self::start(&database, None).await,
        ]
    }

    async fn start(url: &str, folder: Option<TempDir>) -> Self {
        let run =
            async || Running::on(Turno::connect(url).await.unwrap(), Options::default()).await;
        Two {
            here: run().await,
            there: run().await,
            _folder: folder,
        }
    }

    fn store(&self) -> &'static str {
        self.here.turno.store().name()
    }

    async fn end(self) {
        self.here.end().await;
        self.there.end().await;
    }
}

async fn is_let_in(server: &Running, token: &str) -> bool {
    let request = server
        .request("GET", "/v1/locks")
        .header("authorization", format!("Bearer {token}"));
    match server.send(request, "").await.status {
        StatusCode::OK => true,
        StatusCode::UNAUTHORIZED => false,
        other => panic!("{other}"),
    }
}

/// Revoked in the store, without a notification to any server. The other token is the control: it stays valid.
#[tokio::test]
async fn a_revoked_token_is_out_after_five_seconds() {
    let revoke = async |two: Two| {
        let create = async |name: &str| {
            let new = AccessNew::new(name, Role::Read);
            let (view, text) = two.here.turno.access_create(new).await.unwrap();
            (view.id, text.as_str().to_owned())
        };
        let ((id, gone), (_, stays)) = (create("gone").await, create("stays").await);
        assert!(is_let_in(&two.there, &gone).await && is_let_in(&two.there, &stays).await);
        assert!(two.here.turno.access_revoke(&id).await.unwrap());
        let revoked = Instant::now();
        // Measured before the request: an accepted request was sent at that time or later.
        let mut last = Duration::ZERO;
        eventually_async(LONG, "a token that is over", async || {
            let came = revoked.elapsed();
            let is_in = is_let_in(&two.there, &gone).await;
            if is_in {
                last = came;
            }
            (!is_in).then_some(())
        })
        .await;
        eprintln!("{}: let in for {last:?} after it was revoked", two.store());
        assert!(last < REVOKED, "let in after {last:?}");
        assert!(is_let_in(&two.there, &stays).await);
        two.end().await;
    };
    join_all(Two::on_each_store().await.map(revoke)).await;
}

#[tokio::test]
async fn a_change_at_one_server_is_streamed_by_the_other() {
    for two in Two::on_each_store().await {
        let mut listener = Listener::start(&two.there, "/v1/stream", None).await;
        listener.until("snapshot", |_| true).await;
        let asked = Instant::now();
        let lock = json!({"resource": "PRESTAMO/123", "user": "1"});
        two.here.post("/v1/locks", lock).await.expect(201);
        let event = listener.until("locks", |_| true).await;
        let took = asked.elapsed();
        eprintln!("{}: streamed after {took:?}", two.store());
        assert_eq!(event["added"][0]["resource"], "PRESTAMO/123");
        assert!(took < SEEN, "streamed after {took:?}");
        drop(listener);
        two.end().await;
    }
}
