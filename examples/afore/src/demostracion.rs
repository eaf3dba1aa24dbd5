//! The demonstration: one request, sent to three instances at once, without Turno and with it.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use turno_testkit::Process;

use crate::base::Base;
use crate::cliente::Cliente;
use crate::contrato::{RUTA, ValidarSolicitudCertificacionAforeSalida as Salida};
use crate::receptor::Recibidas;

const INSTANCIAS: usize = 3;
const PETICIONES: usize = 12;
/// Timeout of each step, longer than any step takes.
const PACIENCIA: Duration = Duration::from_secs(30);
/// A fixed Tuesday, so that the demonstration also works on Sundays.
const HOY: &str = "2026-11-17";
const ENTRADA: &str =
    r#"{"nss": "12345678901", "curp": "PEGJ850101HDFRRN09", "tipoPrestacion": "RT"}"#;

/// A row of the table.
#[derive(Debug)]
struct Fila {
    procesadas: i64,
    duplicadas: usize,
    avisos: usize,
}

/// Runs the demonstration, on a temporary file if no store is given.
///
/// # Errors
/// Returns an error if a process cannot be started or does not respond.
pub async fn mostrar(store: Option<String>) -> Result<()> {
    let carpeta = tempfile::tempdir()?;
    let store = store.unwrap_or_else(|| format!("sqlite:{}/afore.db", carpeta.path().display()));
    println!("The same request, {PETICIONES} times at once, to {INSTANCIAS} instances:\n");
    println!("                peticiones  procesadas  02/532  notificaciones");
    for (nombre, modo) in [("sin Turno", &["--sin-turno"][..]), ("con Turno", &[])] {
        let fila = correr(&store, modo).await?;
        println!(
            "{nombre:<15} {PETICIONES:>10} {:>11} {:>7} {:>15}",
            fila.procesadas, fila.duplicadas, fila.avisos
        );
    }
    Ok(())
}

async fn correr(store: &str, modo: &[&str]) -> Result<Fila> {
    let cliente = Cliente::nuevo();
    let (_receptor, receptor) = Hijo::nuevo(&["receptor", "--a-mano"])?.escucha()?;
    let avisos = format!("http://{receptor}/");
    let orden = ["--store", store, "instancia", "--a-mano", "--hoy", HOY];
    let orden = [&orden[..], &["--avisos", &avisos], modo].concat();
    let mut instancias = Vec::new();
    for _ in 0..INSTANCIAS {
        instancias.push(Hijo::nuevo(&orden)?.escucha()?);
    }
    let base = Base::abrir(store).await?;
    let antes = base.contar().await?;

    let mut peticiones = JoinSet::new();
    for (_, direccion) in instancias.iter().cycle().take(PETICIONES) {
        let (cliente, url) = (cliente.clone(), format!("http://{direccion}{RUTA}"));
        peticiones.spawn(async move { cliente.post(&url, ENTRADA).await });
    }
    // All requests run at once: those that are processed wait until all others have a response.
    let mut salidas = Vec::new();
    if modo.is_empty() {
        while salidas.len() < PETICIONES - 1 {
            salidas.push(siguiente(&mut peticiones).await?);
        }
    } else {
        for (hijo, _) in instancias.iter().cycle().take(PETICIONES) {
            hijo.espera("procesando ")?;
        }
    }
    for (hijo, _) in &mut instancias {
        hijo.siguen(PETICIONES)?;
    }
    while salidas.len() < PETICIONES {
        salidas.push(siguiente(&mut peticiones).await?);
    }

    let procesadas = base.contar().await? - antes;
    let esperados = usize::try_from(procesadas)?;
    let contar = async || -> Result<usize> {
        let (_, cuerpo) = cliente.get(&avisos).await?;
        Ok(serde_json::from_slice::<Recibidas>(&cuerpo)?.avisos.len())
    };
    turno_testkit::eventually_async(PACIENCIA, "the notifications", async || {
        contar().await.ok().filter(|avisos| *avisos >= esperados)
    })
    .await;
    Ok(Fila {
        procesadas,
        duplicadas: salidas.iter().filter(|salida| es_duplicada(salida)).count(),
        avisos: contar().await?,
    })
}

async fn siguiente(peticiones: &mut JoinSet<Result<(u16, bytes::Bytes)>>) -> Result<Salida> {
    let hecha = tokio::time::timeout(PACIENCIA, peticiones.join_next()).await;
    let (status, cuerpo) = hecha?.context("there are no more requests")???;
    ensure!(status == 200, "an instance answered {status}");
    Ok(serde_json::from_slice(&cuerpo)?)
}

fn es_duplicada(salida: &Salida) -> bool {
    salida.resultado_operacion == "02" && salida.diagnostico_procesar == "532"
}

/// A child process of this program. It is killed on drop.
struct Hijo {
    proceso: Process,
    stdin: ChildStdin,
}

impl Hijo {
    fn nuevo(argumentos: &[&str]) -> Result<Self> {
        let mut programa = Command::new(std::env::current_exe()?);
        let proceso = Process::spawn(programa.args(argumentos).stdin(Stdio::piped()))?;
        let stdin = proceso.take_stdin().context("its input is piped")?;
        Ok(Self { proceso, stdin })
    }

    /// Reads the address that the process listens on.
    fn escucha(self) -> Result<(Self, String)> {
        let direccion = self.espera("escucha ")?;
        Ok((self, direccion))
    }

    fn espera(&self, prefijo: &str) -> Result<String> {
        let linea = tokio::task::block_in_place(|| self.proceso.lines().next(PACIENCIA));
        let linea = linea.with_context(|| format!("a process did not say {prefijo:?}"))?;
        let resto = linea.strip_prefix(prefijo).map(str::to_owned);
        resto.with_context(|| format!("a process said {linea:?}"))
    }

    /// Lets this many certifications continue.
    fn siguen(&mut self, cuantas: usize) -> Result<()> {
        Ok(self.stdin.write_all("sigue\n".repeat(cuantas).as_bytes())?)
    }
}
