//! Clients that repeat the same request until they get a response.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use serde_json::{Value, json};
use turno_testkit::eventually;
use uuid::Uuid;

use crate::common::{Fixture, LONG};
use crate::http::{Response, Server, ask};

/// Servers that are killed and restarted, each time on another port.
pub struct Servers<'a> {
    fixture: &'a Fixture,
    running: Vec<Mutex<Server>>,
    addresses: Vec<RwLock<String>>,
    /// Number of requests in flight per server.
    in_flight: Vec<AtomicU64>,
    /// Whether a server is out of rotation, as by a load balancer.
    out: Vec<AtomicBool>,
    /// Number of requests with a response.
    pub answered: AtomicU64,
    /// Number of requests without one, which were repeated.
    pub unanswered: AtomicU64,
    pub stop: AtomicBool,
}

impl<'a> Servers<'a> {
    pub fn start(fixture: &'a Fixture, number: usize) -> Self {
        let running: Vec<_> = (0..number).map(|_| Server::start(fixture, "")).collect();
        Servers {
            fixture,
            addresses: running
                .iter()
                .map(|server| RwLock::new(server.address.clone()))
                .collect(),
            in_flight: running.iter().map(|_| AtomicU64::new(0)).collect(),
            out: running.iter().map(|_| AtomicBool::new(false)).collect(),
            running: running.into_iter().map(Mutex::new).collect(),
            answered: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Kills one with SIGKILL, and starts another in its place.
    pub fn kill(&self, which: usize) {
        self.kill_and(which, || {});
    }

    /// Kills one with SIGKILL, calls a function, and starts another in its place.
    pub fn kill_and(&self, which: usize, meanwhile: impl FnOnce()) {
        let which = which % self.running.len();
        let mut running = self.running[which].lock().unwrap();
        running.process.kill_9();
        meanwhile();
        *running = Server::start(self.fixture, "");
        *self.addresses[which].write().unwrap() = running.address.clone();
    }

    /// Takes one out of rotation, waits for its requests, ends it, and puts another in its place.
    pub fn replace(&self, which: usize) {
        self.out[which].store(true, Ordering::SeqCst);
        eventually(LONG, "a server without requests", || {
            (self.in_flight[which].load(Ordering::SeqCst) == 0).then_some(())
        });
        let mut running = self.running[which].lock().unwrap();
        running.process.term();
        running
            .process
            .wait_timeout(LONG)
            .expect("a server that ends when it is asked to");
        *running = Server::start(self.fixture, "");
        *self.addresses[which].write().unwrap() = running.address.clone();
        self.out[which].store(false, Ordering::SeqCst);
    }

    /// Calls a function with the address of each server in rotation, which stays in rotation meanwhile.
    pub fn each_up(&self, mut call: impl FnMut(&str)) {
        for which in 0..self.addresses.len() {
            if let Some(_asking) = self.enter(which) {
                let address = self.addresses[which].read().unwrap().clone();
                call(&address);
            }
        }
    }

    /// Counts a request to a server, unless it is out of rotation.
    fn enter(&self, which: usize) -> Option<InFlight<'_>> {
        let request = InFlight(&self.in_flight[which]);
        request.0.fetch_add(1, Ordering::SeqCst);
        (!self.out[which].load(Ordering::SeqCst)).then_some(request)
    }

    /// Returns the current addresses of the servers.
    pub fn addresses(&self) -> Vec<String> {
        let addresses = self.addresses.iter();
        addresses.map(|a| a.read().unwrap().clone()).collect()
    }

    /// Stops the clients when it is dropped, also by a panic.
    pub fn stop_when_dropped(&self) -> StopWhenDropped<'_> {
        StopWhenDropped(&self.stop)
    }

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Sends a request to one server after the other until one has responded. A temporary problem does not count.
    pub fn ask(&self, head: &str, body: &Value) -> Response {
        // Requests start at different servers.
        let mut turn = usize::from(Uuid::new_v4().as_bytes()[0]);
        loop {
            let which = turn % self.addresses.len();
            let Some(_asking) = self.enter(which) else {
                turn += 1;
                continue;
            };
            let address = self.addresses[which].read().unwrap().clone();
            match ask(&address, head, None, body).filter(|response| response.status != 503) {
                Some(response) => {
                    self.answered.fetch_add(1, Ordering::SeqCst);
                    return response;
                }
                None => {
                    self.unanswered.fetch_add(1, Ordering::SeqCst);
                    // A refused connection returns at once. Without a pause, retries would delay the start of the next server.
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            turn += 1;
        }
    }

    pub fn post(&self, path: &str, body: Value) -> Response {
        self.ask(&format!("POST {path}"), &body)
    }

    pub fn get(&self, path: &str) -> Value {
        self.ask(&format!("GET {path}"), &Value::Null).expect(200)
    }

    /// Acquires a lock, however long it takes. Returns its lease.
    pub fn lock(&self, resource: &str, ttl: &str) -> Value {
        let mut body = json!({
            "resource": resource, "ttl": ttl, "wait": "5s",
            "owner": Uuid::new_v4(), "request": Uuid::now_v7(),
        });
        loop {
            let response = self.post("/v1/locks", body.clone());
            if response.status != 409 {
                assert!(matches!(response.status, 200 | 201), "{response:?}");
                return serde_json::from_str(&response.body).unwrap();
            }
            body["request"] = json!(Uuid::now_v7());
        }
    }

    pub fn unlock(&self, lease: &Value) {
        let (id, request) = (lease["id"].as_str().unwrap(), Uuid::now_v7());
        let head = format!("DELETE /v1/leases/{id}?request={request}");
        self.ask(&head, &Value::Null).expect(204);
    }
}

/// A request in flight.
struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
