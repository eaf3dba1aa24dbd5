//! The tickets API: create a ticket, change its status, read it.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use sqlx::Row;
use uuid::Uuid;

use crate::announce::Announcer;
use crate::db::{Db, with_pool, with_tx};
use crate::fault;
use crate::ticket::{MAX_TITLE, Status, Ticket, TicketEvent};

/// Request header with the correlation id. Default: a new id.
const CORRELATION: &str = "x-correlation-id";

pub(crate) struct Api {
    pub(crate) db: Db,
    pub(crate) announcer: Announcer,
}

pub(crate) fn router(api: Api) -> Router {
    Router::new()
        .route("/tickets", post(create))
        .route("/tickets/{id}", get(show))
        .route("/tickets/{id}/status", patch(change_status))
        .with_state(Arc::new(api))
}

#[derive(Deserialize)]
struct NewTicket {
    title: String,
}

#[derive(Deserialize)]
struct NewStatus {
    status: Status,
}

/// Creates a ticket. The ticket and its event are committed together or not at all.
async fn create(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
    asked: Result<Json<NewTicket>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(asked) = asked.map_err(Problem::unreadable)?;
    let title = asked.title.trim().to_owned();
    if title.is_empty() || title.chars().count() > MAX_TITLE {
        return Err(Problem::bad(format!(
            "title must have 1 to {MAX_TITLE} characters"
        )));
    }
    let ticket = Ticket {
        ticket_id: Uuid::now_v7(),
        title,
        status: Status::Open,
    };
    let event = TicketEvent::created(&ticket, &correlation_id(&headers)?);
    with_tx!(&api.db, |tx| {
        sqlx::query("insert into tickets (id, title, status) values ($1, $2, $3)")
            .bind(ticket.ticket_id.to_string())
            .bind(&ticket.title)
            .bind(ticket.status.as_str())
            .execute(&mut *tx)
            .await?;
        api.announcer.within(&mut *tx, &event).await?;
        fault::here(fault::BEFORE_COMMIT);
        tx.commit().await?;
    });
    fault::here(fault::AFTER_COMMIT);
    api.announcer.after(&event).await?;
    Ok((StatusCode::CREATED, Json(ticket)).into_response())
}

async fn change_status(
    State(api): State<Arc<Api>>,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
    asked: Result<Json<NewStatus>, JsonRejection>,
) -> Result<Json<Ticket>, Problem> {
    let Json(asked) = asked.map_err(Problem::unreadable)?;
    let before = find(&api.db, id).await?;
    if before.status == asked.status {
        return Ok(Json(before));
    }
    let ticket = Ticket {
        status: asked.status,
        ..before.clone()
    };
    let event = TicketEvent::status_changed(&ticket, before.status, &correlation_id(&headers)?);
    with_tx!(&api.db, |tx| {
        let changed = sqlx::query("update tickets set status = $1 where id = $2 and status = $3")
            .bind(ticket.status.as_str())
            .bind(id.to_string())
            .bind(before.status.as_str())
            .execute(&mut *tx)
            .await?;
        if changed.rows_affected() == 0 {
            return Err(Problem::conflict());
        }
        api.announcer.within(&mut *tx, &event).await?;
        fault::here(fault::BEFORE_COMMIT);
        tx.commit().await?;
    });
    fault::here(fault::AFTER_COMMIT);
    api.announcer.after(&event).await?;
    Ok(Json(ticket))
}

async fn show(State(api): State<Arc<Api>>, Path(id): Path<Uuid>) -> Result<Json<Ticket>, Problem> {
    find(&api.db, id).await.map(Json)
}

async fn find(db: &Db, id: Uuid) -> Result<Ticket, Problem> {
    let (title, status): (String, String) = with_pool!(db, |pool| {
        let row = sqlx::query("select title, status from tickets where id = $1")
            .bind(id.to_string())
            .fetch_optional(pool)
            .await?
            .ok_or_else(Problem::unknown)?;
        (row.try_get(0)?, row.try_get(1)?)
    });
    let status = Status::read(&status)
        .ok_or_else(|| anyhow::anyhow!("ticket {id} has the unknown status {status:?}"))?;
    Ok(Ticket {
        ticket_id: id,
        title,
        status,
    })
}

fn correlation_id(headers: &HeaderMap) -> Result<String, Problem> {
    let Some(given) = headers.get(CORRELATION) else {
        return Ok(Uuid::new_v4().simple().to_string());
    };
    match given.to_str() {
        Ok(given) if (1..=255).contains(&given.len()) => Ok(given.to_owned()),
        _ => Err(Problem::bad(format!(
            "{CORRELATION} must have 1 to 255 characters"
        ))),
    }
}

/// Error response.
struct Problem(StatusCode, String);

impl Problem {
    fn bad(error: String) -> Self {
        Problem(StatusCode::BAD_REQUEST, error)
    }

    fn unreadable(rejection: JsonRejection) -> Self {
        Problem::bad(rejection.body_text())
    }

    fn unknown() -> Self {
        Problem(StatusCode::NOT_FOUND, "there is no such ticket".to_owned())
    }

    fn conflict() -> Self {
        let error = "the ticket was changed meanwhile: read it again";
        Problem(StatusCode::CONFLICT, error.to_owned())
    }
}

impl<E: Into<anyhow::Error>> From<E> for Problem {
    fn from(error: E) -> Self {
        tracing::error!("{:#}", error.into());
        let error = "the ticket could not be stored; try again".to_owned();
        Problem(StatusCode::INTERNAL_SERVER_ERROR, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}
