//! Answers that are lost, and servers that are not there.

use turno_client::Client;
use turno_client::api::inbox::{FailedItems, Push, PushItem};
use turno_client::api::lock::{Acquire, LockOutcome};
use turno_testkit::TcpProxy;

use crate::common::{LONG, Running, client};

fn item() -> PushItem {
    PushItem {
        payload: "1".into(),
        key: None,
        priority: None,
        delay: None,
        run_at: None,
        group: None,
        max_attempts: None,
    }
}

async fn between(server: &Running) -> (TcpProxy, Client) {
    let proxy = TcpProxy::start(server.address).await.unwrap();
    let client = client(proxy.addr());
    (proxy, client)
}

/// The caller has given neither an owner nor a request: the client has.
#[tokio::test]
async fn what_was_done_is_not_done_again() {
    let server = Running::start().await;
    let (proxy, client) = between(&server).await;
    let ask = Acquire {
        resource: "it".into(),
        ..Acquire::default()
    };
    proxy.drop_next_answer();
    let lease = match client.acquire(&ask).await.unwrap() {
        LockOutcome::Acquired(grant) => grant,
        LockOutcome::Busy(busy) => panic!("its own first try is in the way: {busy:?}"),
    };
    assert_eq!(lease.holds, 1, "the same hold, and not another");

    proxy.drop_next_answer();
    let push = Push {
        items: vec![item()],
        request: None,
    };
    let pushed = client.push("mail", &push).await.unwrap();
    assert_eq!((pushed.ids.len(), pushed.duplicates.len()), (1, 0));
    assert_eq!(client.queue("mail").await.unwrap().total, 1);
}

/// The control: as a call that has no identity would be done twice, it is not repeated.
#[tokio::test]
async fn what_has_no_identity_is_not_repeated() {
    let server = Running::start().await;
    let (proxy, client) = between(&server).await;
    proxy.drop_next_answer();
    let error = client
        .requeue("mail", &FailedItems::default())
        .await
        .unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let server = Running::start().await;
    let (proxy, client) = between(&server).await;
    proxy.cut().await;
    let error = client.health().await.unwrap_err();
    assert!(
        error.is_unavailable() && error.problem().is_none(),
        "{error:?}"
    );
    assert!(error.to_string().contains("turno serve"), "{error}");
    assert!(turno::Error::from(error).is_unavailable());
    // And it is found when it is there again.
    proxy.restore().await.unwrap();
    client.health().await.unwrap();
    server.end().await;
    assert!(client.health().await.unwrap_err().is_unavailable());
}

/// Something else listens there.
#[tokio::test]
async fn another_server_is_not_taken_for_one() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let other = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).await.unwrap();
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
        stream.write_all(answer).await.unwrap();
    });
    let error = client(address).health().await.unwrap_err();
    assert!(error.to_string().contains("turno serve"), "{error}");
    assert!(!error.is_unavailable());
    tokio::time::timeout(LONG, other).await.unwrap().unwrap();
}
