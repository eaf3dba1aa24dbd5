//! A store of its own for one test, and instances on it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use turno::Turno;
use turno_testkit::PostgresServer;

use crate::ensayo::{Citas, Instancia, Parada, a_la_vez};

/// An empty store.
pub struct Lugar {
    pub url: String,
    _carpeta: TempDir,
}

impl Lugar {
    /// A database of its own on the server that all tests share.
    pub fn postgres() -> Self {
        let url = PostgresServer::shared().create_database();
        let _carpeta = tempfile::tempdir().unwrap();
        Lugar { url, _carpeta }
    }

    /// A file of its own.
    pub fn sqlite() -> Self {
        let carpeta = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", carpeta.path().join("flowpay.db").display());
        Lugar {
            url,
            _carpeta: carpeta,
        }
    }

    /// One instance for each list of options.
    pub fn instancias(&self, opciones: &[Vec<&str>]) -> Vec<Arc<Instancia>> {
        let programa = Path::new(env!("CARGO_BIN_EXE_flowpay"));
        Instancia::iniciar(programa, &self.url, opciones).unwrap()
    }

    /// One instance.
    pub fn instancia(&self, opciones: &[&str]) -> Arc<Instancia> {
        self.instancias(&[opciones.to_vec()]).remove(0)
    }

    /// A look at the store from outside, as an operator has it.
    pub async fn turno(&self) -> Turno {
        Turno::connect(&self.url).await.unwrap()
    }
}

/// Three instances whose operations meet, and one more, which looks on and waits for nobody.
pub struct Escena {
    pub citas: Citas,
    pub instancias: Vec<Arc<Instancia>>,
    pub testigo: Arc<Instancia>,
    pub lugar: Lugar,
}

impl Escena {
    pub async fn nueva(lugar: Lugar, opciones: &[&str]) -> Self {
        Self::con(lugar, [opciones, opciones, opciones]).await
    }

    /// Each of the three with options of its own.
    pub async fn con(lugar: Lugar, opciones: [&[&str]; 3]) -> Self {
        let citas = Citas::abrir().await.unwrap();
        let cita = ["--cita", &citas.direccion];
        let mut todas: Vec<Vec<&str>> = opciones.map(|suyas| [suyas, &cita].concat()).into();
        todas.push(Vec::new());
        let mut instancias = lugar.instancias(&todas);
        let testigo = instancias.pop().unwrap();
        Escena {
            citas,
            instancias,
            testigo,
            lugar,
        }
    }

    /// Sends the requests to the three instances at once: see [`a_la_vez`].
    pub async fn a_la_vez(&mut self, pedidos: &[(&'static str, Value); 3]) -> Vec<Value> {
        a_la_vez(&self.instancias, &mut self.citas, pedidos)
            .await
            .unwrap()
    }

    /// Sends a request to one instance, and returns when it stands between reading and writing.
    pub async fn detener(
        &mut self,
        instancia: usize,
        consulta: &'static str,
        variables: Value,
    ) -> EnCurso {
        let instancia = self.instancias[instancia].clone();
        let respuesta =
            tokio::spawn(async move { instancia.graphql(consulta, variables).await.unwrap() });
        let parada = self.citas.llegada().await.unwrap();
        EnCurso { parada, respuesta }
    }
}

/// An operation that has read, and has not written yet.
pub struct EnCurso {
    parada: Parada,
    respuesta: JoinHandle<Value>,
}

impl EnCurso {
    /// Lets it go on, and waits for its answer.
    pub async fn seguir(self) -> Value {
        drop(self.parada);
        self.respuesta.await.unwrap()
    }

    /// For one whose process is dead.
    pub fn olvidar(self) {
        self.respuesta.abort();
    }
}
