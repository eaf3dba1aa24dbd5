//! Calls for operators: history, sweep, diagnosis and the state of the server.

use reqwest::Method;
use turno::history::Part;
use turno::store::Swept;
use turno_api::admin::{DoctorReport, Health, SweepRequest, Whoami};
use turno_api::history::HistoryPage;

use super::error::Result;
use super::locks::said;
use super::path::Target;
use super::send::{Call, Repeat};
use super::{Client, Page};

impl Client {
    /// Returns one page of the history, newest first: of one component (default: all), and of one resource, queue or key, or of all
    /// whose names begin with a prefix.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno_client::api::history::Part;
    /// use turno_client::{Client, Page};
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let page = client.history(Some(Part::Lock), Some("PRESTAMO/123"), "", &Page::default()).await?;
    /// for entry in page.history {
    ///     println!("{} {} {:?}", entry.at, entry.event, entry.attribution.user);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn history(
        &self,
        part: Option<Part>,
        resource: Option<&str>,
        prefix: &str,
        page: &Page<i64>,
    ) -> Result<HistoryPage> {
        let target = Target::new("v1/history")
            .with("part", part)
            .with("resource", resource)
            .with("prefix", said(prefix))
            .with("limit", page.limit)
            .with("after", page.after);
        self.call(Call::get(target)).await?.read()
    }

    /// Sweeps the store: ends what has expired and deletes what is older than its retention.
    ///
    /// # Errors
    /// Returns an error if an argument is invalid or the server is unavailable.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use turno_client::Client;
    /// use turno_client::api::admin::SweepRequest;
    ///
    /// let client = Client::new("http://127.0.0.1:7117")?;
    /// let month = Duration::from_secs(30 * 24 * 60 * 60);
    /// let ask = SweepRequest { keep_history: Some(month.into()), ..SweepRequest::default() };
    /// println!("{} entries of the history deleted", client.sweep(&ask).await?.history);
    /// # Ok(()) }
    /// ```
    pub async fn sweep(&self, ask: &SweepRequest) -> Result<Swept> {
        let call = Call::new(Method::POST, Target::new("v1/sweep")).body(ask)?;
        self.call(call.repeat(Repeat::Unbegun)).await?.read()
    }

    /// Diagnoses the server's store.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn doctor(&self) -> Result<DoctorReport> {
        self.call(Call::get(Target::new("v1/doctor"))).await?.read()
    }

    /// Returns the name, role and prefix of the caller's access token.
    ///
    /// # Errors
    /// Returns an error if the server does not accept the token or is unavailable.
    pub async fn whoami(&self) -> Result<Whoami> {
        self.call(Call::get(Target::new("v1/whoami"))).await?.read()
    }

    /// Returns the health of the server process (`/healthz`).
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn health(&self) -> Result<Health> {
        self.call(Call::get(Target::new("healthz"))).await?.read()
    }

    /// Returns the readiness of the server (`/readyz`). Its status is `unavailable` if the store is unavailable.
    ///
    /// # Errors
    /// Returns an error if the server is unavailable.
    pub async fn ready(&self) -> Result<Health> {
        self.call(Call::get(Target::new("readyz"))).await?.read()
    }
}
