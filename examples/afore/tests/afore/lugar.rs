//! An empty store, the AFORE, instances, and queries of their state.

use std::fs::File;
use std::path::PathBuf;

use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::Full;
use serde_json::Value;
use sqlx::{Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use turno::Turno;
use turno_testkit::{eventually, migrated_database};

use crate::LONG;
use crate::cliente::Cliente;
use crate::hijo::Hijo;

pub const RUTA: &str = "/disposicionimss/certificacion";
/// A Tuesday, which is a business day.
pub const HABIL: &str = "2026-11-17";

pub struct Lugar {
    pub store: String,
    pub runtime: Runtime,
    pub receptor: Hijo,
    cliente: Cliente,
    carpeta: TempDir,
}

/// Notifications that the AFORE has received.
#[derive(Debug)]
pub struct Recibidas {
    /// Number of requests received, with repetitions.
    pub recibidas: u64,
    /// Each notification once, by its id.
    pub avisos: Vec<Value>,
}

/// A response: status and body. `None` if the connection broke.
pub type Dicho = Option<(u16, Value)>;

impl Lugar {
    pub fn postgres() -> Self {
        Self::en(migrated_database(), tempfile::tempdir().unwrap())
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

    /// Writes an `application.properties` like the document's, with some values changed.
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

    /// Writes a file that exists as long as this.
    pub fn escribir(&self, nombre: &str, texto: &str) -> PathBuf {
        let archivo = self.carpeta.path().join(nombre);
        std::fs::write(&archivo, texto).unwrap();
        archivo
    }

    /// Starts three instances, on a business day, whose notifications go to the AFORE.
    pub fn instancias(&self, opciones: &[&str]) -> [Hijo; 3] {
        self.instancias_que_avisan(&self.receptor.direccion, opciones)
    }

    pub fn instancias_que_avisan(&self, afore: &str, opciones: &[&str]) -> [Hijo; 3] {
        // All start at once, as in a deployment.
        let hijos = [(); 3].map(|()| self.arrancar(afore, HABIL, opciones));
        hijos.map(Hijo::escuchando)
    }

    /// Starts one instance with this date.
    pub fn instancia_de(&self, hoy: &str, opciones: &[&str]) -> Hijo {
        self.arrancar(&self.receptor.direccion, hoy, opciones)
            .escuchando()
    }

    /// Starts one instance whose log, at level info, is written to a file, and returns the file.
    pub fn instancia_con_registro(&self, opciones: &[&str]) -> (Hijo, PathBuf) {
        let registro = self.escribir("registro", "");
        let avisos = format!("http://{}/", self.receptor.direccion);
        let orden = ["--store", &self.store, "instancia", "--hoy", HABIL];
        let orden = [&orden[..], &["--avisos", &avisos], opciones].concat();
        let archivo = File::create(&registro).unwrap();
        let hijo = Hijo::con_registro(&orden, archivo, Some("afore=info"));
        (hijo.escuchando(), registro)
    }

    fn arrancar(&self, afore: &str, hoy: &str, opciones: &[&str]) -> Hijo {
        let avisos = format!("http://{afore}/");
        let orden = ["--store", &self.store, "instancia", "--hoy", hoy];
        Hijo::de(&[&orden[..], &["--avisos", &avisos], opciones].concat())
    }

    /// Sends a request for certification, in its own task.
    pub fn pedir(&self, hijo: &Hijo, cuerpo: impl Into<String>) -> JoinHandle<Dicho> {
        self.pedir_con(hijo, cuerpo, &[("content-type", "application/json")])
    }

    pub fn pedir_con(
        &self,
        hijo: &Hijo,
        cuerpo: impl Into<String>,
        headers: &[(&str, &str)],
    ) -> JoinHandle<Dicho> {
        let entera = self.pedir_entera(hijo, cuerpo, headers);
        self.runtime.spawn(async move {
            let (head, cuerpo) = entera.await.unwrap()?.into_parts();
            let cuerpo = serde_json::from_slice(&cuerpo).unwrap_or_default();
            Some((head.status.as_u16(), cuerpo))
        })
    }

    /// Sends a request in its own task, and returns the whole response; `None` if the connection broke.
    pub fn pedir_entera(
        &self,
        hijo: &Hijo,
        cuerpo: impl Into<String>,
        headers: &[(&str, &str)],
    ) -> JoinHandle<Option<Response<Bytes>>> {
        let mut request = Request::post(format!("http://{}{RUTA}", hijo.direccion));
        for (nombre, valor) in headers {
            request = request.header(*nombre, *valor);
        }
        let request = request.body(Full::from(cuerpo.into())).unwrap();
        let cliente = self.cliente.clone();
        self.runtime.spawn(async move {
            let pedido = tokio::time::timeout(LONG, cliente.pedir_entera(request)).await;
            pedido.expect("an answer in time").ok()
        })
    }

    /// Sends a request and waits for the response.
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

    /// Reads one number from the service's own table.
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

    /// Returns the number of certifications.
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

    /// Waits until no notification is pending, and returns those that the AFORE has received.
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
