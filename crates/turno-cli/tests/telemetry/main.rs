//! Traces of a real `turno serve`, as an OpenTelemetry collector receives them.

#![allow(clippy::unwrap_used, reason = "a test ends where its expectation does")]

#[path = "../common/mod.rs"]
mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message as _;
use turno_testkit::Process;

use common::{Fixture, Kind, LONG};

/// Trace id of the caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A minimal collector.
struct Collector {
    url: String,
    sent: mpsc::Receiver<(String, ExportTraceServiceRequest)>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, sent) = mpsc::channel();
        // Ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                thread::spawn(move || take(stream, &sender));
            }
        });
        Collector { url, sent }
    }
}

/// Reads one request after the other on one connection.
fn take(stream: TcpStream, sender: &mpsc::Sender<(String, ExportTraceServiceRequest)>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let lower = head.to_lowercase();
        let mut lines = lower.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let sent = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        let answer =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(answer).unwrap();
        if sender.send((head, sent)).is_err() {
            return;
        }
    }
}

/// Starts a server with a collector, or without.
fn serve(fixture: &Fixture, collector: Option<&Collector>) -> (Process, String) {
    let mut command = fixture.command("--json serve --listen 127.0.0.1:0");
    command.stderr(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("OTEL_")) {
            command.env_remove(name);
        }
    }
    if let Some(collector) = collector {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
        command.env("OTEL_SERVICE_NAME", "turnos");
    }
    // Independent of the log level.
    command.env("TURNO_LOG", "error");
    let server = Process::spawn(&mut command).unwrap();
    let line = server.lines().next(LONG).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = line["listening"].as_str().unwrap().to_owned();
    (server, address)
}

fn ask(address: &str, traceparent: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request = format!(
        "GET /v1/locks/PRESTAMO%2F123 HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ntraceparent: {traceparent}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn end(server: &Process) {
    server.term();
    let status = server.wait_timeout(LONG).unwrap();
    assert!(status.success(), "{status}");
}

fn said(attributes: &[KeyValue], key: &str) -> Option<Value> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The span is sent at the latest at the end of the server, which follows right after the response.
#[test]
fn the_span_of_a_request_belongs_to_its_callers_trace() {
    let fixture = Fixture::new(Kind::Sqlite);
    let collector = Collector::start();
    let (server, address) = serve(&fixture, Some(&collector));
    let answer = ask(&address, &format!("00-{TRACE}-{PARENT}-01"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // An invalid traceparent is ignored: the span has a trace of its own, and the request succeeds.
    let answer = ask(&address, "nonsense");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    end(&server);

    let mut spans = Vec::new();
    for (head, sent) in collector.sent.try_iter() {
        assert!(head.starts_with("POST /v1/traces "), "{head}");
        for of_resource in sent.resource_spans {
            let resource = of_resource.resource.unwrap();
            let name = said(&resource.attributes, "service.name");
            assert_eq!(name, Some(Value::StringValue("turnos".into())));
            for of_scope in of_resource.scope_spans {
                spans.extend(of_scope.spans);
            }
        }
    }
    let asked: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "GET /v1/locks/{resource}")
        .collect();
    assert_eq!(asked.len(), 2, "{spans:#?}");
    let ours = asked.iter().find(|span| hex(&span.trace_id) == TRACE);
    let ours = ours.unwrap_or_else(|| panic!("none has the caller's trace: {asked:#?}"));
    assert_eq!(hex(&ours.parent_span_id), PARENT);
    assert_eq!(ours.kind, 2, "server");
    let status = said(&ours.attributes, "http.response.status_code");
    assert_eq!(status, Some(Value::IntValue(200)));
    // Resource names are private, and are not exported.
    assert!(!format!("{spans:?}").contains("PRESTAMO"), "{spans:#?}");
}

#[test]
fn nothing_is_sent_unless_a_collector_is_named() {
    let fixture = Fixture::new(Kind::Sqlite);
    let collector = Collector::start();
    let (server, address) = serve(&fixture, None);
    ask(&address, &format!("00-{TRACE}-{PARENT}-01"));
    end(&server);
    assert!(collector.sent.try_recv().is_err());
}

/// A collector that is unavailable blocks neither requests nor the shutdown.
#[test]
fn a_missing_collector_does_not_disturb_the_server() {
    let fixture = Fixture::new(Kind::Sqlite);
    let gone = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let collector = Collector {
        url: format!("http://{}", gone.local_addr().unwrap()),
        sent: mpsc::channel().1,
    };
    drop(gone);
    let (server, address) = serve(&fixture, Some(&collector));
    let answer = ask(&address, &format!("00-{TRACE}-{PARENT}-01"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    end(&server);
}
