//! A separate store per test, and instances on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use sqlx::{Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use turno::Turno;
use turno_testkit::migrated_database;

use crate::ensayo::{Citas, Instancia, Parada, USUARIOS, a_la_vez};

/// An empty store.
pub struct Lugar {
    pub url: String,
    carpeta: TempDir,
}

impl Lugar {
    /// Creates a database on the server that all tests share.
    pub fn postgres() -> Self {
        let url = migrated_database();
        let carpeta = tempfile::tempdir().unwrap();
        Lugar { url, carpeta }
    }

    /// Creates a store in a temporary file.
    pub fn sqlite() -> Self {
        let carpeta = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", carpeta.path().join("flowpay.db").display());
        Lugar { url, carpeta }
    }

    /// Starts one instance per list of options.
    pub fn instancias(&self, opciones: &[Vec<&str>]) -> Vec<Arc<Instancia>> {
        let programa = Path::new(env!("CARGO_BIN_EXE_flowpay"));
        Instancia::iniciar(programa, &self.url, opciones).unwrap()
    }

    /// Starts one instance.
    pub fn instancia(&self, opciones: &[&str]) -> Arc<Instancia> {
        self.instancias(&[opciones.to_vec()]).remove(0)
    }

    /// Starts one instance whose log is written to a file, and returns the file.
    pub fn instancia_con_log(&self, opciones: &[&str]) -> (Arc<Instancia>, PathBuf) {
        let archivo = self.carpeta.path().join("flowpay.log");
        let mut comando = Command::new(env!("CARGO_BIN_EXE_flowpay"));
        comando
            .args(["--store", &self.url, "servir", "--puerto", "0"])
            .args(["--usuarios", USUARIOS])
            .args(opciones)
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stderr(File::create(&archivo).unwrap());
        let instancia = Instancia::arrancar([comando].into_iter()).unwrap();
        (instancia.into_iter().next().unwrap(), archivo)
    }

    /// Runs a command to its end, and returns what it prints.
    pub fn comando(&self, argumentos: &[&str]) -> String {
        let salida = Command::new(env!("CARGO_BIN_EXE_flowpay"))
            .args(["--store", &self.url])
            .args(argumentos)
            .output()
            .unwrap();
        assert!(salida.status.success(), "{salida:?}");
        String::from_utf8(salida.stdout).unwrap()
    }

    /// Runs statements in the database, as its owner does: those for PostgreSQL, or those for SQLite.
    pub async fn ejecutar(&self, postgres: &'static str, sqlite: &'static str) {
        match self.url.strip_prefix("sqlite:") {
            None => {
                let mut db = PgConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(postgres).execute(&mut db).await.unwrap();
            }
            Some(_) => {
                let mut db = SqliteConnection::connect(&self.url).await.unwrap();
                sqlx::raw_sql(sqlite).execute(&mut db).await.unwrap();
            }
        }
    }

    /// Returns one line of text per row of a query that both databases understand.
    pub async fn leer(&self, consulta: &'static str) -> Vec<String> {
        match self.url.strip_prefix("sqlite:") {
            None => {
                let mut db = PgConnection::connect(&self.url).await.unwrap();
                let filas = sqlx::query_scalar(consulta).fetch_all(&mut db).await;
                filas.unwrap()
            }
            Some(_) => {
                let mut db = SqliteConnection::connect(&self.url).await.unwrap();
                let filas = sqlx::query_scalar(consulta).fetch_all(&mut db).await;
                filas.unwrap()
            }
        }
    }

    /// Opens the store directly, as an operator does.
    pub async fn turno(&self) -> Turno {
        Turno::connect(&self.url).await.unwrap()
    }
}

/// Three instances whose operations meet at the rendezvous, and an observer instance without it.
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

    /// Starts the three instances, each with its own options.
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

    /// Sends a request to one instance, and returns when it is between its reads and its writes.
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

/// An operation that has read and not yet written.
pub struct EnCurso {
    parada: Parada,
    respuesta: JoinHandle<Value>,
}

impl EnCurso {
    /// Lets it continue, and waits for its response.
    pub async fn seguir(self) -> Value {
        drop(self.parada);
        self.respuesta.await.unwrap()
    }

    /// For an operation whose process is dead.
    pub fn olvidar(self) {
        self.respuesta.abort();
    }
}
