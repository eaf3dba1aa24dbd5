//! A process of the example's program.

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

    pub fn de_orden(orden: &mut Command) -> Self {
        let orden = orden.stdin(Stdio::piped()).stderr(Stdio::null());
        let proceso = Process::spawn(orden).unwrap();
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
        let lineas = "sigue\n".repeat(cuantas);
        self.stdin
            .lock()
            .unwrap()
            .write_all(lineas.as_bytes())
            .unwrap();
    }
}
