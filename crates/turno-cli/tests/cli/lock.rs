//! `turno lock …`: its output and exit codes.

use serde_json::json;
use turno_testkit::eventually;

use crate::common::{Done, Fixture, LONG, text};

on_each_store!(
    a_lock_is_taken_shown_and_given_back,
    tables_are_readable,
    busy_is_reported_in_the_readers_language,
    the_same_owner_enters_again,
    a_lease_is_lengthened,
    a_wrong_token_is_lost_and_not_an_error,
    a_lock_is_broken_by_its_token_only,
    a_lock_is_waited_for,
    a_busy_lock_is_tried_again,
    a_stopped_waiter_leaves_the_line,
    shared_holds_and_permits,
    lists_and_histories_have_pages,
    an_expired_lock_is_taken_over,
);

fn acquire(fixture: &Fixture, options: &str) -> serde_json::Value {
    fixture.json(0, &format!("lock acquire PRESTAMO/123 {options}"))
}

fn a_lock_is_taken_shown_and_given_back(fixture: Fixture) {
    let lease = acquire(
        &fixture,
        "--ttl 300s --owner me --user 1 --service pagos --description 'Registro de pago'",
    );
    let token = lease["token"].as_i64().unwrap();
    assert_eq!(text(&lease, "id"), format!("PRESTAMO/123@{token}"));
    assert_eq!(
        (text(&lease, "resource"), text(&lease, "owner")),
        ("PRESTAMO/123", "me")
    );
    assert!(
        text(&lease, "expires_at") > text(&lease, "acquired_at"),
        "{lease}"
    );
    assert!(text(&lease, "expires_at").ends_with('Z'), "{lease}");

    let busy = fixture.json(75, "lock acquire PRESTAMO/123 --user 2");
    assert_eq!(text(&busy, "code"), "busy");
    let holder = &busy["holder"];
    assert_eq!(
        [
            text(holder, "user"),
            text(holder, "service"),
            text(holder, "description")
        ],
        ["1", "pagos", "Registro de pago"]
    );
    assert_eq!(holder["expires_at"], lease["expires_at"]);
    assert!(
        (1..=300_000).contains(&busy["retry_after_ms"].as_i64().unwrap()),
        "{busy}"
    );

    let status = fixture.json(0, "lock status PRESTAMO/123");
    assert_eq!(
        (&status["locked"], &status["waiters"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(status["holder"], status["holders"][0]);
    assert_eq!(
        (text(&status["holder"], "user"), &status["holder"]["token"]),
        ("1", &json!(token))
    );

    let listed = fixture.json(0, "lock list --prefix PRESTAMO/");
    assert_eq!(listed["locks"][0]["token"], json!(token));
    assert_eq!(
        fixture.json(0, "lock list --prefix PAGO/"),
        json!({"locks": []})
    );

    let released = fixture.json(
        0,
        &format!("lock release PRESTAMO/123 --lease {}", text(&lease, "id")),
    );
    assert_eq!(
        (&released["id"], &released["holds"]),
        (&lease["id"], &json!(0))
    );
    let status = fixture.json(0, "lock status PRESTAMO/123");
    assert_eq!(
        status,
        json!({"resource": "PRESTAMO/123", "locked": false, "holders": [], "waiters": 0})
    );

    let history = fixture.json(0, "lock history PRESTAMO/123");
    let ended = &history["history"][0];
    assert_eq!(
        (text(ended, "event"), text(ended, "user")),
        ("released", "1")
    );
    assert_eq!(
        (&ended["token"], text(ended, "owner")),
        (&json!(token), "me")
    );

    // The next token is greater.
    assert!(acquire(&fixture, "")["token"].as_i64().unwrap() > token);
}

fn tables_are_readable(fixture: Fixture) {
    let lease = fixture
        .turno("lock acquire PRESTAMO/123 --ttl 300s --user 1")
        .expect(0);
    assert!(lease.out.starts_with("lease    PRESTAMO/123@"), "{lease:?}");
    assert!(lease.out.contains("\nexpires  in 300 s ("), "{lease:?}");
    let listed = fixture.turno("lock list").expect(0);
    let lines: Vec<&str> = listed.out.lines().collect();
    assert!(
        lines[0].starts_with("RESOURCE      MODE       "),
        "{listed:?}"
    );
    assert!(
        lines[1].starts_with("PRESTAMO/123  exclusive  "),
        "{listed:?}"
    );
    // Aligned: each column begins where its title does.
    assert_eq!(
        lines[0].find("USER"),
        lines[1].find(" 1  ").map(|at| at + 1),
        "{listed:?}"
    );
    assert!(
        fixture
            .turno("lock status PRESTAMO/123")
            .expect(0)
            .out
            .contains("PRESTAMO/123 is locked")
    );
    assert!(
        fixture
            .turno("lock status other")
            .expect(0)
            .out
            .contains("other is free")
    );
    assert!(
        fixture
            .turno("lock history")
            .expect(0)
            .out
            .contains("acquired")
    );
    // No colour without a terminal; colour on request.
    assert!(!listed.out.contains('\x1b'), "{listed:?}");
    assert!(
        fixture
            .turno("lock list --color always")
            .expect(0)
            .out
            .contains('\x1b')
    );
}

fn busy_is_reported_in_the_readers_language(fixture: Fixture) {
    acquire(&fixture, "--ttl 285s --user 1");
    let english = fixture.turno("lock acquire PRESTAMO/123").expect(75);
    assert_eq!(english.out, "");
    assert!(
        english
            .err
            .contains("locked by another operation. Time left: 28"),
        "{english:?}"
    );
    assert!(english.err.trim_end().ends_with("User: 1"), "{english:?}");
    for (name, locale) in [
        ("LC_ALL", "es_MX.UTF-8"),
        ("LC_MESSAGES", "es"),
        ("LANG", "es_ES"),
    ] {
        let mut command = fixture.command("lock acquire PRESTAMO/123");
        command
            .env_remove("LC_ALL")
            .env_remove("LC_MESSAGES")
            .env_remove("LANG")
            .env(name, locale);
        let spanish = Done::of(command.output().unwrap()).expect(75);
        assert!(
            spanish
                .err
                .contains("El recurso está bloqueado por otra operación. Tiempo restante: 28"),
            "{spanish:?}"
        );
        assert!(
            spanish.err.trim_end().ends_with("segundos. Usuario: 1"),
            "{spanish:?}"
        );
    }
}

fn the_same_owner_enters_again(fixture: Fixture) {
    let first = acquire(&fixture, "--owner me --ttl 60s");
    let second = acquire(&fixture, "--owner me --ttl 30s");
    assert_eq!(second["token"], first["token"]);
    assert_eq!(second["holds"], json!(2));
    assert_eq!(
        second["expires_at"], first["expires_at"],
        "the later expiry counts"
    );
    let id = text(&first, "id");
    assert_eq!(
        fixture.json(0, &["lock", "release", "PRESTAMO/123", "--lease", id])["holds"],
        json!(1)
    );
    assert!(fixture.is_locked("PRESTAMO/123"));
    assert_eq!(
        fixture.json(0, &["lock", "release", "PRESTAMO/123", "--lease", id])["holds"],
        json!(0)
    );
    assert!(!fixture.is_locked("PRESTAMO/123"));
}

fn a_lease_is_lengthened(fixture: Fixture) {
    let lease = acquire(&fixture, "--ttl 30s");
    let token = lease["token"].to_string();
    // By its token alone, and by its whole id.
    for id in [token.as_str(), text(&lease, "id")] {
        let renewed = fixture.json(
            0,
            &format!("lock renew PRESTAMO/123 --lease {id} --ttl 10m"),
        );
        assert!(
            text(&renewed, "expires_at") > text(&lease, "expires_at"),
            "{renewed}"
        );
        for field in ["id", "resource", "owner", "token", "acquired_at", "holds"] {
            assert_eq!(renewed[field], lease[field], "{field}");
        }
    }
    let shown = fixture
        .turno(&format!(
            "lock renew PRESTAMO/123 --lease {token} --ttl 20m"
        ))
        .expect(0);
    assert!(shown.out.contains("expires  in 20m ("), "{shown:?}");
}

fn a_wrong_token_is_lost_and_not_an_error(fixture: Fixture) {
    let lease = acquire(&fixture, "");
    for verb in ["release", "renew"] {
        for wrong in ["1", "0", "-1", "9223372036854775807", "PRESTAMO/123@7"] {
            let lost = fixture.json(1, &["lock", verb, "PRESTAMO/123", "--lease", wrong]);
            assert_eq!(text(&lost, "code"), "lost", "{verb} {wrong}");
            let output = fixture
                .turno(&["lock", verb, "PRESTAMO/123", "--lease", wrong])
                .expect(1);
            assert!(
                output.out.is_empty() && output.err.contains("is lost"),
                "{output:?}"
            );
        }
        // Also for an unknown resource.
        assert_eq!(
            text(
                &fixture.json(1, &["lock", verb, "unknown", "--lease", "1"]),
                "code"
            ),
            "lost"
        );
        // An invalid lease id, or that of another resource, is a usage error.
        for bad in ["", "x", "PRESTAMO/123@", "PRESTAMO/124@7"] {
            let refused = fixture
                .turno(&["--json", "lock", verb, "PRESTAMO/123", "--lease", bad])
                .expect(2);
            assert_eq!(text(&refused.error(), "field"), "lease", "{bad}");
        }
    }
    let id = text(&lease, "id");
    fixture.json(0, &["lock", "release", "PRESTAMO/123", "--lease", id]);
    assert_eq!(
        text(
            &fixture.json(1, &["lock", "release", "PRESTAMO/123", "--lease", id]),
            "code"
        ),
        "lost"
    );
    let history = fixture.json(0, "lock history PRESTAMO/123");
    assert_eq!(text(&history["history"][0], "event"), "late");
}

fn a_lock_is_broken_by_its_token_only(fixture: Fixture) {
    let lease = acquire(&fixture, "--user 1");
    let token = lease["token"].to_string();
    let wrong = fixture.json(1, "lock break PRESTAMO/123 --token 7 --reason stuck");
    assert_eq!(text(&wrong, "code"), "not_held");
    assert!(
        fixture
            .turno("lock break PRESTAMO/123 --token 7 --reason x")
            .expect(1)
            .err
            .contains("token 7")
    );
    assert!(fixture.is_locked("PRESTAMO/123"));
    let broken = fixture.json(
        0,
        &format!("lock break PRESTAMO/123 --token {token} --reason 'the host is gone' --user ops"),
    );
    assert_eq!(text(&broken, "code"), "broken");
    assert!(!fixture.is_locked("PRESTAMO/123"));
    let history = fixture.json(0, "lock history PRESTAMO/123");
    let entry = &history["history"][0];
    assert_eq!(
        [
            text(entry, "event"),
            text(entry, "actor"),
            text(entry, "reason"),
            text(entry, "user")
        ],
        ["broken", "ops", "the host is gone", "1"]
    );
}

fn a_lock_is_waited_for(fixture: Fixture) {
    let lease = acquire(&fixture, "--ttl 300s");
    for order in [&["--wait", "60s"][..], &["--wait", "60s", "--fifo"]] {
        let waiting = fixture.start(
            &[
                &["--json", "lock", "acquire", "PRESTAMO/123", "--user", "2"],
                order,
            ]
            .concat(),
        );
        eventually(LONG, "the waiter to sign in", || {
            (fixture.json(0, "lock status PRESTAMO/123")["waiters"] == json!(1)).then_some(())
        });
        let held = fixture.json(0, "lock status PRESTAMO/123")["holder"]["token"].to_string();
        fixture.json(0, &["lock", "release", "PRESTAMO/123", "--lease", &held]);
        let granted = waiting
            .lines()
            .next(LONG)
            .expect("the waiter is granted the lock");
        assert!(waiting.wait_timeout(LONG).unwrap().success());
        let granted: serde_json::Value = serde_json::from_str(&granted).unwrap();
        assert!(granted["token"].as_i64() > lease["token"].as_i64());
    }
    // A waiter that was served has no registration any more; if it had, those behind it would wait in vain.
    assert_eq!(
        fixture.json(0, "lock status PRESTAMO/123")["waiters"],
        json!(0)
    );
    // The wait ends.
    fixture.json(75, "lock acquire PRESTAMO/123 --wait 50ms");
    // `--fifo` requires a wait.
    fixture.turno("lock acquire PRESTAMO/123 --fifo").expect(2);
}

fn a_busy_lock_is_tried_again(fixture: Fixture) {
    acquire(&fixture, "--ttl 1s");
    // The pauses are longer than the lease.
    acquire(&fixture, "--retry-max 2 --retry-delay 1100ms");
    fixture.json(
        75,
        "lock acquire PRESTAMO/123 --retry-max 2 --retry-delay 1ms",
    );
}

fn a_stopped_waiter_leaves_the_line(fixture: Fixture) {
    acquire(&fixture, "--ttl 300s");
    let waiting = fixture.start("lock acquire PRESTAMO/123 --wait 60s --fifo");
    let waiters = || fixture.json(0, "lock status PRESTAMO/123")["waiters"].as_i64();
    eventually(LONG, "the waiter to sign in", || {
        (waiters() == Some(1)).then_some(())
    });
    waiting.term();
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(128 + 15));
    assert_eq!(waiters(), Some(0));
}

fn shared_holds_and_permits(fixture: Fixture) {
    let ask = |resource: &str, code: i32, more: &[&str]| {
        fixture.json(code, &[&["lock", "acquire", resource], more].concat());
    };
    ask("report", 0, &["--shared"]);
    ask("report", 0, &["--shared"]);
    ask("report", 75, &[]);
    assert_eq!(
        fixture.json(0, "lock status report")["holders"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for _ in 0..3 {
        ask("licence", 0, &["--permits", "3"]);
    }
    ask("licence", 75, &["--permits", "3"]);
    fixture
        .turno("lock acquire licence --permits 3 --shared")
        .expect(2);
}

fn lists_and_histories_have_pages(fixture: Fixture) {
    for resource in ["a/1", "a/2", "a/3", "b/1"] {
        fixture.json(0, &["lock", "acquire", resource]);
    }
    let names = |more: &[&str]| -> Vec<String> {
        let page = fixture.json(0, &[&["lock", "list"], more].concat());
        page["locks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lock| text(lock, "resource").to_owned())
            .collect()
    };
    assert_eq!(names(&["--prefix", "a/"]), ["a/1", "a/2", "a/3"]);
    assert_eq!(names(&["--limit", "2"]), ["a/1", "a/2"]);
    assert_eq!(names(&["--limit", "2", "--after", "a/2"]), ["a/3", "b/1"]);
    for resource in ["a/1", "a/2", "a/3"] {
        let token = fixture.json(0, &["lock", "status", resource])["holder"]["token"].to_string();
        fixture.json(0, &["lock", "release", resource, "--lease", &token]);
    }
    let page =
        |more: &[&str]| fixture.json(0, &[&["lock", "history"], more].concat())["history"].clone();
    let all = page(&["--prefix", "a/"]);
    let resources: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| text(entry, "resource"))
        .collect();
    assert_eq!(resources, ["a/3", "a/2", "a/1"]);
    let before = all[0]["id"].to_string();
    let next = page(&["--prefix", "a/", "--before", &before, "--limit", "1"]);
    assert_eq!(
        (next.as_array().unwrap().len(), text(&next[0], "resource")),
        (1, "a/2")
    );
}

fn an_expired_lock_is_taken_over(fixture: Fixture) {
    let first = acquire(&fixture, "--ttl 1ms --user 1");
    let second = acquire(&fixture, "--wait 10s --user 2");
    assert!(second["token"].as_i64() > first["token"].as_i64());
    let history = fixture.json(0, "lock history PRESTAMO/123");
    let events: Vec<&str> = history["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| text(entry, "event"))
        .collect();
    assert_eq!(events, ["acquired", "taken_over"]);
    assert_eq!(
        text(
            &fixture.json(
                1,
                &format!("lock renew PRESTAMO/123 --lease {}", text(&first, "id"))
            ),
            "code"
        ),
        "lost"
    );
}
