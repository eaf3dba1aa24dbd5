//! Forged histories: one that keeps all promises, and changes of it of which each breaks one.

use super::super::ClockStep;
use super::*;

const TTL: i64 = 100;

fn op(process: &str, times: (i64, i64), call: Call, answer: Option<Answer>) -> Op {
    Operation {
        process: process.to_owned(),
        call_us: times.0,
        return_us: if answer.is_some() { times.1 } else { i64::MAX },
        call,
        answer,
    }
}

fn ask(owner: &str, mode: Mode) -> Call {
    Call::Acquire {
        resource: "r".to_owned(),
        owner: owner.to_owned(),
        mode,
        ttl_us: TTL,
    }
}

fn acquire(owner: &str, times: (i64, i64), token: i64) -> Op {
    reenter(owner, times, token, 1)
}

fn reenter(owner: &str, times: (i64, i64), token: i64, holds: u32) -> Op {
    let granted = Some(Answer::Granted { token, holds });
    op(owner, times, ask(owner, Mode::Exclusive), granted)
}

fn share(owner: &str, times: (i64, i64), token: i64, mode: Mode) -> Op {
    let granted = Some(Answer::Granted { token, holds: 1 });
    op(owner, times, ask(owner, mode), granted)
}

fn busy(owner: &str, times: (i64, i64), mode: Mode) -> Op {
    op(owner, times, ask(owner, mode), Some(Answer::Busy))
}

fn unanswered(owner: &str, at: i64) -> Op {
    op(owner, (at, 0), ask(owner, Mode::Exclusive), None)
}

fn release(owner: &str, times: (i64, i64), token: i64, answer: Option<Answer>) -> Op {
    let resource = "r".to_owned();
    op(owner, times, Call::Release { resource, token }, answer)
}

fn released(owner: &str, times: (i64, i64), token: i64, holds: u32) -> Op {
    release(owner, times, token, Some(Answer::Released { holds }))
}

fn renew(owner: &str, times: (i64, i64), token: i64, answer: Answer) -> Op {
    let call = Call::Renew {
        resource: "r".to_owned(),
        token,
        ttl_us: TTL,
    };
    op(owner, times, call, Some(answer))
}

fn guarded(owner: &str, times: (i64, i64), token: i64, answer: Option<Answer>) -> Op {
    let resource = "r".to_owned();
    op(owner, times, Call::Guarded { resource, token }, answer)
}

fn judge(operations: &[Op], writes: &[i64]) -> Vec<Violation> {
    let mut operations = operations.to_vec();
    operations.sort_by_key(|operation| operation.call_us);
    let writes: Vec<Write> = writes
        .iter()
        .map(|token| Write {
            resource: "r".to_owned(),
            token: *token,
        })
        .collect();
    check(&operations, &writes, &Clock::default())
}

#[track_caller]
fn accepts(operations: &[Op], writes: &[i64]) {
    assert_eq!(judge(operations, writes), []);
}

#[track_caller]
fn rejects(operations: &[Op], writes: &[i64], promise: &str) {
    let violations = judge(operations, writes);
    assert!(
        violations
            .iter()
            .any(|violation| violation.promise.contains(promise)),
        "{promise:?} is not in {violations:#?}"
    );
}

/// Two owners one after the other, with a reentrant hold, a renewal and guarded writes.
fn honest() -> Vec<Op> {
    vec![
        acquire("a", (0, 5), 1),
        busy("b", (6, 8), Mode::Exclusive),
        reenter("a", (10, 12), 1, 2),
        guarded("a", (13, 15), 1, Some(Answer::Committed)),
        released("a", (16, 18), 1, 1),
        renew("a", (20, 22), 1, Answer::Renewed),
        released("a", (30, 32), 1, 0),
        acquire("b", (40, 42), 2),
        guarded("b", (43, 45), 2, Some(Answer::Committed)),
    ]
}

#[test]
fn an_honest_history_is_accepted() {
    accepts(&honest(), &[1, 2]);
}

#[test]
fn a_takeover_after_the_ttl_is_accepted() {
    accepts(&[acquire("a", (0, 5), 1), acquire("b", (99, 101), 2)], &[]);
    let lost = release("a", (103, 104), 1, Some(Answer::Lost));
    accepts(
        &[acquire("a", (0, 5), 1), acquire("b", (99, 101), 2), lost],
        &[],
    );
}

#[test]
fn a_takeover_before_the_ttl_is_rejected() {
    rejects(
        &[acquire("a", (0, 5), 1), acquire("b", (90, 99), 2)],
        &[],
        "one holder",
    );
}

#[test]
fn a_takeover_that_forgets_a_renewal_is_rejected() {
    let renewed = renew("a", (50, 60), 1, Answer::Renewed);
    rejects(
        &[
            acquire("a", (0, 5), 1),
            renewed,
            acquire("b", (120, 140), 2),
        ],
        &[],
        "one holder",
    );
}

#[test]
fn a_repeated_token_is_rejected() {
    let both = [
        acquire("a", (0, 5), 1),
        released("a", (6, 7), 1, 0),
        acquire("b", (8, 9), 1),
    ];
    rejects(&both, &[], "tokens that grow");
}

#[test]
fn a_token_that_goes_back_is_rejected() {
    let both = [
        acquire("a", (0, 5), 9),
        released("a", (6, 7), 9, 0),
        acquire("b", (8, 9), 3),
    ];
    rejects(&both, &[], "tokens that grow");
}

#[test]
fn two_grants_at_the_same_time_are_rejected() {
    rejects(
        &[acquire("a", (0, 50), 1), acquire("b", (0, 50), 2)],
        &[],
        "one holder",
    );
}

#[test]
fn a_busy_answer_of_a_free_lock_is_rejected() {
    rejects(&[busy("a", (0, 5), Mode::Exclusive)], &[], "one holder");
    let freed = [
        acquire("a", (0, 5), 1),
        released("a", (6, 7), 1, 0),
        busy("b", (8, 9), Mode::Exclusive),
    ];
    rejects(&freed, &[], "one holder");
}

#[test]
fn a_call_beside_another_one_may_be_busy() {
    let two = Mode::Permits(2);
    accepts(&[share("a", (0, 5), 1, two), busy("b", (4, 7), two)], &[]);
    rejects(
        &[share("a", (0, 5), 1, two), busy("b", (6, 7), two)],
        &[],
        "one holder",
    );
    // What a busy call has left to do in the background.
    let later = |at| busy("b", (at, at + 1), two);
    accepts(
        &[busy("c", (4, 5), two), share("a", (0, 5), 1, two), later(6)],
        &[],
    );
    rejects(
        &[
            busy("c", (4, 5), two),
            share("a", (0, 5), 1, two),
            later(6 + BACKGROUND_US),
        ],
        &[],
        "one holder",
    );
}

#[test]
fn an_owner_that_enters_again_is_busy_only_after_its_lease() {
    let again = |times| op("a", times, ask("a", Mode::Exclusive), Some(Answer::Busy));
    rejects(
        &[acquire("a", (0, 5), 1), again((50, 60))],
        &[],
        "one holder",
    );
    accepts(&[acquire("a", (0, 5), 1), again((90, 101))], &[]);
}

#[test]
fn a_release_that_was_undone_is_rejected() {
    let undone = [
        acquire("a", (0, 5), 1),
        released("a", (6, 7), 1, 0),
        renew("a", (8, 9), 1, Answer::Renewed),
    ];
    rejects(&undone, &[], "one holder");
}

#[test]
fn a_lease_lost_before_its_time_is_rejected() {
    let lost = renew("a", (50, 60), 1, Answer::Lost);
    rejects(&[acquire("a", (0, 5), 1), lost], &[], "one holder");
}

#[test]
fn a_reentrant_hold_with_a_new_token_is_rejected() {
    rejects(
        &[acquire("a", (0, 5), 1), reenter("a", (6, 7), 2, 2)],
        &[],
        "one holder",
    );
}

#[test]
fn a_forgotten_hold_is_rejected() {
    let once = [
        acquire("a", (0, 5), 1),
        reenter("a", (6, 7), 1, 2),
        released("a", (8, 9), 1, 0),
    ];
    rejects(&once, &[], "one holder");
}

#[test]
fn an_unanswered_acquire_may_hold_or_not() {
    accepts(
        &[unanswered("a", 0), busy("b", (10, 12), Mode::Exclusive)],
        &[],
    );
    accepts(&[unanswered("a", 0), acquire("b", (10, 12), 1)], &[]);
    // It holds for its TTL at most, unless it began late.
    accepts(
        &[
            unanswered("a", 0),
            busy("b", (10, 12), Mode::Exclusive),
            acquire("c", (110, 120), 7),
        ],
        &[],
    );
    // It explains no second holder.
    let two = [acquire("b", (10, 12), 1), acquire("c", (14, 15), 2)];
    rejects(
        &[&[unanswered("a", 0)], &two[..]].concat(),
        &[],
        "one holder",
    );
}

/// The search for an order of so many does not end, if the first order that it tries is not the right one. What the others got is
/// still checked.
#[test]
fn many_unanswered_acquires_hide_nothing() {
    let mut operations: Vec<Op> = (0..40)
        .map(|number| unanswered(&format!("lost {number}"), number))
        .collect();
    let mode = Mode::Permits(2);
    operations.extend([share("a", (50, 60), 2, mode), share("b", (51, 70), 1, mode)]);
    accepts(&operations, &[]);
    operations.push(share("c", (80, 90), 3, mode));
    rejects(&operations, &[], "one holder");
}

#[test]
fn an_unanswered_release_may_have_happened() {
    let unknown = release("a", (10, 0), 1, None);
    accepts(
        &[
            acquire("a", (0, 5), 1),
            unknown.clone(),
            acquire("b", (20, 25), 2),
        ],
        &[],
    );
    accepts(
        &[
            acquire("a", (0, 5), 1),
            unknown,
            busy("b", (20, 25), Mode::Exclusive),
        ],
        &[],
    );
}

#[test]
fn shared_holders_are_together() {
    accepts(
        &[
            share("a", (0, 5), 1, Mode::Shared),
            share("b", (6, 7), 2, Mode::Shared),
            busy("c", (8, 9), Mode::Exclusive),
        ],
        &[],
    );
}

#[test]
fn an_exclusive_holder_beside_a_shared_one_is_rejected() {
    rejects(
        &[share("a", (0, 5), 1, Mode::Shared), acquire("b", (6, 7), 2)],
        &[],
        "one holder",
    );
    rejects(
        &[acquire("b", (0, 5), 1), share("a", (6, 7), 2, Mode::Shared)],
        &[],
        "one holder",
    );
}

#[test]
fn more_holders_than_permits_are_rejected() {
    let two = Mode::Permits(2);
    let both = [share("a", (0, 5), 1, two), share("b", (6, 7), 2, two)];
    accepts(&[&both[..], &[busy("c", (8, 9), two)]].concat(), &[]);
    rejects(
        &[&both[..], &[share("c", (8, 9), 3, two)]].concat(),
        &[],
        "one holder",
    );
}

#[test]
fn a_permit_refused_while_one_is_free_is_rejected() {
    let two = Mode::Permits(2);
    rejects(
        &[share("a", (0, 5), 1, two), busy("b", (6, 7), two)],
        &[],
        "one holder",
    );
}

#[test]
fn of_several_permits_only_expired_ones_are_taken_over() {
    let two = Mode::Permits(2);
    let full = [share("a", (0, 5), 1, two), share("b", (50, 55), 2, two)];
    accepts(
        &[&full[..], &[share("c", (105, 110), 3, two)]].concat(),
        &[],
    );
    // The lease of `a` is over, that of `b` is not.
    let taken = [
        share("c", (105, 110), 3, two),
        share("d", (111, 112), 4, two),
    ];
    rejects(&[&full[..], &taken].concat(), &[], "one holder");
}

#[test]
fn a_stale_write_is_rejected() {
    rejects(&honest(), &[2, 1], "no stale write");
}

#[test]
fn sharers_write_in_any_order() {
    let both = [
        share("a", (0, 5), 1, Mode::Shared),
        share("b", (6, 7), 2, Mode::Shared),
        guarded("a", (8, 9), 1, Some(Answer::Committed)),
        guarded("b", (8, 9), 2, Some(Answer::Committed)),
    ];
    accepts(&both, &[2, 1]);
}

#[test]
fn a_sharer_that_writes_after_a_newer_exclusive_holder_is_rejected() {
    let both = [
        share("a", (0, 5), 1, Mode::Shared),
        acquire("b", (101, 105), 2),
        guarded("b", (106, 107), 2, Some(Answer::Committed)),
        guarded("a", (0, 0), 1, None),
    ];
    rejects(&both, &[2, 1], "no stale write");
}

#[test]
fn a_guarded_write_of_a_lost_lease_is_rejected() {
    let mut late = honest();
    late.push(guarded("a", (50, 55), 1, Some(Answer::Committed)));
    rejects(&late, &[1, 1, 2], "one holder");
}

#[test]
fn a_lost_write_is_rejected() {
    rejects(&honest(), &[1], "if and only if");
}

#[test]
fn a_refused_write_that_is_there_is_rejected() {
    let mut refused = honest();
    refused.push(guarded("a", (50, 55), 1, Some(Answer::Lost)));
    accepts(&refused, &[1, 2]);
    rejects(&refused, &[1, 1, 2], "if and only if");
}

#[test]
fn a_guard_that_refuses_a_live_lease_is_rejected() {
    let refused = guarded("a", (50, 55), 1, Some(Answer::Lost));
    rejects(&[acquire("a", (0, 5), 1), refused], &[], "one holder");
}

#[test]
fn a_lease_that_the_guard_refused_may_be_renewed_late() {
    let refused = guarded("a", (99, 105), 1, Some(Answer::Lost));
    let renewed = renew("a", (106, 108), 1, Answer::Renewed);
    accepts(&[acquire("a", (0, 5), 1), refused, renewed], &[]);
}

#[test]
fn a_write_that_was_never_asked_for_is_rejected() {
    rejects(&honest(), &[1, 2, 3], "if and only if");
}

#[test]
fn an_unanswered_write_may_be_there_or_not() {
    let mut unknown = honest();
    unknown.push(guarded("b", (50, 0), 2, None));
    accepts(&unknown, &[1, 2]);
    accepts(&unknown, &[1, 2, 2]);
}

#[test]
fn a_clock_that_was_stepped_is_tolerated() {
    let taken = [acquire("a", (0, 5), 1), acquire("b", (60, 70), 2)];
    rejects(&taken, &[], "one holder");
    let step = |from_us| ClockStep {
        from_us,
        until_us: from_us + 5,
        forward_us: 60,
    };
    assert_eq!(check(&taken, &[], &Clock::new(vec![step(40)])), []);
    let after = check(&taken, &[], &Clock::new(vec![step(80)]));
    assert_eq!(after.len(), 1);
}

#[test]
fn a_waiter_that_is_passed_is_rejected() {
    let first = acquire("a", (0, 90), 3);
    let second = acquire("b", (50, 60), 2);
    let passed = [first.clone(), second.clone()];
    assert_eq!(turns(&passed, 10).len(), 1);
    // They may have come at the same time.
    assert_eq!(turns(&passed, 60), []);
    let in_line = [acquire("a", (0, 60), 2), acquire("b", (50, 90), 3)];
    assert_eq!(turns(&in_line, 10), []);
}
