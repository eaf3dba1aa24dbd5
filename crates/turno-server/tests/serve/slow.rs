//! Slow clients. The server accepts one connection only: the next client gets a response when the slow one was disconnected,
//! and not before.

use std::time::Duration;

use serde_json::json;
use turno::inbox::Item;
use turno_server::Options;

use crate::common::Running;
use crate::raw::{Raw, get, post};

/// Much shorter than any test would wait.
const SHORT: Duration = Duration::from_millis(200);
/// Longer than any test waits.
const NEVER: Duration = Duration::from_secs(3600);

fn long_timeouts() -> Options {
    Options {
        max_connections: 1,
        head_timeout: NEVER,
        body_timeout: NEVER,
        write_timeout: NEVER,
        ..Options::default()
    }
}

/// Creates a response that is larger than the socket buffers.
async fn much_to_read(server: &Running) -> String {
    let big = "x".repeat(1_000_000);
    for _ in 0..4 {
        let some: Vec<Item> = (0..8).map(|_| Item::new(&big)).collect();
        server.turno.inbox("q").push_many(some).await.unwrap();
    }
    get("/v1/inbox/q/items?state=pending")
}

/// Checks that the next client gets a response.
async fn there_is_room(server: &Running) {
    let mut next = Raw::saying(server.address, &get("/healthz")).await;
    assert!(next.head().await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn who_does_not_say_what_it_wants_is_sent_away() {
    let answered = format!("{}GET /v1/lo", get("/healthz"));
    for said in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: local",
        // An earlier response makes no difference.
        &get("/healthz"),
        &answered,
    ] {
        let server = Running::start_with(Options {
            head_timeout: SHORT,
            ..long_timeouts()
        })
        .await;
        let mut slow = Raw::saying(server.address, said).await;
        there_is_room(&server).await;
        slow.until_closed().await;
        server.end().await;
    }
}

#[tokio::test]
async fn who_waits_for_its_turn_is_not_taken_for_silent() {
    let server = Running::start_with(Options {
        head_timeout: SHORT,
        ..long_timeouts()
    })
    .await;
    let wait = format!("{}ms", (4 * SHORT).as_millis());
    let wait = json!({"worker": "w", "wait": wait}).to_string();
    let mut waiting = Raw::saying(server.address, &post("/v1/inbox/q/claim", &wait)).await;
    assert!(waiting.head().await.starts_with("HTTP/1.1 200"));
    server.end().await;
}

#[tokio::test]
async fn a_body_sent_byte_by_byte_times_out() {
    let server = Running::start_with(Options {
        body_timeout: SHORT,
        ..long_timeouts()
    })
    .await;
    let whole = post("/v1/locks", &json!({"resource": "r"}).to_string());
    let half = &whole[..whole.len() - 1];
    let mut slow = Raw::saying(server.address, half).await;
    let response = slow.until_closed().await;
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    assert!(response.contains("\"code\":\"timeout\""), "{response}");
    there_is_room(&server).await;
    let held = server.turno.lock("r").status().await.unwrap();
    assert!(held.holders.is_empty(), "nothing was stored");
    server.end().await;
}

#[tokio::test]
async fn who_does_not_read_its_answer_is_cut_off() {
    let server = Running::start_with(Options {
        write_timeout: SHORT,
        ..long_timeouts()
    })
    .await;
    let ask = much_to_read(&server).await;
    let mut slow = Raw::saying(server.address, &ask).await;
    there_is_room(&server).await;
    let response = slow.until_closed().await;
    assert!(
        response.len() < 32_000_000,
        "{} bytes were kept",
        response.len()
    );
    // A client that reads gets all of it.
    let response = server.get("/v1/inbox/q/items?state=pending").await;
    assert_eq!(response.expect(200)["items"].as_array().unwrap().len(), 32);
    server.end().await;
}

/// The control of the tests above: without timeouts, a slow client keeps its connection, in each of the four ways, until it
/// disconnects.
#[tokio::test]
async fn without_timeouts_slow_clients_keep_others_out() {
    for way in 0..4 {
        let server = Running::start_with(long_timeouts()).await;
        let whole = post("/v1/locks", &json!({"resource": "r"}).to_string());
        let said = match way {
            0 => String::new(),
            1 => "GET /healthz HTTP/1.1\r\nhost: local".to_owned(),
            2 => whole[..whole.len() - 1].to_owned(),
            _ => much_to_read(&server).await,
        };
        let slow = Raw::saying(server.address, &said).await;
        let early = tokio::time::timeout(2 * SHORT, there_is_room(&server)).await;
        assert!(early.is_err(), "there was room beside {said:?}");
        drop(slow);
        there_is_room(&server).await;
        server.end().await;
    }
}
