//! Pages of other sites change nothing here, whatever they send. There is no cookie that a browser would send for them,
//! and a server without access tokens checks the origin of a request.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use turno_server::{Admission, Options, openapi};

use crate::browser::{Browser, DESKTOP};
use crate::common::Running;
use crate::fixtures::{everything, page};

/// Starts another site: another port is another origin.
async fn elsewhere() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let page = "<!doctype html><title>Elsewhere</title>";
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
        }
    });
    format!("http://{address}/")
}

/// Returns method and path of every operation that changes something, with a name in the path.
fn writes() -> Vec<(String, String)> {
    let api = serde_json::to_value(openapi()).unwrap();
    let mut writes = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in ["post", "put", "delete", "patch"] {
            if item.get(method).is_some() {
                let name = if path.contains("inbox") {
                    "presentations"
                } else {
                    "PRESTAMO%2F123"
                };
                let named = match (path.split_once('{'), path.split_once('}')) {
                    (Some((before, _)), Some((_, after))) => format!("{before}{name}{after}"),
                    _ => path.clone(),
                };
                writes.push((method.to_uppercase(), named));
            }
        }
    }
    writes
}

/// Sends a request in each way that a page can: as a form, without a body, and as a script with a preflight request.
const SEND: &str = "const [base, writes, done] = arguments; (async () => { \
    const sent = []; \
    for (const [method, path] of writes) for (const body of [undefined, '{}', '{\"resource\": \"foreign\"}']) { \
        const ways = [{ method, mode: 'cors', headers: body ? { 'content-type': 'application/json' } : {}, body }]; \
        if (method === 'POST') ways.push({ method, mode: 'no-cors', body }, { method, mode: 'no-cors', body, credentials: 'include' }); \
        for (const way of ways) sent.push(await fetch(base + path, way).then((answer) => answer.status || answer.type, () => 'refused')); \
    } \
    done(sent); })();";

/// Returns all state that could be changed.
async fn state(server: &Running) -> Vec<Value> {
    let mut state = Vec::new();
    for path in [
        "/v1/locks",
        "/v1/inbox",
        "/v1/outbox",
        "/v1/once",
        "/v1/history",
    ] {
        let mut listed = server.get(path).await.expect(200);
        // Times change by themselves.
        for list in ["locks", "queues"] {
            for one in listed[list].as_array_mut().into_iter().flatten() {
                let one = one.as_object_mut().unwrap();
                one.remove("remaining_ms");
                one.remove("oldest_pending_ms");
            }
        }
        state.push(listed);
    }
    state
}

async fn is_left_alone(admission: Admission) {
    let options = Options {
        admission,
        ..Options::default()
    };
    let turno = turno::Turno::connect("sqlite::memory:").await.unwrap();
    let server = Running::on(turno, options).await;
    everything(&server).await;
    let before = state(&server).await;
    let browser = Browser::open(DESKTOP, &elsewhere().await).await;
    let base = page(&server).trim_end_matches('/').to_owned();
    let writes = writes();
    assert!(writes.len() > 15, "{writes:?}");
    let sent = browser.run_async(SEND, json!([base, writes])).await;
    assert!(
        sent.to_string().contains("opaque"),
        "some were sent: {sent}"
    );
    assert_eq!(state(&server).await, before, "{sent}");

    // The control: the same requests from the server's own page change something.
    browser.goto(&format!("{base}/")).await;
    browser.run_async(SEND, json!([base, writes])).await;
    assert_ne!(state(&server).await, before);
    server.end().await;
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing_on_an_open_server() {
    is_left_alone(Admission::TokenOrLocal).await;
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing_without_access_control() {
    is_left_alone(Admission::All).await;
}
