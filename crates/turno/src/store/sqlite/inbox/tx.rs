//! The statements of a push and a completion in the caller's own transaction (`caller.rs`).

use crate::clock::as_us;
use crate::store::*;

pub(crate) const INBOX_QUEUE_MAKE: &str = query!(inbox_queue_make);
pub(crate) const INBOX_SERIAL: &str = query!(inbox_reserve_ids);
pub(crate) const INBOX_KEY: &str = query!(inbox_key_insert);
pub(crate) const INBOX_PUSH: &str = query!(inbox_push);
pub(crate) const INBOX_TX_DUE: &str = query!(inbox_due_count_all);
pub(crate) const INBOX_QUEUE_COUNT: &str = query!(inbox_queue_count);
pub(crate) const INBOX_TX_TAKE: &str = query!(inbox_complete_in);
pub(crate) const INBOX_CLAIM_RELEASE: &str = query!(inbox_claim_release);
pub(crate) const INBOX_DONE: &str = query!(inbox_done_insert);
pub(crate) const INBOX_GROUP_NEXT: &str = query!(inbox_group_unblock);
pub(crate) const INBOX_ERROR_FORGET: &str = query!(inbox_error_delete);
pub(crate) const SEEN: &str = query!(mark_processed);

/// Returns the stored due time of an item; `None` if it may be claimed at once.
pub(crate) fn due_us(item: &NewItem, now: i64) -> Option<i64> {
    let due = match item.due? {
        Due::After(delay) => now.saturating_add(as_us(delay)),
        Due::At(time) => time.as_microsecond(),
    };
    (due > now).then_some(due)
}
