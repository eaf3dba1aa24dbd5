//! Forged histories: one that keeps all promises, and changes of it of which each breaks one.

use super::super::ClockStep;
use super::*;

fn op(process: &str, times: (i64, i64), call: Call, answer: Option<Answer>) -> Op {
    Operation {
        process: process.to_owned(),
        call_us: times.0,
        return_us: if answer.is_some() { times.1 } else { i64::MAX },
        call,
        answer,
    }
}

fn push(times: (i64, i64), name: &str, group: Option<&str>, answer: Option<Answer>) -> Op {
    let call = Call::Push {
        queue: "q".to_owned(),
        name: name.to_owned(),
        group: group.map(str::to_owned),
        key: None,
    };
    op("client", times, call, answer)
}

fn keyed(times: (i64, i64), name: &str, key: &str, answer: Option<Answer>) -> Op {
    let call = Call::Push {
        queue: "q".to_owned(),
        name: name.to_owned(),
        group: None,
        key: Some(key.to_owned()),
    };
    op("client", times, call, answer)
}

fn handle(
    times: (i64, i64),
    item: i64,
    attempt: u32,
    group: Option<&str>,
    answer: Option<Answer>,
) -> Op {
    let call = Call::Handle {
        queue: "q".to_owned(),
        name: format!("i{item}"),
        item,
        attempt,
        group: group.map(str::to_owned),
    };
    op("worker", times, call, answer)
}

fn done(began_us: i64, item: i64, attempt: u32, group: Option<&str>, commit_us: i64) -> Op {
    let answer = Some(Answer::Completed { commit_us });
    handle((began_us, commit_us + 1), item, attempt, group, answer)
}

fn stored(item: i64) -> Option<Answer> {
    Some(Answer::Pushed { item })
}

fn effect(item: i64, attempt: u32) -> Effect {
    Effect {
        name: format!("i{item}"),
        attempt,
    }
}

/// Items 1 to 3 of a group, item 4 with a lost answer, item 5 that fails once, item 6 that dies, item 7 that waits.
fn honest() -> (Vec<Op>, End) {
    let g = Some("g");
    let operations = vec![
        push((0, 1), "i1", g, stored(1)),
        push((2, 3), "i2", g, stored(2)),
        push((4, 5), "i3", g, stored(3)),
        push((6, 0), "i4", None, None),
        push((7, 8), "i5", None, stored(5)),
        push((7, 9), "i6", None, stored(6)),
        push((7, 9), "i7", None, stored(7)),
        done(10, 1, 1, g, 12),
        done(14, 2, 1, g, 16),
        // A worker that was stopped for too long, and the one after it.
        handle((18, 50), 3, 1, g, Some(Answer::Refused)),
        done(30, 3, 2, g, 32),
        handle((20, 0), 4, 1, None, None),
        handle((20, 22), 5, 1, None, Some(Answer::Failed)),
        done(24, 5, 2, None, 26),
        handle((20, 22), 6, 1, None, Some(Answer::Failed)),
    ];
    let end = End {
        effects: vec![effect(1, 1), effect(2, 1), effect(5, 2), effect(3, 2)],
        waiting: vec!["i4".to_owned(), "i7".to_owned()],
        dead: vec!["i6".to_owned()],
        limits: HashMap::from([("q".to_owned(), 2)]),
        crashes_us: Vec::new(),
        clock: Clock::default(),
    };
    (operations, end)
}

#[track_caller]
fn rejects(promise: &str, change: impl FnOnce(&mut Vec<Op>, &mut End)) {
    let (mut operations, mut end) = honest();
    change(&mut operations, &mut end);
    let violations = check(&operations, &end);
    assert!(
        violations
            .iter()
            .any(|violation| violation.promise == promise),
        "{promise:?} is not in {violations:#?}"
    );
}

#[test]
fn an_honest_history_is_accepted() {
    let (operations, end) = honest();
    assert_eq!(check(&operations, &end), []);
}

#[test]
fn an_unanswered_push_and_an_unanswered_handler_may_have_happened() {
    let (operations, mut end) = honest();
    end.waiting.remove(0);
    assert_eq!(check(&operations, &end), []);
    end.effects.push(effect(4, 1));
    assert_eq!(check(&operations, &end), []);
}

#[test]
fn a_lost_item_is_rejected() {
    rejects(NOT_LOST, |_, end| _ = end.waiting.pop());
}

#[test]
fn a_lost_dead_item_is_rejected() {
    rejects(NOT_LOST, |_, end| end.dead.clear());
}

#[test]
fn a_second_effect_is_rejected() {
    rejects(ONCE, |_, end| end.effects.push(effect(5, 1)));
}

#[test]
fn an_item_that_is_done_and_still_there_is_rejected() {
    rejects(ONCE, |_, end| end.waiting.push("i5".to_owned()));
}

#[test]
fn an_item_that_is_there_twice_is_rejected() {
    rejects(ONCE, |_, end| end.dead.push("i7".to_owned()));
}

#[test]
fn an_item_that_was_never_pushed_is_rejected() {
    rejects(NOT_INVENTED, |_, end| end.waiting.push("i99".to_owned()));
}

#[test]
fn a_completion_without_effect_is_rejected() {
    rejects(EFFECTS, |_, end| {
        end.effects.retain(|effect| effect.name != "i5")
    });
}

#[test]
fn an_effect_of_a_refused_handler_is_rejected() {
    rejects(EFFECTS, |_, end| end.effects[3].attempt = 1);
}

#[test]
fn an_effect_without_a_handler_is_rejected() {
    rejects(EFFECTS, |_, end| end.effects.push(effect(7, 1)));
}

#[test]
fn two_claims_with_one_number_are_rejected() {
    rejects(CLAIMS, |operations, _| {
        operations.push(handle((25, 29), 5, 2, None, Some(Answer::Refused)));
    });
}

#[test]
fn a_claim_after_the_completion_is_rejected() {
    rejects(CLAIMS, |operations, _| {
        operations.push(handle((40, 0), 5, 3, None, None));
    });
}

#[test]
fn a_group_out_of_order_is_rejected() {
    rejects(ORDER, |_, end| end.effects.swap(0, 1));
}

#[test]
fn a_push_that_ended_after_the_next_item_was_claimed_may_come_second() {
    let (mut operations, mut end) = honest();
    end.effects.swap(0, 1);
    operations[0] = push((0, 100), "i1", Some("g"), stored(1));
    let violations = check(&operations, &end);
    assert!(
        violations.iter().all(|one| one.promise != ORDER),
        "{violations:?}"
    );
}

/// The worker claimed the later item before the other push was committed, and its handler began after that.
#[test]
fn of_two_pushes_at_the_same_time_either_may_come_first() {
    let (mut operations, mut end) = honest();
    end.effects.swap(0, 1);
    operations[0] = push((0, 4), "i1", Some("g"), stored(1));
    let violations = check(&operations, &end);
    assert!(
        violations.iter().all(|one| one.promise != ORDER),
        "{violations:?}"
    );
    // Not if both were there long before.
    rejects(ORDER, |operations, end| {
        end.effects.swap(0, 1);
        operations[0] = push((0, 4), "i1", Some("g"), stored(1));
        operations[8] = done(
            CLAIMED_BEFORE_US + 10,
            2,
            1,
            Some("g"),
            CLAIMED_BEFORE_US + 12,
        );
    });
}

#[test]
fn ids_of_a_group_that_go_back_are_rejected() {
    rejects(ORDER, |operations, _| {
        let late = push((60, 61), "i0", Some("g"), stored(0));
        operations.push(late);
    });
}

#[test]
fn two_of_a_group_at_the_same_time_are_rejected() {
    rejects(ALONE, |operations, _| {
        operations[8] = done(11, 2, 1, Some("g"), 16)
    });
}

#[test]
fn more_than_the_limit_is_rejected() {
    rejects(LIMITS, |_, end| {
        end.limits = HashMap::from([("q".to_owned(), 0)])
    });
    rejects(LIMITS, |operations, end| {
        end.limits = HashMap::from([("q".to_owned(), 1)]);
        operations[13] = done(15, 5, 2, None, 26);
    });
}

#[test]
fn keys_are_kept() {
    let honest = [
        keyed((0, 1), "a", "k", stored(1)),
        keyed((2, 3), "b", "k", Some(Answer::Duplicate { item: 1 })),
    ];
    let end = End {
        waiting: vec!["a".to_owned()],
        ..End::default()
    };
    assert_eq!(check(&honest, &end), []);
    let promises = |operations: &[Op], end: &End| -> Vec<&str> {
        check(operations, end)
            .iter()
            .map(|violation| violation.promise)
            .collect()
    };
    // Two items with one key.
    let twice = [honest[0].clone(), keyed((2, 3), "b", "k", stored(2))];
    assert!(promises(&twice, &end).contains(&KEYS));
    // The duplicate of another item.
    let other = [
        honest[0].clone(),
        keyed((2, 3), "b", "k", Some(Answer::Duplicate { item: 9 })),
    ];
    assert!(promises(&other, &end).contains(&KEYS));
    // A duplicate that was stored.
    let both = End {
        waiting: vec!["a".to_owned(), "b".to_owned()],
        ..End::default()
    };
    assert!(promises(&honest, &both).contains(&KEYS));
    // The first one's answer was lost: its item is not known.
    let lost = [
        keyed((0, 1), "a", "k", None),
        keyed((2, 3), "b", "k", Some(Answer::Duplicate { item: 1 })),
    ];
    assert_eq!(check(&lost, &end), []);
}

/// Attempt 1 of item 5 is claimed twice, and attempt 2 of item 3 is lost, so that attempt 1 is completed.
fn with_lost_claims(operations: &mut Vec<Op>, end: &mut End) {
    operations.push(handle((21, 60), 5, 1, None, Some(Answer::Refused)));
    operations.retain(|operation| !matches!(&operation.call, Call::Handle { item: 3, .. }));
    operations.push(handle((18, 50), 3, 2, Some("g"), Some(Answer::Refused)));
    operations.push(done(17, 3, 1, Some("g"), 32));
    end.effects.retain(|effect| effect.name != "i3");
    end.effects.push(effect(3, 1));
}

#[test]
fn claims_that_a_crash_has_undone_are_accepted() {
    let (mut operations, mut end) = honest();
    with_lost_claims(&mut operations, &mut end);
    assert_eq!(check(&operations, &end).len(), 2);
    end.crashes_us = vec![20];
    assert_eq!(check(&operations, &end), []);
}

#[test]
fn a_crash_long_before_or_after_both_claims_explains_nothing() {
    for crash_us in [17 - CLAIMED_BEFORE_US, 33] {
        rejects(CLAIMS, |operations, end| {
            with_lost_claims(operations, end);
            end.crashes_us = vec![crash_us];
        });
    }
}

#[test]
fn an_attempt_that_was_claimed_twice_is_completed_once() {
    rejects(EFFECTS, |operations, end| {
        operations.push(done(21, 1, 1, Some("g"), 23));
        end.crashes_us = vec![15];
    });
}

fn claim(times: (i64, i64), item: i64, attempt: u32, lease_us: i64) -> Op {
    let call = Call::Claim {
        queue: "q".to_owned(),
        lease_us,
    };
    op(
        "consumer",
        times,
        call,
        Some(Answer::Claimed { item, attempt }),
    )
}

/// The claims of item 3, of which the first one expires at 27, and of item 5, of which the first one fails at 20.
fn with_claims(operations: &mut Vec<Op>) {
    operations.extend([
        claim((17, 18), 3, 1, 10),
        claim((26, 29), 3, 2, 10),
        claim((18, 19), 5, 1, 1000),
        claim((22, 23), 5, 2, 1000),
    ]);
}

#[test]
fn claims_after_an_expiry_and_after_a_failure_are_accepted() {
    let (mut operations, end) = honest();
    with_claims(&mut operations);
    assert_eq!(check(&operations, &end), []);
}

#[test]
fn a_claim_before_the_expiry_of_another_is_rejected() {
    // The answer came before the other claim can have expired.
    rejects(LEASES, |operations, _| {
        with_claims(operations);
        operations.push(claim((20, 25), 3, 2, 10));
    });
    // Its handler began before that.
    rejects(LEASES, |operations, _| {
        with_claims(operations);
        operations.retain(|operation| !matches!(operation.call, Call::Claim { .. }));
        operations.push(claim((17, 18), 3, 1, 14));
    });
    // The handler was refused, which does not end the attempt.
    rejects(LEASES, |operations, _| {
        with_claims(operations);
        operations[12] = handle((20, 22), 5, 1, None, Some(Answer::Refused));
    });
}

#[test]
fn a_claim_may_end_early_by_a_step_of_the_clock_or_a_crash() {
    let (mut operations, mut end) = honest();
    operations.push(claim((17, 18), 3, 1, 14));
    assert_eq!(check(&operations, &end).len(), 1);
    let step = ClockStep {
        from_us: 19,
        until_us: 21,
        forward_us: 5,
    };
    end.clock = Clock::new(vec![step]);
    assert_eq!(check(&operations, &end), []);
    end.clock = Clock::default();
    end.crashes_us = vec![20];
    assert_eq!(check(&operations, &end), []);
}

#[test]
fn two_claims_of_one_attempt_are_rejected() {
    rejects(CLAIMS, |operations, _| {
        with_claims(operations);
        operations.push(claim((22, 25), 5, 2, 1000));
    });
}
