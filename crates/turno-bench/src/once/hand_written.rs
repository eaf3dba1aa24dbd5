//! A hand-written implementation: a table, two writes for a new request, one read for a repeated one.

use anyhow::Result;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use deadpool_postgres::{Manager, Pool};
use tokio_postgres::NoTls;

use super::load::known;
use super::web::{ANSWER, Answer, answer};

const CREATE: &str = "create table request (
  key text primary key, fingerprint text not null, state text not null, until timestamptz not null, answer json)
  with (fillfactor = 60)";
const BEGIN: &str = "insert into request (key, fingerprint, state, until)
  values ($1, $2, 'running', clock_timestamp() + interval '30 seconds') on conflict do nothing";
const COMPLETE: &str = "update request set state = 'done', until = clock_timestamp() + interval '1 day', answer = $2::text::json
  where key = $1 and state = 'running'";
const READ: &str = "select fingerprint, state, until > clock_timestamp(), answer::text from request where key = $1";
const FILL: &str = "insert into request (key, fingerprint, state, until, answer)
  values ($1, '-', 'done', clock_timestamp() + interval '1 day', $2::text::json)";

/// Creates the table, and opens a pool.
pub async fn pool(url: &str) -> Result<Pool> {
    let manager = Manager::new(url.parse()?, NoTls);
    // The same pool size as Turno's.
    let pool = Pool::builder(manager).max_size(16).build()?;
    pool.get().await?.batch_execute(CREATE).await?;
    Ok(pool)
}

fn key(headers: &HeaderMap) -> Result<&str, StatusCode> {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    key.ok_or(StatusCode::BAD_REQUEST)
}

fn failed<E>(_: E) -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

/// Stores a new request.
pub async fn begin(pool: &Pool, key: &str) -> Result<()> {
    let client = pool.get().await?;
    let begin = client.prepare_cached(BEGIN).await?;
    client.execute(&begin, &[&key, &"-"]).await?;
    Ok(())
}

/// Stores the answer of a request.
pub async fn complete(pool: &Pool, key: &str) -> Result<()> {
    let client = pool.get().await?;
    let complete = client.prepare_cached(COMPLETE).await?;
    client.execute(&complete, &[&key, &ANSWER]).await?;
    Ok(())
}

pub async fn two_writes(url: &str) -> Result<Router> {
    let pool = pool(url).await?;
    let handler = move |headers: HeaderMap, _: axum::body::Bytes| {
        let pool = pool.clone();
        async move {
            let key = key(&headers)?;
            begin(&pool, key).await.map_err(failed)?;
            // The connection is returned to the pool during the work.
            let answer = answer();
            complete(&pool, key).await.map_err(failed)?;
            Ok::<Answer, StatusCode>(answer)
        }
    };
    Ok(Router::new().route("/pagos", post(handler)))
}

pub async fn one_read(url: &str, stored: usize) -> Result<Router> {
    let pool = pool(url).await?;
    let client = pool.get().await?;
    let fill = client.prepare(FILL).await?;
    for n in 0..stored {
        client.execute(&fill, &[&known(n), &ANSWER]).await?;
    }
    drop(client);
    let handler = move |headers: HeaderMap, _: axum::body::Bytes| {
        let pool = pool.clone();
        async move {
            let client = pool.get().await.map_err(failed)?;
            let read = client.prepare_cached(READ).await.map_err(failed)?;
            let row = client
                .query_one(&read, &[&key(&headers)?])
                .await
                .map_err(failed)?;
            let answer: String = row.get(3);
            Ok::<Answer, StatusCode>(([("content-type", "application/json")], answer))
        }
    };
    Ok(Router::new().route("/pagos", post(handler)))
}
