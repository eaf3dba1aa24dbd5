//! Access tokens: authentication of a server's callers.

use std::time::Duration;

use turno::access::{AccessNew, AccessState, Role};

use crate::conformance::lock::fixtures::secs;
use crate::conformance::{TestStore, rule};

fn new(name: &str, role: Role) -> AccessNew {
    AccessNew::new(name, role)
}

/// A new token is found by its text, with all of its rights. Initially there are no tokens.
#[rule]
async fn an_access_token_is_known_by_its_text(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    assert!(!turno.access_any().await.unwrap());
    let asked = AccessNew {
        prefix: "payments/".into(),
        expires_in: Some(secs(3600)),
        ..new("cashier", Role::Operate)
    };
    let (view, text) = turno.access_create(asked).await.unwrap();
    assert!(text.as_str().starts_with(&format!("turno_{}_", view.id)));
    assert!(!format!("{text:?}").contains(&text.as_str()[20..]));
    assert_eq!(
        (
            view.name.as_str(),
            view.role,
            view.prefix.as_str(),
            view.state
        ),
        ("cashier", Role::Operate, "payments/", AccessState::Live)
    );
    assert_eq!(
        view.expires_at
            .unwrap()
            .duration_since(view.created_at)
            .as_secs(),
        3600
    );
    assert_eq!(
        other.access_verify(text.as_str()).await.unwrap().as_ref(),
        Some(&view)
    );
    assert!(other.access_any().await.unwrap());
    let (second, _) = turno
        .access_create(new("watcher", Role::Read))
        .await
        .unwrap();
    assert_eq!(turno.access_list().await.unwrap(), [second, view]);
}

/// Any text that differs from a token's is rejected.
#[rule]
async fn a_wrong_text_is_nobodys(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (view, text) = turno.access_create(new("a", Role::Admin)).await.unwrap();
    let (_, stranger) = turno.access_create(new("b", Role::Admin)).await.unwrap();
    let text = text.as_str();
    let secret = text.rsplit(&view.id).next().unwrap();
    let other_id = if view.id.starts_with('0') { "1" } else { "0" }.to_owned() + &view.id[1..];
    let wrong = [
        String::new(),
        "turno".into(),
        "turno_".into(),
        format!("turno_{}", view.id),
        format!("turno_{}_", view.id),
        // Truncated, extended, changed.
        text[..text.len() - 1].to_owned(),
        format!("{text}A"),
        format!(" {text}"),
        format!("{text}\n"),
        text.to_uppercase(),
        // The id of one token and the secret of another, or an unknown secret.
        format!(
            "turno_{}{}",
            view.id,
            &stranger.as_str()["turno_".len() + view.id.len()..]
        ),
        format!("turno_{other_id}{secret}"),
        format!("turno_zzzzzzzzzzzz{secret}"),
        format!("turno_\0{secret}"),
        format!("turno_{}_{}", view.id, "x".repeat(100_000)),
    ];
    for wrong in wrong {
        assert_eq!(
            turno.access_verify(&wrong).await.unwrap(),
            None,
            "{wrong:.80}"
        );
    }
    assert_eq!(turno.access_verify(text).await.unwrap(), Some(view));
}

/// A revoked token is invalid permanently, for all callers. It stays in the list.
#[rule]
async fn a_revoked_token_is_over(test_store: &TestStore) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let (view, text) = turno.access_create(new("a", Role::Admin)).await.unwrap();
    assert!(!turno.access_revoke("000000000000").await.unwrap());
    assert!(turno.access_revoke(&view.id).await.unwrap());
    assert!(!other.access_revoke(&view.id).await.unwrap());
    assert_eq!(other.access_verify(text.as_str()).await.unwrap(), None);
    let listed = other.access_list().await.unwrap().remove(0);
    assert_eq!(listed.state, AccessState::Revoked);
    assert!(listed.revoked_at.unwrap() >= listed.created_at);
    assert!(other.access_any().await.unwrap());
}

/// A token is invalid after its expiry, by the store's clock.
#[rule]
async fn an_expired_token_is_over(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let asked = AccessNew {
        expires_in: Some(secs(60)),
        ..new("a", Role::Admin)
    };
    let (_, text) = turno.access_create(asked).await.unwrap();
    assert!(turno.access_verify(text.as_str()).await.unwrap().is_some());
    test_store
        .run("update turno.access set expires_at = {now}")
        .await;
    assert_eq!(turno.access_verify(text.as_str()).await.unwrap(), None);
    let listed = turno.access_list().await.unwrap().remove(0);
    assert_eq!(listed.state, AccessState::Expired);
}

/// The stored form of a secret does not contain it.
#[rule]
async fn a_secret_is_not_stored(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (view, text) = turno.access_create(new("a", Role::Read)).await.unwrap();
    let secret = &text.as_str()["turno_".len() + view.id.len() + 1..];
    let whole = if test_store.is_sqlite() {
        "select count(*) from turno.access where length(hash) = 32 and instr(hash, cast('{}' as blob)) = 0"
    } else {
        "select count(*) from turno.access where octet_length(hash) = 32 and position(convert_to('{}', 'utf8') in hash) = 0"
    };
    assert_eq!(test_store.number(&whole.replace("{}", secret)).await, 1);
}

/// The error for an invalid argument names the field, and nothing is stored.
#[rule]
async fn an_access_token_out_of_rule_is_refused(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let good = || new("a", Role::Read);
    let attempts = [
        ("name", new("", Role::Read)),
        ("name", new("a\nb", Role::Read)),
        (
            "prefix",
            AccessNew {
                prefix: "a\0".into(),
                ..good()
            },
        ),
        (
            "prefix",
            AccessNew {
                prefix: "x".repeat(256),
                ..good()
            },
        ),
        (
            "expires_in",
            AccessNew {
                expires_in: Some(Duration::ZERO),
                ..good()
            },
        ),
        (
            "expires_in",
            AccessNew {
                expires_in: Some(Duration::MAX),
                ..good()
            },
        ),
    ];
    for (field, asked) in attempts {
        let error = turno.access_create(asked.clone()).await.unwrap_err();
        assert_eq!(
            (error.is_invalid(), error.field()),
            (true, Some(field)),
            "{asked:?}"
        );
    }
    assert!(!turno.access_any().await.unwrap());
    assert_eq!("boss".parse::<Role>().unwrap_err().field(), Some("role"));
    assert!(Role::Read < Role::Operate && Role::Operate < Role::Admin);
}

/// The application's and the operator's role can look up a token, but cannot create, list or revoke one. SQLite has no
/// roles: a process that can open the file has all rights.
#[rule(postgres)]
async fn an_application_cannot_make_access_tokens(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (view, _) = turno.access_create(new("a", Role::Read)).await.unwrap();
    let app = test_store.postgres_connection_as("app").await;
    let operator = test_store.postgres_connection_as("operator").await;
    for sql in [
        "select turno.access_create('x', sha256('y'), 'z', 'admin')".to_owned(),
        "select turno.access_list()".into(),
        "select turno.access_revoke('x')".into(),
    ] {
        for client in [&app, &operator] {
            let error = client.simple_query(&sql).await.unwrap_err();
            assert_eq!(error.code().unwrap().code(), "42501", "{sql}");
        }
    }
    for client in [&app, &operator] {
        for sql in [
            "select * from turno.access",
            "update turno.access set role = 'admin'",
        ] {
            let error = client.simple_query(sql).await.unwrap_err();
            assert_eq!(error.code().unwrap().code(), "42501", "{sql}");
        }
        for sql in [
            format!("select * from turno.access_find('{}')", view.id),
            "select turno.access_any()".into(),
        ] {
            client.simple_query(&sql).await.unwrap();
        }
    }
    assert_eq!(turno.access_list().await.unwrap(), [view]);
}
