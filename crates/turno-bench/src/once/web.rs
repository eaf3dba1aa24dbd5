//! Small web services.

use axum::Router;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use turno::Turno;
use turno::once::http::{OnceLayer, Policy, Routes, Switch};
use turno_server::gate::{Gate, Options, Upstream};

/// Response of each handler.
pub const ANSWER: &str = r#"{"folio": "A-000123", "estado": "registrado"}"#;

/// A service on its own port. It ends on drop.
pub struct Served {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Served {
    pub fn of(port: u16, task: JoinHandle<()>) -> Self {
        Served { port, task }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn serve(app: Router) -> anyhow::Result<Served> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            eprintln!("a service ended: {error}");
        }
    });
    Ok(Served { port, task })
}

pub type Answer = ([(&'static str, &'static str); 1], String);

pub fn answer() -> Answer {
    ([("content-type", "application/json")], ANSWER.to_owned())
}

/// A handler that responds and does nothing else.
pub fn nothing() -> Router {
    Router::new().route("/pagos", post(|_: axum::body::Bytes| async { answer() }))
}

/// Starts a gate in front of a service. The policy decides what it does with requests.
pub async fn gate(turno: &Turno, upstream: u16, switch: Switch) -> anyhow::Result<Served> {
    let routes = Routes::new().add("/pagos", Policy::new("pagos").switch(switch))?;
    let upstream: Upstream = format!("http://127.0.0.1:{upstream}").parse()?;
    let gate = Gate::new(turno.clone(), upstream, routes, Options::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let task = tokio::spawn(async move {
        gate.run(listener, std::future::pending()).await;
    });
    Ok(Served { port, task })
}

/// The same handler, with the once layer.
pub fn once(turno: &Turno) -> Router {
    nothing().layer(OnceLayer::new(turno.clone(), Policy::new("pagos")))
}
