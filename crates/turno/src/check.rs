//! What a name, a time and a number may be: refused here, with the field named, before any store.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::sink::routing_key;
use crate::store::{Due, MAX_BATCH, NewEvent, NewItem, PRIORITIES, Quota};

/// The longest resource, owner, user or service, in bytes.
pub const NAME_BYTES: usize = 255;
/// The longest description or reason, in bytes.
pub const TEXT_BYTES: usize = 1000;
/// The shortest lease.
pub const MIN_TTL: Duration = Duration::from_millis(1);
/// The longest lease, unless configured otherwise.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest that one call may wait.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// The most permits that a resource can have, and the most shared holds.
pub const MAX_PERMITS: u32 = 10_000;
/// The most resources that are taken together.
pub const MAX_TOGETHER: usize = 100;
/// The most rows of one page.
pub const MAX_PAGE: u32 = 1000;
/// The most items that are pushed, claimed or settled together.
pub const MAX_ITEMS: usize = 10_000;
/// The largest payload of an item, unless configured otherwise.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// How often one owner can enter one resource without releasing it.
pub const MAX_HOLDS: u32 = 1000;
/// The most bytes that the payloads of one claim have together, unless configured otherwise.
pub const MAX_CLAIM_BYTES: usize = 16 * 1024 * 1024;
/// The longest delay of an item.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// The last second of the year 2199.
const LAST_SECOND: i64 = 7_258_118_399;
/// The most live keys that a scope can be allowed.
pub const MAX_QUOTA: u32 = 1_000_000;
/// The most attempts that an item can be given.
pub const MAX_ATTEMPTS: u16 = 1000;

/// A name: 1 to 255 bytes of UTF-8 without control characters.
pub(crate) fn name(field: &'static str, value: &str) -> Result<()> {
    text(field, value, NAME_BYTES)
}

/// The name of a queue. Those that begin with `$` are Turno's own.
pub(crate) fn queue(value: &str) -> Result<()> {
    name("queue", value)?;
    if value.starts_with('$') {
        return Err(Error::invalid(
            "queue",
            "queue begins with $, and such names are Turno's own: choose another; events are emitted into the outbox",
        ));
    }
    Ok(())
}

/// A name that may be absent.
pub(crate) fn optional_name(field: &'static str, value: Option<&str>) -> Result<()> {
    value.map_or(Ok(()), |value| name(field, value))
}

/// Who does something by hand, and why.
pub(crate) fn by_hand(user: Option<&str>, reason: Option<&str>) -> Result<()> {
    optional_name("user", user)?;
    reason.map_or(Ok(()), |reason| text("reason", reason, TEXT_BYTES))
}

/// Text of a bounded length without control characters.
pub(crate) fn text(field: &'static str, value: &str, longest: usize) -> Result<()> {
    if value.is_empty() {
        return Err(Error::invalid(
            field,
            format!("{field} is empty: give it 1 to {longest} bytes of text"),
        ));
    }
    if value.len() > longest {
        return Err(Error::invalid(
            field,
            format!(
                "{field} has {} bytes, and {longest} is the most: shorten it, or use a hash of it",
                value.len()
            ),
        ));
    }
    if value.chars().any(char::is_control) {
        return Err(Error::invalid(
            field,
            format!(
                "{field} has a control character: remove line breaks, tabs and other control characters"
            ),
        ));
    }
    Ok(())
}

/// A lease's time to live.
pub(crate) fn ttl(value: Duration, longest: Duration) -> Result<()> {
    if value < MIN_TTL {
        return Err(Error::invalid(
            "ttl",
            "ttl must be at least 1 ms: give the longest time that the work can take between two \
             renewals, such as 30s",
        ));
    }
    if value > longest {
        return Err(Error::invalid(
            "ttl",
            format!(
                "ttl is {value:?}, and {longest:?} is the most: take a shorter lease and renew it, or \
                 raise max_ttl"
            ),
        ));
    }
    Ok(())
}

/// The least and the most that a lock is held.
pub(crate) fn holds(ttl: Duration, min: Option<Duration>, max: Option<Duration>) -> Result<()> {
    if min.is_some_and(|min| min > ttl) {
        return Err(Error::invalid(
            "min_hold",
            format!("min_hold is above the ttl ({ttl:?}): raise the ttl or lower min_hold"),
        ));
    }
    if max.is_some_and(|max| max < MIN_TTL || min.is_some_and(|min| max < min)) {
        return Err(Error::invalid(
            "max_hold",
            "max_hold must be at least 1 ms and not below min_hold: raise it, or leave it out",
        ));
    }
    max.map_or(Ok(()), |max| delay("max_hold", max))
}

/// How long a call may wait.
pub(crate) fn wait(value: Duration) -> Result<()> {
    if value > MAX_WAIT {
        return Err(Error::invalid(
            "wait",
            format!("wait is {value:?}, and {MAX_WAIT:?} is the most: wait less, and call again"),
        ));
    }
    Ok(())
}

/// How many may hold a resource at once.
pub(crate) fn permits(value: u32) -> Result<()> {
    if !(1..=MAX_PERMITS).contains(&value) {
        return Err(Error::invalid(
            "permits",
            format!("permits is {value}, and must be between 1 and {MAX_PERMITS}"),
        ));
    }
    Ok(())
}

/// One of many items to be pushed.
pub(crate) fn item(item: &NewItem, largest: usize) -> Result<()> {
    if item.payload.len() > largest {
        return Err(Error::invalid(
            "payload",
            format!(
                "payload has {} bytes, and {largest} is the most: store it elsewhere and push a reference, or raise max_payload",
                item.payload.len()
            ),
        ));
    }
    optional_name("key", item.key.as_deref())?;
    optional_name("group", item.group.as_deref())?;
    if item.priority >= PRIORITIES {
        return Err(Error::invalid(
            "priority",
            format!(
                "priority is {}, and must be between 0 (the most urgent) and {}",
                item.priority,
                PRIORITIES - 1
            ),
        ));
    }
    if !(1..=MAX_ATTEMPTS).contains(&item.max_attempts) {
        return Err(Error::invalid(
            "max_attempts",
            format!(
                "max_attempts is {}, and must be between 1 and {MAX_ATTEMPTS}",
                item.max_attempts
            ),
        ));
    }
    match item.due {
        Some(Due::After(delay)) => self::delay("delay", delay),
        // Any time in the past is as good as now; but stores do not know all of them.
        Some(Due::At(time)) if !(0..=LAST_SECOND).contains(&time.as_second()) => {
            Err(Error::invalid(
                "run_at",
                format!(
                    "run_at is {time}, and must be between 1970 and 2200: leave it out for at once"
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// An event to be emitted.
pub(crate) fn event(event: &NewEvent, largest: usize) -> Result<()> {
    name("type", &event.kind)?;
    let key = routing_key(&event.kind);
    if key.len() > NAME_BYTES {
        return Err(Error::invalid(
            "type",
            format!(
                "type is too long: its routing key has {} bytes, and {NAME_BYTES} is the most. Give the event a shorter type",
                key.len()
            ),
        ));
    }
    if event.payload.len() > largest {
        return Err(Error::invalid(
            "payload",
            format!(
                "payload has {} bytes, and {largest} is the most: store it elsewhere and emit a reference, or raise max_payload",
                event.payload.len()
            ),
        ));
    }
    optional_name("key", event.key.as_deref())?;
    optional_name("correlation_id", event.correlation_id.as_deref())?;
    if let Some(trace) = &event.traceparent {
        traceparent(trace)?;
    }
    if let Some(state) = &event.tracestate {
        text("tracestate", state, TRACESTATE_BYTES)?;
    }
    headers(&event.headers)?;
    event.delay.map_or(Ok(()), |value| delay("delay", value))
}

/// The most headers of an event.
const MAX_HEADERS: usize = 64;
/// The longest name of a header, in bytes.
const HEADER_NAME_BYTES: usize = 100;
/// The longest value of a header, in bytes.
const HEADER_BYTES: usize = 4096;
/// The longest trace state, in bytes, as the W3C has it.
const TRACESTATE_BYTES: usize = 512;
/// Headers that sinks write themselves, in small letters.
const RESERVED_HEADERS: [&str; 8] = [
    "type",
    "correlationid",
    "timestamp",
    "key",
    "traceparent",
    "tracestate",
    crate::sink::POSSIBLE_DUPLICATE,
    "idempotency-key",
];
/// And whatever begins so.
const RESERVED_PREFIXES: [&str; 4] = ["ce-", "webhook-", "nats-", "content-"];

fn headers(headers: &std::collections::BTreeMap<String, String>) -> Result<()> {
    if headers.len() > MAX_HEADERS {
        return Err(Error::invalid(
            "headers",
            format!(
                "headers has {} entries, and {MAX_HEADERS} is the most: put them into the payload",
                headers.len()
            ),
        ));
    }
    for (name, value) in headers {
        let small = name.to_ascii_lowercase();
        let is_name = (1..=HEADER_NAME_BYTES).contains(&name.len())
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
        let is_reserved = RESERVED_HEADERS.contains(&small.as_str())
            || RESERVED_PREFIXES
                .iter()
                .any(|prefix| small.starts_with(prefix));
        let is_value = value.len() <= HEADER_BYTES && !value.chars().any(char::is_control);
        if !is_name || is_reserved || !is_value {
            return Err(Error::invalid(
                "headers",
                format!(
                    "headers has one that cannot be sent ({:?}): a name has 1 to {HEADER_NAME_BYTES} letters, digits, _ . or -, \
                     and is none that sinks write themselves; a value is text of at most {HEADER_BYTES} bytes without control characters",
                    name.chars().take(HEADER_NAME_BYTES).collect::<String>()
                ),
            ));
        }
    }
    Ok(())
}

/// As the W3C has it: version, trace, parent, flags.
fn traceparent(value: &str) -> Result<()> {
    let mut parts = value.splitn(5, '-');
    let mut is_hex = |length| {
        parts.next().is_some_and(|part| {
            part.len() == length
                && part
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let is_one = value.len() <= NAME_BYTES
        && [2, 32, 16, 2].into_iter().all(&mut is_hex)
        && !value.chars().any(char::is_control);
    if is_one {
        return Ok(());
    }
    Err(Error::invalid(
        "traceparent",
        "traceparent is not one of the W3C's: it looks like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ))
}

/// How many events a relay takes at once.
pub(crate) fn batch(value: u32) -> Result<()> {
    if !(1..=MAX_BATCH).contains(&value) {
        return Err(Error::invalid(
            "batch",
            format!("batch is {value}, and must be between 1 and {MAX_BATCH}"),
        ));
    }
    Ok(())
}

/// How long something is put off.
pub(crate) fn delay(field: &'static str, value: Duration) -> Result<()> {
    if value > MAX_DELAY {
        return Err(Error::invalid(
            field,
            format!("{field} is {value:?}, and ten years are the most: choose an earlier time"),
        ));
    }
    Ok(())
}

/// How many items are handled together.
pub(crate) fn together(field: &'static str, count: usize) -> Result<()> {
    if count > MAX_ITEMS {
        return Err(Error::invalid(
            field,
            format!("{field} has {count} entries, and {MAX_ITEMS} is the most: divide them"),
        ));
    }
    Ok(())
}

/// How long a claim lives.
pub(crate) fn lease(value: Duration) -> Result<()> {
    if !(MIN_TTL..=MAX_TTL).contains(&value) {
        return Err(Error::invalid(
            "lease",
            format!(
                "lease is {value:?}, and must be between 1 ms and {MAX_TTL:?}: take a shorter one and extend it"
            ),
        ));
    }
    Ok(())
}

/// How long an answer is kept.
pub(crate) fn keep(value: Duration) -> Result<()> {
    if value > MAX_DELAY {
        return Err(Error::invalid(
            "ttl",
            format!("ttl is {value:?}, and ten years are the most: keep the answer for less"),
        ));
    }
    Ok(())
}

/// How many live keys a scope may have.
pub(crate) fn quota(value: &Quota) -> Result<()> {
    name("scope", &value.scope)?;
    if !(1..=MAX_QUOTA).contains(&value.most) {
        return Err(Error::invalid(
            "quota",
            format!(
                "quota is {}, and must be between 1 and {MAX_QUOTA}",
                value.most
            ),
        ));
    }
    Ok(())
}

/// One hold more of a resource that its owner has entered so often.
pub(crate) fn one_more_hold(holds: u32) -> Result<()> {
    if holds >= MAX_HOLDS {
        return Err(Error::invalid(
            "owner",
            format!(
                "owner has entered the resource {holds} times, and {MAX_HOLDS} is the most: release what was acquired, or give each holder an owner of its own"
            ),
        ));
    }
    Ok(())
}

/// How many items are claimed together.
pub(crate) fn limit(value: u32) -> Result<()> {
    if !(1..=MAX_ITEMS).contains(&(value as usize)) {
        return Err(Error::invalid(
            "limit",
            format!(
                "limit is {value}, and must be between 1 and {MAX_ITEMS}: claim fewer at a time, and more often"
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        assert!(name("resource", "PRESTAMO/123").is_ok());
        assert!(name("resource", &"x".repeat(255)).is_ok());
        assert!(name("resource", "préstamo/ñ").is_ok());
        for bad in ["", "a\nb", "a\u{0}", "a\u{85}b", &"x".repeat(256)] {
            assert_eq!(
                name("resource", bad).unwrap_err().field(),
                Some("resource"),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn a_ttl_is_above_zero_and_below_the_limit() {
        assert!(ttl(Duration::from_secs(30), MAX_TTL).is_ok());
        assert!(ttl(MAX_TTL, MAX_TTL).is_ok());
        assert!(ttl(Duration::ZERO, MAX_TTL).is_err());
        assert!(ttl(MAX_TTL + MIN_TTL, MAX_TTL).is_err());
    }

    #[test]
    fn a_lock_is_held_at_least_for_less_than_at_most() {
        let seconds = Duration::from_secs;
        assert!(holds(seconds(30), Some(seconds(5)), Some(seconds(60))).is_ok());
        assert_eq!(
            holds(seconds(3), Some(seconds(5)), None)
                .unwrap_err()
                .field(),
            Some("min_hold")
        );
        assert_eq!(
            holds(seconds(30), None, Some(Duration::ZERO))
                .unwrap_err()
                .field(),
            Some("max_hold")
        );
        assert_eq!(
            holds(seconds(9), Some(seconds(5)), Some(seconds(4)))
                .unwrap_err()
                .field(),
            Some("max_hold")
        );
        assert_eq!(
            holds(seconds(9), None, Some(Duration::MAX))
                .unwrap_err()
                .field(),
            Some("max_hold")
        );
    }
}
