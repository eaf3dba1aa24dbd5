//! A rendezvous: certifications that wait until somebody lets them go on. It makes the demonstration and the tests
//! certain: what is said to happen "meanwhile" does.

use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Says `procesando NSS` and waits for a line `sigue`, once for each certification; or lets everything pass.
#[derive(Debug, Clone)]
pub struct Puerta(Option<Arc<Semaphore>>);

impl Puerta {
    /// Lets everything pass.
    pub fn abierta() -> Self {
        Self(None)
    }

    /// Steered through standard input, with which the process ends.
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

    /// Waits, if it has to.
    pub async fn pasar(&self, nss: &str) {
        let Some(permisos) = &self.0 else { return };
        decir(&format!("procesando {nss}"));
        if let Ok(permiso) = permisos.acquire().await {
            permiso.forget();
        }
    }
}

/// Says a line to whoever started this process. Nobody need be there.
pub fn decir(linea: &str) {
    let _ = io::stdout().write_all(format!("{linea}\n").as_bytes());
}
