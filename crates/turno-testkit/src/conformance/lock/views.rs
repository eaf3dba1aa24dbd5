//! Information for operators: status, list and history.

use turno::Turno;
use turno::history::{History, Part};
use turno::lock::{HistoryEvent, LockHolder, LockList};

use crate::conformance::lock::fixtures::*;
use crate::conformance::{TestStore, rule};

async fn list(turno: &Turno, prefix: &str, after: &str, limit: u32) -> Vec<LockHolder> {
    turno
        .lock_list(LockList {
            prefix: prefix.into(),
            after: after.into(),
            limit,
        })
        .await
        .unwrap()
}

async fn names(turno: &Turno, prefix: &str) -> Vec<String> {
    list(turno, prefix, "", 100)
        .await
        .into_iter()
        .map(|holder| holder.resource)
        .collect()
}

/// The status of a resource has all data that an operator needs; an unknown resource is free.
#[rule]
async fn a_status_tells_everything(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let lock = turno
        .lock("r")
        .owner("a")
        .user("1")
        .service("s")
        .description("d")
        .ttl(secs(60));
    let (lease, _again) = (acquired(lock.clone()).await, acquired(lock).await);
    stand_in_line(&turno, "r", "b").await;
    let status = turno.lock("r").status().await.unwrap();
    assert_eq!(
        (
            status.resource.as_str(),
            status.waiters,
            status.holders.len()
        ),
        ("r", 1, 1)
    );
    let holder = &status.holders[0];
    assert_eq!(
        (
            holder.mode.as_str(),
            holder.owner.as_str(),
            holder.token,
            holder.holds
        ),
        ("exclusive", "a", lease.token(), 2)
    );
    assert_eq!(
        (holder.acquired_at, holder.waiters),
        (lease.grant().acquired_at, 1)
    );
    assert!(holder.remaining <= secs(60) && holder.remaining > secs(40));
    let who = &holder.attribution;
    assert_eq!(
        (
            who.user.as_deref(),
            who.service.as_deref(),
            who.description.as_deref()
        ),
        (Some("1"), Some("s"), Some("d"))
    );
    let unknown = turno.lock("unknown").status().await.unwrap();
    assert_eq!((unknown.holders.len(), unknown.waiters), (0, 0));
    assert_eq!(test_store.rows().await, 1, "a look stores nothing");
}

/// A shared holder without a name does not get another's.
#[rule]
async fn sharers_do_not_borrow_names(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let _a = acquired(
        turno
            .lock("r")
            .owner("a")
            .user("1")
            .description("d")
            .shared(),
    )
    .await;
    let _b = acquired(turno.lock("r").owner("b").shared()).await;
    let holders = turno.lock("r").status().await.unwrap().holders;
    assert_eq!(
        holders
            .iter()
            .map(|holder| holder.attribution.user.as_deref())
            .collect::<Vec<_>>(),
        [Some("1"), None]
    );
    assert_eq!(holders[1].attribution.description, None);
}

/// A list has the held locks with a prefix, in byte order.
#[rule]
async fn a_list_has_what_is_held(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for name in ["p/2", "p/10", "p/1", "P/1", "p", "q", "p/ñ"] {
        take(&turno, name, "a").await.detach();
    }
    take(&turno, "p/free", "a").await.release().await.unwrap();
    take(&turno, "p/expired", "a").await.detach();
    test_store.expire("p/expired").await;
    assert_eq!(names(&turno, "p/").await, ["p/1", "p/10", "p/2", "p/ñ"]);
    assert_eq!(names(&turno, "p").await, ["p", "p/1", "p/10", "p/2", "p/ñ"]);
    assert_eq!(
        names(&turno, "").await,
        ["P/1", "p", "p/1", "p/10", "p/2", "p/ñ", "q"]
    );
    assert_eq!(names(&turno, "nothing").await, [""; 0]);
}

/// A prefix is literal text, not a pattern.
#[rule]
async fn a_prefix_is_no_pattern(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for name in [
        "a%b",
        "axb",
        "a_b",
        "a\\b",
        "a\\%b",
        "ñ%",
        "ñ1",
        "n1",
        "*",
        "a'b",
        "🔒/1",
        "e\u{301}x",
        "éx",
    ] {
        take(&turno, name, "a").await.detach();
    }
    for (prefix, found) in [
        ("a%", vec!["a%b"]),
        ("a_", vec!["a_b"]),
        ("a\\", vec!["a\\%b", "a\\b"]),
        ("a\\%", vec!["a\\%b"]),
        ("ñ", vec!["ñ%", "ñ1"]),
        ("ñ%", vec!["ñ%"]),
        ("%", vec![]),
        ("_", vec![]),
        ("*", vec!["*"]),
        ("a'", vec!["a'b"]),
        ("🔒", vec!["🔒/1"]),
        ("é", vec!["éx"]),
        ("e", vec!["e\u{301}x"]),
    ] {
        assert_eq!(names(&turno, prefix).await, found, "{prefix:?}");
        let ask = History {
            part: Some(Part::Lock),
            resource: None,
            prefix: prefix.into(),
            before: None,
            limit: 100,
        };
        let mut shown: Vec<_> = turno
            .history(ask)
            .await
            .unwrap()
            .into_iter()
            .map(|entry| entry.resource)
            .collect();
        shown.sort_unstable();
        assert_eq!(shown, found, "history of {prefix:?}");
    }
}

/// The pages together have each holder once, also if a resource has several.
#[rule]
async fn pages_of_locks_are_complete(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut all = Vec::new();
    for n in 0..5 {
        for owner in 0..3 {
            let (resource, owner) = (format!("p/{n}"), owner.to_string());
            acquired(turno.lock(&resource).owner(&owner).shared())
                .await
                .detach();
            all.push((resource, owner));
        }
        take(&turno, &format!("p/{n}x"), "x").await.detach();
        all.push((format!("p/{n}x"), "x".into()));
    }
    for limit in [1, 2, 3, 100] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = list(&turno, "p/", &after, limit).await;
            let Some(last) = page.last() else { break };
            assert!(last.resource > after, "a page goes on after the one before");
            after = last.resource.clone();
            seen.extend(
                page.into_iter()
                    .map(|holder| (holder.resource, holder.owner)),
            );
        }
        assert_eq!(seen, all, "in pages of {limit}");
    }
}

/// The history is newest first, in pages, and begins with current holds.
#[rule]
async fn a_history_is_newest_first(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let mut tokens = Vec::new();
    for n in 0..7 {
        let lease = acquired(turno.lock("r").user(n.to_string())).await;
        tokens.insert(0, lease.token());
        lease.release().await.unwrap();
    }
    let held = take(&turno, "r", "now").await;
    take(&turno, "other", "a").await.release().await.unwrap();
    let page = async |before, limit| {
        let ask = History {
            part: Some(Part::Lock),
            resource: Some("r".into()),
            prefix: String::new(),
            before,
            limit,
        };
        turno.history(ask).await.unwrap()
    };
    let all = page(None, 100).await;
    assert_eq!(
        (all[0].event, all[0].token.unwrap(), all[0].id),
        (HistoryEvent::Acquired, held.token(), None)
    );
    assert_eq!(all[0].owner.as_deref(), Some("now"));
    assert_eq!(
        all[1..]
            .iter()
            .filter_map(|entry| entry.token)
            .collect::<Vec<_>>(),
        tokens
    );
    assert!(
        all[1..]
            .iter()
            .all(|entry| entry.event == HistoryEvent::Released && entry.resource == "r")
    );
    assert!(all[1..].is_sorted_by(|a, b| a.id > b.id && a.at >= b.at));
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let entries: Vec<_> = page(before, 3)
            .await
            .into_iter()
            .filter(|entry| entry.id.is_some())
            .collect();
        let Some(last) = entries.last() else { break };
        before = last.id;
        seen.extend(entries.iter().filter_map(|entry| entry.token));
    }
    assert_eq!(seen, tokens);
}

/// The history of a prefix has all of its resources, and no other.
#[rule]
async fn a_history_of_a_prefix(test_store: &TestStore) {
    let turno = test_store.turno().await;
    for name in ["p/1", "p/2", "q/1", "p/1"] {
        take(&turno, name, "a").await.release().await.unwrap();
    }
    let held = take(&turno, "p/3", "a").await;
    let ask = History {
        part: Some(Part::Lock),
        resource: None,
        prefix: "p/".into(),
        before: None,
        limit: 100,
    };
    let entries = turno.history(ask).await.unwrap();
    let found: Vec<_> = entries
        .iter()
        .map(|entry| (entry.event.as_str(), entry.resource.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("acquired", "p/3"),
            ("released", "p/1"),
            ("released", "p/2"),
            ("released", "p/1")
        ]
    );
    assert_eq!(entries[0].token, Some(held.token()));
}
