//! What adopting an outbox table adds, which columns it recognizes, and that undoing removes exactly that.

use turno_testkit::conformance::TestStore;

use super::{ask, tell, test_stores};

/// The table of Entity Framework, as its migrations create it.
pub(crate) const EF_POSTGRES: &str = r#"create table "OutboxMessages" (
  "Id" uuid primary key,
  "Type" character varying(500) not null,
  "PayloadJson" text not null,
  "OccurredAt" timestamp with time zone not null,
  "DispatchedAt" timestamp with time zone,
  "Attempts" integer not null default 0,
  "Error" character varying(40),
  "CorrelationId" text,
  "AggregateId" text)"#;
pub(crate) const EF_SQLITE: &str = r#"create table "OutboxMessages" (
  "Id" TEXT not null constraint "PK_OutboxMessages" primary key,
  "Type" TEXT not null,
  "PayloadJson" TEXT not null,
  "OccurredAt" TEXT not null,
  "DispatchedAt" TEXT null,
  "Attempts" INTEGER not null default 0,
  "Error" TEXT null,
  "CorrelationId" TEXT null,
  "AggregateId" TEXT null)"#;

pub(crate) async fn create_ef_table(test_store: &TestStore) {
    let sql = match test_store.is_sqlite() {
        true => EF_SQLITE,
        false => EF_POSTGRES,
    };
    tell(test_store, sql).await;
}

/// Returns the definition of all tables and indexes of the user, as text that can be compared.
async fn shape_of(test_store: &TestStore) -> String {
    let sql = if test_store.is_sqlite() {
        "select group_concat(sql, ';') from (select sql from sqlite_schema where sql is not null and name not like 'turno\\_%' escape '\\' order by name)"
    } else {
        "select concat(
           (select string_agg(concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, col_description(c.oid, a.attnum)), ';' order by c.relname, a.attnum)
            from pg_class c join pg_attribute a on a.attrelid = c.oid
            where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped),
           (select string_agg(indexdef, ';' order by indexname) from pg_indexes where schemaname = 'public'))"
    };
    ask(test_store, sql).await
}

#[tokio::test]
async fn the_table_of_entity_framework_is_recognized_and_restored() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        create_ef_table(&test_store).await;
        let before = shape_of(&test_store).await;
        let adopt = || turno.adopt_outbox(r#""OutboxMessages""#);
        let adopted = adopt().apply().await.unwrap();
        let columns = &adopted.columns;
        assert_eq!(columns.id, "Id");
        assert_eq!(columns.kind, "Type");
        assert_eq!(columns.payload, "PayloadJson");
        assert_eq!(columns.created, "OccurredAt");
        assert_eq!(columns.processed, "DispatchedAt");
        assert_eq!(columns.attempts, "Attempts");
        assert_eq!(columns.error, "Error");
        assert_eq!(columns.key.as_deref(), Some("AggregateId"));
        assert_eq!(columns.correlation_id.as_deref(), Some("CorrelationId"));
        assert_eq!((adopted.added.len(), adopted.indexes.len()), (7, 3));
        assert!(adopted.added.iter().all(|name| name.starts_with("relay_")));
        let after = shape_of(&test_store).await;
        assert_ne!(after, before);
        assert_eq!(adopt().apply().await.unwrap(), adopted);
        assert_eq!(shape_of(&test_store).await, after);
        // Other options replace the record and the indexes.
        let other = adopt().max_attempts(7).key("CorrelationId").apply().await;
        assert_eq!(other.unwrap().max_attempts, 7);
        let table = turno.outbox_table("OutboxMessages");
        let found = table.find().await.unwrap().unwrap();
        assert_eq!(found.columns.key.as_deref(), Some("CorrelationId"));
        let undone = table.unadopt().await.unwrap();
        assert_eq!(undone.added.len(), 7);
        assert_eq!(shape_of(&test_store).await, before);
        assert_eq!(table.find().await.unwrap(), None);
        let error = table.unadopt().await.unwrap_err();
        assert!(
            error.to_string().contains("is not adopted as an outbox"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_printed_script_does_the_same_as_adopt() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        create_ef_table(&test_store).await;
        let script = turno.adopt_outbox("OutboxMessages").print().await.unwrap();
        let table = turno.outbox_table("OutboxMessages");
        assert_eq!(
            table.find().await.unwrap(),
            None,
            "printing changes nothing"
        );
        tell(&test_store, &script).await;
        let by_application = (table.find().await.unwrap(), shape_of(&test_store).await);
        table.unadopt().await.unwrap();
        let adopted = turno.adopt_outbox("OutboxMessages").apply().await.unwrap();
        assert_eq!((Some(adopted), shape_of(&test_store).await), by_application);
    }
}

#[tokio::test]
async fn names_that_look_like_sql_stay_names() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        let table = if test_store.is_sqlite() {
            r#""Outbox ""Messages""; drop table x""#
        } else {
            tell(&test_store, r#"create schema "My Schema""#).await;
            r#""My Schema"."Outbox ""Messages""; drop table x""#
        };
        tell(
            &test_store,
            &format!(
                r#"create table {table} ("the {{id}}" {{id}}, "type's" text, "pay""load" text, "when" text, "select" text);
                   insert into {table} ("type's", "pay""load", "when", "select") values ('t', '{{}}', '2026-11-17', 'k')"#
            )
            .replace("the {id}", "the id"),
        )
        .await;
        let adopted = turno
            .adopt_outbox(table)
            .id("the id")
            .kind("type's")
            .payload(r#"pay"load"#)
            .created("when")
            .key("select")
            .apply()
            .await
            .unwrap();
        // What the table does not have is added: three columns of events, and seven for claims.
        assert_eq!(adopted.added.len(), 10, "{adopted:?}");
        let rows = turno.outbox_table(table);
        assert_eq!(rows.stats().await.unwrap().pending, 1);
        assert_eq!(rows.unadopt().await.unwrap().added.len(), 10);
    }
}

#[tokio::test]
async fn an_unsuitable_table_or_column_is_named_and_nothing_is_changed() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        tell(&test_store, "create table events (id {id}, kind text, payload text, created_at text, attempts text, twice text); create table taken (id {id}, type text, payload text, created_at text, relay_token text)").await;
        let before = shape_of(&test_store).await;
        let adopt = || turno.adopt_outbox("events").kind("kind").attempts("twice");
        let cases = [
            (turno.adopt_outbox("nowhere"), "table", "does not exist"),
            (
                turno.adopt_outbox("events; drop table events"),
                "table",
                "does not exist",
            ),
            (
                turno.adopt_outbox("events"),
                "type",
                "no column of table events has a usual name",
            ),
            (
                adopt().key("no"),
                "key",
                "has no such column: it has id, kind",
            ),
            (adopt(), "attempts", "must be an integer"),
            (adopt().id("twice"), "id", ""),
            (
                turno.adopt_outbox("taken"),
                "table",
                "relay_token of its own",
            ),
            (
                turno.adopt_outbox("events").max_attempts(0),
                "max_attempts",
                "between 1",
            ),
        ];
        for (adopt, field, words) in cases {
            let error = adopt.apply().await.unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
        assert_eq!(shape_of(&test_store).await, before);
    }
}
