//! Names, ids and durations, as clients send them.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use turno::once::AnswerKeys;
use turno_api::check;
use turno_api::duration::WireDuration;
use turno_api::ids::{ClaimId, LeaseId, OnceClaim};

/// What must hold for any bytes.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    name(text);
    duration(text);
    round_trip::<LeaseId>(text);
    round_trip::<ClaimId>(text);
    round_trip::<OnceClaim>(text);
    answer_keys(text);
}

/// A name that is accepted is short, and can be printed in one line.
fn name(text: &str) {
    for accepted in [check::name("name", text), check::queue(text)] {
        if accepted.is_ok() {
            assert!(!text.is_empty() && text.len() <= check::NAME_BYTES);
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }
}

/// A duration is the same after a round trip, but for a part of a millisecond that was rounded up.
fn duration(text: &str) {
    let Ok(WireDuration(given)) = text.parse() else {
        return;
    };
    let json = serde_json::to_string(&WireDuration(given)).expect("it can be written");
    let WireDuration(read) = serde_json::from_str(&json).expect("what was written can be read");
    assert!(read >= given, "{text:?}");
    assert!(read - given < Duration::from_millis(1), "{text:?}");
}

/// An id that is accepted is the same after a round trip.
fn round_trip<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(id) = text.parse::<T>() {
        assert_eq!(id.to_string().parse::<T>().expect("its own text"), id);
    }
}

/// A key is a secret: no message has a part of it.
fn answer_keys(text: &str) {
    let Err(error) = text.parse::<AnswerKeys>() else {
        return;
    };
    let message = error.to_string();
    let secrets = text.split(',').filter_map(|one| one.split_once(':'));
    for (_, secret) in secrets.filter(|(_, secret)| secret.trim().len() > 12) {
        assert!(!message.contains(secret.trim()), "{message}");
    }
}
