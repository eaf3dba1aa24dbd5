//! Access tokens: created, listed, revoked, and what they allow.

use serde_json::{Value, json};

use crate::common::{Fixture, Kind, LONG, text};
use crate::http::{Server, ask};

on_each_store!(
    a_token_is_printed_once_and_opens_what_it_says,
    a_revoked_token_opens_nothing,
);

fn a_token_is_printed_once_and_opens_what_it_says(fixture: Fixture) {
    let create = "token create cashier --role operate --prefix payments/";
    let done = fixture.turno(&format!("{create} --expires 90d")).expect(0);
    let secret = done.out.strip_suffix('\n').unwrap();
    assert!(
        secret.starts_with("turno_") && !secret.contains(char::is_whitespace),
        "{done:?}"
    );
    assert!(
        done.err.contains("not shown again") && !done.err.contains(secret),
        "{done:?}"
    );

    let server = Server::start(&fixture, "");
    let lock = |token, resource| {
        let body = json!({"resource": resource});
        ask(&server.address, "POST /v1/locks", token, &body).unwrap()
    };
    lock(Some(secret), "payments/1").expect(201);
    assert_eq!(
        lock(Some(secret), "loans/1").expect(403)["code"],
        "out_of_scope"
    );
    assert_eq!(lock(None, "payments/1").expect(401)["code"], "unauthorized");
    assert_eq!(
        lock(Some("turno_aaaaaaaaaaaa_bbbb"), "payments/1").status,
        401
    );

    let list = fixture.turno("token list").expect(0);
    for shown in ["cashier", "operate", "payments/", "live"] {
        assert!(list.out.contains(shown), "{list:?}");
    }
    let kept = secret.splitn(3, '_').nth(2).unwrap();
    assert!(!list.out.contains(kept) && !list.err.contains(kept));
    let list = fixture.json(0, "token list");
    assert_eq!(list["tokens"][0]["state"], "live");
    assert!(list["tokens"][0]["expires_at"].is_string());
    assert!(!list.to_string().contains(kept));
}

fn a_revoked_token_opens_nothing(fixture: Fixture) {
    let made = fixture.json(0, "token create ana --role admin");
    let (id, secret) = (text(&made, "id"), text(&made, "secret"));
    assert_eq!(
        (&made["name"], &made["expires_at"]),
        (&"ana".into(), &Value::Null)
    );
    let server = Server::start(&fixture, "");
    let status = || {
        let response = ask(&server.address, "GET /v1/locks", Some(secret), &Value::Null);
        response.unwrap().status
    };
    assert_eq!(status(), 200);
    // The whole text of a token is accepted in place of its id.
    assert_eq!(
        fixture.json(0, &["token", "revoke", secret]),
        json!({"revoked": id})
    );
    turno_testkit::eventually(LONG, "the end of the token", || {
        (status() == 401).then_some(())
    });
    assert_eq!(
        fixture.json(0, "token list")["tokens"][0]["state"],
        "revoked"
    );
    let again = fixture.turno(&["token", "revoke", id]).expect(1);
    assert!(again.err.contains("turno token list"), "{again:?}");
    // Revoking the last one does not open the server.
    let response = ask(&server.address, "GET /v1/locks", None, &Value::Null).unwrap();
    assert_eq!(response.status, 401);
}

#[test]
fn what_no_token_can_be_is_refused() {
    let fixture = Fixture::new(Kind::Sqlite);
    for (words, field) in [
        (&["create", "ana"][..], "role"),
        (&["create", "ana", "--role", "king"], "role"),
        (&["create", "", "--role", "read"], "name"),
        (
            &["create", "ana", "--role", "read", "--expires", "soon"],
            "expires",
        ),
        (
            &["create", "ana", "--role", "read", "--expires", "0s"],
            "expires_in",
        ),
        (
            &["create", "ana", "--role", "read", "--prefix", "a\tb"],
            "prefix",
        ),
        (&["list", "--server", "http://127.0.0.1:1"], "server"),
    ] {
        let refused = fixture
            .turno(&[&["--json", "token"], words].concat())
            .expect(2);
        assert_eq!(refused.error()["field"], field, "{words:?}: {refused:?}");
    }
    let unknown = fixture.turno("token revoke aaaaaaaaaaaa").expect(1);
    assert!(unknown.err.contains("aaaaaaaaaaaa"), "{unknown:?}");
    assert_eq!(fixture.json(0, "token list"), json!({"tokens": []}));
}
