//! Names and payloads are untrusted text, and are shown as text.

use serde_json::json;

use crate::browser::DESKTOP;
use crate::common::Running;
use crate::fixtures::{dead, failed, lock, look, unknown};

const IMAGE: &str = "<img src=x onerror=window.had=1>";
const SCRIPT: &str = "</pre><script>window.had=1</script>";

#[tokio::test]
async fn markup_in_names_and_payloads_is_text() {
    let server = Running::start().await;
    lock(&server, IMAGE, SCRIPT).await;
    failed(&server, IMAGE, json!({ IMAGE: SCRIPT }), IMAGE).await;
    dead(&server, IMAGE, json!(SCRIPT), SCRIPT).await;
    unknown(&server, "<svg onload=window.had=1>").await;
    let browser = look(&server, DESKTOP).await;
    for list in ["#locks-list", "#queues-list", "#failed-list", "#dead-list"] {
        browser.until_text(list, IMAGE).await;
    }
    browser
        .until_text("#once-list", "<svg onload=window.had=1>")
        .await;
    // It can be acted on like any other; the reason is hostile too.
    browser.click("#locks-list .act").await;
    browser.until_text("#ask-what", IMAGE).await;
    browser.type_into("#ask-reason", IMAGE).await;
    browser.click("#ask-go").await;
    browser.until_text("#history-list .reason", IMAGE).await;

    let made = "return [window.had, document.querySelectorAll('main img, main svg[onload], aside img, dialog img, main script').length]";
    let made = browser.run(made, json!([])).await;
    assert_eq!(made, json!([null, 0]));
    assert_eq!(browser.complaints().await, Vec::<String>::new());

    // The control: if the page inserted text as markup, its content security policy would block it.
    let careless = "try { document.querySelector('#news').innerHTML = arguments[0]; return 'made'; } catch (error) { return error.name; }";
    let error = browser.run(careless, json!([IMAGE])).await;
    assert_eq!(error, "TypeError");
    server.end().await;
}

/// A name that cannot occur in a path is not mistaken for another one.
#[tokio::test]
async fn a_name_that_means_up_is_not_followed() {
    let server = Running::start().await;
    lock(&server, "..", "Alta").await;
    let browser = look(&server, DESKTOP).await;
    browser.click("#locks-list .act").await;
    browser.type_into("#ask-reason", "it hangs").await;
    browser.click("#ask-go").await;
    browser
        .until_text("#ask-problem", "This name cannot be part of a URL")
        .await;
    assert_eq!(
        server.get("/v1/locks").await.expect(200)["locks"][0]["resource"],
        ".."
    );
    server.end().await;
}
