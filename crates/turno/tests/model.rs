//! Random histories, in which every store and the model return the same results.

use turno_testkit::conformance::TestStore;
use turno_testkit::model::{Flaw, check};

/// Enough to exercise every rule many times, in a few seconds.
const HISTORIES: u32 = 100;

fn agree(test_store: &TestStore) {
    if let Err(difference) = check(test_store, HISTORIES, Flaw::None) {
        panic!("{difference}");
    }
}

#[test]
fn sqlite_agrees_with_the_model() {
    agree(&TestStore::sqlite());
}

#[test]
fn postgres_agrees_with_the_model() {
    agree(&TestStore::postgres());
}

/// The controls: a model with a flaw soon disagrees.
mod a_flaw_is_noticed {
    use super::*;

    /// Maximum number of histories for a flaw that only rare steps show.
    const MANY_HISTORIES: u32 = 30 * HISTORIES;

    fn noticed(flaw: Flaw) {
        assert!(
            check(&TestStore::sqlite(), MANY_HISTORIES, flaw).is_err(),
            "{flaw:?} was not noticed"
        );
    }

    #[test]
    fn a_release_that_ignores_the_token() {
        noticed(Flaw::ReleaseIgnoresTheToken);
    }

    #[test]
    fn a_renewal_that_revives() {
        noticed(Flaw::RenewalRevives);
    }

    #[test]
    fn an_expired_holder_that_is_busy() {
        noticed(Flaw::ExpiredIsBusy);
    }

    #[test]
    fn holds_that_are_not_counted() {
        noticed(Flaw::HoldsAreNotCounted);
    }

    #[test]
    fn one_permit_too_many() {
        noticed(Flaw::OnePermitTooMany);
    }

    #[test]
    fn a_reentry_that_ends_others() {
        noticed(Flaw::ReentryEndsTheExpired);
    }
}
