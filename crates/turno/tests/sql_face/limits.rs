//! The owner's limits, which hold whatever limit a caller passes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use turno::{Error, Turno};
use turno_testkit::Sql as _;

use super::test_store;

const INVALID: &str = "22023";
const MIB: usize = 1024 * 1024;

/// Returns the message and the hint of a call that must fail.
async fn refusal(client: &tokio_postgres::Client, sql: &str) -> String {
    let error = client.query(sql, &[]).await.unwrap_err();
    let answer = error.as_db_error().unwrap();
    assert_eq!(answer.code().code(), INVALID, "{sql}");
    format!(
        "{}: {}",
        answer.message(),
        answer.hint().unwrap_or_default()
    )
}

#[tokio::test]
async fn a_caller_cannot_raise_the_longest_lease() {
    let (test_store, owner) = test_store().await;
    let app = test_store.postgres_connection_as("app").await;
    let request = "array[gen_random_uuid()]";
    let batch = |ttl: &str| {
        format!(
            "select (answer).outcome from turno.lock_acquire_batch('{{b}}', '{{o}}', '{{{ttl}}}', '{{u}}', '{{s}}', '{{d}}', '{{h}}', '{{1}}', {request})"
        )
    };
    // Above the functions' default and below the database's limit: a caller passes it explicitly.
    let token = app.number("select token from turno.lock_acquire('r', owner => 'a', ttl => '30 days', max_ttl => '100 years')").await;
    assert_eq!(
        app.code("select turno.lock_acquire('s', ttl => '25 hours')")
            .await,
        INVALID
    );
    let asks = [
        "select turno.lock_acquire('x', ttl => '31 days', max_ttl => '100 years')".to_owned(),
        // A resource that exists and is free.
        "select turno.lock_acquire('free', ttl => '31 days', max_ttl => '100 years')".into(),
        "select turno.lock_acquire('x', ttl => '31 days', max_ttl => '100 years', wait => '1 ms')".into(),
        "select turno.lock_acquire('x', ttl => '31 days', max_ttl => '100 years', mode => 'shared')".into(),
        "select turno.lock_acquire('x', ttl => '31 days', max_ttl => '100 years', permits => 2)".into(),
        "select turno.lock_acquire_all('{x,y}', ttl => '31 days', max_ttl => '100 years')".into(),
        format!("select turno.lock_renew('r', {token}, '31 days', '100 years')"),
    ];
    let free = app
        .number("select token from turno.lock_acquire('free', owner => 'a')")
        .await;
    app.row(&format!("select turno.lock_release('free', {free})"))
        .await;
    for sql in &asks {
        let said = refusal(&app, sql).await;
        assert!(
            said.starts_with("ttl is 31 days, and 30 days is the most in this database"),
            "{said}"
        );
        assert!(
            said.contains("setting max_ttl") && said.contains("owner of schema turno"),
            "{said}"
        );
    }
    // The other callers of a batch must not fail with it.
    app.expect(&batch("31 days"), "later").await;
    app.expect(&batch("24 hours"), "acquired").await;
    let renewals =
        format!("select * from turno.lock_renew_batch('{{r}}', '{{{token}}}', '{{31 days}}')");
    assert_eq!(
        app.query(&renewals, &[]).await.unwrap().len(),
        0,
        "asked alone"
    );

    owner
        .row("select turno.setting_set('max_ttl', '60 days')")
        .await;
    for sql in &asks {
        assert_eq!(app.code(sql).await, "00000", "{sql}");
    }
}

#[tokio::test]
async fn a_caller_cannot_raise_the_largest_payload() {
    let (test_store, owner) = test_store().await;
    let app = test_store.postgres_connection_as("app").await;
    owner
        .row("select turno.setting_set('max_payload', '2MB')")
        .await;
    let json = |bytes: usize| format!("('\"' || repeat('x', {}) || '\"')", bytes - 2);
    let push = |bytes: usize, limit: &str| {
        format!(
            "select turno.inbox_push('q', {}::json, max_payload => {limit})",
            json(bytes)
        )
    };
    let emit = |bytes: usize| {
        format!(
            "select turno.outbox_emit_batch('{{T}}', array[{}], max_payload => 1073741823)",
            json(bytes)
        )
    };
    let tick = |bytes: usize| {
        format!(
            "select turno.schedule_tick('s', clock_timestamp() + interval '{bytes} s', 'q', {}::json, max_payload => 1073741823)",
            json(bytes)
        )
    };
    let together = |bytes: usize| {
        format!(
            "select turno.inbox_push_together('{{q}}', '{{1}}', array[gen_random_uuid()], array[{}], max_payload => 1073741823)",
            json(bytes)
        )
    };
    app.row("select turno.schedule_state('s')").await;
    assert_eq!(app.code(&push(MIB, "1048576")).await, "00000");
    assert_eq!(app.code(&push(MIB + 1, "1048576")).await, INVALID);
    for sql in [
        push(2 * MIB, "1073741823"),
        push(2 * MIB, "null"),
        emit(2 * MIB),
        tick(2 * MIB),
        together(2 * MIB),
    ] {
        assert_eq!(app.code(&sql).await, "00000", "{sql}");
    }
    let too_large = [
        push(2 * MIB + 1, "1073741823"),
        push(2 * MIB + 1, "null"),
        emit(2 * MIB + 1),
        tick(2 * MIB + 1),
        together(2 * MIB + 1),
    ];
    for sql in &too_large {
        let said = refusal(&app, sql).await;
        assert!(
            said.starts_with("payload has 2097153 bytes, and 2097152 is the most in this database"),
            "{said}"
        );
        assert!(said.contains("setting max_payload"), "{said}");
    }
    owner
        .row("select turno.setting_set('max_payload', 'default')")
        .await;
    for sql in &too_large {
        assert_eq!(app.code(sql).await, "00000", "{sql}");
    }
}

/// An answer of once has the limit of a payload. A batch leaves it to a separate call.
#[tokio::test]
async fn an_answer_has_the_limit_of_a_payload() {
    let (test_store, owner) = test_store().await;
    let app = test_store.postgres_connection_as("app").await;
    owner
        .row("select turno.setting_set('max_payload', '2MB')")
        .await;
    let answer = |bytes: usize| format!("('\"' || repeat('x', {}) || '\"')", bytes - 2);
    let claim = app.text("select claim from turno.once_begin('k')").await;
    let (key, token) = claim.split_once('@').unwrap();
    let complete = |bytes: usize| {
        format!(
            "select turno.once_complete('{claim}', {}::json)",
            answer(bytes)
        )
    };
    let said = refusal(&app, &complete(2 * MIB + 1)).await;
    assert!(
        said.starts_with("payload has 2097153 bytes, and 2097152 is the most in this database"),
        "{said}"
    );
    let batch = format!(
        "select outcome from turno.once_complete_batch('{{{key}}}', '{{{token}}}', array[{}], '{{null}}')",
        answer(2 * MIB)
    );
    app.expect(&batch, "later").await;
    assert_eq!(app.code(&complete(2 * MIB)).await, "00000");
}

/// The library passes its own limits, and those of the database take precedence.
#[tokio::test]
async fn the_library_gets_the_databases_limits() {
    let (test_store, owner) = test_store().await;
    let turno = Turno::builder()
        .max_ttl(Duration::from_secs(365 * 86_400))
        .max_payload(8 * MIB)
        .connect(&test_store.url_as("app"))
        .await
        .unwrap();
    let month = Duration::from_secs(31 * 86_400);
    let acquire = async |resource: &str| {
        let lease = turno.lock(resource).ttl(month).acquire().await?;
        lease.acquired().unwrap().release().await
    };
    let is_named = |error: &Error, field: &str, setting: &str| {
        assert_eq!(error.field(), Some(field), "{error:?}");
        assert!(
            error.to_string().contains(&format!("--setting {setting}=")),
            "{error}"
        );
    };
    is_named(&acquire("r").await.unwrap_err(), "ttl", "max_ttl");
    owner
        .row("select turno.setting_set('max_ttl', '60 days')")
        .await;
    acquire("r").await.unwrap();
    let large = "x".repeat(4 * MIB);
    owner
        .row("select turno.setting_set('max_payload', '2MB')")
        .await;
    let refused = turno.inbox("q").push(&large).await.unwrap_err();
    is_named(&refused, "payload", "max_payload");
    let claim = turno.once("k").begin().await.unwrap().fresh().unwrap();
    let refused = claim.complete(&large).await.unwrap_err();
    is_named(&refused, "payload", "max_payload");
    owner
        .row("select turno.setting_set('max_payload', '')")
        .await;
    turno.inbox("q").push(&large).await.unwrap();
    claim.complete(&large).await.unwrap();
}

/// The settings table is read only for values above the functions' own defaults.
#[tokio::test]
async fn the_usual_call_reads_no_limit() {
    let (_bed, client) = test_store().await;
    let reads = "select (coalesce(seq_scan, 0) + coalesce(idx_scan, 0))::text \
                 from pg_stat_xact_user_tables where schemaname = 'turno' and relname = 'setting'";
    client.run("begin").await;
    let token = client
        .number(
            "select token from turno.lock_acquire('r', ttl => '24 hours', max_ttl => '100 years')",
        )
        .await;
    client
        .row(&format!(
            "select turno.lock_renew('r', {token}, '24 hours', '100 years')"
        ))
        .await;
    let push = "select turno.inbox_push('q', '1', max_payload => 1073741823)";
    client.row(push).await;
    client.row("select turno.outbox_emit('T', '1')").await;
    client.expect(reads, "0").await;
    // The control.
    client
        .row("select turno.lock_acquire('s', ttl => '25 hours', max_ttl => '26 hours')")
        .await;
    assert_ne!(client.text(reads).await, "0");
    client.run("rollback").await;
}
