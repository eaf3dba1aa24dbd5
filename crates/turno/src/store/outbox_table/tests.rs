use super::*;

fn table(name: &str) -> AdoptedOutboxTable {
    let found: Vec<FoundColumn> = [
        "Id",
        "Type",
        "PayloadJson",
        "CorrelationId",
        "OccurredAt",
        "DispatchedAt",
        "Attempts",
        "Error",
    ]
    .map(|name| FoundColumn {
        name: name.to_owned(),
    })
    .into();
    let ask = AdoptOutboxTable {
        table: name.to_owned(),
        ..AdoptOutboxTable::default()
    };
    AdoptedOutboxTable {
        table: name.to_owned(),
        columns: ask.columns(&found).unwrap(),
        max_attempts: 5,
        added: Vec::new(),
        indexes: Vec::new(),
        facts: TableFacts::default(),
    }
}

#[test]
fn the_columns_of_entity_framework_are_recognized() {
    let OutboxColumns {
        id,
        kind,
        payload,
        created,
        processed,
        key,
        ..
    } = table("OutboxMessages").columns;
    assert_eq!(
        [id, kind, payload, created, processed],
        ["Id", "Type", "PayloadJson", "OccurredAt", "DispatchedAt"]
    );
    assert_eq!(key, None);
}

#[test]
fn an_event_id_leads_back_to_its_row() {
    let (one, other) = (table("one"), table("other"));
    for row in [
        "7",
        "0",
        "4611686018427387903",
        "0190f1f4-2b3c-7d4e-8f50-112233445566",
    ] {
        assert_eq!(one.row_id(one.event_id(row)), row);
    }
    assert_ne!(one.event_id("7"), other.event_id("7"));
    assert_eq!(one.event_id("7").get_version_num(), 8);
    assert!(one.event_id("no id").is_nil() && one.event_id("-1").is_nil());
    let upper = "0190F1F4-2B3C-7D4E-8F50-112233445566";
    assert_eq!(one.row_id(one.event_id(upper)), upper.to_lowercase());
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let record = table("it's \"one\"").record();
    assert_eq!(Record::read(&record.text().unwrap()), Some(record));
    assert_eq!(Record::read("a comment of the user's"), None);
}

#[test]
fn an_index_name_fits_into_postgresql() {
    let name = index_name(&"ñ".repeat(100), "pending");
    assert!(
        name.len() <= 63 && name.ends_with("_turno_pending"),
        "{name}"
    );
}
