//! A rendezvous: certifications wait until the parent process lets them continue. It makes the demonstration and the tests
//! deterministic: steps described as simultaneous really overlap.

use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Prints `procesando NSS` and waits for one line `sigue` per certification, or lets all pass.
#[derive(Debug, Clone)]
pub struct Puerta(Option<Arc<Semaphore>>);

impl Puerta {
    /// Creates a gate that lets all pass.
    pub fn abierta() -> Self {
        Self(None)
    }

    /// Creates a gate controlled through standard input. The process exits when standard input ends.
    pub fn a_mano() -> Self {
        let permisos = Arc::new(Semaphore::new(0));
        let puerta = Self(Some(permisos.clone()));
        std::thread::spawn(move || {
            for linea in io::stdin().lines().map_while(Result::ok) {
                if linea == "sigue" {
                    permisos.add_permits(1);
                }
            }
            std::process::exit(0);
        });
        puerta
    }

    /// Waits, if the gate is not open.
    pub async fn pasar(&self, nss: &str) {
        let Some(permisos) = &self.0 else { return };
        decir(&format!("procesando {nss}"));
        if let Ok(permiso) = permisos.acquire().await {
            permiso.forget();
        }
    }
}

/// Prints a line for the parent process. Errors are ignored: the parent may have ended.
pub fn decir(linea: &str) {
    let _ = io::stdout().write_all(format!("{linea}\n").as_bytes());
}
