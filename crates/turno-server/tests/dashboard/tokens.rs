//! What each role can see and do.

use serde_json::json;
use turno::Turno;
use turno::access::Role;
use turno_server::{Admission, Options};

use crate::browser::{Browser, DESKTOP};
use crate::common::Running;
use crate::fixtures::{everything, look, token};

/// Starts a server that requires access tokens, with one of everything in its store.
pub async fn guarded() -> Running {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let open = Running::on(turno.clone(), Options::default()).await;
    everything(&open).await;
    open.end().await;
    let options = Options {
        admission: Admission::Token,
        ..Options::default()
    };
    Running::on(turno, options).await
}

pub async fn enter_token(browser: &Browser, token: &str) {
    browser.type_into("#token", token).await;
    browser.click("#sign-in-form .go").await;
}

#[tokio::test]
async fn it_works_with_a_token_and_denies_without() {
    let server = guarded().await;
    let token = token(&server, "on-call", Role::Admin, "").await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#sign-in[open]", 1).await;
    let markup = "return document.documentElement.outerHTML";
    let seen = browser.run(markup, json!([])).await;
    assert!(
        !seen.as_str().unwrap().contains("flowpay"),
        "nothing is shown"
    );
    // Escape has no effect, and neither has a wrong token.
    browser.press("\u{e00c}").await;
    browser.until_count("#sign-in[open]", 1).await;
    enter_token(&browser, "turno_wrong").await;
    browser.until_count("#sign-in-problem", 1).await;
    browser.until_count("#sign-in[open]", 1).await;

    enter_token(&browser, &token).await;
    browser.until_text("#locks-list", "PRESTAMO/123").await;
    browser.until_text("#who", "on-call").await;
    browser.reload().await;
    browser.until_text("#locks-list", "PRESTAMO/123").await;
    let kept = "return [location.href, document.cookie, JSON.stringify(localStorage), sessionStorage.length]";
    let kept = browser.run(kept, json!([])).await;
    assert!(!kept.to_string().contains(&token), "{kept}");
    assert_eq!(kept[3], 1);

    browser.click("#sign-out").await;
    browser.until_count("#sign-in[open]", 1).await;
    let seen = browser.run(markup, json!([])).await;
    assert!(
        !seen.as_str().unwrap().contains("flowpay"),
        "it is forgotten"
    );
    let left = browser.run("return sessionStorage.length", json!([])).await;
    assert_eq!(left, 0);
    server.end().await;
}

/// The actions of each role. Those of an admin show that the others could have been offered some.
#[tokio::test]
async fn what_a_role_may_not_do_is_not_offered() {
    let server = guarded().await;
    let browser = look(&server, DESKTOP).await;
    for (role, offered) in [(Role::Read, 0), (Role::Operate, 0), (Role::Admin, 8)] {
        let token = token(&server, role.as_str(), role, "").await;
        enter_token(&browser, &token).await;
        browser.until_count("#locks-list .row", 1).await;
        browser.until_count("#failed-list .failed-item", 1).await;
        browser.until_count("#dead-list .row", 1).await;
        browser.until_count("#once-list .trouble", 1).await;
        browser.until_count(".act", offered).await;
        browser.click("#sign-out").await;
        browser.until_count("#sign-in[open]", 1).await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_token_for_some_names_sees_these() {
    let server = guarded().await;
    let token = token(&server, "pagos", Role::Read, "pagos/").await;
    let browser = look(&server, DESKTOP).await;
    enter_token(&browser, &token).await;
    browser.until_text("#once-list", "pagos/77").await;
    browser
        .until_text("#outbox-empty", "this access token is limited to a prefix")
        .await;
    browser.until_text("#who", "pagos/").await;
    assert_eq!(browser.count("#locks-list .row").await, 0);
    assert_eq!(browser.count("#queues-list .row").await, 0);
    assert_eq!(browser.count("#history-list .row").await, 0);
    server.end().await;
}
