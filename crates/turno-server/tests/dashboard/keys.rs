//! The keys of `turno top` do the same here.

use serde_json::json;
use turno::access::Role;

use crate::actions::{because, newest};
use crate::browser::{Browser, DESKTOP};
use crate::common::Running;
use crate::fixtures::{everything, lock, look, token};
use crate::tokens::{enter_token, guarded};

const ESCAPE: &str = "\u{e00c}";

/// Returns the name of the selected row.
async fn selected(browser: &Browser) -> String {
    let script = "const focus = document.activeElement; return focus.closest('li.row')?.querySelector('.name').textContent ?? focus.id";
    let name = browser.run(script, json!([])).await;
    name.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn components_rows_and_actions_have_keys() {
    let server = Running::start().await;
    everything(&server).await;
    lock(&server, "PRESTAMO/124", "Registro de pago").await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#locks-list .row", 2).await;
    browser.until_count("#failed-list .failed-item", 1).await;
    browser.until_count("#dead-list .row", 1).await;
    browser.until_count("#once-list .row", 2).await;

    let question = "#ask[open] #ask-title";
    for (part, name, key, title) in [
        ("1", "PRESTAMO/123", "b", "Break this lock?"),
        ("2", "presentations", "r", "Requeue all 1?"),
        ("3", "TicketCreatedEvent", "d", "Discard this event?"),
        ("3", "TicketCreatedEvent", "r", "Requeue this event?"),
        ("4", "pagos/77", "f", "Forget this key?"),
        ("4", "pagos/77", "c", "Resolve this key?"),
    ] {
        browser.press(part).await;
        assert_eq!(selected(&browser).await, name);
        browser.press(key).await;
        browser.until_text(question, title).await;
        // Text in the dialog is a reason, and triggers no key.
        browser.press("1").await;
        browser.press(ESCAPE).await;
        browser.until_count("#ask[open]", 0).await;
        assert_eq!(selected(&browser).await, name, "back where it was");
    }

    // From row to row; the last and the first row of a section.
    browser.press("1").await;
    browser.press("j").await;
    assert_eq!(selected(&browser).await, "PRESTAMO/124");
    browser.press("k").await;
    assert_eq!(selected(&browser).await, "PRESTAMO/123");
    browser.press("G").await;
    assert_eq!(selected(&browser).await, "PRESTAMO/124");
    browser.press("g").await;
    assert_eq!(selected(&browser).await, "PRESTAMO/123");

    // If a key does not apply to the selected row, the page says so.
    browser.press("d").await;
    browser
        .until_text("#news", "The selected row has no such action")
        .await;
    assert_eq!(browser.count("#ask[open]").await, 0);

    browser.press("b").await;
    because(&browser, "by hand").await;
    browser.until_count("#locks-list .row", 1).await;
    let entry = newest(&server).await;
    assert_eq!(
        [&entry["event"], &entry["resource"], &entry["reason"]],
        ["broken", "PRESTAMO/123", "by hand"]
    );
    // Its row is gone, and the next one is selected, so that a keyboard user does not start again.
    assert_eq!(selected(&browser).await, "PRESTAMO/124");
    server.end().await;
}

/// Users of speech input type by accident.
#[tokio::test]
async fn the_keys_can_be_turned_off() {
    let server = Running::start().await;
    lock(&server, "PRESTAMO/123", "Registro de pago").await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#locks-list .row", 1).await;
    browser.press("?").await;
    browser
        .until_text("#keys[open]", "break the selected lock")
        .await;
    browser.click("#keys-on").await;
    browser.press(ESCAPE).await;
    browser.until_count("#keys[open]", 0).await;
    browser.press("1").await;
    assert_ne!(selected(&browser).await, "PRESTAMO/123");
    browser.reload().await;
    browser.until_count("#locks-list .row", 1).await;
    browser.press("1").await;
    assert_ne!(selected(&browser).await, "PRESTAMO/123", "it is remembered");

    browser.click("#keys-open").await;
    browser.click("#keys-on").await;
    browser.click("#keys-close").await;
    browser.press("1").await;
    assert_eq!(selected(&browser).await, "PRESTAMO/123");
    server.end().await;
}

#[tokio::test]
async fn a_key_does_not_do_what_the_role_may_not() {
    let server = guarded().await;
    let browser = look(&server, DESKTOP).await;
    for (role, asks) in [(Role::Operate, 0), (Role::Admin, 1)] {
        let token = token(&server, role.as_str(), role, "").await;
        enter_token(&browser, &token).await;
        browser.until_count("#locks-list .row", 1).await;
        browser.press("1").await;
        browser.press("b").await;
        browser.until_count("#ask[open]", asks).await;
        browser.press(ESCAPE).await;
        browser.until_count("#ask[open]", 0).await;
        browser.click("#sign-out").await;
        browser.until_count("#sign-in[open]", 1).await;
    }
    server.end().await;
}
