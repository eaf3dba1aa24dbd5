//! The statements of a push and a completion in the caller's own transaction (`caller.rs`).

use crate::clock::as_us;
use crate::store::*;

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../sql/", $file, ".sql"));)*
    };
}

statements! {
    INBOX_QUEUE_MAKE = "inbox_queue_make";
    INBOX_SERIAL = "inbox_serial";
    INBOX_KEY = "inbox_key";
    INBOX_PUSH = "inbox_push";
    INBOX_TX_DUE = "inbox_tx_due";
    INBOX_QUEUE_COUNT = "inbox_queue_count";
    INBOX_TX_TAKE = "inbox_tx_take";
    INBOX_CLAIM_RELEASE = "inbox_claim_release";
    INBOX_DONE = "inbox_done";
    INBOX_GROUP_NEXT = "inbox_group_next";
    INBOX_ERROR_FORGET = "inbox_error_forget";
    SEEN = "seen";
}

/// When an item may be claimed, if not at once: the time that is stored.
pub(crate) fn due_us(item: &NewItem, now: i64) -> Option<i64> {
    let due = match item.due? {
        Due::After(delay) => now.saturating_add(as_us(delay)),
        Due::At(time) => time.as_microsecond(),
    };
    (due > now).then_some(due)
}
