//! The library over HTTP: what takes time, too.

use std::convert::Infallible;
use std::time::Duration;

use turno::inbox::Job;
use turno::lock::Acquire;
use turno::once::Begin;
use turno_server::Options;

use crate::common::{LONG, Running};

const SHORT: Duration = Duration::from_millis(300);

/// Longer than its lease: it is renewed meanwhile.
#[tokio::test]
async fn a_run_renews_its_lease() {
    let server = Running::start().await;
    let turno = server.remote();
    let (first, behind) = (turno.lock("it").ttl(SHORT), server.turno.clone());
    first
        .run(async |lease| {
            let began = lease.grant().expires_at;
            turno_testkit::eventually_async(LONG, "a renewal", async || {
                let status = behind.lock("it").status().await.unwrap();
                let holder = status.holders.first().expect("it is held");
                (holder.expires_at > began && holder.token == lease.token()).then_some(())
            })
            .await;
            Ok::<_, Infallible>(())
        })
        .await
        .unwrap();
    assert!(
        server
            .turno
            .lock("it")
            .status()
            .await
            .unwrap()
            .holders
            .is_empty()
    );
}

/// Waits until a route was called several times: a waiter whose long poll ended without a result has called again.
async fn until_asked_again(server: &Running, route: &str) {
    let of = format!("turno_http_requests_total{{route=\"{route}\",method=\"POST\"");
    turno_testkit::eventually_async(LONG, "a second call", async || {
        let metrics = server.metrics().await;
        let counts = metrics.lines().filter(|line| line.starts_with(&of));
        let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok());
        (counts.sum::<u32>() > 3).then_some(())
    })
    .await;
}

/// A server that waits for less than the caller does is asked again.
#[tokio::test]
async fn a_long_wait_is_many_short_ones() {
    let server = Running::start_with(Options {
        max_wait: Duration::from_millis(20),
        ..Options::default()
    })
    .await;
    let turno = server.remote();
    let Acquire::Acquired(held) = server.turno.lock("it").acquire().await.unwrap() else {
        panic!("it is free");
    };
    let waiting = turno.lock("it").wait(LONG).acquire();
    let release = async {
        until_asked_again(&server, "/v1/locks").await;
        held.release().await.unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, release);
    assert!(matches!(waited.unwrap(), Acquire::Acquired(_)));

    let inbox = turno.inbox("mail");
    let push = async {
        until_asked_again(&server, "/v1/inbox/{queue}/claim").await;
        server.turno.inbox("mail").push("hello").await.unwrap();
    };
    let (taken, ()) = tokio::join!(inbox.claim().wait(LONG).take(), push);
    assert_eq!(taken.unwrap().len(), 1);

    let Begin::Fresh(first) = server.turno.once("k").begin().await.unwrap() else {
        panic!("it is new");
    };
    let answer = async {
        until_asked_again(&server, "/v1/once").await;
        first.complete(&7).await.unwrap();
    };
    let second = turno.once("k").wait(LONG);
    let (outcome, ()) = tokio::join!(second.begin(), answer);
    let Begin::Replay(answer) = outcome.unwrap() else {
        panic!("it was answered");
    };
    assert_eq!(answer.get::<u32>().unwrap(), Some(7));
}

#[tokio::test]
async fn a_worker_does_each_item_once() {
    let server = Running::start().await;
    let turno = server.remote();
    let inbox = turno.inbox("mail");
    for n in 0..20 {
        inbox.push(&n).await.unwrap();
    }
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |job: Job<u32>| {
        let sent = sender.send(job.payload);
        async move { sent }
    };
    let mut seen = Vec::new();
    let all = async {
        while seen.len() < 20 {
            seen.extend(receiver.recv().await);
        }
    };
    let report = inbox.worker(handler).concurrency(4).run(all).await.unwrap();
    assert_eq!((report.completed, report.failed), (20, 0));
    seen.sort_unstable();
    assert_eq!(seen, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_needs_the_store_is_refused() {
    let server = Running::start().await;
    let turno = server.remote();
    let error = turno.store().migrate().await.unwrap_err();
    assert!(
        error.is_refused() && error.to_string().contains("--store"),
        "{error}"
    );
    assert!(turno.access_list().await.unwrap_err().is_refused());
    assert!(turno.unadopt("notes").await.unwrap_err().is_refused());
}
