//! Public interface: messages, API, metrics, configuration.

use std::collections::BTreeSet;
use std::process::Stdio;

use lapin::types::AMQPValue;
use serde_json::{Value, json};

use crate::on_each_store;
use crate::stage::Stage;

on_each_store! {
    mensajes_como_en_el_documento;
    entradas_malas_no_emiten_nada;
}

/// Checklist: publication to RabbitMQ with routing key, CorrelationId propagated; "RabbitMQ Publisher": exchange, routing
/// keys, persistent, headers `Type`, `CorrelationId`, `Timestamp`. Metrics of all processes.
async fn mensajes_como_en_el_documento(stage: Stage) {
    let tap = stage.tap().await;
    let worker = stage.start(&["worker"]);
    let api = stage.start(&["api"]);
    let correlation = [("x-correlation-id", "a1b2c3d4e5f6")];
    let asked = Some(json!({"title": "No arranca"}));
    let (_, ticket) = api
        .call("POST", "/tickets", &correlation, asked)
        .await
        .unwrap();
    let id = ticket["ticketId"].as_str().unwrap();
    api.change_status(id, "Closed").await.unwrap();
    stage
        .await_stats("both to be published", |stats| stats.dispatched == 2)
        .await;

    let expected = [
        (
            "ticket.created",
            "TicketCreatedEvent",
            json!({"ticketId": id, "title": "No arranca"}),
        ),
        (
            "ticket.status.changed",
            "TicketStatusChangedEvent",
            json!({"ticketId": id, "oldStatus": "Open", "newStatus": "Closed"}),
        ),
    ];
    let mut correlations = Vec::new();
    for (key, name, payload) in expected {
        let message = tap.take().await.unwrap().unwrap();
        let exchange = stage.cast.settings.rabbitmq.exchange.as_str();
        assert_eq!(message.exchange.as_str(), exchange);
        assert_eq!(message.routing_key.as_str(), key);
        assert_eq!(
            serde_json::from_slice::<Value>(&message.data).unwrap(),
            payload
        );
        let properties = &message.properties;
        assert_eq!(*properties.delivery_mode(), Some(2), "persistent");
        let headers = properties.headers().as_ref().unwrap().inner();
        let full_name = format!("TicketFlow.Domain.Events.{name}");
        assert_eq!(
            headers.get("Type"),
            Some(&AMQPValue::LongString(full_name.into()))
        );
        let Some(AMQPValue::LongString(correlation)) = headers.get("CorrelationId") else {
            panic!("no CorrelationId in {headers:?}");
        };
        correlations.push(correlation.to_string());
        let Some(AMQPValue::LongLongInt(seconds)) = headers.get("Timestamp") else {
            panic!("no Timestamp in {headers:?}");
        };
        let now = turno::clock::machine().as_second();
        assert!(
            (now - 600..=now + 600).contains(seconds),
            "{seconds} is no Unix time"
        );
    }
    assert_eq!(correlations[0], "a1b2c3d4e5f6");
    assert_eq!(correlations[1].len(), 32, "one is made where none is given");
    for actor in [&worker, &api] {
        assert_eq!(actor.metric("outbox_dispatched_total").await.unwrap(), 2);
        assert_eq!(actor.metric("outbox_pending").await.unwrap(), 0);
    }
    assert_eq!(worker.metric("publisher_sent_total").await.unwrap(), 2);
    assert_eq!(worker.metric("publisher_skipped_total").await.unwrap(), 0);
    let consumer = stage.start(&["consumer"]);
    let mut exported = BTreeSet::new();
    for actor in [&worker, &api, &consumer] {
        let (_, text) = actor.call("GET", "/metrics", &[], None).await.unwrap();
        let samples = text.as_str().unwrap().lines();
        let samples = samples.filter(|line| !line.starts_with('#'));
        let names = samples.filter_map(|line| line.split(' ').next());
        exported.extend(names.map(str::to_owned));
    }
    // The shipped dashboard has a panel for each of them, which the tests of the packages check.
    let golden = include_str!("../golden/metrics.txt");
    assert_eq!(exported, golden.lines().map(str::to_owned).collect());
}

/// A rejected request leaves no ticket and no event.
async fn entradas_malas_no_emiten_nada(stage: Stage) {
    let api = stage.start(&["api"]);
    let id = api.create("a good one").await.unwrap();
    let unknown = format!("/tickets/{}/status", uuid::Uuid::nil());
    let of_it = format!("/tickets/{id}/status");
    let long = "x".repeat(201);
    for (method, path, body, code) in [
        ("POST", "/tickets", json!({"title": "  "}), 400),
        ("POST", "/tickets", json!({"title": long}), 400),
        ("POST", "/tickets", json!({"name": "?"}), 400),
        ("PATCH", &of_it, json!({"status": "Perdido"}), 400),
        ("PATCH", &unknown, json!({"status": "Closed"}), 404),
        // Nothing changes, so there is no event.
        ("PATCH", &of_it, json!({"status": "Open"}), 200),
    ] {
        let (status, answer) = api.call(method, path, &[], Some(body)).await.unwrap();
        assert_eq!(status.as_u16(), code, "{method} {path}: {answer}");
    }
    let (status, ticket) = api
        .call("GET", &format!("/tickets/{id}"), &[], None)
        .await
        .unwrap();
    assert_eq!(status.as_u16(), 200);
    assert_eq!(
        ticket,
        json!({"ticketId": id, "title": "a good one", "status": "Open"})
    );
    assert_eq!(stage.stats().await.total, 1);
    assert_eq!(stage.tally().await.tickets, 1);
}

/// Checklist: appsettings.json with RabbitMQ config. The file of the example is the document's. A key that is not in the
/// document is an error, which names the key.
#[test]
fn appsettings_con_las_claves_del_documento() {
    let shipped = include_str!("../../appsettings.json");
    let shipped: Value = serde_json::from_str(shipped).unwrap();
    let defaults = serde_json::to_value(crate::settings::Settings::default()).unwrap();
    assert_eq!(shipped, defaults);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("appsettings.json");
    std::fs::write(&file, r#"{"RabbitMQ": {"Hostname": "broker"}}"#).unwrap();
    let store = format!("sqlite:{}", folder.path().join("tickets.db").display());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ticketflow"))
        .args(["worker", "--store", &store, "--config"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        error.contains("appsettings.json") && error.contains("`Hostname`"),
        "{error}"
    );
}
