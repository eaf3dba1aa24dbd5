//! Readiness of the server, cached for a moment.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use turno::Turno;

/// How long a result is cached, so that frequent checks do not load the store.
const CACHE_TTL: Duration = Duration::from_secs(1);
/// Timeout of the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// The cached result.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Result<(), &'static str>)>>);

impl Readiness {
    /// Returns `Ok` if the store is available, else the reason. The reason has no details that are meant for operators only.
    pub(crate) async fn check(&self, turno: &Turno) -> Result<(), &'static str> {
        // Callers that arrive during a check wait for its result.
        let mut known = self.0.lock().await;
        match *known {
            Some((at, answer)) if at.elapsed() < CACHE_TTL => answer,
            _ => {
                let answer = check_store(turno).await;
                *known = Some((Instant::now(), answer));
                answer
            }
        }
    }
}

async fn check_store(turno: &Turno) -> Result<(), &'static str> {
    let store = turno.store();
    let check = async {
        let schema = store.schema().await?;
        store.check_writable().await?;
        Ok::<_, turno::Error>(schema)
    };
    match tokio::time::timeout(STORE_TIMEOUT, check).await {
        Ok(Ok(Some(schema))) if schema.is_usable() => Ok(()),
        Ok(Ok(_)) => Err(
            "the store's schema is of another version: run `turno migrate`, or upgrade the server",
        ),
        Ok(Err(error)) if error.is_refused() => {
            tracing::warn!(%error, "not ready: the store accepts no writes");
            Err("the store accepts no writes")
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready: the store does not answer");
            Err("the store does not answer")
        }
        Err(_) => {
            tracing::warn!("not ready: the store does not answer in {STORE_TIMEOUT:?}");
            Err("the store does not answer in time")
        }
    }
}
