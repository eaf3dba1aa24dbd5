//! Valid and invalid arguments.

use turno::Turno;
use turno::lock::{LockList, ReleaseOutcome};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

/// A name may be any printable text, and is never interpreted.
#[rule]
async fn names_may_be_anything_printable(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let long = "ñ".repeat(127) + "x";
    let names = [
        "préstamo/ñandú",
        "ロック",
        "🔒",
        "o'brien",
        "\"quoted\"",
        "'; drop table turno.lock; --",
        "a%b_c\\d",
        " spaces ",
        "a@7",
        "$1 {} ?1 :resource",
        "e\u{301}",
        "é",
        "A",
        "a",
        &long,
    ];
    for name in names {
        let lock = turno
            .lock(name)
            .owner(name)
            .user(name)
            .service(name)
            .description(name);
        let lease = mine(
            lock.acquire()
                .await
                .unwrap_or_else(|error| panic!("{name:?}: {error}")),
        );
        assert_eq!(lease.resource(), name);
        let holder = refused(turno.lock(name)).await.holder.unwrap();
        assert_eq!(holder.user.as_deref(), Some(name));
        let status = turno.lock(name).status().await.unwrap().holders.remove(0);
        assert_eq!(
            (
                status.owner.as_str(),
                status.attribution.description.as_deref()
            ),
            (name, Some(name))
        );
        lease.renew().await.unwrap();
        assert_eq!(
            lease.release().await.unwrap(),
            ReleaseOutcome::Released { holds: 0 }
        );
        assert_eq!(history(&turno, name).await[0].resource, name);
    }
    assert_eq!(
        test_store.rows().await,
        names.len() as i64,
        "every name is a resource of its own"
    );
}

/// Invalid arguments are rejected with their field named, and nothing is stored.
#[rule]
async fn bad_input_names_its_field(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (long, text) = ("x".repeat(256), "x".repeat(1001));
    let lock = || turno.lock("r");
    let attempts = [
        ("resource", turno.lock("")),
        ("resource", turno.lock(&long)),
        ("resource", turno.lock("a\nb")),
        ("resource", turno.lock("a\u{0}b")),
        ("resource", turno.lock("a\u{85}b")),
        ("owner", lock().owner("")),
        ("owner", lock().owner(&long)),
        ("owner", lock().owner("a\tb")),
        ("user", lock().user("")),
        ("user", lock().user("a\u{7f}")),
        ("service", lock().service(&long)),
        ("description", lock().description(text.clone())),
        ("description", lock().description("a\rb")),
        ("ttl", lock().ttl(secs(0))),
        ("ttl", lock().ttl(std::time::Duration::from_micros(999))),
        ("ttl", lock().ttl(secs(24 * 60 * 60 + 1))),
        ("ttl", lock().ttl(std::time::Duration::MAX)),
        ("permits", lock().permits(0)),
        ("permits", lock().permits(10_001)),
        ("min_hold", lock().ttl(secs(1)).min_hold(secs(2))),
        ("max_hold", lock().max_hold(secs(0))),
        ("max_hold", lock().min_hold(secs(5)).max_hold(secs(4))),
        ("wait", lock().wait(secs(24 * 60 * 60 + 1))),
    ];
    for (field, lock) in attempts {
        let error = lock.clone().acquire().await.unwrap_err();
        assert_eq!(
            (error.is_invalid(), error.field()),
            (true, Some(field)),
            "{lock:?}: {error}"
        );
        assert!(error.to_string().contains(field), "{error}");
    }
    let field = |error: turno::Error| error.field().unwrap_or("none").to_owned();
    let token = turno::Token(1);
    assert_eq!(
        field(turno.lock("r").force_break(token, "").await.unwrap_err()),
        "reason"
    );
    assert_eq!(
        field(turno.lock("r").force_break(token, &text).await.unwrap_err()),
        "reason"
    );
    assert_eq!(
        field(
            turno
                .lock("r")
                .user("")
                .force_break(token, "why")
                .await
                .unwrap_err()
        ),
        "user"
    );
    assert_eq!(
        field(turno.lock("r").ttl(secs(0)).renew(token).await.unwrap_err()),
        "ttl"
    );
    assert_eq!(
        field(turno.lock("").release(token).await.unwrap_err()),
        "resource"
    );
    assert_eq!(
        field(turno.lock("").status().await.unwrap_err()),
        "resource"
    );
    assert_eq!(
        field(turno.locks([""; 0]).acquire().await.unwrap_err()),
        "resources"
    );
    let many = (0..101).map(|n| n.to_string());
    assert_eq!(
        field(turno.locks(many).acquire().await.unwrap_err()),
        "resources"
    );
    assert_eq!(
        field(turno.locks(["a", ""]).acquire().await.unwrap_err()),
        "resource"
    );
    assert_eq!(
        field(
            turno
                .locks(["a"])
                .each(|lock| lock.shared())
                .acquire()
                .await
                .unwrap_err()
        ),
        "mode"
    );
    assert_eq!(test_store.rows().await, 0);
    let all = LockList {
        prefix: String::new(),
        after: String::new(),
        limit: 10,
    };
    assert_eq!(turno.lock_list(all).await.unwrap(), []);
}

/// The maximum TTL is a setting, for all ways of acquiring and renewing.
#[rule]
async fn a_longer_ttl_can_be_allowed(test_store: &TestStore) {
    let week = secs(7 * 24 * 60 * 60);
    let turno = Turno::builder()
        .max_ttl(week)
        .connect(test_store.url())
        .await
        .unwrap();
    let lease = acquired(turno.lock("a").ttl(week)).await;
    assert!(
        lease.grant().remaining > week - secs(60),
        "{:?}",
        lease.grant()
    );
    let lease = acquired(turno.lock("b")).await;
    lease.renew_for(week).await.unwrap();
    assert!(lease.remaining() > week - secs(60));
    let lease = acquired(turno.lock("c").shared().ttl(week)).await;
    lease.renew_for(week).await.unwrap();
    assert!(lease.remaining() > week - secs(60));
    turno
        .locks(["d", "e"])
        .ttl(week)
        .acquire()
        .await
        .unwrap()
        .acquired()
        .unwrap()
        .release()
        .await
        .unwrap();
}
