//! Converts a response, or the lack of one, to a result.

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::Response;
use reqwest::header::RETRY_AFTER;

use super::Webhook;
use crate::clock;
use crate::sink::{Outage, PublishResult};

/// Maximum number of bytes of a response that are read. A response could be endless.
const READ_BYTES: usize = 64 << 10;
/// Maximum number of characters of a response that are reported.
const REPORTED_CHARS: usize = 300;

/// Returns the result that a response means.
pub(super) async fn result(webhook: &Webhook, response: Response) -> PublishResult {
    let status = response.status();
    match status.as_u16() {
        200..=299 => {
            // Reads the body so that the connection can be reused; its content does not matter.
            read(response).await;
            PublishResult::Sent
        }
        300..=399 => PublishResult::Refused(format!(
            "answered {status}: redirects are not followed. Give the address that it redirects to"
        )),
        408 | 425 | 429 | 502 | 503 | 504 => {
            let later = response.headers().get(RETRY_AFTER);
            let later = later.and_then(|later| later.to_str().ok());
            let shown = later.map(|later| format!(" (Retry-After: {})", bounded(later)));
            let outage = webhook.outage(&format!("answered {status}{}", shown.unwrap_or_default()));
            PublishResult::Doubtful(
                match later.and_then(|later| retry_after(later, clock::machine())) {
                    Some(pause) => outage.with_retry_after(pause),
                    None => outage,
                },
            )
        }
        _ => {
            let body = read(response).await;
            match bounded(&String::from_utf8_lossy(&body)) {
                said if said.is_empty() => PublishResult::Refused(format!("answered {status}")),
                said => PublishResult::Refused(format!("answered {status}: {said}")),
            }
        }
    }
}

/// Parses `Retry-After`: a number of seconds, or an HTTP date (`Sun, 06 Nov 1994 08:49:37 GMT`). A date in the past
/// means no pause; any other value is ignored.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit is the longest pause. The relay bounds it.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Returns the result if there is no response.
pub(super) fn no_answer(webhook: &Webhook, error: &reqwest::Error) -> PublishResult {
    let outage: Outage = match error.is_timeout() && !error.is_connect() {
        true => webhook.outage(&format!("does not answer within {:?}", webhook.timeout)),
        false => webhook.outage(&format!("cannot be reached: {}", root(error))),
    };
    match error.is_connect() || error.is_builder() {
        true => PublishResult::Unsent(outage),
        false => PublishResult::Doubtful(outage),
    }
}

/// Returns the innermost cause. The outer ones contain the URL, which may be secret.
fn root(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.is::<reqwest::Error>() {
        true => "the request failed".to_owned(),
        false => cause.to_string(),
    }
}

async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < READ_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    body
}

/// Returns the text on one line, shortened.
fn bounded(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REPORTED_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
        let read = |value| retry_after(value, now);
        assert_eq!(read("120"), Some(Duration::from_secs(120)));
        assert_eq!(read(" 0 "), Some(Duration::ZERO));
        assert_eq!(
            read("99999999999999999999999"),
            Some(Duration::from_secs(u64::MAX))
        );
        assert_eq!(
            read("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::from_secs(30))
        );
        assert_eq!(read("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        for wrong in ["", "soon", "-5", "1.5", "120 s"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
