//! Clients that speak as they like.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::LONG;

/// A connection, and what was said on it so far.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = tokio::time::timeout(LONG, TcpStream::connect(address)).await;
        Raw(stream.unwrap().unwrap())
    }

    /// Connects, and says this much.
    pub async fn saying(address: SocketAddr, text: &str) -> Self {
        let mut raw = Self::connect(address).await;
        raw.say(text).await;
        raw
    }

    /// The same, for many at once.
    pub async fn saying_owned(address: SocketAddr, text: String) -> Self {
        Self::saying(address, &text).await
    }

    pub async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// All that comes until the server closes; a connection that is reset is closed too.
    pub async fn until_closed(&mut self) -> String {
        let mut told = Vec::new();
        let read = self.0.read_to_end(&mut told);
        // Reset or not: what came before is there.
        let _ = tokio::time::timeout(LONG, read).await.expect("not closed");
        String::from_utf8_lossy(&told).into_owned()
    }

    /// What comes until the head of an answer is whole.
    pub async fn head(&mut self) -> String {
        let mut told = Vec::new();
        let read = async {
            while !told.ends_with(b"\r\n\r\n") {
                told.push(self.0.read_u8().await.unwrap());
            }
        };
        tokio::time::timeout(LONG, read).await.expect("no answer");
        String::from_utf8(told).unwrap()
    }
}

/// A whole request with a body of JSON.
pub fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A whole request without a body.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}
