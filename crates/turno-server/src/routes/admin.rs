//! `/v1/sweep`, `/v1/doctor`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use turno::MAX_DELAY;
use turno::lock::{Sweep, Swept};
use turno_api::admin::{DoctorReport, SweepRequest};
use turno_api::duration::WireDuration;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::caller::Admin;
use crate::http::extract::MaybeJson;
use crate::http::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(sweep))
        .routes(routes!(doctor))
}

/// Closes expired leases and deletes old rows. Only the size of the tables depends on it.
#[utoipa::path(
    post,
    path = "/v1/sweep",
    operation_id = "sweep",
    tag = "admin",
    request_body(content = Option<SweepRequest>),
    responses(
        (status = 200, body = Swept),
    ),
)]
async fn sweep(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
    MaybeJson(ask): MaybeJson<SweepRequest>,
) -> Result<axum::Json<Swept>, Problem> {
    caller.unscoped()?;
    let defaults = Sweep::default();
    let keep_failed = ask.keep_failed.map(Into::into);
    let sweep = Sweep {
        purge_after: age("purge_after", ask.purge_after, defaults.purge_after)?,
        keep_history: age("keep_history", ask.keep_history, defaults.keep_history)?,
        keep_completed: age(
            "keep_completed",
            ask.keep_completed,
            defaults.keep_completed,
        )?,
        keep_failed: keep_failed
            .map(|keep| limited("keep_failed", keep))
            .transpose()?,
        keep_archive: age("keep_archive", ask.keep_archive, defaults.keep_archive)?,
        keep_seen: age("keep_seen", ask.keep_seen, defaults.keep_seen)?,
        batch: defaults.batch,
    };
    let swept = app.turno.sweep(&sweep).await?;
    app.metrics.sweeper.swept(&swept);
    Ok(axum::Json(swept))
}

/// Returns a retention: the requested one or the default, if it is valid.
fn age(
    field: &'static str,
    requested: Option<WireDuration>,
    default: Duration,
) -> Result<Duration, Problem> {
    limited(field, requested.map_or(default, Into::into))
}

fn limited(field: &'static str, age: Duration) -> Result<Duration, Problem> {
    match age {
        age if age > MAX_DELAY => Err(Problem::invalid(
            field,
            format!("{field} is {age:?}, more than ten years: give less"),
        )),
        age => Ok(age),
    }
}

/// Checks whether the store is configured for the guarantees of Turno.
#[utoipa::path(
    get,
    path = "/v1/doctor",
    operation_id = "doctor",
    tag = "admin",
    responses(
        (status = 200, body = DoctorReport),
    ),
)]
async fn doctor(
    State(app): State<Arc<App>>,
    Admin(caller): Admin,
) -> Result<axum::Json<DoctorReport>, Problem> {
    caller.unscoped()?;
    let store = app.turno.store();
    let name = app.options.store.as_deref().unwrap_or(store.name());
    Ok(axum::Json(DoctorReport {
        store: name.to_owned(),
        findings: store.diagnose().await?,
    }))
}
