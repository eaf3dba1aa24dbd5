//! Checks of names, times and numbers. An invalid argument is rejected here, with the field's name, before the store is called.

use std::borrow::Cow;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::inbox::{Due, MAX_RATE_TIME, MAX_SETTING, NewItem, PRIORITIES, SettingsChange};
use crate::once::Quota;
use crate::outbox::{MAX_BATCH, NewEvent, POSSIBLE_DUPLICATE, routing_key};

/// Maximum length of a resource, owner, user or service, in bytes.
pub const NAME_BYTES: usize = 255;
/// Maximum length of a description or reason, in bytes.
pub const TEXT_BYTES: usize = 1000;
/// Minimum TTL of a lease.
pub const MIN_TTL: Duration = Duration::from_millis(1);
/// Default maximum TTL of a lease.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum wait of one call.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of permits and of shared holders of a resource.
pub const MAX_PERMITS: u32 = 10_000;
/// Maximum number of resources of one acquire-all.
pub const MAX_TOGETHER: usize = 100;
/// Maximum size of a page.
pub const MAX_PAGE: u32 = 1000;
/// Maximum number of items of one push, claim or settlement.
pub const MAX_ITEMS: usize = 10_000;
/// Default maximum size of a payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
/// Maximum number of holds of one owner on one resource.
pub const MAX_HOLDS: u32 = 1000;
/// Default maximum sum of the payloads of one claim, in bytes.
pub const MAX_CLAIM_BYTES: usize = 16 * 1024 * 1024;
/// Maximum delay of an item.
pub const MAX_DELAY: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// The last second of the year 2199.
const LAST_SECOND: i64 = 7_258_118_399;
/// Maximum quota of live once keys.
pub const MAX_QUOTA: u32 = 1_000_000;
/// Maximum number of attempts of an item.
pub const MAX_ATTEMPTS: u16 = 1000;

/// Returns the error of an invalid argument, if it is one.
fn reject_if<R: Into<Cow<'static, str>>>(
    is_invalid: bool,
    field: &'static str,
    reason: impl FnOnce() -> R,
) -> Result<()> {
    if is_invalid {
        return Err(Error::invalid(field, reason()));
    }
    Ok(())
}

/// A name: 1 to 255 bytes of UTF-8 without control characters.
pub fn name(field: &'static str, value: &str) -> Result<()> {
    text(field, value, NAME_BYTES)
}

/// The name of a queue. Names that begin with `$` are reserved.
pub fn queue(value: &str) -> Result<()> {
    name("queue", value)?;
    reject_if(
        value.starts_with('$'),
        "queue",
        || "queue begins with $, and such names are Turno's own: choose another; events are emitted into the outbox",
    )
}

/// An optional name.
pub fn optional_name(field: &'static str, value: Option<&str>) -> Result<()> {
    value.map_or(Ok(()), |value| name(field, value))
}

/// The user and the reason of an operator action.
pub fn operator(user: Option<&str>, reason: Option<&str>) -> Result<()> {
    optional_name("user", user)?;
    reason.map_or(Ok(()), |reason| text("reason", reason, TEXT_BYTES))
}

/// Text of a bounded length without control characters.
pub fn text(field: &'static str, value: &str, longest: usize) -> Result<()> {
    reject_if(value.is_empty(), field, || {
        format!("{field} is empty: give it 1 to {longest} bytes of text")
    })?;
    reject_if(value.len() > longest, field, || {
        format!(
            "{field} has {} bytes, and {longest} is the most: shorten it, or use a hash of it",
            value.len()
        )
    })?;
    reject_if(value.chars().any(char::is_control), field, || {
        format!(
            "{field} has a control character: remove line breaks, tabs and other control characters"
        )
    })
}

/// The TTL of a lease.
pub fn ttl(value: Duration, longest: Duration) -> Result<()> {
    reject_if(value < MIN_TTL, "ttl", || {
        "ttl must be at least 1 ms: give the longest time that the work can take between two \
             renewals, such as 30s"
    })?;
    reject_if(value > longest, "ttl", || {
        format!(
            "ttl is {value:?}, and {longest:?} is the most: take a shorter lease and renew it, or \
                 raise max_ttl"
        )
    })
}

/// `min_hold` and `max_hold`.
pub fn holds(ttl: Duration, min: Option<Duration>, max: Option<Duration>) -> Result<()> {
    reject_if(min.is_some_and(|min| min > ttl), "min_hold", || {
        format!("min_hold is above the ttl ({ttl:?}): raise the ttl or lower min_hold")
    })?;
    reject_if(
        max.is_some_and(|max| max < MIN_TTL || min.is_some_and(|min| max < min)),
        "max_hold",
        || "max_hold must be at least 1 ms and not below min_hold: raise it, or leave it out",
    )?;
    max.map_or(Ok(()), |max| delay("max_hold", max))
}

/// The wait of a call.
pub fn wait(value: Duration) -> Result<()> {
    reject_if(value > MAX_WAIT, "wait", || {
        format!("wait is {value:?}, and {MAX_WAIT:?} is the most: wait less, and call again")
    })
}

/// Number of permits.
pub fn permits(value: u32) -> Result<()> {
    reject_if(!(1..=MAX_PERMITS).contains(&value), "permits", || {
        format!("permits is {value}, and must be between 1 and {MAX_PERMITS}")
    })
}

/// A change of a queue's settings.
pub fn settings(change: &SettingsChange) -> Result<()> {
    let number = |field, value: u32| {
        reject_if(!(1..=MAX_SETTING).contains(&value), field, || {
            format!(
                "{field} has {value}, and must be between 1 and {MAX_SETTING}: to let no item begin, pause the queue"
            )
        })
    };
    if let Some(Some(most)) = change.max_running {
        number("max_running", most)?;
    }
    if let Some(Some(rate)) = change.rate {
        number("rate", rate.count)?;
        number("rate", rate.burst)?;
        let times = Duration::from_millis(1)..=MAX_RATE_TIME;
        reject_if(
            !times.contains(&rate.per.0),
            "rate",
            || "rate must be per a time between 1ms and 1d: write 100 per 1m",
        )?;
    }
    Ok(())
}

/// An item to push.
pub fn item(item: &NewItem, largest: usize) -> Result<()> {
    reject_if(item.payload.len() > largest, "payload", || {
        format!(
            "payload has {} bytes, and {largest} is the most: store it elsewhere and push a reference, or raise max_payload",
            item.payload.len()
        )
    })?;
    optional_name("key", item.key.as_deref())?;
    optional_name("group", item.group.as_deref())?;
    reject_if(item.priority >= PRIORITIES, "priority", || {
        format!(
            "priority is {}, and must be between 0 (the most urgent) and {}",
            item.priority,
            PRIORITIES - 1
        )
    })?;
    reject_if(
        !(1..=MAX_ATTEMPTS).contains(&item.max_attempts),
        "max_attempts",
        || {
            format!(
                "max_attempts is {}, and must be between 1 and {MAX_ATTEMPTS}",
                item.max_attempts
            )
        },
    )?;
    match item.due {
        Some(Due::After(delay)) => self::delay("delay", delay),
        // A past time means at once. Stores do not represent all times.
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

/// An event to emit.
pub fn event(event: &NewEvent, largest: usize) -> Result<()> {
    name("type", &event.kind)?;
    let key = routing_key(&event.kind);
    reject_if(key.len() > NAME_BYTES, "type", || {
        format!(
            "type is too long: its routing key has {} bytes, and {NAME_BYTES} is the most. Give the event a shorter type",
            key.len()
        )
    })?;
    reject_if(event.payload.len() > largest, "payload", || {
        format!(
            "payload has {} bytes, and {largest} is the most: store it elsewhere and emit a reference, or raise max_payload",
            event.payload.len()
        )
    })?;
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

/// Maximum number of headers of an event.
const MAX_HEADERS: usize = 64;
/// Maximum length of a header's name, in bytes.
const HEADER_NAME_BYTES: usize = 100;
/// Maximum length of a header's value, in bytes.
const HEADER_BYTES: usize = 4096;
/// Maximum length of a trace state, in bytes, by the W3C.
const TRACESTATE_BYTES: usize = 512;
/// Headers that sinks write themselves, in lower case.
const RESERVED_HEADERS: [&str; 8] = [
    "type",
    "correlationid",
    "timestamp",
    "key",
    "traceparent",
    "tracestate",
    POSSIBLE_DUPLICATE,
    "idempotency-key",
];
/// Prefixes of further reserved headers.
const RESERVED_PREFIXES: [&str; 4] = ["ce-", "webhook-", "nats-", "content-"];

fn headers(headers: &std::collections::BTreeMap<String, String>) -> Result<()> {
    reject_if(headers.len() > MAX_HEADERS, "headers", || {
        format!(
            "headers has {} entries, and {MAX_HEADERS} is the most: put them into the payload",
            headers.len()
        )
    })?;
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

/// The format of the W3C: version, trace, parent, flags.
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

/// Number of events of a relay's batch.
pub fn batch(value: u32) -> Result<()> {
    reject_if(!(1..=MAX_BATCH).contains(&value), "batch", || {
        format!("batch is {value}, and must be between 1 and {MAX_BATCH}")
    })
}

/// A delay.
pub fn delay(field: &'static str, value: Duration) -> Result<()> {
    reject_if(value > MAX_DELAY, field, || {
        format!("{field} is {value:?}, and ten years are the most: choose an earlier time")
    })
}

/// Number of entries of one call.
pub fn item_count(field: &'static str, count: usize) -> Result<()> {
    reject_if(count > MAX_ITEMS, field, || {
        format!("{field} has {count} entries, and {MAX_ITEMS} is the most: divide them")
    })
}

/// The lease of a claim.
pub fn lease(value: Duration) -> Result<()> {
    reject_if(!(MIN_TTL..=MAX_TTL).contains(&value), "lease", || {
        format!(
            "lease is {value:?}, and must be between 1 ms and {MAX_TTL:?}: take a shorter one and extend it"
        )
    })
}

/// The TTL of an answer.
pub fn keep(value: Duration) -> Result<()> {
    reject_if(value > MAX_DELAY, "ttl", || {
        format!("ttl is {value:?}, and ten years are the most: keep the answer for less")
    })
}

/// A quota of live once keys.
pub fn quota(value: &Quota) -> Result<()> {
    name("scope", &value.scope)?;
    reject_if(!(1..=MAX_QUOTA).contains(&value.most), "quota", || {
        format!(
            "quota is {}, and must be between 1 and {MAX_QUOTA}",
            value.most
        )
    })
}

/// One more hold of a resource of which its owner has this many.
pub fn one_more_hold(holds: u32) -> Result<()> {
    reject_if(holds >= MAX_HOLDS, "owner", || {
        format!(
            "owner has entered the resource {holds} times, and {MAX_HOLDS} is the most: release what was acquired, or give each holder an owner of its own"
        )
    })
}

/// Number of items of one claim.
pub fn limit(value: u32) -> Result<()> {
    reject_if(
        !(1..=MAX_ITEMS).contains(&(value as usize)),
        "limit",
        || {
            format!(
                "limit is {value}, and must be between 1 and {MAX_ITEMS}: claim fewer at a time, and more often"
            )
        },
    )
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
    fn min_hold_is_not_above_ttl_or_max_hold() {
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
