//! Roles and rights: owners with and without the right to create roles, roles that are skipped, repairs.

use turno::store::{Finding, SCHEMA_VERSION, Severity, postgres};
use turno::{Roles, Turno};
use turno_testkit::conformance::{TestStore, acquired};
use turno_testkit::{PostgresServer, Sql as _, sql};

use super::shape;

const NO_ROLES: &str = "drop role app, operator, turno_app, turno_operator";
const LOGINS: &str =
    "create role app login in role turno_app; create role operator login in role turno_operator";
const BOTH: [&str; 2] = ["turno_app", "turno_operator"];

pub(super) async fn says(url: &str, statement: &str) {
    sql::client(url).await.run(statement).await;
}

/// Returns the name of the database in a URL.
pub(super) fn name(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

pub(super) fn find<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} is missing: {findings:?}"))
}

/// An owner without the right to create roles can migrate and work. Missing roles are reported, and get rights once they exist.
#[tokio::test]
async fn roles_that_an_administrator_creates_later_are_granted_by_a_repair() {
    let server = PostgresServer::start().unwrap();
    let url = server.create_database();
    let admin = server.superuser_url(name(&url));
    says(&admin, NO_ROLES).await;
    let turno = Turno::connect(&url).await.unwrap();
    let store = turno.store();
    let lease = acquired(turno.lock("r")).await;
    lease.release().await.unwrap();
    let drift = store.schema_drift().await.unwrap();
    assert_eq!(drift.missing_roles, BOTH);
    assert!(!drift.is_repairable(), "{drift:?}");
    let sql = drift.administrator_sql();
    assert_eq!(
        sql,
        [
            "create role turno_app nologin;",
            "create role turno_operator nologin;"
        ]
    );
    let findings = store.diagnose().await.unwrap();
    let grants = find(&findings, "grants");
    assert_eq!(grants.severity, Severity::Ok);
    assert!(grants.detail.contains(&sql[0]), "{grants:?}");
    // The same holds for a second database of the same owner.
    let second = server.create_database();
    let second = turno::store::postgres::PostgresStore::connect(&second, 1)
        .await
        .unwrap();
    let migrated = turno::store::Store::migrate(&second).await.unwrap();
    assert_eq!(migrated.missing_roles, BOTH);

    for statement in sql {
        says(&admin, &statement).await;
    }
    says(&admin, LOGINS).await;
    let app = server.url_as("app", name(&url));
    assert!(Turno::connect(&app).await.unwrap_err().is_refused());
    let drift = store.schema_drift().await.unwrap();
    assert!(drift.missing_roles.is_empty());
    assert!(
        drift
            .missing_grants
            .contains(&"turno_app: lock_acquire".to_owned())
            && drift
                .missing_grants
                .contains(&"turno_operator: sweep".to_owned())
            && drift.excess_grants.is_empty(),
        "{drift:?}"
    );
    assert_eq!(
        find(&store.diagnose().await.unwrap(), "grants").severity,
        Severity::Warning
    );
    // If the version is current, a plain migration changes nothing.
    let migrated = store.migrate().await.unwrap();
    assert_eq!(migrated.from, Some(SCHEMA_VERSION));
    assert_eq!(store.schema_drift().await.unwrap(), drift);
    assert_eq!(store.repair(Roles::Grant).await.unwrap(), drift);
    assert!(!store.schema_drift().await.unwrap().is_repairable());
    let app = Turno::connect(&app).await.unwrap();
    acquired(app.lock("r")).await.detach();
    // A role that is not the owner cannot repair.
    let refused = app.store().repair(Roles::Grant).await;
    assert!(refused.unwrap_err().is_refused());
}

/// An owner with the right to create roles creates them, and grants them to others.
#[tokio::test]
async fn roles_are_created_where_that_is_allowed() {
    let server = PostgresServer::start().unwrap();
    let url = server.create_database();
    let admin = server.superuser_url(name(&url));
    says(&admin, &format!("{NO_ROLES}; alter role owner createrole")).await;
    let turno = Turno::connect(&url).await.unwrap();
    let drift = turno.store().schema_drift().await.unwrap();
    assert_eq!(drift, Default::default());
    says(
        &url,
        "create role \"The App\" login; grant turno_app to \"The App\"",
    )
    .await;
    let app = server.url_as("The%20App", name(&url));
    let app = Turno::connect(&app).await.unwrap();
    acquired(app.lock("r")).await.detach();
    let findings = app.store().diagnose().await.unwrap();
    let vacuum = find(&findings, "vacuum");
    assert!(
        vacuum
            .detail
            .contains("grant pg_read_all_stats to \"The App\""),
        "{vacuum:?}"
    );
}

/// With roles skipped, they get no rights, although they exist in the cluster; the owner needs none.
#[tokio::test]
async fn roles_are_left_alone_when_asked() {
    let script = postgres::script_with(Roles::Skip);
    assert!(!script.contains("-- Rights "));
    assert!(postgres::script().contains("-- Rights "));
    assert!(postgres::script().starts_with(script.trim_end_matches("commit;\n")));
    for by_script in [false, true] {
        let test_store = TestStore::empty_postgres();
        if by_script {
            says(test_store.url(), &script).await;
        }
        let turno = Turno::builder()
            .roles(Roles::Skip)
            .connect(test_store.url())
            .await
            .unwrap();
        acquired(turno.lock("r")).await.detach();
        let granted = "select has_schema_privilege('turno_app', 'turno', 'usage')
            or has_function_privilege('turno_app', 'turno.seen(text,uuid)', 'execute')";
        let client = test_store.postgres_connection().await;
        let asks = async || {
            client
                .query_one(granted, &[])
                .await
                .unwrap()
                .get::<_, bool>(0)
        };
        assert!(!asks().await);
        turno.store().repair(Roles::Skip).await.unwrap();
        assert!(!asks().await);
        turno.store().repair(Roles::Grant).await.unwrap();
        assert!(asks().await);
    }
}

/// As after a restore without rights: every function can be called by all roles. Nothing else differs.
#[tokio::test]
async fn a_repair_closes_what_is_open_to_all() {
    for roles in [Roles::Grant, Roles::Skip] {
        let test_store = TestStore::postgres();
        let turno = test_store.turno().await;
        let store = turno.store();
        let open = "grant execute on all functions in schema turno to public";
        says(test_store.url(), open).await;
        let app = test_store.postgres_connection_as("app").await;
        app.simple_query("select turno.sweep()").await.unwrap();
        assert!(store.repair(roles).await.unwrap().has_grants());
        let error = app.simple_query("select turno.sweep()").await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501");
        assert_eq!(store.schema_drift().await.unwrap(), Default::default());
    }
}

/// Functions of two owners in one schema would run with each other's rights.
#[tokio::test]
async fn only_the_owner_of_the_schema_migrates_it() {
    let test_store = TestStore::postgres();
    says(test_store.url(), "drop function turno.seen").await;
    let turno = Turno::connect(&test_store.url_as("postgres"))
        .await
        .unwrap();
    let error = turno.store().repair(Roles::Grant).await.unwrap_err();
    assert!(
        error.is_refused() && error.to_string().contains("belongs to role owner"),
        "{error:?}"
    );
    test_store
        .turno()
        .await
        .store()
        .repair(Roles::Grant)
        .await
        .unwrap();
}

/// A migration does not call a function that another role has put into the owner's search path.
#[tokio::test]
async fn a_migration_calls_no_function_of_another_role() {
    let test_store = TestStore::empty_postgres();
    says(
        test_store.url(),
        "create table public.called (); \
         create function public.format(text, regprocedure) returns text language plpgsql as $$ \
         begin insert into public.called default values; return pg_catalog.format($1, $2); end $$; \
         create function public.format(text, regprocedure, name) returns text language plpgsql as $$ \
         begin insert into public.called default values; return pg_catalog.format($1, $2, $3); end $$",
    )
    .await;
    test_store.turno().await;
    let client = test_store.postgres_connection().await;
    let called = client.query("select from public.called", &[]).await;
    assert_eq!(called.unwrap().len(), 0);
}

const DAMAGE: &str = "
    create or replace function turno.next_token() returns bigint language sql as $$ select 1::bigint $$;
    drop function turno.seen, turno.sweep_last;
    alter function turno.lock_list reset search_path;
    alter function turno.once_status security invoker;
    grant execute on function turno.sweep to turno_app;
    grant execute on function turno.lock_break to public;
    revoke execute on function turno.lock_acquire from turno_app;
    revoke usage on schema turno from turno_operator";

/// Functions and rights that were changed by hand are reported by name, and repaired while other programs run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_restores_functions_and_rights() {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    let store = turno.store();
    assert_eq!(store.schema_drift().await.unwrap(), Default::default());
    let intact = shape(&test_store).await;
    says(test_store.url(), DAMAGE).await;
    let drift = store.schema_drift().await.unwrap();
    assert_eq!(drift.missing_functions, ["seen", "sweep_last"]);
    let mut changed = drift.changed_functions.clone();
    changed.sort();
    assert_eq!(changed, ["lock_list", "next_token", "once_status"]);
    assert_eq!(
        drift.missing_grants,
        ["turno_app: lock_acquire", "turno_operator: schema turno"]
    );
    // Rights of public are rights of every role.
    assert_eq!(
        drift.excess_grants,
        [
            "public: lock_break",
            "turno_app: lock_break",
            "turno_app: sweep"
        ]
    );
    let findings = store.diagnose().await.unwrap();
    let functions = find(&findings, "functions");
    assert_eq!(functions.severity, Severity::Problem);
    assert!(
        functions.detail.contains("seen") && functions.detail.contains("--repair"),
        "{functions:?}"
    );
    assert_eq!(find(&findings, "grants").severity, Severity::Warning);
    // A check that needs a missing function does not hide the other findings.
    assert_eq!(find(&findings, "tables").severity, Severity::Problem);

    // Other programs run meanwhile, and none of their calls fails.
    let busy = test_store.turno().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let stopped = stop.clone();
    let working = tokio::spawn(async move {
        let mut rounds = 0_u32;
        while !stopped.is_cancelled() || rounds < 3 {
            let lease = acquired(busy.lock("w")).await;
            busy.inbox("q").push(&rounds).await.unwrap();
            lease.release().await.unwrap();
            rounds += 1;
        }
        rounds
    });
    assert_eq!(store.repair(Roles::Grant).await.unwrap(), drift);
    stop.cancel();
    assert!(working.await.unwrap() >= 3);
    assert_eq!(store.schema_drift().await.unwrap(), Default::default());
    assert_eq!(shape(&test_store).await, intact);
    assert_eq!(
        store.repair(Roles::Grant).await.unwrap(),
        Default::default()
    );
    assert_eq!(shape(&test_store).await, intact);
}

/// The only test as a superuser: it can do what an ordinary owner can.
#[tokio::test]
async fn a_superuser_may_own_the_schema() {
    let test_store = TestStore::empty_postgres();
    let turno = Turno::connect(&test_store.url_as("postgres"))
        .await
        .unwrap();
    let lease = acquired(turno.lock("r")).await;
    lease.release().await.unwrap();
    turno.inbox("q").push(&1).await.unwrap();
    turno.sweep(&Default::default()).await.unwrap();
    assert_eq!(
        turno.store().schema_drift().await.unwrap(),
        Default::default()
    );
    let findings = turno.store().diagnose().await.unwrap();
    assert_eq!(find(&findings, "functions").severity, Severity::Ok);
    // Its functions can be called by applications, like those of any owner.
    let app = Turno::connect(&test_store.url_as("app")).await.unwrap();
    acquired(app.lock("r")).await.detach();
}

/// Every role that may call the functions gets the same findings. An unsafe setting is a problem.
#[tokio::test]
async fn a_diagnosis_needs_no_rights_but_those_of_an_application() {
    let test_store = TestStore::postgres();
    test_store
        .turno()
        .await
        .sweep(&Default::default())
        .await
        .unwrap();
    for role in ["owner", "app", "operator"] {
        let turno = Turno::connect(&test_store.url_as(role)).await.unwrap();
        let findings = turno.store().diagnose().await.unwrap();
        for check in [
            "schema",
            "functions",
            "grants",
            "settings",
            "tables",
            "numbers",
            "sweep",
            "relay",
            "writable",
            "vacuum",
        ] {
            let finding = find(&findings, check);
            assert_eq!(finding.severity, Severity::Ok, "{role}: {finding:?}");
        }
        let sweep = find(&findings, "sweep");
        assert!(sweep.detail.ends_with("by owner"), "{sweep:?}");
        // Test servers do not flush to the disk.
        let durability = find(&findings, "durability");
        assert_eq!(durability.severity, Severity::Problem, "{durability:?}");
    }
    let database = name(test_store.url());
    says(
        test_store.url(),
        &format!(
            "alter database {database} set synchronous_commit = off;
             alter database {database} set default_transaction_read_only = on;
             update turno.sweep_last set at = at - interval '3 days'"
        ),
    )
    .await;
    let turno = Turno::connect(&test_store.url_as("app")).await.unwrap();
    let findings = turno.store().diagnose().await.unwrap();
    let durability = find(&findings, "durability");
    assert!(
        durability.detail.contains("synchronous_commit is off"),
        "{durability:?}"
    );
    assert_eq!(find(&findings, "writable").severity, Severity::Problem);
    let sweep = find(&findings, "sweep");
    assert_eq!(sweep.severity, Severity::Warning);
    assert!(sweep.detail.contains("turno_operator"), "{sweep:?}");
}

/// An operator can sweep, but cannot delete today's history: operator actions must stay traceable.
#[tokio::test]
async fn only_the_owner_may_sweep_what_is_young() {
    let test_store = TestStore::postgres();
    let operator = test_store.postgres_connection_as("operator").await;
    operator.run("select turno.sweep()").await;
    let young = [
        "keep_history => '23 hours'",
        "keep_archive => '23 hours'",
        "keep_completed => '59 minutes'",
        "keep_seen => '59 minutes'",
        "keep_failed => '59 minutes'",
    ];
    for age in young {
        let sweep = format!("select turno.sweep({age})");
        let error = operator.batch_execute(&sweep).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{age}");
        let owner = test_store.postgres_connection_as("owner").await;
        owner.run(&sweep).await;
    }
}
