//! Staleness: of all runs of a key, only the answer of the newest counts.

use turno::Token;
use turno::once::{Claim, OnceSettled, OnceState, Released};

use crate::conformance::once::fixtures::*;
use crate::conformance::{TestStore, rule};

/// Returns a run that was assumed lost but continues, and the run that took over.
async fn zombie(test_store: &TestStore, key: &str) -> (Claim, Claim) {
    let (turno, other) = (test_store.turno().await, test_store.turno().await);
    let zombie = take(&turno, key).await;
    test_store.expire_once(key).await;
    let newest = take_over(&other, key).await;
    (zombie, newest)
}

/// An answer after another run has begun is stale, changes nothing, and is counted.
#[rule]
async fn a_stale_answer_is_reported_and_counted(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (zombie, newest) = zombie(test_store, "k").await;
    let before = status(&turno, "k").await;
    for late in 1..4 {
        assert_eq!(zombie.complete("old").await.unwrap(), OnceSettled::Stale);
        let mut after = status(&turno, "k").await;
        assert_eq!(after.late, late);
        after.late = before.late;
        assert_eq!(after, before);
    }
    // The claim is notified of it.
    zombie.stale().await;
    assert_eq!(newest.complete("new").await.unwrap(), OnceSettled::Done);
    assert_eq!(answered(&turno, "k").await.as_deref(), Some(r#""new""#));
}

/// A stale run does not overwrite the newer answer, with or without an answer of its own.
#[rule]
async fn a_zombie_does_not_overwrite(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (zombie, newest) = zombie(test_store, "k").await;
    newest.complete("new").await.unwrap();
    let before = status(&turno, "k").await;
    assert_eq!(zombie.complete("old").await.unwrap(), OnceSettled::Stale);
    let ttl = std::time::Duration::ZERO;
    let settled = zombie.complete_for("old", ttl).await.unwrap();
    assert_eq!(settled, OnceSettled::Stale);
    let settled = zombie.complete_without().await.unwrap();
    assert_eq!(settled, OnceSettled::Stale);
    let after = status(&turno, "k").await;
    assert_eq!(
        (after.state, after.late, after.expires_at),
        (OnceState::Done, 3, before.expires_at)
    );
    assert_eq!(answered(&turno, "k").await.as_deref(), Some(r#""new""#));
}

/// The control: a completion that does not compare the token overwrites the newer answer.
#[rule(postgres)]
async fn without_its_token_a_zombie_would_overwrite(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (zombie, newest) = zombie(test_store, "k").await;
    newest.complete("new").await.unwrap();
    let compared = "and t.token = a.token\n          and t.state = 'running'";
    test_store
        .replace_in_function("once_complete_batch", compared, "")
        .await;
    assert_eq!(zombie.complete("old").await.unwrap(), OnceSettled::Done);
    assert_eq!(answered(&turno, "k").await.as_deref(), Some(r#""old""#));
}

/// An answer after the lease has expired counts, if no other run has begun.
#[rule]
async fn a_late_answer_counts_without_a_takeover(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let claim = take(&turno, "k").await;
    test_store.expire_once("k").await;
    unknown(begin(&turno, "k").await);
    assert_eq!(claim.complete("late").await.unwrap(), OnceSettled::Done);
    assert_eq!(answered(&turno, "k").await.as_deref(), Some(r#""late""#));
    assert_eq!(status(&turno, "k").await.late, 0);
}

/// No other call of a stale run changes anything, either.
#[rule]
async fn a_stale_release_changes_nothing(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let (zombie, newest) = zombie(test_store, "k").await;
    let zombie = zombie.detach();
    let before = status(&turno, "k").await;
    for released in [Released::Undone, Released::Unknown] {
        let settled = turno.once_release(&zombie, released).await.unwrap();
        assert_eq!(settled, OnceSettled::Stale, "{released:?}");
    }
    let extended = turno.once_extend(&zombie, LONG * 10).await.unwrap();
    assert_eq!(extended, OnceSettled::Stale);
    let after = status(&turno, "k").await;
    assert_eq!(
        (after.state, &after.claim, after.expires_at),
        (before.state, &before.claim, before.expires_at)
    );
    assert_eq!(newest.complete("new").await.unwrap(), OnceSettled::Done);
}

/// An ended run stays ended: an answer cannot be released, and a released key cannot be answered.
#[rule]
async fn what_has_ended_stays_ended(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let done = take(&turno, "done").await;
    done.complete("done").await.unwrap();
    for released in [Released::Undone, Released::Unknown] {
        let settled = turno.once_release(done.id(), released).await.unwrap();
        assert_eq!(settled, OnceSettled::Stale, "{released:?}");
    }
    let extended = turno.once_extend(done.id(), LONG).await.unwrap();
    assert_eq!(extended, OnceSettled::Stale);
    assert_eq!(answered(&turno, "done").await.as_deref(), Some(r#""done""#));

    let given_back = take(&turno, "given back").await;
    let claim = given_back.id().clone();
    given_back.release().await.unwrap();
    let settled = turno.once_complete(&claim, Some("1"), None).await.unwrap();
    assert_eq!(settled, OnceSettled::Stale);
    let doubted = turno.once_release(&claim, Released::Unknown).await.unwrap();
    assert_eq!(doubted, OnceSettled::Stale);
    assert_eq!(
        turno.once_extend(&claim, LONG).await.unwrap(),
        OnceSettled::Stale
    );
    take(&turno, "given back").await.detach();
}

/// A claim of an unknown key, or of another key, is stale.
#[rule]
async fn a_claim_is_of_one_key(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let one = take(&turno, "one").await;
    let two = take(&turno, "two").await;
    for (key, token) in [
        ("one", Token(one.token().0 + 1)),
        ("one", Token(1)),
        ("never", one.token()),
    ] {
        let claim = turno::once::OnceClaim {
            key: key.into(),
            token,
        };
        let settled = turno.once_complete(&claim, Some("1"), None).await.unwrap();
        assert_eq!(settled, OnceSettled::Stale, "{claim}");
    }
    assert_eq!(turno.once("never").status().await.unwrap(), None);
    for claim in [one, two] {
        assert_eq!(claim.complete("mine").await.unwrap(), OnceSettled::Done);
    }
}

/// A store restored from a backup grants greater tokens than those granted after the backup: a run of that time is stale.
#[rule]
async fn a_restored_store_goes_on_above(test_store: &TestStore) {
    let turno = test_store.turno().await;
    take(&turno, "old").await.release().await.unwrap();
    let backup = test_store.backup().await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        for key in ["old", "new"] {
            let run = take(&turno, key).await;
            runs.push(run.id().clone());
            run.release().await.unwrap();
        }
    }
    let last = runs.iter().map(|run| run.token).max().unwrap();
    turno.close().await;
    test_store.restore(&backup).await;
    let turno = test_store.turno().await;
    for key in ["old", "new"] {
        assert!(
            take(&turno, key).await.detach().token > last,
            "{key} went back"
        );
    }
    for run in runs {
        let settled = turno.once_complete(&run, Some("1"), None).await.unwrap();
        assert_eq!(settled, OnceSettled::Stale, "{run:?}");
    }
}

/// The token of a key that was swept, forgotten, released or taken over is never granted again, even if the clock is behind
/// it.
#[rule]
async fn a_token_is_never_given_again(test_store: &TestStore) {
    let turno = test_store.turno().await;
    let year = 365 * 24 * 60 * 60 * 1_000_000;
    let mut ahead = turno::clock::machine().as_microsecond();
    for how in ["swept", "forgotten", "given back", "taken over", "over"] {
        ahead += year;
        let claim = take(&turno, how).await.detach();
        test_store.set_once_token(how, Token(ahead)).await;
        let claim = turno::once::OnceClaim {
            token: Token(ahead),
            ..claim
        };
        match how {
            "given back" => drop(turno.once_release(&claim, Released::Undone).await.unwrap()),
            "taken over" => test_store.expire_once(how).await,
            _ => drop(turno.once_complete(&claim, Some("1"), None).await.unwrap()),
        }
        match how {
            "swept" => {
                test_store.age_once(how, DAY * 2).await;
                assert_eq!(turno.sweep(&Default::default()).await.unwrap().once, 1);
            }
            "forgotten" => assert!(turno.once(how).forget().await.unwrap()),
            "over" => test_store.age_once(how, DAY * 2).await,
            _ => {}
        }
        let next = take_over(&turno, how).await;
        assert!(next.token().0 > ahead, "{how}: {} <= {ahead}", next.token());
        // The raised token is the stored one, and the old one is stale.
        let settled = turno.once_complete(&claim, Some("2"), None).await.unwrap();
        assert_eq!(settled, OnceSettled::Stale, "{how}");
        assert_eq!(next.complete("3").await.unwrap(), OnceSettled::Done);
    }
}
