//! Starts the example's processes and calls them, for the demonstration and the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use turno_testkit::Process;

use crate::fault;
use crate::settings::Settings;

/// Timeout, longer than any operation takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// One store and one exchange, with the settings that processes need.
pub(crate) struct Cast {
    program: PathBuf,
    pub(crate) store: String,
    pub(crate) settings: Settings,
    folder: TempDir,
}

/// Waits until one of them has died: the active one has a fault set.
pub(crate) fn await_death_of_one(actors: &[Actor]) -> Result<()> {
    let deadline = Instant::now() + LONG;
    while Instant::now() < deadline {
        for actor in actors {
            if let Some(status) = actor.process.wait_timeout(Duration::from_millis(50)) {
                ensure!(!status.success(), "a process ended instead of dying");
                return Ok(());
            }
        }
    }
    bail!("no process died where it was outcome to")
}

/// One process of the example. It is killed on drop.
pub(crate) struct Actor {
    pub(crate) process: Process,
    address: String,
}

impl Cast {
    /// Writes `appsettings.json` and creates the tables.
    pub(crate) fn new(program: &Path, store: String, settings: Settings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("appsettings.json");
        std::fs::write(file, serde_json::to_string_pretty(&settings)?)?;
        let cast = Cast {
            program: program.to_owned(),
            store,
            settings,
            folder,
        };
        let mut migrate = cast.command(&["migrate"], None);
        let migrated = migrate.stdout(Stdio::null()).status()?;
        ensure!(migrated.success(), "`ticketflow migrate` failed");
        Ok(cast)
    }

    /// Starts a process, optionally with a fault, and waits until it is ready.
    pub(crate) fn start(&self, words: &[&str], fault: Option<&str>) -> Result<Actor> {
        let process = Process::spawn(&mut self.command(words, fault))?;
        let line = await_line(&process, "listening ")?;
        let address = line.trim_start_matches("listening ").to_owned();
        Ok(Actor { process, address })
    }

    pub(crate) fn command(&self, words: &[&str], fault: Option<&str>) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.folder.path());
        command.env_remove(fault::VARIABLE);
        command.env("TICKETFLOW_STORE", &self.store);
        command.args(words);
        if let Some(fault) = fault {
            command.env(fault::VARIABLE, fault);
        }
        command
    }
}

impl Actor {
    /// Reads its log up to a line that contains `words`.
    pub(crate) fn await_log(&self, words: &str) -> Result<String> {
        await_line(&self.process, words)
    }

    /// Waits until the process has died at its fault.
    pub(crate) fn await_death(&self) -> Result<()> {
        let status = self.process.wait_timeout(LONG);
        let status = status.context("a process did not die where it was outcome to")?;
        ensure!(!status.success(), "a process ended instead of dying");
        Ok(())
    }

    /// `POST /tickets`; returns the ticket's id.
    pub(crate) async fn create(&self, title: &str) -> Result<String> {
        let asked = json!({"title": title});
        let (status, ticket) = self.call("POST", "/tickets", &[], Some(asked)).await?;
        match ticket["ticketId"].as_str() {
            Some(id) if status == StatusCode::CREATED => Ok(id.to_owned()),
            _ => bail!("POST /tickets answered {status}: {ticket}"),
        }
    }

    /// `PATCH /tickets/{id}/status`.
    pub(crate) async fn change_status(&self, id: &str, to: &str) -> Result<()> {
        let path = format!("/tickets/{id}/status");
        let (status, answer) = self
            .call("PATCH", &path, &[], Some(json!({"status": to})))
            .await?;
        ensure!(
            status == StatusCode::OK,
            "PATCH {path} answered {status}: {answer}"
        );
        Ok(())
    }

    /// Returns a number of `GET /metrics`; `name` is without the prefix. A missing metric is an error.
    pub(crate) async fn metric(&self, name: &str) -> Result<u64> {
        let (_, text) = self.call("GET", "/metrics", &[], None).await?;
        let wanted = format!("ticketflow_{name} ");
        let text = text.as_str().context("metrics are text")?;
        let line = text.lines().find_map(|line| line.strip_prefix(&wanted));
        Ok(line
            .with_context(|| format!("no {name} in {text}"))?
            .parse()?)
    }

    /// Sends a request. Returns the body as JSON, or as a string if it is not JSON.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<(StatusCode, Value)> {
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body))?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let (parts, body) = client.request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        Ok((
            parts.status,
            serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        ))
    }
}

fn await_line(process: &Process, words: &str) -> Result<String> {
    let deadline = Instant::now() + LONG;
    let mut read = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match process.lines().next(left) {
            Some(line) if line.contains(words) => return Ok(line),
            Some(line) => read.push(line),
            None => bail!(
                "no line with {words:?} came; the lines were:\n{}",
                read.join("\n")
            ),
        }
    }
}
