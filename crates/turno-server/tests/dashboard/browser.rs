//! Chromium, driven over WebDriver: JSON over HTTP, of which only a few calls are needed.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use turno_testkit::eventually_async;

use crate::common::LONG;

/// Key of an element reference in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A screen size.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
}

pub const DESKTOP: Screen = Screen {
    width: 1280,
    height: 900,
};
pub const PHONE: Screen = Screen {
    width: 390,
    height: 844,
};

/// The driver. The shell ends it when this process has ended, in any way; and Chromium ends with the pipe to its driver.
struct Driver {
    shell: Child,
    orders: Option<ChildStdin>,
}

impl Driver {
    fn start(folder: &Path) -> (Self, u16) {
        let script = "chromedriver --port=0 & driver=$!; read -r _; kill -9 $driver; wait $driver";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .env("TMPDIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let orders = shell.stdin.take();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let port = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                line.split_once("successfully on port ")?
                    .1
                    .trim_end_matches('.')
                    .parse()
                    .ok()
            })
            .expect("chromedriver is there: `apt-get install chromium chromium-driver`");
        // Further output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        (Driver { shell, orders }, port)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
    }
}

/// A browser with one page.
pub struct Browser {
    client: Client<HttpConnector, Full<Bytes>>,
    session: String,
    _driver: Driver,
    /// Dropped last, because the browser writes to it.
    _profile: TempDir,
}

impl Drop for Browser {
    /// Ends the browser before its folder is removed, because it writes there until its end.
    fn drop(&mut self) {
        let Some((host, path)) = self
            .session
            .strip_prefix("http://")
            .and_then(|url| url.split_once('/'))
        else {
            return;
        };
        if let Ok(mut stream) = TcpStream::connect(host) {
            let _ = stream.set_read_timeout(Some(LONG));
            let _ = write!(
                stream,
                "DELETE /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.read(&mut [0; 1024]);
        }
    }
}

impl Browser {
    pub async fn open(screen: Screen, url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (driver, port) = Driver::start(profile.path());
        let mut browser = Browser {
            client: Client::builder(TokioExecutor::new()).build_http(),
            session: format!("http://127.0.0.1:{port}/session"),
            _driver: driver,
            _profile: profile,
        };
        let Screen { width, height } = screen;
        let folder = browser._profile.path().display();
        let options = json!({
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--lang=en",
                "--disable-background-networking", "--disable-extensions", "--remote-debugging-pipe",
                format!("--window-size={width},{height}"), format!("--user-data-dir={folder}/profile")],
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": LONG.as_millis() as u64},
        }}});
        let began = browser.call("POST", "", wanted).await;
        let id = began["sessionId"].as_str().unwrap();
        browser.session = format!("{}/{id}", browser.session);
        // A window has a minimum width; an emulated screen has none.
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        browser
            .cdp("Emulation.setDeviceMetricsOverride", metrics)
            .await;
        browser.goto(url).await;
        browser
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, value) = self.try_call(method, path, body).await;
        assert!(status, "{method} {path}: {value}");
        value
    }

    async fn try_call(&self, method: &str, path: &str, body: Value) -> (bool, Value) {
        let body = if method == "POST" {
            body.to_string()
        } else {
            String::new()
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.session))
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .unwrap();
        let answer = tokio::time::timeout(LONG, self.client.request(request));
        let answer = answer.await.expect("the browser answers in time").unwrap();
        let status = answer.status().is_success();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let mut response: Value = serde_json::from_slice(&bytes).unwrap();
        (status, response["value"].take())
    }

    async fn cdp(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.call("POST", "/goog/cdp/execute", body).await;
    }

    pub async fn goto(&self, url: &str) {
        self.call("POST", "/url", json!({"url": url})).await;
    }

    pub async fn reload(&self) {
        self.call("POST", "/refresh", json!({})).await;
    }

    /// Runs the body of a function in the page, and returns its result.
    pub async fn run(&self, script: &str, arguments: Value) -> Value {
        let body = json!({"script": script, "args": arguments});
        self.call("POST", "/execute/sync", body).await
    }

    /// Runs the body of a function in the page, and returns the value with which it calls its last argument.
    pub async fn run_async(&self, script: &str, arguments: Value) -> Value {
        let body = json!({"script": script, "args": arguments});
        self.call("POST", "/execute/async", body).await
    }

    /// Returns the visible text, or an empty one if there is no such element.
    pub async fn text(&self, css: &str) -> String {
        let found = self.run(
            "return document.querySelector(arguments[0])?.innerText ?? ''",
            json!([css]),
        );
        found.await.as_str().unwrap().to_owned()
    }

    /// Returns the number of visible elements.
    pub async fn count(&self, css: &str) -> u64 {
        let script = "return [...document.querySelectorAll(arguments[0])].filter((one) => one.checkVisibility()).length";
        self.run(script, json!([css])).await.as_u64().unwrap()
    }

    /// Waits until an element contains this text.
    pub async fn until_text(&self, css: &str, text: &str) {
        let what = format!("{text:?} in {css}");
        eventually_async(LONG, &what, async || {
            self.text(css).await.contains(text).then_some(())
        })
        .await;
    }

    /// Waits until `count` elements are visible.
    pub async fn until_count(&self, css: &str, count: u64) {
        let what = format!("{count} of {css}");
        eventually_async(LONG, &what, async || {
            (self.count(css).await == count).then_some(())
        })
        .await;
    }

    async fn element(&self, css: &str) -> String {
        let ask = json!({"using": "css selector", "value": css});
        let what = format!("an element {css}");
        eventually_async(LONG, &what, async || {
            let (is_there, found) = self.try_call("POST", "/element", ask.clone()).await;
            is_there.then(|| found[ELEMENT].as_str().unwrap().to_owned())
        })
        .await
    }

    /// Clicks like a user: on a visible element.
    pub async fn click(&self, css: &str) {
        let what = format!("{css} to be clicked");
        eventually_async(LONG, &what, async || {
            let element = self.element(css).await;
            let path = format!("/element/{element}/click");
            self.try_call("POST", &path, json!({}))
                .await
                .0
                .then_some(())
        })
        .await;
    }

    pub async fn type_into(&self, css: &str, text: &str) {
        let path = format!("/element/{}/value", self.element(css).await);
        self.call("POST", &path, json!({"text": text})).await;
    }

    /// Presses a key in the focused element.
    pub async fn press(&self, key: &str) {
        let keys = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": keys}]});
        self.call("POST", "/actions", actions).await;
    }

    /// Returns errors of scripts, and requests that the content security policy has blocked.
    pub async fn complaints(&self) -> Vec<String> {
        let logs = self
            .call("POST", "/se/log", json!({"type": "browser"}))
            .await;
        let lines = logs.as_array().unwrap().iter();
        lines
            .map(|line| line["message"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Timeout until the page shows a change. The promise is a second; the measured time is printed. This value only prevents
/// failures on a busy machine.
pub const SOON: Duration = Duration::from_secs(5);
