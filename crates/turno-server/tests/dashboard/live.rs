//! Changes are shown as they happen.

use serde_json::json;
use turno_testkit::{TcpProxy, eventually_async};

use crate::browser::{Browser, DESKTOP, SOON};
use crate::common::{LONG, Running};
use crate::fixtures::{failed, lock, look};

#[tokio::test]
async fn a_lock_that_another_client_takes_is_seen_within_a_second() {
    let server = Running::start().await;
    let browser = look(&server, DESKTOP).await;
    browser.until_text("#live-text", "Live").await;
    browser
        .until_text("#locks-empty", "turno lock acquire")
        .await;

    // The page itself records when the row appeared, because polling it would slow it down.
    let watch = "window.seen = new Promise((done) => new MutationObserver((_, watch) => { \
        if (document.querySelector('#locks-list').innerText.includes('PRESTAMO/123')) { watch.disconnect(); done(Date.now()); } }) \
        .observe(document.body, { childList: true, subtree: true, characterData: true })); return Date.now();";
    let took = browser.run(watch, json!([])).await.as_i64().unwrap();
    lock(&server, "PRESTAMO/123", "Registro de pago").await;
    let seen = browser.run_async("window.seen.then(arguments[0])", json!([]));
    let ms = seen.await.as_i64().unwrap() - took;
    println!("a lock was seen after {ms} ms");
    assert!(ms < SOON.as_millis() as i64, "{ms} ms");

    let row = browser.text("#locks-list .row").await;
    for word in [
        "PRESTAMO/123",
        "user 1",
        "flowpay",
        "Registro de pago",
        "Break",
    ] {
        assert!(row.contains(word), "{word} in {row}");
    }
    assert_eq!(browser.text("#tile-locks .big").await, "1");
    server.end().await;
}

#[tokio::test]
async fn what_remains_shrinks_and_what_ends_is_gone_and_in_the_history() {
    let server = Running::start().await;
    let ask = json!({"resource": "short", "ttl": "60s", "owner": "o"});
    let held = server.post("/v1/locks", ask).await.expect(201);
    let browser = look(&server, DESKTOP).await;
    browser.until_text("#locks-list", "short").await;
    let share =
        "return new DOMMatrix(getComputedStyle(document.querySelector('.fill')).transform).a";
    let first = browser.run(share, json!([])).await.as_f64().unwrap();
    eventually_async(LONG, "a shorter bar", async || {
        let now = browser.run(share, json!([])).await.as_f64().unwrap();
        (now < first).then_some(())
    })
    .await;
    // A waiter.
    let wait = server.post(
        "/v1/locks",
        json!({"resource": "short", "wait": "30s", "user": "2"}),
    );
    let watch = async {
        browser.until_text("#locks-list .waiters", "1").await;
        let path = format!("/v1/leases/{}", held["id"].as_str().unwrap());
        server.delete(&path).await
    };
    let (taken, _) = tokio::join!(wait, watch);
    taken.expect(201);
    browser.until_text("#locks-list", "user 2").await;
    browser.until_text("#history-list", "short").await;
    // Too late: another caller holds it.
    server
        .delete(&format!("/v1/leases/{}", held["id"].as_str().unwrap()))
        .await;
    browser.until_count("#history-list .row.late", 1).await;
    browser
        .until_text("#history-list .row.late .badge", "late")
        .await;
    server.end().await;
}

#[tokio::test]
async fn the_search_filters_everything_and_the_focus_stays() {
    let server = Running::start().await;
    crate::fixtures::everything(&server).await;
    lock(&server, "nightly/report", "Cierre").await;
    failed(&server, "mail", json!(1), "no such address").await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#locks-list .row", 2).await;
    browser.until_count("#failed-list .failed-item", 2).await;
    browser.press("/").await;
    browser.type_into("#search", "ADDRESS").await;
    browser.until_count("#failed-list .failed-item", 1).await;
    browser.until_count("#locks-list .row", 0).await;
    browser.until_text("#locks-empty", "ADDRESS").await;
    for list in ["#dead-list", "#once-list", "#history-list"] {
        browser.until_count(&format!("{list} .row"), 0).await;
    }
    browser.run("const s = document.querySelector('#search'); s.value = ''; s.dispatchEvent(new Event('input'))", json!([])).await;
    browser.until_count("#locks-list .row", 2).await;

    // The focused row stays in its position, even if rows are inserted before it.
    let button = "#locks-list .row:last-child button";
    browser
        .run(
            "document.querySelector(arguments[0]).focus()",
            json!([button]),
        )
        .await;
    lock(&server, "a/first", "Alta").await;
    browser.until_count("#locks-list .row", 3).await;
    let focused = browser
        .run(
            "return document.activeElement.getAttribute('aria-label')",
            json!([]),
        )
        .await;
    assert_eq!(focused, "Break… nightly/report");
    assert_eq!(browser.complaints().await, Vec::<String>::new());
    server.end().await;
}

/// The page survives the loss of its connection: it marks its data as old, and reconnects.
#[tokio::test]
async fn a_server_that_was_away_is_found_again() {
    let server = Running::start().await;
    lock(&server, "before", "Alta").await;
    let network = TcpProxy::start(server.address).await.unwrap();
    let browser = Browser::open(DESKTOP, &format!("http://{}/", network.addr())).await;
    browser.until_text("#locks-list", "before").await;
    network.cut().await;
    browser.until_text("#live-text", "Reconnecting").await;
    browser.until_text("#banner", "data shown is old").await;
    lock(&server, "meanwhile", "Alta").await;
    assert_eq!(browser.count("#locks-list .row").await, 1);
    network.restore().await.unwrap();
    browser.until_text("#live-text", "Live").await;
    browser.until_text("#locks-list", "meanwhile").await;
    drop(browser);
    drop(network);
    server.end().await;
}
