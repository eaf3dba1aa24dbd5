//! A private etcd on its own port.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http;

pub struct Etcd {
    pub port: u16,
    child: Child,
    _folder: TempDir,
}

impl Etcd {
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (port, peer) = (free_port()?, free_port()?);
        let client = format!("http://127.0.0.1:{port}");
        let peers = format!("http://127.0.0.1:{peer}");
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path())
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args(["--initial-cluster", &format!("default={peers}")])
            .args(["--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("etcd is not there: install Debian's package etcd-server")?;
        let etcd = Etcd {
            port,
            child,
            _folder: folder,
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while etcd.lease().await.is_err() {
            if Instant::now() > deadline {
                bail!("etcd does not answer");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(etcd)
    }

    /// Grants a lease that outlives the measurement.
    pub async fn lease(&self) -> Result<String> {
        let granted = http::post(self.port, "/v3/lease/grant", &json!({"TTL": "3600"})).await?;
        match &granted["ID"] {
            Value::String(id) => Ok(id.clone()),
            _ => bail!("etcd has granted no lease: {granted}"),
        }
    }
}

/// A client with a lease and a connection of its own.
pub struct Session {
    port: u16,
    lease: String,
    client: http::Client,
}

impl Etcd {
    pub async fn session(&self) -> Result<Session> {
        Ok(Session {
            port: self.port,
            lease: self.lease().await?,
            client: http::client(),
        })
    }
}

impl Session {
    /// Acquires and releases a lock.
    pub async fn pair(&self, number: usize) -> Result<()> {
        // The gateway takes names in base64, which this text is.
        let name = format!("PRESTAMO{number:08}");
        let request = json!({"name": name, "lease": self.lease});
        let held = http::post_with(&self.client, self.port, "/v3/lock/lock", &request).await?;
        let key = json!({"key": held["key"]});
        http::post_with(&self.client, self.port, "/v3/lock/unlock", &key).await?;
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a port that was free a moment ago, because etcd cannot choose one itself.
fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()?
        .port())
}
