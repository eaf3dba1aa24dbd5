//! An adopted table with row-level security, called by Supabase's roles.

use serde_json::json;
use tokio_postgres::Client;
use turno::Turno;
use turno::store::Severity;
use turno_testkit::Sql as _;

use crate::database::Database;
use crate::rpc::{ANA, Caller};

const EVA: &str = "00000000-0000-0000-0000-00000000000e";
const ANAS_NOTE: &str = "10000000-0000-0000-0000-00000000000a";
const EVAS_NOTE: &str = "10000000-0000-0000-0000-00000000000e";

/// Creates notes of two users, each of whom can read and change only their own.
async fn with_notes() -> (Database, Client, Turno) {
    let database = Database::with_turno().await;
    let manager = database.manager().await;
    manager.run(&format!(
            "create table notes (id uuid primary key, user_id uuid not null, title text);
             alter table notes enable row level security;
             create policy own on notes for all to authenticated using (user_id = auth.uid()) with check (user_id = auth.uid());
             insert into notes values ('{ANAS_NOTE}', '{ANA}', 'one'), ('{EVAS_NOTE}', '{EVA}', 'two')"
        )).await;
    let turno = Turno::connect(&database.url()).await.unwrap();
    turno.adopt("notes").apply().await.unwrap();
    (database, manager, turno)
}

#[tokio::test]
async fn service_role_processes_the_rows_of_all_users() {
    let (database, _manager, _turno) = with_notes().await;
    let server = Caller::new(&database, "service_role").await;
    let acquire = json!({"p_note_id": ANAS_NOTE, "p_lock_timeout_minutes": 15});
    assert_eq!(
        server.ok("public.acquire_processing_lock", acquire).await,
        json!(true)
    );
    let next = json!({"p_user_id": null, "p_limit": 10, "p_lock_timeout_minutes": 15});
    let rows = server
        .ok("public.get_next_notes_for_processing", next)
        .await;
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["id"], EVAS_NOTE);
    let release = json!({"p_note_id": EVAS_NOTE, "p_token": rows[0]["processing_token"]});
    assert_eq!(
        server.ok("public.release_processing_lock", release).await,
        json!(true)
    );
    let fail = json!({"p_note_id": ANAS_NOTE, "p_error_message": "no transcript"});
    assert_eq!(
        server
            .ok("public.release_processing_lock_with_error", fail)
            .await,
        json!(true)
    );
    let cleaned = json!({"p_timeout_minutes": 15});
    assert_eq!(
        server
            .ok("public.cleanup_abandoned_processing_locks", cleaned)
            .await,
        json!(0)
    );
    let stats = server.ok("public.get_processing_stats", json!({})).await;
    assert_eq!(
        (&stats[0]["completed"], &stats[0]["failed"]),
        (&json!(1), &json!(1))
    );
}

/// Supabase's default privileges would let every role call them.
#[tokio::test]
async fn anon_and_authenticated_may_not_call_the_functions_of_an_adopted_table() {
    let (database, manager, _turno) = with_notes().await;
    manager
        .run("create function public.control() returns integer language sql as 'select 1'")
        .await;
    for role in ["anon", "authenticated"] {
        let caller = Caller::new(&database, role).await;
        assert_eq!(
            caller.ok("public.control", json!({})).await,
            json!(1),
            "the control"
        );
        for (function, arguments) in [
            (
                "public.acquire_processing_lock",
                json!({"p_note_id": ANAS_NOTE}),
            ),
            (
                "public.acquire_processing_lock_token",
                json!({"p_note_id": ANAS_NOTE}),
            ),
            (
                "public.release_processing_lock",
                json!({"p_note_id": ANAS_NOTE}),
            ),
            ("public.get_next_notes_for_processing", json!({})),
            ("public.reset_stuck_processing", json!({"p_all": true})),
        ] {
            let answer = caller.call(function, arguments).await;
            assert_eq!(answer, Err("42501".to_owned()), "{function} as {role}");
        }
    }
}

/// A function that is granted to users still sees only the rows that row-level security allows.
#[tokio::test]
async fn a_user_locks_own_rows_only() {
    let (database, manager, turno) = with_notes().await;
    manager.run("grant execute on function public.acquire_processing_lock_token(uuid, interval) to authenticated").await;
    // Adopting again does not revoke what the owner has granted.
    turno.adopt("notes").apply().await.unwrap();
    let user = Caller::new(&database, "authenticated").await;
    let acquire = async |note: &str| {
        let arguments = json!({"p_note_id": note, "p_lock_timeout": "15 minutes"});
        user.ok("public.acquire_processing_lock_token", arguments)
            .await
    };
    assert!(acquire(ANAS_NOTE).await.is_i64());
    assert!(acquire(EVAS_NOTE).await.is_null());
    let locked = "select count(*) from notes where processing_started_at is not null";
    assert_eq!(
        manager
            .query_one(locked, &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        1
    );
    // The control: without policies, the other user's row is locked.
    manager
        .run("alter table notes disable row level security")
        .await;
    assert!(acquire(EVAS_NOTE).await.is_i64());
}

#[tokio::test]
async fn doctor_warns_about_what_anon_may_call() {
    let (_database, manager, turno) = with_notes().await;
    let about_anon = async || {
        let findings = turno.store().diagnose().await.unwrap();
        findings
            .into_iter()
            .find(|finding| finding.check == "anon")
            .unwrap()
    };
    let finding = about_anon().await;
    assert_eq!(finding.severity, Severity::Ok, "{finding:?}");
    for (grant, function) in [
        (
            "grant execute on function public.get_processing_stats(uuid) to anon",
            "get_processing_stats",
        ),
        (
            "grant usage on schema turno to anon; grant execute on function turno.lock_list to anon",
            "turno.lock_list",
        ),
    ] {
        manager.run(grant).await;
        let finding = about_anon().await;
        assert_eq!(finding.severity, Severity::Warning, "{finding:?}");
        assert!(finding.detail.contains(function), "{finding:?}");
        assert!(finding.detail.contains("revoke execute"), "{finding:?}");
    }
}
