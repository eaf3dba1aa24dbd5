//! Clients that send arbitrary bytes.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::LONG;

/// A connection.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = tokio::time::timeout(LONG, TcpStream::connect(address)).await;
        Raw(stream.unwrap().unwrap())
    }

    /// Connects and sends this text.
    pub async fn saying(address: SocketAddr, text: &str) -> Self {
        let mut raw = Self::connect(address).await;
        raw.say(text).await;
        raw
    }

    /// The same with owned text, for many concurrent clients.
    pub async fn saying_owned(address: SocketAddr, text: String) -> Self {
        Self::saying(address, &text).await
    }

    pub async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until the server closes the connection; a reset counts as a close.
    pub async fn until_closed(&mut self) -> String {
        let mut response = Vec::new();
        let read = self.0.read_to_end(&mut response);
        // Data that arrived before a reset is kept.
        let _ = tokio::time::timeout(LONG, read).await.expect("not closed");
        String::from_utf8_lossy(&response).into_owned()
    }

    /// Reads until the head of a response is complete.
    pub async fn head(&mut self) -> String {
        let mut response = Vec::new();
        let read = async {
            while !response.ends_with(b"\r\n\r\n") {
                response.push(self.0.read_u8().await.unwrap());
            }
        };
        tokio::time::timeout(LONG, read).await.expect("no answer");
        String::from_utf8(response).unwrap()
    }
}

/// Returns a complete request with a JSON body.
pub fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Returns a complete request without a body.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}
