//! The AFORE's side: receives notifications and counts them. A repeated notification has the same id.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::puerta::decir;

/// Received notifications. A receiver with a database would store the ids there, in the transaction of its own work
/// (`turno.seen`).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recibidas {
    /// Number of requests received, with repetitions.
    pub recibidas: u64,
    /// Each notification once.
    pub avisos: Vec<Value>,
    /// Ids of the notifications that have one.
    ids: HashSet<String>,
}

/// Counts notifications until the process ends.
///
/// # Errors
/// Returns an error if the address cannot be bound.
pub async fn servir(escucha: &str) -> Result<()> {
    let recibidas = Arc::new(Mutex::new(Recibidas::default()));
    let router = Router::new()
        .route("/", post(recibir).get(contar))
        .with_state(recibidas);
    let listener = TcpListener::bind(escucha).await?;
    decir(&format!("escucha {}", listener.local_addr()?));
    Ok(axum::serve(listener, router).await?)
}

type Estado = State<Arc<Mutex<Recibidas>>>;

async fn recibir(State(estado): Estado, headers: HeaderMap, Json(aviso): Json<Value>) {
    let mut estado = estado.lock().unwrap_or_else(PoisonError::into_inner);
    estado.recibidas += 1;
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok());
    // Notifications of the original implementation have no id, so repetitions cannot be recognized.
    if id.is_none_or(|id| estado.ids.insert(id.to_owned())) {
        // Either a CloudEvent or the plain notification.
        estado
            .avisos
            .push(aviso.get("data").cloned().unwrap_or(aviso));
    }
}

async fn contar(State(estado): Estado) -> Json<Recibidas> {
    Json(
        estado
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone(),
    )
}
