//! "Database Schema Changes" and "Migration Steps": what the adoption adds to a table with rows, and what it does not change.

use turno::Turno;

use crate::test_database::TestDatabase;

const COLUMNS: &str = "select string_agg(attname, ' ' order by attnum) from pg_attribute
    where attrelid = 'notes'::regclass and attnum > 0 and not attisdropped";
const ROWS: &str = "select string_agg(concat_ws(' ', id, audio, transcription, analysis, processed_at, processing_attempts, error_message), ';' order by id) from notes";

/// "New Column" and "New Database Functions": only `processing_started_at` and the token were missing. No data of the notes is
/// lost, and a second run changes nothing.
#[tokio::test]
async fn the_columns_that_were_there_are_used_as_they_are() {
    let place = TestDatabase::before().await;
    let (columns, rows) = (place.ask(COLUMNS).await, place.ask(ROWS).await);
    for _ in 0..2 {
        let migrated = place.run(&["migrate"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        for function in [
            "acquire_processing_lock(uuid, integer)",
            "release_processing_lock(uuid)",
            "release_processing_lock_with_error(uuid, text)",
            "cleanup_abandoned_processing_locks(integer)",
            "get_next_notes_for_processing(uuid, integer, integer)",
        ] {
            assert!(migrated.out.contains(function), "{migrated:?}");
        }
        let added = format!("{columns} processing_started_at processing_token");
        assert_eq!(place.ask(COLUMNS).await, added);
        assert_eq!(place.ask(ROWS).await, rows);
    }
    let turno = Turno::connect(&place.url).await.unwrap();
    turno.unadopt("notes").await.unwrap();
    assert_eq!(place.ask(COLUMNS).await, columns);
    assert_eq!(place.ask(ROWS).await, rows);
}

/// "Migration Steps", 3: *no client-side changes required*. Clients write notes as before.
#[tokio::test]
async fn clients_that_know_nothing_of_locks_go_on() {
    let place = TestDatabase::adopted().await;
    place
        .tell("insert into notes (user_id, title, audio) select user_id, 'Note 13', '13.ogg' from notes where title = 'Note 3'")
        .await;
    assert_eq!(place.run(&["cron", "--limit", "20"]).code, Some(0));
    assert_eq!(
        place.stats(&[]),
        r#"{"total":13,"pending":0,"processing":0,"completed":13,"failed":0}"#
    );
}

/// *Indexed queries for fast lock status checks*: pending and locked notes are found without reading the whole table.
#[tokio::test]
async fn what_waits_and_what_is_locked_is_found_by_an_index() {
    let place = TestDatabase::adopted().await;
    let indexes = "select string_agg(indexname, ' ' order by indexname) from pg_indexes where tablename = 'notes'";
    assert_eq!(
        place.ask(indexes).await,
        "notes_pkey notes_turno_processing notes_turno_waiting"
    );
    place
        .tell("insert into notes (user_id, title, processed_at) select gen_random_uuid(), 'old', now() from generate_series(1, 20000); analyze notes")
        .await;
    for (query, index) in [
        (
            "explain select from notes where processed_at is null and processing_attempts < 5 order by processing_attempts, id limit 10",
            "notes_turno_waiting",
        ),
        (
            "explain select from notes where processed_at is null and processing_started_at <= now()",
            "notes_turno_processing",
        ),
    ] {
        let plan: Vec<String> = sqlx::query_scalar(query)
            .fetch_all(&place.db)
            .await
            .unwrap();
        let plan = plan.join("\n");
        assert!(plan.contains(index), "{plan}");
    }
}

/// On a table that is not adopted, the error message says so, and nothing is paid.
#[tokio::test]
async fn without_the_migration_the_message_says_what_to_do() {
    let place = TestDatabase::before().await;
    let refusal = place.refusal(&["cron"]);
    assert!(refusal.contains("run `turno adopt notes"), "{refusal}");
    assert_eq!(place.ask("select count(*)::text from charges").await, "0");
}
