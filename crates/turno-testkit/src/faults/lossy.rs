//! Lost responses: a call was executed, but its caller does not know that.

use tokio_postgres::Client;
use turno::Turno;

use super::client;
use crate::{PostgresServer, TcpProxy};

/// An instance of the library behind a proxy that loses responses, and a connection to the database without the proxy.
///
/// Only PostgreSQL has a network on which responses can be lost.
#[derive(Debug)]
pub struct LossyPath {
    /// The proxy.
    pub proxy: TcpProxy,
    /// URL of the store through the proxy. The application name of its connections is `lossy`.
    pub lossy_url: String,
    /// URL of the store without the proxy.
    pub direct_url: String,
    /// Has one connection, so that the next request is the one whose response is lost.
    pub lossy: Turno,
    /// Instance without the proxy.
    pub direct: Turno,
    /// Connection without the proxy.
    pub observer: Client,
}

impl LossyPath {
    /// Creates an empty store.
    pub async fn open() -> Self {
        Self::open_with("").await
    }

    /// Creates an empty store. Connections through the proxy have these settings, for example `&options=-clock_timeout%3D60s`.
    pub async fn open_with(settings: &str) -> Self {
        let server = PostgresServer::shared();
        let url = tokio::task::spawn_blocking(|| server.create_database())
            .await
            .expect("a database is created");
        let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
            .await
            .expect("the proxy starts");
        let lossy_url = format!("{}?application_name=lossy{settings}", proxy.url_for(&url));
        let direct = Turno::connect(&url).await.expect("the store can be opened");
        let lossy = Turno::builder().connections(1).connect(&lossy_url).await;
        Self {
            proxy,
            lossy_url,
            lossy: lossy.expect("the store can be opened"),
            direct,
            observer: client(&url).await,
            direct_url: url,
        }
    }

    /// Runs a call whose first response is lost, and checks that it was.
    pub async fn losing<T>(&self, work: impl Future<Output = T>) -> T {
        let before = self.connection().await;
        self.proxy.drop_next_answer();
        let done = work.await;
        assert_ne!(self.connection().await, before, "no answer was lost");
        done
    }

    /// Returns the server process of the newest connection through the proxy.
    async fn connection(&self) -> Option<i32> {
        let sql = "select pid
            from pg_stat_activity
            where datname = current_database()
              and application_name = 'lossy'
            order by backend_start desc
            limit 1";
        let row = self.observer.query_opt(sql, &[]).await;
        row.expect("the sessions can be read").map(|row| row.get(0))
    }
}
