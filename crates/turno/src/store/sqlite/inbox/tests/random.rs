//! Anything in any order: the counts are always what a scan counts, and no claim breaks a rule.

use std::collections::HashSet;

use super::*;

/// The same as `stats` and `list`, by looking at everything.
fn scan(desk: &Desk) -> [u64; 5] {
    let sql = "select
      count(*) filter (where (state < 3 and coalesce(run_at, 0) <= ?1) or (state = 3 and c.until <= ?1)),
      count(*) filter (where state in (1, 2) and run_at > ?1),
      count(*) filter (where state = 3 and c.until > ?1),
      (select coalesce(sum(coalesce(last_id, id) - id + 1), 0) from turno_inbox_done),
      count(*) filter (where state = 4)
    from turno_inbox_item i left join turno_inbox_claim c on c.id = i.claim";
    desk.db
        .query_row(sql, [desk.now], |row| {
            let mut counts = [0; 5];
            for (n, count) in counts.iter_mut().enumerate() {
                *count = u64::try_from(row.get::<_, i64>(n)?).unwrap();
            }
            Ok(counts)
        })
        .unwrap()
}

/// The one of each group that is not behind is the first, or is held; and nothing is forgotten.
fn check(desk: &Desk) {
    assert_eq!(desk.counts(), scan(desk));
    for (state, count) in ItemState::ALL.into_iter().zip(desk.counts()) {
        assert_eq!(desk.list(state).len() as u64, count, "{state}");
    }
    let none = |what: &str, sql: &str| {
        let wrong: i64 = desk.db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(wrong, 0, "{what}");
    };
    none(
        "groups without one leading item",
        "select count(*) from (
           select sum(state <> 2) as leaders, sum(state = 3) as held, min(id) as first,
             min(iif(state <> 2, id, null)) as leader
           from turno_inbox_item where group_key is not null and state < 4 group by queue, group_key)
         where leaders <> 1 or (held = 0 and first <> leader)",
    );
    none(
        "claims that count wrong",
        "select count(*) from turno_inbox_claim c
         where held <> (select count(*) from turno_inbox_item i where i.claim = c.id)",
    );
    none(
        "errors without an item, or too many",
        "select (select count(*) from turno_inbox_error where item not in (select id from turno_inbox_item))
           + (select count(*) from (select count(*) as n from turno_inbox_error group by item) where n > 10)",
    );
    none(
        "spans that count wrong",
        "select count(*) from turno_inbox_due d
         where items <> (select count(*) from turno_inbox_item i
           where i.queue = d.queue and i.state in (1, 2) and i.run_at >> d.span = d.slot)",
    );
    none(
        "lines that do not fit their times",
        "select count(*) from turno_inbox_item
         where (state = 0 and run_at is not null) or (state = 1 and run_at is null) or ((claim is null) = (state = 3))",
    );
}

fn check_claimed(desk: &Desk, items: &[ClaimedItem]) {
    assert!(items.is_sorted_by_key(|item| item.priority));
    let mut groups = HashSet::new();
    for item in items {
        let Some(group) = &item.group else { continue };
        assert!(groups.insert(group), "two of a group at once");
        let earlier: i64 = desk
            .db
            .query_row(
                "select count(*) from turno_inbox_item
                 where group_key = ?1 and state < 4 and (id < ?2 or (state = 3 and id <> ?2))",
                (group, item.claim.item.0),
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(earlier, 0, "an earlier item of the group exists");
    }
}

fn random_item(rng: &mut fastrand::Rng) -> NewItem {
    NewItem {
        payload: "x".to_owned(),
        key: (rng.u8(0..4) == 0).then(|| rng.u8(0..50).to_string()),
        label: None,
        priority: rng.u8(0..4),
        due: (rng.u8(0..4) == 0).then(|| Due::After(Duration::from_millis(rng.u64(0..90_000)))),
        group: rng.bool().then(|| rng.u8(0..6).to_string()),
        max_attempts: rng.u16(1..5),
    }
}

/// Some of what was ever claimed, mostly lately.
fn some(rng: &mut fastrand::Rng, ever: &[ClaimId]) -> Vec<ClaimId> {
    let from = ever.len().saturating_sub(30);
    (0..rng.usize(0..6))
        .filter_map(|_| rng.choice(&ever[from..]).copied())
        .collect()
}

fn step(desk: &mut Desk, rng: &mut fastrand::Rng, ever: &mut Vec<ClaimId>) {
    match rng.u8(0..12) {
        0..=2 => {
            let count = rng.usize(0..6);
            desk.push((0..count).map(|_| random_item(rng)).collect());
        }
        3..=5 => {
            let ask = InboxClaim {
                lease: Duration::from_millis(rng.u64(1..60_000)),
                ..desk.ask(rng.u32(0..6))
            };
            let claimed = desk.claim_with(&ask);
            assert!(claimed.len() <= ask.limit as usize);
            check_claimed(desk, &claimed);
            ever.extend(claims(&claimed));
        }
        6 => drop(desk.complete(&some(rng, ever))),
        7 => {
            for claim in some(rng, ever) {
                let retry_in = rng.bool().then(|| secs(rng.u64(0..20)));
                match rng.u8(0..5) {
                    0 => desk.fail_for_good(claim),
                    _ => desk.fail(claim, retry_in),
                };
            }
        }
        8 => drop(desk.give_back(&some(rng, ever))),
        9 => drop(desk.extend(&some(rng, ever), secs(rng.u64(1..60)))),
        10 => drop((
            desk.requeue(None, rng.u32(0..3)),
            desk.reset(secs(rng.u64(0..60)), 2),
        )),
        _ => desk.pass(Duration::from_micros(rng.u64(0..40_000_000))),
    }
}

#[test]
fn counts_are_exact_whatever_happens() {
    for seed in 0..6 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut desk = Desk::new();
        desk.push(vec![item("first")]);
        let mut ever = Vec::new();
        for _ in 0..300 {
            step(&mut desk, &mut rng, &mut ever);
            check(&desk);
        }
        assert!(
            desk.counts()[3] > 0 && ever.len() > 50,
            "seed {seed} did too little"
        );
    }
}
