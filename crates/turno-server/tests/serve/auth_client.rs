//! A client with an access token, or without.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use turno::Turno;
use turno::access::{AccessNew, Role};
use turno_server::{Admission, Options};
use turno_testkit::PostgresServer;

use crate::common::{LONG, Running, TestResponse};

/// Starts servers that require access tokens, one per store.
pub async fn guarded() -> [Running; 2] {
    let options = Options {
        admission: Admission::Token,
        ..Options::default()
    };
    let sqlite = Turno::connect("sqlite::memory:").await.unwrap();
    let postgres = Turno::connect(&PostgresServer::shared().create_database())
        .await
        .unwrap();
    [
        Running::on(sqlite, options.clone()).await,
        Running::on(postgres, options).await,
    ]
}

/// Creates an access token and returns its text.
pub async fn token(server: &Running, role: Role, prefix: &str) -> String {
    let new = AccessNew {
        prefix: prefix.to_owned(),
        ..AccessNew::new(format!("{role} of {prefix:?}"), role)
    };
    let (_, text) = server.turno.access_create(new).await.unwrap();
    text.as_str().to_owned()
}

/// A client of a server.
pub struct AuthClient<'a> {
    pub server: &'a Running,
    pub token: Option<String>,
}

impl<'a> AuthClient<'a> {
    pub async fn new(server: &'a Running, role: Role, prefix: &str) -> Self {
        AuthClient {
            server,
            token: Some(token(server, role, prefix).await),
        }
    }

    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        let request = self.server.request(method, path);
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.server.send(self.request("GET", path), "").await
    }

    pub async fn delete(&self, path: &str) -> TestResponse {
        self.server.send(self.request("DELETE", path), "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.json("POST", path, body).await
    }

    pub async fn json(&self, method: &str, path: &str, body: Value) -> TestResponse {
        let request = self
            .request(method, path)
            .header("content-type", "application/json");
        self.server.send(request, body.to_string()).await
    }

    /// Returns a response whose body is read later, and may never end.
    pub async fn open(&self, method: &str, path: &str, body: Option<&Value>) -> Opened {
        let mut request = self.request(method, path);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let response = self.server.begin(request, body).await;
        Opened {
            response,
            heard: String::new(),
        }
    }
}

/// A response in progress.
pub struct Opened {
    pub response: http::Response<Incoming>,
    heard: String,
}

impl Opened {
    /// Reads until `word` occurs, and returns all text so far.
    pub async fn until(&mut self, word: &str) -> &str {
        while !self.heard.contains(word) {
            let frame = self.response.frame();
            let frame = tokio::time::timeout(LONG, frame).await.unwrap();
            let frame = frame.unwrap_or_else(|| panic!("{word} never came: {}", self.heard));
            if let Ok(data) = frame.unwrap().into_data() {
                self.heard.push_str(std::str::from_utf8(&data).unwrap());
            }
        }
        &self.heard
    }

    /// Returns the code of the problem.
    pub async fn code(&mut self) -> String {
        let body = self.response.body_mut().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        problem["code"].as_str().unwrap().to_owned()
    }
}
