//! The program itself: time to its first response, and memory.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// `turno serve` as a process, on its own file.
pub struct Served {
    pub port: u16,
    /// Time from its start to its first response.
    pub started: Duration,
    child: Child,
}

impl Served {
    pub async fn start(turno: &Path, folder: &Path) -> Result<Self> {
        let began = Instant::now();
        let store = format!("sqlite:{}", folder.join("turno.db").display());
        let mut child = Command::new(turno)
            .args([
                "--json",
                "--store",
                &store,
                "serve",
                "--listen",
                "127.0.0.1:0",
            ])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start", turno.display()))?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        let port = said["listening"]
            .as_str()
            .and_then(|address| address.rsplit(':').next()?.parse().ok())
            .with_context(|| format!("it does not say where it listens: {line}"))?;
        let mut served = Served {
            port,
            started: Duration::ZERO,
            child,
        };
        Connection::open(port)
            .await?
            .ask("GET", "/readyz", &Value::Null)
            .await?;
        served.started = began.elapsed();
        Ok(served)
    }

    /// Resident memory, in megabytes.
    pub fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kilobytes: f64 = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .context("Linux tells it")?
            .parse()?;
        Ok(kilobytes / 1024.0)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that stays open.
pub struct Connection {
    sender: hyper::client::conn::http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    pub async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender })
    }

    pub async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<u16> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .body(Full::from(body))?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        response.into_body().collect().await?;
        Ok(status)
    }

    /// Acquires a lock and keeps it.
    pub async fn hold(&mut self, number: usize) -> Result<()> {
        let ask = json!({"resource": format!("PRESTAMO/{number}"), "ttl": "1h", "user": "1", "description": "Registro de pago"});
        let status = self.ask("POST", "/v1/locks", &ask).await?;
        anyhow::ensure!(status == 201, "a lock was not taken: {status}");
        Ok(())
    }
}
