//! One instance: the API over HTTP.

use std::net::Ipv4Addr;

use anyhow::Result;
use async_graphql::{EmptySubscription, Request, Response, Schema, ServerError};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use turno::Turno;

use crate::ServirArgs;
use crate::cita::Cita;
use crate::consulta::Consulta;
use crate::datos::Base;
use crate::locks::Locks;
use crate::mutacion::Mutacion;
use crate::prestamos::Prestamos;

/// Limits on the depth and the number of fields of a query.
const PROFUNDIDAD: usize = 12;
const COMPLEJIDAD: usize = 1000;
/// Size of Turno's connection pool.
const CONEXIONES: usize = 4;

type Esquema = Schema<Consulta, Mutacion, EmptySubscription>;

/// Serves until a shutdown signal.
pub async fn servir(store: &str, args: ServirArgs) -> Result<()> {
    let turno = Turno::builder()
        .service("flowpay")
        .connections(CONEXIONES)
        .connect(store)
        .await?;
    let base = Base::abrir(store, &turno).await?;
    if args.usuarios > 0 {
        base.crear_usuarios(args.usuarios, &turno).await?;
    }
    let limpieza = args.limpieza();
    let prestamos = Prestamos {
        base: base.clone(),
        locks: Locks {
            turno: turno.clone(),
            proteccion: args.proteccion(),
            timeout: args.timeout(),
        },
        cita: Cita(args.cita),
    };
    let esquema = Schema::build(Consulta, Mutacion, EmptySubscription)
        .limit_depth(PROFUNDIDAD)
        .limit_complexity(COMPLEJIDAD)
        .data(prestamos)
        .finish();
    let rutas = Router::new()
        .route("/graphql", post(graphql).get(sdl))
        .with_state(esquema);
    let escucha = TcpListener::bind((Ipv4Addr::LOCALHOST, args.puerto)).await?;
    println!(
        "flowpay escucha en http://{}/graphql",
        escucha.local_addr()?
    );

    // The document's cron job. It is only a cleanup: an expired lock does not block other callers, swept or not.
    let barrido = turno.clone();
    let barrer = tokio::spawn(async move {
        barrido
            .sweeper()
            .every(limpieza)
            .on_sweep(|barrido| tracing::info!("Locks limpiados: {}", barrido.expired))
            .run(std::future::pending())
            .await;
    });
    axum::serve(escucha, rutas)
        .with_graceful_shutdown(fin())
        .await?;
    barrer.abort();
    base.cerrar().await;
    turno.close().await;
    Ok(())
}

/// Runs in its own task, so that an operation is not cancelled between two steps when the client disconnects.
async fn graphql(State(esquema): State<Esquema>, Json(pedido): Json<Request>) -> Json<Response> {
    let hecho = tokio::spawn(async move { esquema.execute(pedido).await }).await;
    Json(hecho.unwrap_or_else(|error| {
        tracing::error!(%error, "a request panicked");
        let interno = ServerError::new("Error interno: intente más tarde.", None);
        Response::from_errors(vec![interno])
    }))
}

/// Returns the schema, for developers and tools.
async fn sdl(State(esquema): State<Esquema>) -> String {
    esquema.sdl()
}

/// Resolves on a shutdown signal.
async fn fin() {
    let Ok(mut termino) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = termino.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
