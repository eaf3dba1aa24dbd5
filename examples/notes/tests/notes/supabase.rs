//! The application as the document deploys it, on Supabase: TLS, an owner that is no superuser, row-level security, and
//! PostgREST's roles. Its server programs cannot be installed here (neither Debian, npm nor PyPI has PostgREST), so the roles are
//! made as in Supabase's images, and calls are the statements that PostgREST sends.

use std::process::Command;
use std::sync::OnceLock;

use notes::application::{self, ANA, EVA};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use turno::Turno;
use turno::store::Severity;
use turno::store::postgres::script_for_supabase;
use turno_testkit::{Certificate, PostgresServer, Subject, supabase};

use crate::test_database::{TestDatabase, end};
use crate::typescript::{DOCUMENTED, npx};

const LOCALHOST: Subject<'_> = Subject {
    common_name: "localhost",
    names: "DNS:localhost",
    days: 2,
};

/// Over TCP, the server asks for passwords.
const PASSWORDS: &str = "
    alter role authenticator password 's3cret';
    alter role owner password 's3cret'";

/// All functions of the application: definition, owner, comment, and the roles that may call it.
const FUNCTIONS: &str = "
    select string_agg(concat_ws(
      ' ',
      pg_get_functiondef(p.oid),
      pg_get_userbyid(p.proowner),
      obj_description(p.oid, 'pg_proc'),
      (select string_agg(g.grantee::regrole::text, ' ' order by g.grantee)
       from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) g)), ';' order by p.oid::regprocedure::text)
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace";

const ACQUIRE: &str = "acquire_processing_lock(p_note_id => '00000000-0000-4000-8000-000000000003', p_lock_timeout_minutes => 15)";
const ACQUIRE_EVAS: &str = "acquire_processing_lock(p_note_id => '00000000-0000-4000-8000-000000000004', p_lock_timeout_minutes => 15)";

struct Supabase {
    place: TestDatabase,
    /// The database as PostgREST logs in to it.
    authenticator: String,
}

impl Supabase {
    /// Creates the application's tables with row-level security, and installs Turno by its migration file, all as the owner.
    async fn new() -> Self {
        static SERVER: OnceLock<PostgresServer> = OnceLock::new();
        let server = SERVER.get_or_init(start);
        let database = server.create_database();
        let url = |role: &str| {
            format!(
                "postgres://{role}:s3cret@localhost:{}/{}?sslmode=verify-full&sslrootcert={}",
                server.port(),
                database.rsplit('/').next().unwrap(),
                server.folder().join("authority.crt").display()
            )
        };
        let place = TestDatabase::connect(url("owner")).await;
        place.tell(supabase::SCHEMAS).await;
        let script = AssertSqlSafe(script_for_supabase());
        sqlx::raw_sql(script).execute(&place.db).await.unwrap();
        application::create(&place.db).await.unwrap();
        application::fill(&place.db).await.unwrap();
        let policies = include_str!("../../sql/row_level_security.sql");
        place.tell(policies).await;
        Supabase {
            place,
            authenticator: url("authenticator"),
        }
    }

    async fn adopted() -> Self {
        let project = Self::new().await;
        let turno = project.turno().await;
        application::adopt(&turno).await.unwrap();
        turno.close().await;
        project
    }

    async fn turno(&self) -> Turno {
        Turno::connect(&self.place.url).await.unwrap()
    }

    /// Selects as PostgREST does, for a role and a user: the rows as JSON, or the SQLSTATE.
    async fn select(&self, role: &str, user: &str, from: &str) -> Result<String, String> {
        let mut connection = PgConnection::connect(&self.authenticator).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        let claims = format!(r#"{{"role": "{role}", "sub": "{user}"}}"#);
        sqlx::query(
            "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)",
        )
        .bind(role)
        .bind(claims)
        .execute(&mut *tx)
        .await
        .unwrap();
        let select = format!(
            "select coalesce(json_agg(t), '[]')::text from (select * from public.{from}) t"
        );
        let answer: Result<String, _> = sqlx::query_scalar(AssertSqlSafe(select))
            .fetch_one(&mut *tx)
            .await;
        match answer {
            Ok(rows) => {
                tx.commit().await.unwrap();
                Ok(rows)
            }
            Err(error) => {
                let error = error.as_database_error().unwrap();
                Err(error.code().unwrap().into_owned())
            }
        }
    }

    /// Makes a command call the API as this role.
    fn api<'a>(&self, command: &'a mut Command, role: &str) -> &'a mut Command {
        command
            .env("PGRST_DB_URI", &self.authenticator)
            .env("SUPABASE_ROLE", role)
            .env("SUPABASE_USER", ANA)
    }
}

fn start() -> PostgresServer {
    // The server has its own copies of the certificates.
    let folder = tempfile::tempdir().unwrap();
    let authority = Certificate::authority(folder.path(), "authority").unwrap();
    let certificate = authority.issue(folder.path(), "server", LOCALHOST).unwrap();
    let server = PostgresServer::start_hostssl(&certificate, &authority, &[]).unwrap();
    server.administer(supabase::ROLES).unwrap();
    server.administer(PASSWORDS).unwrap();
    server
}

/// What PostgREST answers to [`ACQUIRE`].
const LOCKED: &str = r#"[{"acquire_processing_lock":true}]"#;
const BUSY: &str = r#"[{"acquire_processing_lock":false}]"#;

/// The document's three commands, over TLS: rpc and from as `service_role`, the rest as the owner.
#[tokio::test]
async fn the_typescript_suite_passes_as_service_role() {
    let project = Supabase::new().await;
    for script in DOCUMENTED {
        let mut command = npx(&["tsx", script]);
        let ended = end(&project
            .place
            .spawn(project.api(&mut command, "service_role")));
        assert_eq!(ended.code, Some(0), "{script}: {}", ended.out);
    }
    // The control: without a role that may call the functions, the same commands fail.
    for role in ["anon", "authenticated"] {
        let mut command = npx(&["tsx", DOCUMENTED[0]]);
        let ended = end(&project.place.spawn(project.api(&mut command, role)));
        assert_eq!(ended.code, Some(1), "{role}: {}", ended.out);
    }
}

/// The Rust program works as the owner, which row-level security does not restrict.
#[tokio::test]
async fn rust_works_as_the_owner() {
    let project = Supabase::adopted().await;
    let cron = project.place.run(&["cron", "--limit", "20"]);
    assert_eq!(cron.code, Some(0), "{cron:?}");
    assert_eq!(
        project.place.stats(&[]),
        r#"{"total":12,"pending":0,"processing":0,"completed":12,"failed":0}"#
    );
    let encrypted = "select ssl::text from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(project.place.ask(encrypted).await, "true");
}

/// Supabase grants each new function to `anon` and to every user. The document's functions can be called by both; those of adopt
/// cannot.
#[tokio::test]
async fn anon_and_users_may_not_call_the_functions() {
    let project = Supabase::new().await;
    let place = &project.place;
    place
        .tell(include_str!("../../sql/document_functions.sql"))
        .await;
    // The control.
    let locked = project.select("anon", "", ACQUIRE).await;
    assert_eq!(locked.as_deref(), Ok(LOCKED));

    assert_eq!(place.run(&["migrate", "--replace"]).code, Some(0));
    for (role, user) in [("anon", ""), ("authenticated", ANA)] {
        for function in [
            ACQUIRE,
            "get_next_notes_for_processing(p_limit => 1)",
            "reset_stuck_processing(p_all => true)",
        ] {
            let answer = project.select(role, user, function).await;
            assert_eq!(answer, Err("42501".to_owned()), "{function} as {role}");
        }
    }
    // The service may: note 3 is still locked, note 4 is free.
    let (three, four) = (
        project.select("service_role", "", ACQUIRE).await,
        project.select("service_role", "", ACQUIRE_EVAS).await,
    );
    assert_eq!(three.as_deref(), Ok(BUSY));
    assert_eq!(four.as_deref(), Ok(LOCKED));
}

/// A user to whom a function is granted sees and locks own notes only.
#[tokio::test]
async fn a_user_who_is_granted_a_function_locks_own_notes_only() {
    let project = Supabase::adopted().await;
    // The first one calls the second, with the rights of its caller.
    project
        .place
        .tell(
            "grant execute on function acquire_processing_lock(uuid, integer) to authenticated;
             grant execute on function acquire_processing_lock_token(uuid, interval) to authenticated",
        )
        .await;
    let notes = project.select("authenticated", ANA, "notes").await.unwrap();
    assert_eq!(notes.matches(ANA).count(), 6);
    assert!(!notes.contains(EVA), "{notes}");
    assert_eq!(
        project.select("anon", "", "notes").await.as_deref(),
        Ok("[]")
    );

    let (own, evas) = (
        project.select("authenticated", ANA, ACQUIRE).await,
        project.select("authenticated", ANA, ACQUIRE_EVAS).await,
    );
    assert_eq!(own.as_deref(), Ok(LOCKED));
    assert_eq!(evas.as_deref(), Ok(BUSY));
    // The control: it was free, for the user that it belongs to.
    let evas = project.select("authenticated", EVA, ACQUIRE_EVAS).await;
    assert_eq!(evas.as_deref(), Ok(LOCKED));
}

/// A function with the document's name calls the one with a token or an interval, with the rights of its caller: a role that is
/// granted only the first may not call it.
#[tokio::test]
async fn a_granted_function_needs_the_function_that_it_calls() {
    let project = Supabase::adopted().await;
    let grant = "grant execute on function acquire_processing_lock(uuid, integer),
        get_next_notes_for_processing(uuid, integer, integer),
        cleanup_abandoned_processing_locks(integer), reset_stuck_processing(boolean, integer) to authenticated";
    project.place.tell(grant).await;
    let calls = [
        ACQUIRE,
        "get_next_notes_for_processing(p_limit => 1)",
        "cleanup_abandoned_processing_locks(p_timeout_minutes => 5)",
        "reset_stuck_processing(p_all => true)",
    ];
    for call in calls {
        let answer = project.select("authenticated", ANA, call).await;
        assert_eq!(answer, Err("42501".to_owned()), "{call}");
    }
    let grant = "grant execute on function acquire_processing_lock_token(uuid, interval),
        get_next_notes_for_processing_token(uuid, integer, interval),
        cleanup_abandoned_processing_locks_after(interval),
        reset_stuck_processing_after(interval, boolean) to authenticated";
    project.place.tell(grant).await;
    for call in calls {
        let answer = project.select("authenticated", ANA, call).await;
        assert!(answer.is_ok(), "{call}: {answer:?}");
    }
}

/// "New Database Functions", where they are there already: refused without `--replace`; with it, all of them are replaced at one
/// moment; `--undo` restores definition, owner, comment and rights.
#[tokio::test]
async fn the_documents_functions_are_replaced_in_one_transaction_and_restored() {
    let project = Supabase::new().await;
    let place = &project.place;
    place
        .tell(include_str!("../../sql/document_functions.sql"))
        .await;
    let before = place.ask(FUNCTIONS).await;
    let refusal = place.refusal(&["migrate"]);
    assert!(refusal.contains("acquire_processing_lock"), "{refusal}");
    assert_eq!(place.ask(FUNCTIONS).await, before);

    // Until the transaction ends, every other session has the document's functions; after a rollback, all sessions have.
    let mut tx = place.db.begin().await.unwrap();
    let adopt = r#"select turno.adopt('notes', 'id', "user" => 'user_id', "replace" => true)"#;
    sqlx::raw_sql(adopt).execute(&mut *tx).await.unwrap();
    assert_eq!(place.ask(FUNCTIONS).await, before);
    let inside: String = sqlx::query_scalar(FUNCTIONS)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    assert_ne!(inside, before, "the control");
    tx.rollback().await.unwrap();
    assert_eq!(place.ask(FUNCTIONS).await, before);

    let replaced = place.run(&["migrate", "--replace"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    assert_ne!(place.ask(FUNCTIONS).await, before);
    assert_eq!(place.run(&["cron", "--limit", "20"]).code, Some(0));

    let undone = place.run(&["migrate", "--undo"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(place.ask(FUNCTIONS).await, before);
    // They work as before: all notes are processed.
    let again = project.select("service_role", "", ACQUIRE).await;
    assert_eq!(again.as_deref(), Ok(BUSY));
    let processed = "select count(*)::text from notes where processed_at is not null";
    assert_eq!(place.ask(processed).await, "12");
}

/// `turno doctor` says so if `anon` may call one of them after all.
#[tokio::test]
async fn doctor_warns_if_anon_may_call_a_function() {
    let project = Supabase::adopted().await;
    let turno = project.turno().await;
    let about_anon = async || {
        let findings = turno.store().diagnose().await.unwrap();
        let mut findings = findings.into_iter();
        findings.find(|finding| finding.check == "anon").unwrap()
    };
    let finding = about_anon().await;
    assert_eq!(finding.severity, Severity::Ok, "{finding:?}");
    project
        .place
        .tell("grant execute on function acquire_processing_lock(uuid, integer) to anon")
        .await;
    let finding = about_anon().await;
    assert_eq!(finding.severity, Severity::Warning, "{finding:?}");
    assert!(
        finding.detail.contains("acquire_processing_lock"),
        "{finding:?}"
    );
}
