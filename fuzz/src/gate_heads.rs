//! Requests to the gate: any bytes as the head of a request, over a real connection, in front of a service that checks what it gets.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use turno::Turno;
use turno::lock::Sweep;
use turno::once::http::{Policy, Routes};
use turno_server::gate::{Gate, Options};

/// The route with a policy. The others have none.
const GUARDED: &str = "/guarded";
/// A request whose connection the gate does not end in this time hangs.
const LONGEST: Duration = Duration::from_secs(20);
/// So many requests later, what is stored of them is deleted.
const SWEEP_EVERY: u32 = 2000;
/// Headers that belong to one connection, and those that only the gate may set. Here nothing asks for an upgrade that the service
/// would accept.
const OF_ONE_CONNECTION: [&str; 6] = [
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "http2-settings",
    "expect",
];
const OF_THE_GATE: [&str; 3] = ["turno-fence", "turno-attempt", "turno-key"];

/// What the service found wrong.
static WRONG: Mutex<Option<String>> = Mutex::new(None);

thread_local! {
    static LAB: RefCell<Option<Lab>> = const { RefCell::new(None) };
}

/// The gate and the service, on one thread: so the same input always runs the same way.
struct Lab {
    runtime: Runtime,
    turno: Turno,
    gate: SocketAddr,
    requests: u32,
}

/// What must hold for any bytes: the first one selects the route, the others follow the first line of the request.
pub fn check(bytes: &[u8]) {
    let [choice, head @ ..] = bytes else {
        return;
    };
    let path = if choice % 2 == 0 { "/plain" } else { GUARDED };
    let method = if choice % 4 < 2 { "POST" } else { "GET" };
    let first = format!("{method} {path} HTTP/1.1\r\nhost: a\r\nturno-key: forged\r\n");
    LAB.with_borrow_mut(|lab| {
        lab.get_or_insert_with(Lab::start)
            .send(first.as_bytes(), head)
    });
    let wrong = WRONG.lock().expect("no check panics with it").take();
    assert_eq!(wrong, None);
}

impl Lab {
    fn start() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (turno, gate) = runtime.block_on(async {
            let service = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let upstream = service.local_addr().expect("its address");
            tokio::spawn(serve(service));
            let turno = Turno::connect("sqlite::memory:").await.expect("a store");
            let policy = Policy::new("guarded")
                .no_principal()
                .ttl(Duration::from_millis(1));
            let routes = Routes::new().add(GUARDED, policy).expect("a route");
            let upstream = format!("http://{upstream}").parse().expect("an address");
            let gate = Gate::new(turno.clone(), upstream, routes, Options::default());
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
            let address = listener.local_addr().expect("its address");
            tokio::spawn(async move { gate.run(listener, std::future::pending()).await });
            (turno, address)
        });
        Lab {
            runtime,
            turno,
            gate,
            requests: 0,
        }
    }

    fn send(&mut self, first: &[u8], head: &[u8]) {
        self.requests += 1;
        let (turno, gate, requests) = (&self.turno, self.gate, self.requests);
        self.runtime.block_on(async move {
            let exchange = async {
                let mut client = TcpStream::connect(gate).await.expect("the gate listens");
                // The gate may end the connection before it has read everything.
                let _ = client.write_all(&[first, head, b"\r\n\r\n"].concat()).await;
                let _ = client.shutdown().await;
                let _ = client.read_to_end(&mut Vec::new()).await;
            };
            let ended = tokio::time::timeout(LONGEST, exchange).await;
            assert!(ended.is_ok(), "the gate does not end the connection");
            if requests.is_multiple_of(SWEEP_EVERY) {
                turno
                    .sweep(&Sweep::default())
                    .await
                    .expect("the store works");
            }
        });
    }
}

async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(async move {
            let service = service_fn(async |request: Request<Incoming>| {
                if let Some(wrong) = wrong(&request) {
                    *WRONG.lock().expect("no check panics with it") = Some(wrong);
                }
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
            });
            let io = TokioIo::new(stream);
            let _ = http1::Builder::new().serve_connection(io, service).await;
        });
    }
}

/// Returns what a service must not get from the gate.
fn wrong(request: &Request<Incoming>) -> Option<String> {
    let headers = request.headers();
    if let Some(name) = OF_ONE_CONNECTION
        .iter()
        .find(|name| headers.contains_key(**name))
    {
        return Some(format!("{name} was forwarded"));
    }
    if headers.get_all("host").iter().count() != 1 {
        return Some("there is not one host".to_owned());
    }
    if !request.uri().path().starts_with('/') || request.uri().authority().is_some() {
        return Some(format!("the target is {}", request.uri()));
    }
    let forwarded_for = one(headers, "x-forwarded-for").unwrap_or_default();
    if !forwarded_for.ends_with("127.0.0.1") {
        return Some(format!("x-forwarded-for is {forwarded_for:?}"));
    }
    let is_guarded = request.uri().path() == GUARDED && headers.contains_key("idempotency-key");
    for name in OF_THE_GATE {
        let value = one(headers, name);
        if value.as_deref() == Some("forged") || (!is_guarded && value.is_some()) {
            return Some(format!("{name} is {value:?}"));
        }
    }
    None
}

/// Returns the value of a header that is there once.
fn one(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}
