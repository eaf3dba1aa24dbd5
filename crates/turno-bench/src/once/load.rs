//! A load generator: connections that send small requests one after the other. Hand-written for low overhead, because the
//! client's CPU time is taken from the server on the same machine.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Keys of the requests.
#[derive(Clone, Copy)]
pub enum Keys {
    /// A new key per request.
    Fresh,
    /// One of this many known keys.
    Known(usize),
}

/// Body of each request.
pub const BODY: &str = r#"{"cuenta": "0123456789", "importe": 1250.00, "moneda": "MXN", "concepto": "Registro de pago"}"#;

/// Returns the number of requests per second.
pub async fn load(port: u16, connections: usize, keys: Keys, time: Duration) -> Result<f64> {
    let began = Instant::now();
    let until = began + time;
    let mut tasks = Vec::new();
    for _ in 0..connections {
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(port).await?;
            let mut answers = 0_u64;
            while Instant::now() < until {
                let key = match keys {
                    Keys::Fresh => format!("{:032x}", fastrand::u128(..)),
                    Keys::Known(many) => known(fastrand::usize(..many)),
                };
                connection.ask(&key).await?;
                answers += 1;
            }
            anyhow::Ok(answers)
        }));
    }
    let mut answers = 0;
    for task in tasks {
        answers += task.await??;
    }
    Ok(answers as f64 / began.elapsed().as_secs_f64())
}

/// Sends one request per known key.
pub async fn each(port: u16, many: usize) -> Result<()> {
    let mut tasks = Vec::new();
    for first in 0..64 {
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(port).await?;
            for n in (first..many).step_by(64) {
                connection.ask(&known(n)).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Returns a key that was used before.
pub fn known(n: usize) -> String {
    format!("known-{n:026}")
}

pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            buffer: Vec::with_capacity(4096),
        })
    }

    /// Sends one request and reads its response.
    pub async fn ask(&mut self, key: &str) -> Result<()> {
        let request = format!(
            "POST /pagos HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {key}\r\nauthorization: Bearer 7\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server went away");
            if let Some(end) = self.end()? {
                ensure!(self.buffer.len() == end, "more than one answer came");
                return Ok(());
            }
        }
    }

    /// Returns the end of the response, if it is complete.
    fn end(&self) -> Result<Option<usize>> {
        let Some(head) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        ensure!(text.starts_with("HTTP/1.1 200"), "not as expected: {text}");
        let length = text
            .lines()
            .find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().ok())?
            })
            .context("the answer has a length")?;
        let end = head + 4 + length;
        Ok((self.buffer.len() >= end).then_some(end))
    }
}
