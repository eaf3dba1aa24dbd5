//! Operator actions of a user are executed, with a reason, and recorded in the history.

use serde_json::{Value, json};

use crate::browser::{Browser, DESKTOP};
use crate::common::Running;
use crate::fixtures::{dead, encoded, failed, lock, look, unknown};

/// Fills in the dialog as a user does.
pub async fn because(browser: &Browser, reason: &str) {
    browser.type_into("#ask-reason", reason).await;
    browser.type_into("#ask-user", "Rosa").await;
    browser.click("#ask-go").await;
    browser.until_count("#ask[open]", 0).await;
}

/// Returns the newest entry of the history.
pub async fn newest(server: &Running) -> Value {
    server.get("/v1/history?limit=1").await.expect(200)["history"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| !entry["id"].is_null())
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_lock_is_broken_with_a_reason_that_is_in_the_history() {
    let server = Running::start().await;
    lock(&server, "PRESTAMO/123", "Registro de pago").await;
    let browser = look(&server, DESKTOP).await;
    // Without a reason, or with Escape, nothing is done.
    browser.click("#locks-list .act").await;
    browser.click("#ask-go").await;
    assert_eq!(browser.count("#ask[open]").await, 1);
    browser.press("\u{e00c}").await;
    browser.until_count("#ask[open]", 0).await;
    let status = server.get("/v1/locks/PRESTAMO%2F123").await.expect(200);
    assert_eq!(status["locked"], true);

    browser.click("#locks-list .act").await;
    browser.until_text("#ask-what", "PRESTAMO/123").await;
    because(&browser, "its host is gone").await;
    browser.until_count("#locks-list .row", 0).await;
    browser.until_text("#news", "PRESTAMO/123 was broken").await;
    browser
        .until_text("#history-list .forced", "its host is gone")
        .await;
    let row = browser.text("#history-list .forced").await;
    assert!(row.contains("broken") && row.contains("by Rosa"), "{row}");
    let entry = newest(&server).await;
    assert_eq!(
        [&entry["event"], &entry["reason"], &entry["actor"]],
        ["broken", "its host is gone", "Rosa"]
    );
    server.end().await;
}

/// The holder changed while the page showed the former one: only the displayed lock is broken, or none.
#[tokio::test]
async fn a_lock_with_a_new_holder_is_not_broken() {
    let server = Running::start().await;
    let first = lock(&server, "PRESTAMO/123", "Registro de pago").await;
    let browser = look(&server, DESKTOP).await;
    browser.click("#locks-list .act").await;
    let path = format!("/v1/leases/{}", encoded(first["id"].as_str().unwrap()));
    server.delete(&path).await.expect(204);
    let second = lock(&server, "PRESTAMO/123", "Reestructura").await;
    browser.until_text("#locks-list", "Reestructura").await;
    browser.type_into("#ask-reason", "it hangs").await;
    browser.click("#ask-go").await;
    browser.until_count("#ask-problem", 1).await;
    assert_eq!(browser.count("#ask[open]").await, 1);
    let status = server.get("/v1/locks/PRESTAMO%2F123").await.expect(200);
    assert_eq!(status["holder"]["token"], second["token"], "{status}");
    server.end().await;
}

#[tokio::test]
async fn failed_items_are_requeued_or_discarded() {
    let server = Running::start().await;
    failed(
        &server,
        "notes",
        json!({"note": 9_007_199_254_740_993_u64}),
        "quota is used up",
    )
    .await;
    failed(&server, "notes", json!({"note": 2}), "timeout").await;
    failed(&server, "notes", json!({"note": 3}), "timeout").await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#failed-list .failed-item", 3).await;
    browser
        .until_text("#failed-list .failed-item", "quota is used up")
        .await;
    browser.click("#failed-list .failed-item summary").await;
    // A number that JavaScript would round.
    browser
        .until_text("#failed-list .failed-item pre", "9007199254740993")
        .await;
    browser.click("#failed-list .failed-item .act").await;
    because(&browser, "the quota is larger now").await;
    browser.until_count("#failed-list .failed-item", 2).await;
    browser.until_text("#queues-list .count.pending", "1").await;
    let entry = newest(&server).await;
    assert_eq!(
        [
            &entry["event"],
            &entry["reason"],
            &entry["actor"],
            &entry["resource"]
        ],
        ["requeued", "the quota is larger now", "Rosa", "notes"]
    );
    browser
        .click("#failed-list .failed-item [data-key=d]")
        .await;
    because(&browser, "the note is gone").await;
    browser.until_count("#failed-list .failed-item", 1).await;
    let entry = newest(&server).await;
    assert_eq!(
        [&entry["event"], &entry["reason"], &entry["resource"]],
        ["discarded", "the note is gone", "notes"]
    );
    browser.click("#queues-list [data-key=r]").await;
    because(&browser, "all of them").await;
    browser.until_count("#failed-list li", 0).await;
    browser.until_text("#history-list", "all of them").await;
    let stats = server.get("/v1/inbox/notes").await.expect(200);
    assert_eq!(
        (&stats["failed"], &stats["pending"]),
        (&json!(0), &json!(2))
    );
    server.end().await;
}

#[tokio::test]
async fn stuck_items_are_reset() {
    let server = Running::start().await;
    let items = json!({"items": [{"payload": 1}]});
    server.post("/v1/inbox/notes", items).await.expect(201);
    let claim = json!({"worker": "hangs", "lease": "10m"});
    server
        .post("/v1/inbox/notes/claim", claim)
        .await
        .expect(200);
    let browser = look(&server, DESKTOP).await;
    browser.click("#queues-list [data-key=s]").await;
    browser
        .run(
            "document.querySelector('#ask-older').value = '0s'",
            json!([]),
        )
        .await;
    because(&browser, "its worker hangs").await;
    browser
        .until_text("#queues-list .count.processing", "0")
        .await;
    browser
        .until_text("#history-list .forced", "its worker hangs")
        .await;
    server.end().await;
}

#[tokio::test]
async fn dead_letters_are_discarded_or_requeued() {
    let server = Running::start().await;
    dead(
        &server,
        "TicketCreatedEvent",
        json!({"ticket": 1041}),
        "422 unknown customer",
    )
    .await;
    let browser = look(&server, DESKTOP).await;
    browser
        .until_text("#dead-list", "422 unknown customer")
        .await;
    browser.until_text("#dead-list pre", "1041").await;
    browser.click("#dead-list .act.bad").await;
    because(&browser, "the customer is gone").await;
    browser.until_count("#dead-list .row", 0).await;
    let entry = newest(&server).await;
    assert_eq!(
        [&entry["event"], &entry["reason"]],
        ["discarded", "the customer is gone"]
    );

    dead(
        &server,
        "TicketAssignedEvent",
        json!({"ticket": 1042}),
        "422",
    )
    .await;
    browser
        .until_text("#dead-list", "TicketAssignedEvent")
        .await;
    browser.click("#dead-list .act:not(.bad)").await;
    because(&browser, "it knows the ticket now").await;
    browser.until_count("#dead-list .row", 0).await;
    let stats = server.get("/v1/outbox").await.expect(200);
    assert_eq!((&stats["dead"], &stats["pending"]), (&json!(0), &json!(1)));
    browser
        .until_text("#history-list", "it knows the ticket now")
        .await;
    server.end().await;
}

#[tokio::test]
async fn an_operator_resolves_an_unknown_key() {
    let server = Running::start().await;
    unknown(&server, "pagos/77").await;
    unknown(&server, "pagos/78").await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#once-list .trouble", 2).await;
    browser
        .click("[aria-label='It was not done… pagos/77']")
        .await;
    because(&browser, "the bank has no such payment").await;
    browser.until_count("#once-list .trouble", 1).await;
    let entry = newest(&server).await;
    assert_eq!(
        [&entry["event"], &entry["resource"]],
        ["forgotten", "pagos/77"]
    );

    browser.click("[aria-label='It was done… pagos/78']").await;
    browser
        .type_into("#ask-answer", r#"{"receipt": 12345678901234567890}"#)
        .await;
    // Without a reason, nothing is done.
    browser.click("#ask-go").await;
    assert_eq!(browser.count("#ask[open]").await, 1);
    because(&browser, "the bank has the payment").await;
    browser.until_count("#once-list .row", 0).await;
    let entry = newest(&server).await;
    assert_eq!(
        [&entry["event"], &entry["resource"], &entry["reason"]],
        ["resolved", "pagos/78", "the bank has the payment"]
    );
    browser
        .until_text("#history-list .forced", "the bank has the payment")
        .await;
    let known = server.get("/v1/once-keys/pagos%2F78").await;
    let text = String::from_utf8(known.body.to_vec()).unwrap();
    assert!(
        text.contains("12345678901234567890") && text.contains("done"),
        "{text}"
    );
    server.end().await;
}
