//! A process of the example's program.

use std::fs::File;
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;

use turno_testkit::Process;

use crate::LONG;

/// A process of the example's program.
pub struct Hijo {
    pub proceso: Process,
    stdin: Mutex<ChildStdin>,
    /// Address that it listens on; empty if it does not listen.
    pub direccion: String,
}

impl Hijo {
    pub fn de(argumentos: &[&str]) -> Self {
        let mut programa = Command::new(env!("CARGO_BIN_EXE_afore"));
        Self::de_orden(programa.args(argumentos))
    }

    /// Starts one whose log goes to a file: what it logs by default, or with a filter.
    pub fn con_registro(argumentos: &[&str], registro: File, filtro: Option<&str>) -> Self {
        let mut programa = Command::new(env!("CARGO_BIN_EXE_afore"));
        let orden = programa
            .args(argumentos)
            .env_remove("RUST_LOG")
            .envs(filtro.map(|filtro| ("RUST_LOG", filtro)))
            .env("NO_COLOR", "1");
        Self::nuevo(orden.stderr(registro))
    }

    pub fn de_orden(orden: &mut Command) -> Self {
        Self::nuevo(orden.stderr(Stdio::null()))
    }

    fn nuevo(orden: &mut Command) -> Self {
        let proceso = Process::spawn(orden.stdin(Stdio::piped())).unwrap();
        Self {
            stdin: Mutex::new(proceso.take_stdin().unwrap()),
            proceso,
            direccion: String::new(),
        }
    }

    /// Reads its address from its first line.
    pub fn escuchando(self) -> Self {
        let direccion = self.dice("escucha ");
        Self { direccion, ..self }
    }

    /// Waits for a line with this prefix.
    #[track_caller]
    pub fn dice(&self, prefijo: &str) -> String {
        self.proceso.lines().expect_line(prefijo, LONG)
    }

    /// Lets this many certifications continue, waiting ones or later ones.
    pub fn sigue(&self, cuantas: usize) {
        self.escribe(&"sigue\n".repeat(cuantas));
    }

    /// Makes the work under a lock fail.
    pub fn falla(&self) {
        self.escribe("falla\n");
    }

    fn escribe(&self, lineas: &str) {
        let mut stdin = self.stdin.lock().unwrap();
        stdin.write_all(lineas.as_bytes()).unwrap();
    }
}
