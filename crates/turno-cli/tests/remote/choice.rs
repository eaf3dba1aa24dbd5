//! Store or server: which one a command uses, and with which token.

use std::fs;

use serde_json::json;
use turno_testkit::eventually;

use crate::common::arguments::Arguments;
use crate::common::{Done, Fixture, Kind, LONG, text};
use crate::pair::Served;

fn served() -> Served {
    Served::start(Fixture::new(Kind::Sqlite))
}

#[track_caller]
fn json(served: &Served, code: i32, arguments: impl Arguments) -> Done {
    let mut command = served.command("--json");
    let done = command.args(arguments.words()).output();
    Done::of(done.unwrap()).expect(code)
}

#[test]
fn what_works_on_a_store_only_says_so() {
    let served = served();
    for words in [
        &["migrate"][..],
        &["outbox", "relay", "--sink", "stdout:"],
        &[
            "gate",
            "--upstream",
            "http://127.0.0.1:1",
            "--routes",
            "x.toml",
        ],
        &["adopt", "notes", "--id", "id"],
        &["demo"],
        &["serve"],
        &["token", "list"],
    ] {
        let error = json(&served, 2, words).error();
        assert_eq!(text(&error, "field"), "server", "{words:?}: {error}");
        assert!(text(&error, "detail").contains("--store"), "{error}");
    }
    // A store in the options of the command takes precedence.
    let store = served.fixture.store.clone();
    json(&served, 0, &["--store", &store, "migrate"]);
}

#[test]
fn one_of_them_is_named() {
    let served = served();
    let both = json(
        &served,
        2,
        &format!("--store sqlite:x.db --server {} lock list", served.url),
    );
    assert_eq!(text(&both.error(), "field"), "server");
    // An option takes precedence over the variable of the other.
    json(
        &served,
        0,
        &["--store", &served.fixture.store, "lock", "acquire", "here"],
    );
    let elsewhere = Fixture::new(Kind::Sqlite);
    let through = elsewhere.turno(&["--json", "--server", &served.url, "lock", "list"]);
    assert_eq!(
        through.expect(0).json()["locks"][0]["resource"],
        json!("here")
    );
    assert!(
        !elsewhere.path("store.db").exists(),
        "its own store was not touched"
    );
    // And a variable over the file.
    let file = format!("server = {:?}", served.url);
    fs::write(elsewhere.path("turno.toml"), file).unwrap();
    elsewhere.turno("migrate").expect(0);
    let mine = elsewhere.json(0, "lock list");
    assert_eq!(mine, json!({"locks": []}));
    let mut unsaid = elsewhere.command("--json lock list");
    let through = Done::of(unsaid.env_remove("TURNO_STORE").output().unwrap());
    assert_eq!(
        through.expect(0).json()["locks"][0]["resource"],
        json!("here")
    );
}

#[test]
fn an_unreachable_server_is_reported() {
    let fixture = Fixture::new(Kind::Sqlite);
    // No process listens on a port that was just released.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    drop(port);
    let error = fixture.turno(&["--json", "--server", &url, "lock", "list"]);
    let error = error.expect(1).error();
    assert_eq!(text(&error, "code"), "unavailable");
    assert!(text(&error, "detail").contains(&url), "{error}");
    let sick = fixture
        .turno(&["--json", "--server", &url, "doctor"])
        .expect(1)
        .json();
    assert_eq!(text(&sick["findings"][0], "check"), "server");
    for bad in ["ftp://x", "x", "http://ana:s3cret@x"] {
        let error = fixture.turno(&["--json", "--server", bad, "lock", "list"]);
        let error = error.expect(2).error();
        assert_eq!(text(&error, "field"), "server");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}

#[test]
fn a_doctor_examines_the_store_behind() {
    let served = served();
    let report = json(&served, 0, "doctor").json();
    let of_store = served.fixture.json(0, "doctor");
    let checks = |report: &serde_json::Value| {
        let findings = report["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| text(finding, "check").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(checks(&report), checks(&of_store));
    assert!(served.turno("doctor").expect(0).out.contains("schema"));
}

#[test]
fn a_token_is_sent_to_the_server_only() {
    let served = served();
    let create = |words: &[&str]| {
        let created = served
            .fixture
            .json(0, &[&["token", "create"], words].concat());
        let text = created
            .as_object()
            .unwrap()
            .values()
            .filter_map(|value| value.as_str());
        let mut text = text.filter(|text| text.starts_with("turno_"));
        text.next()
            .unwrap_or_else(|| panic!("no token in {created}"))
            .to_owned()
    };
    let operator = create(&["cashier", "--role", "operate", "--prefix", "pay/"]);
    // A server without tokens checks from time to time whether there is one now.
    eventually(LONG, "the server to want a token", || {
        let shut_out = served.turno("--json lock list");
        (shut_out.code == Some(1) && text(&shut_out.error(), "code") == "unauthorized")
            .then_some(())
    });

    let with = |token: &str, words: &[&str]| {
        Done::of(
            served
                .command(words)
                .env("TURNO_TOKEN", token)
                .output()
                .unwrap(),
        )
    };
    let words = ["-vv", "--json", "lock", "acquire", "pay/1"];
    let mine = with(&operator, &words).expect(0);
    let secret = operator.rsplit('_').next().unwrap();
    assert!(
        !mine.err.contains(secret) && !mine.out.contains(secret),
        "{mine:?}"
    );
    let beyond = with(&operator, &["--json", "lock", "acquire", "hr/1"]).expect(1);
    assert_eq!(text(&beyond.error(), "code"), "out_of_scope");
    let forbidden = with(&operator, &["--json", "sweep", "--once"]).expect(1);
    assert_eq!(text(&forbidden.error(), "code"), "forbidden");
    let empty = with("", &["--json", "lock", "list"]).expect(2);
    assert_eq!(text(&empty.error(), "field"), "TURNO_TOKEN");

    // A claim can be settled if the command names a queue that the token allows.
    with(&operator, &["inbox", "push", "pay/q", "1"]).expect(0);
    let claimed = with(&operator, &["--json", "inbox", "claim", "pay/q"])
        .expect(0)
        .json();
    let claim = text(&claimed["items"][0], "claim");
    let unsaid = with(&operator, &["--json", "inbox", "complete", claim]).expect(1);
    assert_eq!(text(&unsaid.error(), "code"), "out_of_scope");
    with(&operator, &["inbox", "complete", claim, "--queue", "pay/q"]).expect(0);

    // Also from a file; but never from an option.
    fs::write(served.fixture.path("token"), format!("{operator}\n")).unwrap();
    fs::write(served.fixture.path("turno.toml"), "token_file = \"token\"").unwrap();
    json(&served, 0, "lock status pay/1");
    served.turno("--token x lock list").expect(2);
}

#[test]
fn answers_are_sealed_by_the_server() {
    let served = served();
    let key = "a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let mut command = served.command("--json once k -- true");
    let refused = Done::of(command.env("TURNO_ANSWER_KEYS", key).output().unwrap());
    assert_eq!(
        text(&refused.expect(2).error(), "field"),
        "TURNO_ANSWER_KEYS"
    );
}
