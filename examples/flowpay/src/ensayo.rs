//! Instances as processes of their own, and the place where their operations wait for each other. The demonstration and the
//! tests stand on it.

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

/// Longer than anything takes that ends at all.
pub const PACIENCIA: Duration = Duration::from_secs(60);
/// More than any answer has.
const RESPUESTA_BYTES: usize = 1024 * 1024;

/// One instance, killed when it is dropped.
pub struct Instancia {
    #[allow(dead_code, reason = "the tests stop and kill it")]
    pub proceso: Process,
    url: String,
    cliente: Client<HttpConnector, Body>,
}

impl Instancia {
    /// Starts one instance for each list of options, and waits until all of them listen.
    pub fn iniciar(programa: &Path, store: &str, opciones: &[Vec<&str>]) -> Result<Vec<Arc<Self>>> {
        let procesos: Result<Vec<Process>> = opciones
            .iter()
            .map(|opciones| {
                let mut comando = Command::new(programa);
                comando.args(["--store", store, "servir", "--puerto", "0"]);
                Process::spawn(comando.args(opciones))
            })
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

    /// The whole answer to a GraphQL request.
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

/// Sends each instance its request, all at once. Whoever gets in waits between reading and writing until everybody has
/// either got in as well or been answered: nobody can be late for the race. Answers in the order of the requests.
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

/// Where operations of instances with `--cita` arrive.
pub struct Citas {
    pub direccion: String,
    llegadas: mpsc::UnboundedReceiver<Parada>,
}

impl Citas {
    pub async fn abrir() -> Result<Self> {
        let escucha = TcpListener::bind(("127.0.0.1", 0)).await?;
        let direccion = escucha.local_addr()?.to_string();
        let (envio, llegadas) = mpsc::unbounded_channel();
        // Ends with the runtime, or when nobody waits for arrivals any more.
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

    /// The next operation to arrive. It stays where it is until the answer is dropped. Cancel-safe.
    pub async fn llegada(&mut self) -> Result<Parada> {
        tokio::time::timeout(PACIENCIA, self.llegadas.recv())
            .await
            .ok()
            .flatten()
            .context("no operation arrived")
    }
}

/// An operation that has read, and has not written yet. Dropped, it hangs up, and the operation goes on.
pub struct Parada {
    _linea: TcpStream,
}
