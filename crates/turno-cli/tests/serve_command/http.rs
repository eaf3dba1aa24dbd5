//! A running server, and a minimal client.

#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;
use turno_testkit::Process;

use crate::common::arguments::Arguments;
use crate::common::{Fixture, LONG};

/// A running `turno serve`.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    pub address: String,
}

impl Server {
    /// Starts one on a port of its own choice: a port that was free a moment ago may be in use.
    pub fn start(fixture: &Fixture, arguments: impl Arguments) -> Self {
        let mut command = fixture.command("serve --listen 127.0.0.1:0");
        command.args(arguments.words()).stderr(Stdio::null());
        let process = Process::spawn(&mut command).unwrap();
        let address = process.lines().expect_line("listening on http://", LONG);
        Server { process, address }
    }

    #[track_caller]
    pub fn ask(&self, head: &str, body: &Value) -> Response {
        ask(&self.address, head, None, body).expect("an answer")
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: Value) -> Response {
        self.ask(&format!("POST {path}"), &body)
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.ask(&format!("GET {path}"), &Value::Null)
    }
}

/// A complete response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Response {
    /// Expects this status, and returns the body.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends one request on a separate connection. Returns `None` without a complete response.
pub fn ask(address: &str, head: &str, token: Option<&str>, body: &Value) -> Option<Response> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut request = format!("{head} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if let Some(token) = token {
        request.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    match body {
        Value::Null => request.push_str("\r\n"),
        body => {
            let body = body.to_string();
            let length = body.len();
            request.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
        }
    }
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    // A truncated response does not count.
    let whole = headers.get("content-length");
    let whole = whole.is_none_or(|length| *length == body.len().to_string());
    whole.then(|| Response {
        status,
        headers,
        body: body.to_owned(),
    })
}
