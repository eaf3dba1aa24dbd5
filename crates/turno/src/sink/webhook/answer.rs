//! From an answer, or none, to a fate.

use std::error::Error;

use reqwest::Response;
use reqwest::header::RETRY_AFTER;

use super::Webhook;
use crate::sink::{Fate, Outage};

/// How much of an answer is read. More is nobody's business, and could be without end.
const READ_BYTES: usize = 64 << 10;
/// How much of it is told.
const TOLD_CHARS: usize = 300;

/// What an answer means.
pub(super) async fn fate(webhook: &Webhook, response: Response) -> Fate {
    let status = response.status();
    match status.as_u16() {
        200..=299 => {
            // Read to its end, so that the connection can be used again; what it says does not matter.
            read(response).await;
            Fate::Sent
        }
        300..=399 => Fate::Refused(format!(
            "answered {status}: redirects are not followed. Give the address that it redirects to"
        )),
        408 | 425 | 429 | 502 | 503 | 504 => {
            let later = response.headers().get(RETRY_AFTER);
            let later = later.and_then(|later| later.to_str().ok());
            let later = later.map(|later| format!(" (Retry-After: {})", bounded(later)));
            Fate::Doubtful(
                webhook.outage(&format!("answered {status}{}", later.unwrap_or_default())),
            )
        }
        _ => {
            let body = read(response).await;
            match bounded(&String::from_utf8_lossy(&body)) {
                said if said.is_empty() => Fate::Refused(format!("answered {status}")),
                said => Fate::Refused(format!("answered {status}: {said}")),
            }
        }
    }
}

/// What it means that there is no answer.
pub(super) fn no_answer(webhook: &Webhook, error: &reqwest::Error) -> Fate {
    let outage: Outage = match error.is_timeout() && !error.is_connect() {
        true => webhook.outage(&format!("does not answer within {:?}", webhook.timeout)),
        false => webhook.outage(&format!("cannot be reached: {}", root(error))),
    };
    match error.is_connect() || error.is_builder() {
        true => Fate::Unsent(outage),
        false => Fate::Doubtful(outage),
    }
}

/// The innermost cause. The outer ones repeat the URL, which may be secret.
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

/// On one line, and not long.
fn bounded(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TOLD_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
