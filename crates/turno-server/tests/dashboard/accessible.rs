//! Accessibility: axe-core finds no violations, at any width, in the light and dark themes, in both languages.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use turno::access::Role;

use crate::browser::{Browser, DESKTOP, PHONE, Screen};
use crate::common::Running;
use crate::fixtures::{everything, look, token};

/// Returns axe-core, which is cached in the build folder and installed only if another version is needed.
fn axe() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard-axe");
    fs::create_dir_all(&folder).unwrap();
    // Concurrent tests take turns.
    let turn = File::create(folder.join(".turn")).unwrap();
    turn.lock().unwrap();
    let wanted = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard/axe");
    for name in ["package.json", "package-lock.json"] {
        fs::copy(wanted.join(name), folder.join(name)).unwrap();
    }
    let lock = fs::read_to_string(folder.join("package-lock.json")).unwrap();
    let installed = folder.join(".installed");
    if !fs::read_to_string(&installed).is_ok_and(|there| there == lock) {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        let done = npm.current_dir(&folder).output();
        let done = done.expect("npm is there: `apt-get install nodejs npm`");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "npm ci failed: {said}");
        fs::write(installed, lock).unwrap();
    }
    fs::read_to_string(folder.join("node_modules/axe-core/axe.min.js")).unwrap()
}

/// Returns the violations that axe-core finds: rules and elements.
async fn complaints(browser: &Browser, axe: &str) -> Vec<String> {
    let script = format!(
        "const done = arguments[0]; if (!window.axe) {{ {axe} }} \
         window.axe.run(document, {{ resultTypes: ['violations'] }}).then((found) => done(found.violations), (error) => done(String(error)));"
    );
    let found = browser.run_async(&script, json!([])).await;
    let violations = found.as_array().unwrap_or_else(|| panic!("{found}"));
    let described = |one: &Value| {
        let nodes = one["nodes"].as_array().unwrap().iter();
        let places: Vec<String> = nodes.map(|node| node["target"].to_string()).collect();
        format!("{}: {} at {}", one["id"], one["help"], places.join(" "))
    };
    violations.iter().map(described).collect()
}

/// A language, and a theme.
type Choice = (&'static str, &'static str);

async fn look_everywhere(screen: Screen, choices: &[Choice]) {
    let axe = axe();
    let server = Running::start().await;
    let empty = look(&server, screen).await;
    empty.until_text("#history-empty", "turno").await;
    assert_eq!(
        complaints(&empty, &axe).await,
        Vec::<String>::new(),
        "empty"
    );
    drop(empty);

    everything(&server).await;
    let browser = look(&server, screen).await;
    browser.until_count("#failed-list .failed-item", 1).await;
    browser.until_count("#dead-list .row", 1).await;
    for &(language, theme) in choices {
        let choose = "localStorage.setItem('turno.language', arguments[0]); localStorage.setItem('turno.theme', arguments[1])";
        browser.run(choose, json!([language, theme])).await;
        browser.reload().await;
        browser.until_count("#dead-list .row", 1).await;
        browser.until_count("#failed-list .failed-item", 1).await;
        let lang = browser
            .run("return document.documentElement.lang", json!([]))
            .await;
        assert_eq!(lang, language);
        let found = complaints(&browser, &axe).await;
        assert_eq!(found, Vec::<String>::new(), "{language} {theme}");
        browser.click("#dead-list .act.bad").await;
        let found = complaints(&browser, &axe).await;
        assert_eq!(
            found,
            Vec::<String>::new(),
            "the dialog, {language} {theme}"
        );
        browser.click("#ask-cancel").await;
        browser.click("#keys-open").await;
        let found = complaints(&browser, &axe).await;
        assert_eq!(found, Vec::<String>::new(), "the keys, {language} {theme}");
        browser.click("#keys-close").await;
        // No horizontal overflow: a page is never wider than its screen.
        let wide = browser
            .run(
                "return document.documentElement.scrollWidth - innerWidth",
                json!([]),
            )
            .await;
        assert!(wide.as_i64().unwrap() <= 0, "{wide} pixels too wide");
    }
    server.end().await;
}

#[tokio::test]
async fn axe_finds_nothing_at_a_desk() {
    let choices = [
        ("en", "light"),
        ("en", "dark"),
        ("es", "light"),
        ("es", "dark"),
    ];
    look_everywhere(DESKTOP, &choices).await;
}

#[tokio::test]
async fn axe_finds_nothing_on_a_phone() {
    look_everywhere(PHONE, &[("en", "dark"), ("es", "light")]).await;
}

#[tokio::test]
async fn axe_finds_nothing_at_the_door_and_something_where_something_is() {
    let axe = axe();
    let server = Running::start().await;
    token(&server, "reader", Role::Read, "").await;
    let small = Screen {
        width: 320,
        height: 640,
    };
    let browser = look(&server, small).await;
    browser.until_count("#sign-in[open]", 1).await;
    assert_eq!(complaints(&browser, &axe).await, Vec::<String>::new());
    // The control: axe-core does find a violation.
    browser
        .run(
            "document.querySelector('#token').previousElementSibling.remove()",
            json!([]),
        )
        .await;
    let found = complaints(&browser, &axe).await;
    assert!(found.iter().any(|one| one.contains("label")), "{found:?}");
    server.end().await;
}

/// With the keyboard alone: to the search, to a row's button, through the dialog, and back to the previous focus.
#[tokio::test]
async fn a_keyboard_is_enough() {
    const TAB: &str = "\u{e004}";
    const ENTER: &str = "\u{e007}";
    const ESCAPE: &str = "\u{e00c}";
    let server = Running::start().await;
    everything(&server).await;
    let browser = look(&server, DESKTOP).await;
    browser.until_count("#locks-list .row", 1).await;
    let focus =
        "return document.activeElement.id || document.activeElement.getAttribute('aria-label')";
    browser.press("/").await;
    assert_eq!(browser.run(focus, json!([])).await, "search");
    for _ in 0..30 {
        browser.press(TAB).await;
        if browser.run(focus, json!([])).await == "Break… PRESTAMO/123" {
            break;
        }
    }
    browser.press(ENTER).await;
    browser.until_count("#ask[open]", 1).await;
    assert_eq!(browser.run(focus, json!([])).await, "ask-reason");
    browser.press(ESCAPE).await;
    browser.until_count("#ask[open]", 0).await;
    assert_eq!(browser.run(focus, json!([])).await, "Break… PRESTAMO/123");
    server.end().await;
}
