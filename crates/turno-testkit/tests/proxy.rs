//! The fault-injecting proxy does what it documents, and only that.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use turno_testkit::{PostgresServer, Sql as _, TcpProxy, eventually_async, sql};

const LONG: Duration = Duration::from_secs(20);

/// Long enough for a local response to arrive, if there were one.
const A_WHILE: Duration = Duration::from_millis(100);

/// A server that responds to each chunk with the same bytes.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    addr
}

async fn round_trip(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).await.unwrap();
    expect(stream, message).await;
}

async fn expect(stream: &mut TcpStream, message: &[u8]) {
    let mut answer = vec![0; message.len()];
    timeout(LONG, stream.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer, message);
}

async fn expect_closed(stream: &mut TcpStream) {
    let read = timeout(LONG, stream.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn forwards_more_than_any_buffer_holds() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    let stream = TcpStream::connect(proxy.addr()).await.unwrap();
    let (mut from, mut to) = stream.into_split();
    let sent: Vec<u8> = (0..8_000_000_u32)
        .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
        .collect();
    let writing = async {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, read) = tokio::join!(writing, timeout(LONG, from.read_to_end(&mut received)));
    read.unwrap().unwrap();
    assert!(received == sent);
}

#[tokio::test]
async fn a_cut_closes_connections_and_refuses_new_ones_until_restored() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    let mut old = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut old, b"hello").await;

    proxy.cut().await;
    expect_closed(&mut old).await;
    let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    proxy.cut().await;

    proxy.restore().await.unwrap();
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut new, b"hello again").await;
}

#[tokio::test]
async fn a_black_hole_holds_everything_back_until_restored() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    let mut old = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut old, b"hello").await;

    proxy.black_hole();
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    old.write_all(b"old").await.unwrap();
    new.write_all(b"new").await.unwrap();
    assert!(timeout(A_WHILE, old.read(&mut [0; 1])).await.is_err());
    assert!(timeout(A_WHILE, new.read(&mut [0; 1])).await.is_err());

    proxy.restore().await.unwrap();
    expect(&mut old, b"old").await;
    expect(&mut new, b"new").await;
}

#[tokio::test]
async fn a_black_hole_can_be_cut() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    proxy.black_hole();
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    timeout(LONG, proxy.cut()).await.unwrap();
    expect_closed(&mut stream).await;
}

#[tokio::test]
async fn dropping_the_proxy_closes_everything() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    let addr = proxy.addr();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    round_trip(&mut stream, b"hello").await;
    drop(proxy);
    expect_closed(&mut stream).await;
    eventually_async(LONG, "the listener's end", async || {
        TcpStream::connect(addr).await.err()
    })
    .await;
}

#[tokio::test]
async fn only_one_answer_is_lost() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    let mut unlucky = TcpStream::connect(proxy.addr()).await.unwrap();
    let mut lucky = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut unlucky, b"hello").await;

    proxy.drop_next_answer();
    unlucky.write_all(b"lost").await.unwrap();
    expect_closed(&mut unlucky).await;
    round_trip(&mut lucky, b"hello").await;
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_committed() {
    let server = PostgresServer::shared();
    let direct_url = server.create_database();
    let proxy = TcpProxy::start(([127, 0, 0, 1], server.port()).into())
        .await
        .unwrap();
    let direct = sql::client(&direct_url).await;
    let proxied = sql::client(&proxy.url_for(&direct_url)).await;

    direct.run("create table t (n int)").await;
    proxy.drop_next_answer();
    // One transaction, whose first response overflows the server's buffer and is therefore sent well before the commit.
    let lost = proxied
        .simple_query(
            "insert into t values (1) returning repeat('x', 1000000);
             select pg_sleep(0.3)",
        )
        .await;
    assert!(lost.unwrap_err().is_closed());
    // Immediately, without waiting: the client sees the loss only after the commit.
    let rows = direct.query("select n from t", &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
}

#[tokio::test]
async fn a_delay_holds_data_back_until_it_ends() {
    let proxy = TcpProxy::start(echo().await).await.unwrap();
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut stream, b"fast").await;
    proxy.delay(A_WHILE);
    let began = std::time::Instant::now();
    round_trip(&mut stream, b"slow").await;
    // Both directions are held back.
    assert!(began.elapsed() >= 2 * A_WHILE);
    proxy.delay(Duration::ZERO);
    round_trip(&mut stream, b"fast again").await;
}
