//! The legacy service, and gates in front of it.

use std::io::Write as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use turno_testkit::Process;

use crate::common::{Fixture, LONG};
use crate::http::{Response, ask};

pub const PATH: &str = "/disposicionimss/certificacion";

/// The contract of afore.
pub const ROUTES: &str = r#"
[[route]]
name = "certificacion"
path = "/disposicionimss/certificacion"
methods = ["POST"]
key = "content"
principal = ["x-user"]
ttl = "0s"
lease = "30s"
max_body = 4096
unknown = "rerun"
in_flight = { template = { status = 200, body = '{"resultadoOperacion": "02", "diagnosticoProcesar": "532", "tipoPrestacion": {"$request": "/tipoPrestacion"}}' } }
"#;

/// The service, unchanged from before there was a gate.
pub struct Legacy {
    process: Process,
    stdin: Mutex<ChildStdin>,
    pub address: String,
}

impl Legacy {
    pub fn start() -> Self {
        // Tests run in their package's folder.
        let mut command = Command::new("python3");
        command.arg("tests/gate/afore.py").stdin(Stdio::piped());
        let process = Process::spawn(&mut command).unwrap();
        let port = process.lines().expect_line("port ", LONG);
        Legacy {
            stdin: Mutex::new(process.take_stdin().unwrap()),
            process,
            address: format!("127.0.0.1:{port}"),
        }
    }

    fn tell(&self, line: &str) {
        writeln!(self.stdin.lock().unwrap(), "{line}").unwrap();
    }

    /// Lets one waiting request end.
    pub fn go(&self) {
        self.tell("go");
    }

    pub fn holiday(&self, is_holiday: bool) {
        self.tell(&format!("habil {}", u8::from(!is_holiday)));
        self.process.lines().expect_line("habil", LONG);
    }

    /// Waits until a request is being processed. Returns the number of its attempt.
    #[track_caller]
    pub fn begins(&self, curp: &str) -> String {
        self.process
            .lines()
            .expect_line(&format!("begin {curp} "), LONG)
    }

    /// Returns the number of processed requests.
    pub fn processed(&self) -> u64 {
        let response = ask(&self.address, "GET /", &[], "").unwrap();
        response.json()["procesadas"].as_u64().unwrap()
    }
}

/// A running gate.
pub struct Gate {
    pub process: Process,
    pub address: String,
}

impl Gate {
    pub fn start(fixture: &Fixture, legacy: &Legacy, routes: &str) -> Self {
        Self::start_with(fixture, legacy, routes, &[])
    }

    pub fn start_with(fixture: &Fixture, legacy: &Legacy, routes: &str, more: &[&str]) -> Self {
        std::fs::write(fixture.path("routes.toml"), routes).unwrap();
        let upstream = format!("http://{}", legacy.address);
        let words = ["--json", "gate", "--upstream", &upstream];
        let files = ["--routes", "routes.toml", "--listen", "127.0.0.1:0"];
        let process = fixture.start(&[&words[..], &files, more].concat());
        let line: Value = serde_json::from_str(&process.lines().next(LONG).unwrap()).unwrap();
        let address = line["listening"].as_str().unwrap().to_owned();
        Gate { process, address }
    }

    /// Sends a certification request; returns `None` if the gate disconnected.
    pub fn try_certify(&self, entrada: &str) -> Option<Response> {
        let headers = [("content-type", "application/json"), ("x-user", "ana")];
        ask(&self.address, &format!("POST {PATH}"), &headers, entrada)
    }

    #[track_caller]
    pub fn certify(&self, entrada: &str) -> Response {
        self.try_certify(entrada).unwrap()
    }
}

/// Checks the exact response to a duplicate in flight.
#[track_caller]
pub fn assert_duplicate(response: &Response, tipo: &Value) {
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.headers["content-type"], "application/json");
    let wanted = serde_json::json!({
        "resultadoOperacion": "02",
        "diagnosticoProcesar": "532",
        "tipoPrestacion": tipo,
    });
    assert_eq!(response.json(), wanted);
    assert!(
        !response.headers.contains_key("x-servicio"),
        "the gate's own"
    );
}

#[track_caller]
pub fn assert_processed(response: &Response) {
    assert_eq!(
        (response.status, &response.json()["resultadoOperacion"]),
        (200, &"01".into()),
        "{response:?}"
    );
    assert_eq!(response.headers["x-servicio"], "CERT_AFORE");
}
