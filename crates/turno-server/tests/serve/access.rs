//! Authentication.

use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::json;
use tokio::net::TcpListener;
use turno::Turno;
use turno::access::{AccessNew, Role};
use turno_server::{Admission, CurrentAdmission, Options, Server};
use turno_testkit::{PostgresServer, eventually_async};

use crate::common::{LONG, Running, TestResponse};
use crate::raw::Raw;

async fn token(turno: &Turno, name: &str) -> String {
    let (_, text) = turno
        .access_create(AccessNew::new(name, Role::Admin))
        .await
        .unwrap();
    text.as_str().to_owned()
}

async fn show(server: &Running, shown: &str) -> TestResponse {
    let request = server
        .request("GET", "/v1/locks")
        .header("authorization", shown);
    server.send(request, "").await
}

/// Returns invalid access tokens that resemble the valid one.
async fn wrong(turno: &Turno, good: &str) -> Vec<String> {
    let expiring = AccessNew {
        expires_in: Some(Duration::from_millis(1)),
        ..AccessNew::new("short", Role::Admin)
    };
    let (_, expired) = turno.access_create(expiring).await.unwrap();
    eventually_async(LONG, "an expired token", async || {
        let known = turno.access_verify(expired.as_str()).await.unwrap();
        known.is_none().then_some(())
    })
    .await;
    let (view, revoked) = turno
        .access_create(AccessNew::new("gone", Role::Admin))
        .await
        .unwrap();
    assert!(turno.access_revoke(&view.id).await.unwrap());
    // The second one: the secret may contain more of them.
    let (end, _) = good.match_indices('_').nth(1).unwrap();
    let (id, secret) = (&good[..end], &good[end + 1..]);
    vec![
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        "Bearer turno".into(),
        "Bearer turno_".into(),
        "Basic dHVybm86dHVybm8=".into(),
        good.to_owned(),
        format!("Bearer {id}_"),
        format!("Bearer {id}_{}", secret.to_lowercase()),
        format!("Bearer {id}_{}", secret.to_uppercase()),
        format!("Bearer {}", good.to_uppercase()),
        format!("Bearer {}", &good[..good.len() - 1]),
        format!("Bearer {good}x"),
        format!("Bearer {good} {good}"),
        format!("Bearer {}", "x".repeat(6_000)),
        format!("Bearer {}", expired.as_str()),
        format!("Bearer {}", revoked.as_str()),
    ]
}

#[tokio::test]
async fn a_caller_without_a_valid_token_is_rejected() {
    let postgres = PostgresServer::shared().create_database();
    for url in ["sqlite::memory:", &postgres] {
        let turno = Turno::connect(url).await.unwrap();
        let good = token(&turno, "good").await;
        let server = Running::on(turno, Options::default()).await;
        server.get("/v1/locks").await.problem(401, "unauthorized");
        let wrong = wrong(&server.turno, &good).await;
        for shown in &wrong {
            let response = show(&server, shown).await;
            response.problem(401, "unauthorized");
            assert_eq!(
                response.headers["www-authenticate"],
                "Bearer realm=\"turno\""
            );
        }
        let twice = server
            .request("GET", "/v1/locks")
            .header("authorization", format!("Bearer {good}"))
            .header("authorization", format!("Bearer {good}"));
        server.send(twice, "").await.problem(401, "unauthorized");
        for scheme in ["Bearer", "bearer", "BEARER"] {
            show(&server, &format!("{scheme} {good}")).await.expect(200);
        }
        // The response does not reveal which paths exist.
        server.get("/v1/nothing").await.problem(401, "unauthorized");
        server.get("/healthz").await.expect(200);
        server.get("/readyz").await.expect(200);
        server.get("/openapi.json").await.expect(200);
        server.end().await;
    }
}

/// A request head that is too long is not read to its end.
#[tokio::test]
async fn a_head_has_a_bound() {
    let server = Running::start().await;
    let shown = format!("Bearer {}", "x".repeat(10_000));
    show(&server, &shown).await.expect(431);
    server.get("/healthz").await.expect(200);
    server.end().await;
}

/// The control of the tests without a valid token: only the token was missing.
#[tokio::test]
async fn all_callers_are_admitted_if_configured() {
    let server = Running::start_with(Options {
        admission: Admission::All,
        ..Options::default()
    })
    .await;
    let good = token(&server.turno, "good").await;
    server.get("/v1/locks").await.expect(200);
    for shown in wrong(&server.turno, &good).await {
        show(&server, &shown).await.expect(200);
    }
    server.end().await;
}

#[tokio::test]
async fn the_first_token_closes_an_open_server_and_revoking_it_does_not_open_it() {
    let server = Running::start().await;
    server.get("/v1/locks").await.expect(200);
    show(&server, "Bearer wrong")
        .await
        .problem(401, "unauthorized");
    let (view, text) = server
        .turno
        .access_create(AccessNew::new("first", Role::Admin))
        .await
        .unwrap();
    eventually_async(LONG, "a closed server", async || {
        let response = server.get("/v1/locks").await;
        (response.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    let shown = format!("Bearer {}", text.as_str());
    show(&server, &shown).await.expect(200);
    server.turno.access_revoke(&view.id).await.unwrap();
    eventually_async(LONG, "a token that is over", async || {
        let response = show(&server, &shown).await;
        (response.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    server.get("/v1/locks").await.problem(401, "unauthorized");
    server.end().await;
}

#[tokio::test]
async fn an_open_server_answers_this_machine_only() {
    let server = Running::start().await;
    let own = server.address;
    let ask = |headers: &[(&str, &str)]| {
        let mut request = server.request("GET", "/v1/locks");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        server.send(request, "")
    };
    for host in [
        "localhost",
        "LOCALHOST:7117",
        "127.0.0.1",
        "127.8.8.8:80",
        "[::1]:7117",
    ] {
        ask(&[("host", host)]).await.expect(200);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:7117",
        "192.168.1.7",
        "0.0.0.0",
        "[::]",
        "localhost:7117@evil.example",
    ] {
        ask(&[("host", host)]).await.problem(421, "misdirected");
    }
    // A page of another site, or a request through a proxy.
    let origin = format!("http://{own}");
    ask(&[("origin", &origin)]).await.expect(200);
    for foreign in [
        ("origin", "https://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("forwarded", "for=192.0.2.1"),
        ("x-forwarded-for", "192.0.2.1"),
    ] {
        ask(&[foreign]).await.problem(421, "misdirected");
    }
    let mut nameless = Raw::saying(own, "GET /v1/locks HTTP/1.0\r\n\r\n").await;
    assert!(nameless.until_closed().await.starts_with("HTTP/1.0 421"));

    // A caller with a token is identified by it, whatever its `Host` is.
    let good = token(&server.turno, "good").await;
    let shown = format!("Bearer {good}");
    ask(&[("host", "turno.example"), ("authorization", &shown)])
        .await
        .expect(200);
    server.end().await;
}

#[tokio::test]
async fn nothing_is_served_to_other_machines_without_a_token() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let server = Server::new(turno.clone(), Options::default());
    let local = server.check("[::1]:7117".parse().unwrap()).await;
    assert_eq!(local.unwrap(), CurrentAdmission::Local);
    let refused = server.check(everywhere).await.unwrap_err();
    assert_eq!(refused.field(), Some("listen"));
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let served = server.run(listener, std::future::pending()).await;
    assert_eq!(served.unwrap_err().field(), Some("listen"));

    let insecure = Options {
        admission: Admission::All,
        ..Options::default()
    };
    let insecure = Server::new(turno.clone(), insecure).check(everywhere).await;
    assert_eq!(insecure.unwrap(), CurrentAdmission::All);
    token(&turno, "first").await;
    let server = Server::new(turno, Options::default());
    assert_eq!(
        server.check(everywhere).await.unwrap(),
        CurrentAdmission::Token
    );
}

/// Many clients can share one address: invalid tokens of one must not lock out the valid token of another, even one
/// that this server has not seen before.
#[tokio::test]
async fn wrong_tokens_do_not_lock_out_right_ones_of_the_same_address() {
    let server = Running::start().await;
    let known = format!("Bearer {}", token(&server.turno, "known").await);
    show(&server, &known).await.expect(200);
    let guesses = (0..300).map(|n| {
        let guess = format!("Bearer turno_{n:012x}_{}", "x".repeat(43));
        let server = &server;
        async move { show(server, &guess).await.expect(401) }
    });
    join_all(guesses).await;
    show(&server, &known).await.expect(200);
    let new = format!("Bearer {}", token(&server.turno, "new").await);
    show(&server, &new).await.expect(200);
    server.end().await;
}

/// The DNS name of another site can be made to resolve to this server; its page then has the same origin as the server.
#[tokio::test]
async fn an_open_server_answers_only_to_its_own_host_names() {
    let server = Running::start_with(Options {
        admission: Admission::All,
        hosts: vec!["turno.example".to_owned()],
        ..Options::default()
    })
    .await;
    for (host, status) in [
        ("evil.example:7117", 421),
        ("evil.example", 421),
        ("turno.example:7117", 200),
        ("TURNO.example", 200),
        ("turno:7117", 200),
        ("localhost:7117", 200),
        ("10.0.0.5:7117", 200),
        ("[::1]:7117", 200),
    ] {
        let request = server.request("GET", "/v1/locks").header("host", host);
        let response = server.send(request, "").await;
        assert_eq!(response.status, status, "{host}");
    }
    server.end().await;
}

#[tokio::test]
async fn each_caller_has_a_rate_of_its_own() {
    let server = Running::start_with(Options {
        rate: Some(1),
        ..Options::default()
    })
    .await;
    let (one, other) = (
        format!("Bearer {}", token(&server.turno, "one").await),
        format!("Bearer {}", token(&server.turno, "other").await),
    );
    let response = join_all((0..50).map(|_| show(&server, &one))).await;
    let limited = response.iter().find(|response| response.status == 429);
    let limited = limited.expect("fifty at once are more than one a second");
    limited.problem(429, "rate_limited");
    assert_eq!(limited.headers["retry-after"], "1");
    show(&server, &other).await.expect(200);
    server.get("/healthz").await.expect(200);
    server.end().await;
}

#[tokio::test]
async fn an_overloaded_server_asks_for_a_retry() {
    let server = Running::start_with(Options {
        max_in_flight: 1,
        ..Options::default()
    })
    .await;
    let waits = json!({"worker": "w", "wait": "60s"});
    let waiting = server.post("/v1/inbox/q/claim", waits);
    let beside = async {
        server.until_a_caller_waits().await;
        let response = server.get("/v1/locks").await;
        response.problem(503, "overloaded");
        assert!(response.headers.contains_key("retry-after"));
        server.get("/healthz").await.expect(200);
        server.turno.inbox("q").push(&1).await.unwrap();
    };
    let (claimed, ()) = tokio::join!(waiting, beside);
    assert_eq!(claimed.expect(200)["items"][0]["payload"], 1);
    server.get("/v1/locks").await.expect(200);
    server.end().await;
}
