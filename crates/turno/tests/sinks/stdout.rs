//! The sink that writes lines of JSON.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, pipe};

use turno::sink::{Outgoing, PublishResult, Sink, Stdout};

use crate::{event, outage};

#[tokio::test]
async fn an_event_is_one_line_with_its_payload_as_it_was() {
    let (reader, writer) = pipe().unwrap();
    let sink = Stdout::writing_to(writer);
    sink.ready().await.unwrap();
    let full = Outgoing {
        key: Some("ticket-7".to_owned()),
        correlation_id: Some("a1b2".to_owned()),
        headers: BTreeMap::from([("tenant".to_owned(), "zürich".to_owned())]),
        emitted_at: "2026-02-03T04:05:06.789Z".parse().unwrap(),
        payload: "{\"price\": 1.10,\r\n \"large\": 123456789012345678901234567890}".to_owned(),
        possible_duplicate: true,
        ..event("TicketCreatedEvent")
    };
    let bare = event("TicketCreatedEvent");
    let broken = Outgoing {
        payload: "{\"n\":".to_owned(),
        ..event("TicketCreatedEvent")
    };
    let results = sink.publish(&[full.clone(), broken, bare.clone()]).await;
    assert_eq!(results[0], PublishResult::Sent);
    assert!(
        matches!(&results[1], PublishResult::Refused(why) if why.contains("no JSON")),
        "{results:?}"
    );
    assert_eq!(results[2], PublishResult::Sent);
    drop(sink);

    let lines: Vec<_> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[0],
        format!(
            r#"{{"id":"{}","type":"TicketCreatedEvent","key":"ticket-7","correlation_id":"a1b2","headers":{{"tenant":"zürich"}},"emitted_at":"2026-02-03T04:05:06.789Z","possible_duplicate":true,"payload":{}}}"#,
            full.id, "{\"price\": 1.10,   \"large\": 123456789012345678901234567890}"
        )
    );
    let second: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    let names: Vec<_> = second.as_object().unwrap().keys().collect();
    assert_eq!(names, ["emitted_at", "headers", "id", "payload", "type"]);
}

#[tokio::test]
async fn a_reader_that_has_gone_is_an_outage() {
    let (reader, writer) = pipe().unwrap();
    let sink = Stdout::writing_to(writer);
    drop(reader);
    let results = sink.publish(&[event("ThingEvent")]).await;
    assert!(outage(&results[0]).is_some(), "{results:?}");
    let said = sink.ready().await.unwrap_err().to_string();
    assert!(said.contains("closed"), "{said}");
    let results = sink.publish(&[event("ThingEvent")]).await;
    assert!(
        matches!(results[..], [PublishResult::Unsent(_)]),
        "{results:?}"
    );
}
