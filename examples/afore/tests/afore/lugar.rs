//! An empty store, the AFORE that is notified, instances, and what an observer asks of them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;

use axum::http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use turno::Turno;
use turno_testkit::{PostgresServer, Process, eventually};

use crate::LONG;
use crate::cliente::Cliente;

pub const RUTA: &str = "/disposicionimss/certificacion";
/// A Tuesday.
pub const HABIL: &str = "2026-11-17";

pub struct Lugar {
    pub store: String,
    pub runtime: Runtime,
    pub receptor: Hijo,
    cliente: Cliente,
    carpeta: TempDir,
}

/// A process of the example's program.
pub struct Hijo {
    pub proceso: Process,
    stdin: Mutex<ChildStdin>,
    /// Where it listens, if it does.
    pub direccion: String,
}

/// What the AFORE has received.
#[derive(Debug)]
pub struct Recibidas {
    /// How often something came.
    pub recibidas: u64,
    /// Each notification once, by its id.
    pub avisos: Vec<Value>,
}

/// An answer: its status, and its body, or nothing if the connection broke.
pub type Dicho = Option<(u16, Value)>;

impl Lugar {
    pub fn postgres() -> Self {
        Self::en(
            PostgresServer::shared().create_database(),
            tempfile::tempdir().unwrap(),
        )
    }

    pub fn sqlite() -> Self {
        let carpeta = tempfile::tempdir().unwrap();
        Self::en(
            format!("sqlite:{}/afore.db", carpeta.path().display()),
            carpeta,
        )
    }

    fn en(store: String, carpeta: TempDir) -> Self {
        Self {
            store,
            runtime: Runtime::new().unwrap(),
            receptor: Hijo::de(&["receptor", "--a-mano"]).escuchando(),
            cliente: Cliente::nuevo(),
            carpeta,
        }
    }

    /// An `application.properties` like the document's, with some values changed.
    pub fn configurar(&self, cambios: &[(&str, &str)]) -> PathBuf {
        let mut texto = include_str!("../../application.properties").to_owned();
        for (clave, valor) in cambios {
            let linea = texto
                .lines()
                .find(|linea| linea.starts_with(clave))
                .unwrap();
            texto = texto.replace(linea, &format!("{clave}={valor}"));
        }
        let archivo = tempfile::NamedTempFile::new_in(self.carpeta.path()).unwrap();
        std::fs::write(&archivo, texto).unwrap();
        archivo.into_temp_path().keep().unwrap()
    }

    /// Three instances, on a business day, whose notifications go to the AFORE.
    pub fn instancias(&self, opciones: &[&str]) -> [Hijo; 3] {
        self.instancias_que_avisan(&self.receptor.direccion, opciones)
    }

    pub fn instancias_que_avisan(&self, afore: &str, opciones: &[&str]) -> [Hijo; 3] {
        // All start at once, as a deployment does.
        let hijos = [(); 3].map(|()| self.arrancar(afore, HABIL, opciones));
        hijos.map(Hijo::escuchando)
    }

    /// One instance, on some day.
    pub fn instancia_de(&self, hoy: &str, opciones: &[&str]) -> Hijo {
        self.arrancar(&self.receptor.direccion, hoy, opciones)
            .escuchando()
    }

    fn arrancar(&self, afore: &str, hoy: &str, opciones: &[&str]) -> Hijo {
        let avisos = format!("http://{afore}/");
        let orden = ["--store", &self.store, "instancia", "--hoy", hoy];
        Hijo::de(&[&orden[..], &["--avisos", &avisos], opciones].concat())
    }

    /// Asks for a certification, in a task of its own.
    pub fn pedir(&self, hijo: &Hijo, cuerpo: impl Into<String>) -> JoinHandle<Dicho> {
        self.pedir_con(hijo, cuerpo, &[("content-type", "application/json")])
    }

    pub fn pedir_con(
        &self,
        hijo: &Hijo,
        cuerpo: impl Into<String>,
        headers: &[(&str, &str)],
    ) -> JoinHandle<Dicho> {
        let mut request = Request::post(format!("http://{}{RUTA}", hijo.direccion));
        for (nombre, valor) in headers {
            request = request.header(*nombre, *valor);
        }
        let request = request.body(Full::from(cuerpo.into())).unwrap();
        let cliente = self.cliente.clone();
        self.runtime.spawn(async move {
            let pedido = tokio::time::timeout(LONG, cliente.pedir(request)).await;
            let (status, cuerpo) = pedido.expect("an answer in time").ok()?;
            Some((status, serde_json::from_slice(&cuerpo).unwrap_or_default()))
        })
    }

    /// Asks, and waits for the answer.
    #[track_caller]
    pub fn certificar(&self, hijo: &Hijo, cuerpo: impl Into<String>) -> Value {
        let dicho = self.esperar(self.pedir(hijo, cuerpo));
        let (status, salida) = dicho.expect("an instance that runs answers");
        assert_eq!(status, 200, "{salida}");
        salida
    }

    pub fn esperar<T>(&self, tarea: JoinHandle<T>) -> T {
        self.runtime.block_on(tarea).unwrap()
    }

    pub fn turno(&self) -> Turno {
        self.runtime.block_on(Turno::connect(&self.store)).unwrap()
    }

    /// One number from the service's own table.
    pub fn numero(&self, sql: &'static str) -> i64 {
        self.runtime.block_on(async {
            match self.store.strip_prefix("sqlite:") {
                Some(_) => {
                    let mut base = SqliteConnection::connect(&self.store).await.unwrap();
                    sqlx::query_scalar(sql).fetch_one(&mut base).await
                }
                None => {
                    let mut base = PgConnection::connect(&self.store).await.unwrap();
                    sqlx::query_scalar(sql).fetch_one(&mut base).await
                }
            }
            .unwrap()
        })
    }

    /// How many certifications there are.
    pub fn procesadas(&self) -> i64 {
        self.numero("select count(*) from TB_NSAR_CERTIFICACION")
    }

    pub fn recibidas(&self) -> Recibidas {
        let url = format!("http://{}/", self.receptor.direccion);
        let (_, cuerpo) = self.runtime.block_on(self.cliente.get(&url)).unwrap();
        let cuerpo: Value = serde_json::from_slice(&cuerpo).unwrap();
        Recibidas {
            recibidas: cuerpo["recibidas"].as_u64().unwrap(),
            avisos: cuerpo["avisos"].as_array().unwrap().clone(),
        }
    }

    /// Waits until nothing is left to be sent, and answers what the AFORE has received.
    #[track_caller]
    pub fn todo_avisado(&self) -> Recibidas {
        let turno = self.turno();
        eventually(LONG, "the notifications", || {
            let stats = self.runtime.block_on(turno.outbox().stats()).unwrap();
            assert_eq!(stats.dead, 0, "{stats:?}");
            (stats.pending + stats.processing + stats.scheduled == 0).then_some(())
        });
        self.recibidas()
    }
}

impl Hijo {
    pub fn de(argumentos: &[&str]) -> Self {
        let mut programa = Command::new(env!("CARGO_BIN_EXE_afore"));
        Self::de_orden(programa.args(argumentos))
    }

    pub fn de_orden(orden: &mut Command) -> Self {
        let orden = orden.stdin(Stdio::piped()).stderr(Stdio::null());
        let proceso = Process::spawn(orden).unwrap();
        Self {
            stdin: Mutex::new(proceso.take_stdin().unwrap()),
            proceso,
            direccion: String::new(),
        }
    }

    fn escuchando(self) -> Self {
        let direccion = self.dice("escucha ");
        Self { direccion, ..self }
    }

    /// Waits for a line that begins so.
    #[track_caller]
    pub fn dice(&self, prefijo: &str) -> String {
        self.proceso.lines().expect_line(prefijo, LONG)
    }

    /// Lets so many certifications go on that wait, or will.
    pub fn sigue(&self, cuantas: usize) {
        let lineas = "sigue\n".repeat(cuantas);
        self.stdin
            .lock()
            .unwrap()
            .write_all(lineas.as_bytes())
            .unwrap();
    }
}

/// A request for certification of this worker.
pub fn entrada(nss: &str) -> String {
    json!({"nss": nss, "curp": "PEGJ850101HDFRRN09", "tipoPrestacion": "RT"}).to_string()
}

pub fn salida(resultado: &str, diagnostico: &str, tipo: impl Into<Value>) -> Value {
    json!({
        "resultadoOperacion": resultado,
        "diagnosticoProcesar": diagnostico,
        "tipoPrestacion": tipo.into(),
    })
}

pub fn aceptada() -> Value {
    salida("01", "000", "RT")
}

pub fn duplicada() -> Value {
    salida("02", "532", "RT")
}
