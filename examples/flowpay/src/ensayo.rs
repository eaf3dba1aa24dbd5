//! Instances as separate processes, and the rendezvous at which their operations wait for each other. Used by the
//! demonstration and the tests.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::body::{Body, to_bytes};
use axum::http::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use turno_testkit::Process;

/// Timeout, longer than any operation takes.
pub const PACIENCIA: Duration = Duration::from_secs(60);
/// Users that there are in the demonstration and the tests, numbered from one.
pub const USUARIOS: &str = "4";
/// Maximum size of a response.
const RESPUESTA_BYTES: usize = 1024 * 1024;

/// One instance. It is killed on drop.
pub struct Instancia {
    #[allow(dead_code, reason = "the tests stop and kill it")]
    pub proceso: Process,
    url: String,
    cliente: Client<HttpConnector, Body>,
}

impl Instancia {
    /// Starts one instance per list of options, and waits until all of them listen.
    pub fn iniciar(programa: &Path, store: &str, opciones: &[Vec<&str>]) -> Result<Vec<Arc<Self>>> {
        let comandos = opciones.iter().map(|opciones| {
            let mut comando = Command::new(programa);
            comando.args(["--store", store, "servir", "--puerto", "0"]);
            comando.args(["--usuarios", USUARIOS]).args(opciones);
            comando
        });
        Self::arrancar(comandos)
    }

    /// Starts the instances of these commands, and waits until all of them listen.
    pub fn arrancar(comandos: impl Iterator<Item = Command>) -> Result<Vec<Arc<Self>>> {
        let procesos: Result<Vec<Process>> = comandos
            .map(|mut comando| Process::spawn(&mut comando))
            .collect();
        procesos?.into_iter().map(Self::lista).collect()
    }

    fn lista(proceso: Process) -> Result<Arc<Self>> {
        let linea = proceso.lines().next(PACIENCIA);
        let url = linea
            .as_deref()
            .and_then(|linea| linea.strip_prefix("flowpay escucha en "))
            .context("an instance did not start")?
            .to_owned();
        Ok(Arc::new(Instancia {
            proceso,
            url,
            cliente: Client::builder(TokioExecutor::new()).build_http(),
        }))
    }

    /// Sends a GraphQL request and returns the whole response.
    pub async fn graphql(&self, consulta: &str, variables: Value) -> Result<Value> {
        let pedido = json!({ "query": consulta, "variables": variables });
        let pedido = Request::post(&self.url)
            .header("content-type", "application/json")
            .body(Body::from(pedido.to_string()))?;
        let respuesta = tokio::time::timeout(PACIENCIA, self.cliente.request(pedido))
            .await
            .context("an instance does not answer")??;
        let cuerpo = to_bytes(Body::new(respuesta.into_body()), RESPUESTA_BYTES).await?;
        Ok(serde_json::from_slice(&cuerpo)?)
    }
}

/// Sends each instance its request, all at once. An operation that enters the critical section waits between reading and
/// writing until every other one has also entered or has its response, so no request can miss the race. Returns the responses
/// in the order of the requests.
pub async fn a_la_vez(
    instancias: &[Arc<Instancia>],
    citas: &mut Citas,
    pedidos: &[(&'static str, Value)],
) -> Result<Vec<Value>> {
    let mut pendientes = JoinSet::new();
    for (indice, (instancia, pedido)) in instancias.iter().zip(pedidos).enumerate() {
        let (instancia, (consulta, variables)) = (instancia.clone(), pedido.clone());
        pendientes.spawn(async move { (indice, instancia.graphql(consulta, variables).await) });
    }
    let mut respuestas = vec![Value::Null; pedidos.len()];
    let mut adentro = Vec::new();
    while adentro.len() < pendientes.len() {
        tokio::select! {
            llegada = citas.llegada() => adentro.push(llegada?),
            Some(hecho) = pendientes.join_next() => {
                let (indice, respuesta) = hecho?;
                respuestas[indice] = respuesta?;
            }
        }
    }
    drop(adentro);
    while let Some(hecho) = pendientes.join_next().await {
        let (indice, respuesta) = hecho?;
        respuestas[indice] = respuesta?;
    }
    Ok(respuestas)
}

/// Listener for operations of instances with `--cita`.
pub struct Citas {
    pub direccion: String,
    llegadas: mpsc::UnboundedReceiver<Parada>,
}

impl Citas {
    pub async fn abrir() -> Result<Self> {
        let escucha = TcpListener::bind(("127.0.0.1", 0)).await?;
        let direccion = escucha.local_addr()?.to_string();
        let (envio, llegadas) = mpsc::unbounded_channel();
        // Ends with the runtime, or when the receiver is dropped.
        tokio::spawn(async move {
            while let Ok((linea, _)) = escucha.accept().await {
                if envio.send(Parada { _linea: linea }).is_err() {
                    break;
                }
            }
        });
        Ok(Citas {
            direccion,
            llegadas,
        })
    }

    /// Waits for the next operation to arrive. It stays paused until the returned value is dropped. Cancel-safe.
    pub async fn llegada(&mut self) -> Result<Parada> {
        tokio::time::timeout(PACIENCIA, self.llegadas.recv())
            .await
            .ok()
            .flatten()
            .context("no operation arrived")
    }
}

/// An operation that has read and not yet written. On drop, the connection is closed and the operation continues.
pub struct Parada {
    _linea: TcpStream,
}
