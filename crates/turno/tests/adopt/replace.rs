//! Adopting a table for which the functions of the notes application exist already.

use tokio_postgres::Client;
use turno::Turno;
use turno_testkit::conformance::TestStore;
use turno_testkit::{PostgresServer, Sql as _, sql};

use super::{ask, tell};

/// The functions of the notes application, as users may have written them: other results, other column names, the rights
/// of their owner, and one that Turno has only with an argument.
const OF_THE_APPLICATION: &str = "
    create table notes (
      id uuid primary key default gen_random_uuid(), user_id uuid, title text, processed_at timestamptz,
      processing_started_at timestamptz, processing_attempts integer default 0, error_message text);
    insert into notes (title) values ('one'), ('two');
    create function acquire_processing_lock(p_note_id uuid, p_lock_timeout_minutes integer default 15) returns boolean
    language plpgsql security definer as $$
    begin
      update notes set processing_started_at = now() where id = p_note_id and processing_started_at is null;
      return found;
    end $$;
    comment on function acquire_processing_lock is 'It''s ours';
    create function release_processing_lock(p_note_id uuid) returns void
    language sql as $$ update notes set processed_at = now(), processing_started_at = null where id = p_note_id $$;
    revoke execute on function release_processing_lock(uuid) from public;
    grant execute on function release_processing_lock(uuid) to turno_operator;
    create function get_next_notes_for_processing(p_user_id uuid, p_limit integer) returns table (note uuid)
    language sql as $$ select id from notes limit p_limit $$;
    create function cleanup_abandoned_processing_locks() returns integer language sql as 'select 0';
";

/// Functions of schema public with their comments and rights, as text that can be compared.
const FUNCTIONS: &str = "select string_agg(concat_ws(' ', pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'),
      (select string_agg(g::text, ',' order by g::text) from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g)), ';' order by p.oid::regprocedure::text)
    from pg_proc p where p.pronamespace = 'public'::regnamespace";

async fn with_functions() -> (TestStore, Turno) {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    tell(&test_store, OF_THE_APPLICATION).await;
    (test_store, turno)
}

async fn as_superuser(test_store: &TestStore) -> Client {
    let database = test_store.url().rsplit('/').next().unwrap();
    let url = PostgresServer::shared().superuser_url(database);
    sql::client(&url).await
}

#[tokio::test]
async fn functions_in_the_way_are_an_error_that_names_them_and_the_way_on() {
    let (test_store, turno) = with_functions().await;
    let before = ask(&test_store, FUNCTIONS).await;
    let error = turno.adopt("notes").apply().await.unwrap_err();
    assert_eq!(error.field(), Some("suffix"), "{error:?}");
    let said = error.to_string();
    for words in [
        "public.acquire_processing_lock(uuid,integer)",
        "public.cleanup_abandoned_processing_locks()",
        "public.release_processing_lock(uuid)",
        "--diff",
        "--replace",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
    // With a suffix, both are kept.
    turno.adopt("notes").suffix("turno").apply().await.unwrap();
    turno.unadopt("notes").await.unwrap();
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
}

#[tokio::test]
async fn the_difference_shows_what_goes_and_what_comes() {
    let (test_store, turno) = with_functions().await;
    let before = ask(&test_store, FUNCTIONS).await;
    let difference = turno.adopt("notes").difference().await.unwrap();
    for line in [
        "replace public.acquire_processing_lock(uuid,integer)",
        "-  SECURITY DEFINER",
        "- may be called by: every role (public)",
        "+ create or replace function public.acquire_processing_lock(p_note_id uuid, p_lock_timeout_minutes integer default 15)",
        "+ security invoker",
        "+ may be called by: turno_app",
        "drop public.cleanup_abandoned_processing_locks()",
        "- may be called by: turno_operator",
        "-  RETURNS void",
        "create public.acquire_processing_lock_token(uuid, interval)",
    ] {
        assert!(
            difference.lines().any(|found| found == line),
            "{line}: {difference}"
        );
    }
    assert_eq!(ask(&test_store, FUNCTIONS).await, before, "nothing is done");
    tell(&test_store, "create table tasks (id bigint primary key)").await;
    let free = turno.adopt("tasks").suffix("tasks");
    assert_eq!(free.difference().await.unwrap(), "");
}

#[tokio::test]
async fn functions_are_replaced_and_undoing_restores_them() {
    let (test_store, turno) = with_functions().await;
    let before = ask(&test_store, FUNCTIONS).await;
    let adopted = turno.adopt("notes").replace().apply().await.unwrap();
    assert_eq!(adopted.replaced.len(), 4, "{adopted:?}");
    assert_eq!(
        ask(&test_store, "select acquire_processing_lock(id) and not acquire_processing_lock(id) from notes where title = 'one'").await,
        "true"
    );
    let callable = "select has_function_privilege('turno_app', 'acquire_processing_lock(uuid, integer)', 'execute')
                    and not has_function_privilege('turno_operator', 'release_processing_lock(uuid)', 'execute')";
    assert_eq!(ask(&test_store, callable).await, "true");
    // A repetition, with or without `replace`, changes nothing and keeps the stored definitions.
    let after = ask(&test_store, FUNCTIONS).await;
    let again = turno.adopt("notes").apply().await.unwrap();
    assert_eq!(
        (again.replaced, ask(&test_store, FUNCTIONS).await),
        (adopted.replaced.clone(), after.clone())
    );
    turno.adopt("notes").replace().apply().await.unwrap();
    assert_eq!(ask(&test_store, FUNCTIONS).await, after);
    assert_eq!(turno.adopt("notes").difference().await.unwrap(), "");
    let gone = turno.unadopt("notes").await.unwrap();
    assert_eq!(gone.replaced, adopted.replaced);
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
}

#[tokio::test]
async fn the_printed_script_and_the_sql_function_replace_the_same() {
    let (test_store, turno) = with_functions().await;
    let before = ask(&test_store, FUNCTIONS).await;
    let error = turno.adopt("notes").print().await.unwrap_err();
    assert_eq!(error.field(), Some("suffix"));
    let script = turno.adopt("notes").replace().print().await.unwrap();
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
    tell(&test_store, &script).await;
    let after = ask(&test_store, FUNCTIONS).await;
    turno.unadopt("notes").await.unwrap();
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
    let replaced = "select cardinality(replaced) from turno.adopt('notes', 'id', replace => true)";
    assert_eq!(ask(&test_store, replaced).await, "4");
    assert_eq!(ask(&test_store, FUNCTIONS).await, after);
}

/// If a new function has the name of one to be restored, undoing does not overwrite it.
#[tokio::test]
async fn undoing_overwrites_no_newer_function() {
    let (test_store, turno) = with_functions().await;
    turno.adopt("notes").replace().apply().await.unwrap();
    turno.adopt("notes").suffix("notes").apply().await.unwrap();
    let newer = "create function release_processing_lock(note_id uuid) returns boolean language sql as 'select true'";
    tell(&test_store, newer).await;
    let error = turno.unadopt("notes").await.unwrap_err();
    assert!(
        error.is_refused() && error.to_string().contains("release_processing_lock"),
        "{error:?}"
    );
    tell(&test_store, "drop function release_processing_lock(uuid)").await;
    turno.unadopt("notes").await.unwrap();
}

/// The owner of the schema could drop another role's function, but not restore it unchanged.
#[tokio::test]
async fn a_function_of_another_role_is_not_replaced() {
    let (test_store, turno) = with_functions().await;
    as_superuser(&test_store)
        .await
        .run("alter function acquire_processing_lock(uuid, integer) owner to postgres")
        .await;
    let before = ask(&test_store, FUNCTIONS).await;
    let error = turno.adopt("notes").replace().apply().await.unwrap_err();
    assert!(error.is_refused(), "{error:?}");
    let said = error.to_string();
    for words in ["acquire_processing_lock", "role postgres", "owner to owner"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
    assert_eq!(
        ask(&test_store, "select count(*) from turno.adopted").await,
        "0"
    );
}

#[tokio::test]
async fn what_depends_on_a_function_is_named() {
    let (test_store, turno) = with_functions().await;
    tell(
        &test_store,
        "create view cleaned as select cleanup_abandoned_processing_locks() as many",
    )
    .await;
    let before = ask(&test_store, FUNCTIONS).await;
    let error = turno.adopt("notes").replace().apply().await.unwrap_err();
    assert!(
        error.is_refused() && error.to_string().contains("cleaned"),
        "{error:?}"
    );
    assert_eq!(ask(&test_store, FUNCTIONS).await, before);
    tell(&test_store, "drop view cleaned").await;
    turno.adopt("notes").replace().apply().await.unwrap();
}

#[tokio::test]
async fn functions_of_another_adopted_table_are_not_replaced() {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    tell(
        &test_store,
        "create table notes (id bigint primary key); create table tasks (id bigint primary key)",
    )
    .await;
    turno.adopt("notes").apply().await.unwrap();
    let error = turno.adopt("tasks").replace().apply().await.unwrap_err();
    assert_eq!(error.field(), Some("suffix"), "{error:?}");
    assert!(error.to_string().contains("public.notes"), "{error}");
}

/// Functions of a table are not restored if the table does not exist any more.
#[tokio::test]
async fn nothing_is_restored_for_a_table_that_is_gone() {
    let (test_store, turno) = with_functions().await;
    turno.adopt("notes").replace().apply().await.unwrap();
    tell(&test_store, "drop table notes cascade").await;
    let gone = turno.unadopt("notes").await.unwrap();
    assert_eq!(gone.replaced, [""; 0]);
    assert_eq!(ask(&test_store, FUNCTIONS).await, "");
}
