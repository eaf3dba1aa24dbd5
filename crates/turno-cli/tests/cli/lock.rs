//! `turno lock …`: its output and exit codes.

use serde_json::json;
use turno_testkit::eventually;

use crate::common::{Done, LONG, Place, text};

on_each_store!(
    a_lock_is_taken_shown_and_given_back,
    tables_are_for_people,
    busy_is_told_in_the_readers_language,
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

fn acquire(place: &Place, more: &[&str]) -> serde_json::Value {
    place.json(0, &[&["lock", "acquire", "PRESTAMO/123"], more].concat())
}

fn a_lock_is_taken_shown_and_given_back(place: Place) {
    let lease = acquire(
        &place,
        &[
            "--ttl",
            "300s",
            "--owner",
            "me",
            "--user",
            "1",
            "--service",
            "pagos",
            "--description",
            "Registro de pago",
        ],
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

    let busy = place.json(75, &["lock", "acquire", "PRESTAMO/123", "--user", "2"]);
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

    let status = place.json(0, &["lock", "status", "PRESTAMO/123"]);
    assert_eq!(
        (&status["locked"], &status["waiters"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(status["holder"], status["holders"][0]);
    assert_eq!(
        (text(&status["holder"], "user"), &status["holder"]["token"]),
        ("1", &json!(token))
    );

    let listed = place.json(0, &["lock", "list", "--prefix", "PRESTAMO/"]);
    assert_eq!(listed["locks"][0]["token"], json!(token));
    assert_eq!(
        place.json(0, &["lock", "list", "--prefix", "PAGO/"]),
        json!({"locks": []})
    );

    let released = place.json(
        0,
        &[
            "lock",
            "release",
            "PRESTAMO/123",
            "--lease",
            text(&lease, "id"),
        ],
    );
    assert_eq!(
        (&released["id"], &released["holds"]),
        (&lease["id"], &json!(0))
    );
    let status = place.json(0, &["lock", "status", "PRESTAMO/123"]);
    assert_eq!(
        status,
        json!({"resource": "PRESTAMO/123", "locked": false, "holders": [], "waiters": 0})
    );

    let history = place.json(0, &["lock", "history", "PRESTAMO/123"]);
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
    assert!(acquire(&place, &[])["token"].as_i64().unwrap() > token);
}

fn tables_are_for_people(place: Place) {
    let lease = place
        .turno(&[
            "lock",
            "acquire",
            "PRESTAMO/123",
            "--ttl",
            "300s",
            "--user",
            "1",
        ])
        .expect(0);
    assert!(lease.out.starts_with("lease    PRESTAMO/123@"), "{lease:?}");
    assert!(lease.out.contains("\nexpires  in 300 s ("), "{lease:?}");
    let listed = place.turno(&["lock", "list"]).expect(0);
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
        place
            .turno(&["lock", "status", "PRESTAMO/123"])
            .expect(0)
            .out
            .contains("PRESTAMO/123 is locked")
    );
    assert!(
        place
            .turno(&["lock", "status", "other"])
            .expect(0)
            .out
            .contains("other is free")
    );
    assert!(
        place
            .turno(&["lock", "history"])
            .expect(0)
            .out
            .contains("acquired")
    );
    // No colour without a terminal; colour on request.
    assert!(!listed.out.contains('\x1b'), "{listed:?}");
    assert!(
        place
            .turno(&["lock", "list", "--color", "always"])
            .expect(0)
            .out
            .contains('\x1b')
    );
}

fn busy_is_told_in_the_readers_language(place: Place) {
    acquire(&place, &["--ttl", "285s", "--user", "1"]);
    let english = place.turno(&["lock", "acquire", "PRESTAMO/123"]).expect(75);
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
        let mut command = place.command(["lock", "acquire", "PRESTAMO/123"]);
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

fn the_same_owner_enters_again(place: Place) {
    let first = acquire(&place, &["--owner", "me", "--ttl", "60s"]);
    let second = acquire(&place, &["--owner", "me", "--ttl", "30s"]);
    assert_eq!(second["token"], first["token"]);
    assert_eq!(second["holds"], json!(2));
    assert_eq!(
        second["expires_at"], first["expires_at"],
        "the later expiry counts"
    );
    let id = text(&first, "id");
    assert_eq!(
        place.json(0, &["lock", "release", "PRESTAMO/123", "--lease", id])["holds"],
        json!(1)
    );
    assert!(place.is_locked("PRESTAMO/123"));
    assert_eq!(
        place.json(0, &["lock", "release", "PRESTAMO/123", "--lease", id])["holds"],
        json!(0)
    );
    assert!(!place.is_locked("PRESTAMO/123"));
}

fn a_lease_is_lengthened(place: Place) {
    let lease = acquire(&place, &["--ttl", "30s"]);
    let token = lease["token"].to_string();
    // By its token alone, and by its whole id.
    for id in [token.as_str(), text(&lease, "id")] {
        let renewed = place.json(
            0,
            &[
                "lock",
                "renew",
                "PRESTAMO/123",
                "--lease",
                id,
                "--ttl",
                "10m",
            ],
        );
        assert!(
            text(&renewed, "expires_at") > text(&lease, "expires_at"),
            "{renewed}"
        );
        for field in ["id", "resource", "owner", "token", "acquired_at", "holds"] {
            assert_eq!(renewed[field], lease[field], "{field}");
        }
    }
    let shown = place
        .turno(&[
            "lock",
            "renew",
            "PRESTAMO/123",
            "--lease",
            &token,
            "--ttl",
            "20m",
        ])
        .expect(0);
    assert!(shown.out.contains("expires  in 20m ("), "{shown:?}");
}

fn a_wrong_token_is_lost_and_not_an_error(place: Place) {
    let lease = acquire(&place, &[]);
    for verb in ["release", "renew"] {
        for wrong in ["1", "0", "-1", "9223372036854775807", "PRESTAMO/123@7"] {
            let lost = place.json(1, &["lock", verb, "PRESTAMO/123", "--lease", wrong]);
            assert_eq!(text(&lost, "code"), "lost", "{verb} {wrong}");
            let told = place
                .turno(&["lock", verb, "PRESTAMO/123", "--lease", wrong])
                .expect(1);
            assert!(
                told.out.is_empty() && told.err.contains("is lost"),
                "{told:?}"
            );
        }
        // Also for an unknown resource.
        assert_eq!(
            text(
                &place.json(1, &["lock", verb, "unknown", "--lease", "1"]),
                "code"
            ),
            "lost"
        );
        // An invalid lease id, or that of another resource, is a usage error.
        for bad in ["", "x", "PRESTAMO/123@", "PRESTAMO/124@7"] {
            let refused = place
                .turno(&["--json", "lock", verb, "PRESTAMO/123", "--lease", bad])
                .expect(2);
            assert_eq!(text(&refused.error(), "field"), "lease", "{bad}");
        }
    }
    let id = text(&lease, "id");
    place.json(0, &["lock", "release", "PRESTAMO/123", "--lease", id]);
    assert_eq!(
        text(
            &place.json(1, &["lock", "release", "PRESTAMO/123", "--lease", id]),
            "code"
        ),
        "lost"
    );
    let history = place.json(0, &["lock", "history", "PRESTAMO/123"]);
    assert_eq!(text(&history["history"][0], "event"), "late");
}

fn a_lock_is_broken_by_its_token_only(place: Place) {
    let lease = acquire(&place, &["--user", "1"]);
    let token = lease["token"].to_string();
    let wrong = place.json(
        1,
        &[
            "lock",
            "break",
            "PRESTAMO/123",
            "--token",
            "7",
            "--reason",
            "stuck",
        ],
    );
    assert_eq!(text(&wrong, "code"), "not_held");
    assert!(
        place
            .turno(&[
                "lock",
                "break",
                "PRESTAMO/123",
                "--token",
                "7",
                "--reason",
                "x"
            ])
            .expect(1)
            .err
            .contains("token 7")
    );
    assert!(place.is_locked("PRESTAMO/123"));
    let broken = place.json(
        0,
        &[
            "lock",
            "break",
            "PRESTAMO/123",
            "--token",
            &token,
            "--reason",
            "the host is gone",
            "--user",
            "ops",
        ],
    );
    assert_eq!(text(&broken, "code"), "broken");
    assert!(!place.is_locked("PRESTAMO/123"));
    let history = place.json(0, &["lock", "history", "PRESTAMO/123"]);
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

fn a_lock_is_waited_for(place: Place) {
    let lease = acquire(&place, &["--ttl", "300s"]);
    for order in [&["--wait", "60s"][..], &["--wait", "60s", "--fifo"]] {
        let waiting = place.start(
            &[
                &["--json", "lock", "acquire", "PRESTAMO/123", "--user", "2"],
                order,
            ]
            .concat(),
        );
        eventually(LONG, "the waiter to sign in", || {
            (place.json(0, &["lock", "status", "PRESTAMO/123"])["waiters"] == json!(1))
                .then_some(())
        });
        let held =
            place.json(0, &["lock", "status", "PRESTAMO/123"])["holder"]["token"].to_string();
        place.json(0, &["lock", "release", "PRESTAMO/123", "--lease", &held]);
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
        place.json(0, &["lock", "status", "PRESTAMO/123"])["waiters"],
        json!(0)
    );
    // The wait ends.
    place.json(75, &["lock", "acquire", "PRESTAMO/123", "--wait", "50ms"]);
    // `--fifo` requires a wait.
    place
        .turno(&["lock", "acquire", "PRESTAMO/123", "--fifo"])
        .expect(2);
}

fn a_busy_lock_is_tried_again(place: Place) {
    acquire(&place, &["--ttl", "1s"]);
    // The pauses are longer than the lease.
    acquire(&place, &["--retry-max", "2", "--retry-delay", "1100ms"]);
    place.json(
        75,
        &[
            "lock",
            "acquire",
            "PRESTAMO/123",
            "--retry-max",
            "2",
            "--retry-delay",
            "1ms",
        ],
    );
}

fn a_stopped_waiter_leaves_the_line(place: Place) {
    acquire(&place, &["--ttl", "300s"]);
    let waiting = place.start(&["lock", "acquire", "PRESTAMO/123", "--wait", "60s", "--fifo"]);
    let waiters = || place.json(0, &["lock", "status", "PRESTAMO/123"])["waiters"].as_i64();
    eventually(LONG, "the waiter to sign in", || {
        (waiters() == Some(1)).then_some(())
    });
    waiting.term();
    assert_eq!(waiting.wait_timeout(LONG).unwrap().code(), Some(128 + 15));
    assert_eq!(waiters(), Some(0));
}

fn shared_holds_and_permits(place: Place) {
    let ask = |resource: &str, code: i32, more: &[&str]| {
        place.json(code, &[&["lock", "acquire", resource], more].concat());
    };
    ask("report", 0, &["--shared"]);
    ask("report", 0, &["--shared"]);
    ask("report", 75, &[]);
    assert_eq!(
        place.json(0, &["lock", "status", "report"])["holders"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for _ in 0..3 {
        ask("licence", 0, &["--permits", "3"]);
    }
    ask("licence", 75, &["--permits", "3"]);
    place
        .turno(&["lock", "acquire", "licence", "--permits", "3", "--shared"])
        .expect(2);
}

fn lists_and_histories_have_pages(place: Place) {
    for resource in ["a/1", "a/2", "a/3", "b/1"] {
        place.json(0, &["lock", "acquire", resource]);
    }
    let names = |more: &[&str]| -> Vec<String> {
        let page = place.json(0, &[&["lock", "list"], more].concat());
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
        let token = place.json(0, &["lock", "status", resource])["holder"]["token"].to_string();
        place.json(0, &["lock", "release", resource, "--lease", &token]);
    }
    let page =
        |more: &[&str]| place.json(0, &[&["lock", "history"], more].concat())["history"].clone();
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

fn an_expired_lock_is_taken_over(place: Place) {
    let first = acquire(&place, &["--ttl", "1ms", "--user", "1"]);
    let second = acquire(&place, &["--wait", "10s", "--user", "2"]);
    assert!(second["token"].as_i64() > first["token"].as_i64());
    let history = place.json(0, &["lock", "history", "PRESTAMO/123"]);
    let events: Vec<&str> = history["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| text(entry, "event"))
        .collect();
    assert_eq!(events, ["acquired", "taken_over"]);
    assert_eq!(
        text(
            &place.json(
                1,
                &[
                    "lock",
                    "renew",
                    "PRESTAMO/123",
                    "--lease",
                    text(&first, "id")
                ]
            ),
            "code"
        ),
        "lost"
    );
}
