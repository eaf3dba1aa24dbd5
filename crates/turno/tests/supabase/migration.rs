//! The migration file: applied in one transaction or statement by statement, once or twice, over an older installation.

use tokio_postgres::Client;
use turno::Turno;
use turno::store::SCHEMA_VERSION;
use turno::store::postgres::script_for_supabase;
use turno_testkit::conformance::acquired;
use turno_testkit::sql::client;
use turno_testkit::{PostgresServer, Sql as _};

use crate::database::{Database, apply, statements};

/// Returns the functions of schema turno that a role may call.
async fn callable(client: &Client, role: &str) -> Vec<String> {
    let sql = "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'turno'::regnamespace \
               and has_schema_privilege($1, 'turno', 'usage') and has_function_privilege($1, p.oid, 'execute') order by 1";
    let rows = client.query(sql, &[&role]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn version(client: &Client) -> i32 {
    let sql = "select turno.schema_version()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Returns everything that the file creates, as text that can be compared.
async fn schema(client: &Client) -> String {
    let sql = "select string_agg(o.text, ';' order by o.text) from (
                 select concat_ws(' ', p.oid::regprocedure, md5(pg_get_functiondef(p.oid)),
                   (select array_agg(g::text order by g::text) from aclexplode(p.proacl) g)) as text
                 from pg_proc p where p.pronamespace = 'turno'::regnamespace
                 union all
                 select concat_ws(' ', c.relname, a.attname, a.atttypid::regtype)
                 from pg_class c join pg_attribute a on a.attrelid = c.oid
                 where c.relnamespace = 'turno'::regnamespace and a.attnum > 0) o";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn the_file_is_plain_sql_without_a_transaction_of_its_own() {
    let file = script_for_supabase();
    assert!(!file.lines().any(|line| line.starts_with('\\')));
    for statement in statements(&file) {
        let words: String = statement
            .lines()
            .filter(|line| !line.starts_with("--"))
            .collect();
        for word in ["begin", "commit", "start transaction"] {
            assert!(!words.trim().starts_with(word), "{statement}");
        }
        // The only session setting is reset before the file ends.
        let is_setting = words.trim().starts_with("set ");
        assert!(
            !is_setting || words.trim() == "set search_path = pg_catalog, pg_temp",
            "{statement}"
        );
    }
    assert!(
        file.trim_end()
            .ends_with("reset search_path;\n\nnotify pgrst, 'reload schema';")
    );
}

#[tokio::test]
async fn it_is_applied_once_and_changes_nothing_when_applied_again() {
    let database = Database::with_turno().await;
    let manager = database.manager().await;
    assert_eq!(version(&manager).await, SCHEMA_VERSION as i32);
    let before = schema(&manager).await;
    apply(&manager, &script_for_supabase()).await.unwrap();
    assert_eq!(schema(&manager).await, before);
    // The program finds its own version, and its other functions work.
    let turno = Turno::connect(&database.url()).await.unwrap();
    assert_eq!(
        turno.store().migrate().await.unwrap().from,
        Some(SCHEMA_VERSION)
    );
    let lease = acquired(turno.lock("r")).await;
    lease.release().await.unwrap();
}

#[tokio::test]
async fn it_is_applied_statement_by_statement() {
    let (database, other) = (Database::new().await, Database::with_turno().await);
    let manager = database.manager().await;
    let file = script_for_supabase();
    for statement in statements(&file) {
        manager.execute(statement, &[]).await.unwrap();
    }
    assert_eq!(schema(&manager).await, schema(&other.manager().await).await);
}

/// A database that was set up by `turno migrate` gets the missing rights.
#[tokio::test]
async fn it_is_applied_over_an_installation_by_the_program() {
    let database = Database::new().await;
    let manager = database.manager().await;
    Turno::connect(&database.url()).await.unwrap().close().await;
    assert_eq!(callable(&manager, "service_role").await, [""; 0]);
    apply(&manager, &script_for_supabase()).await.unwrap();
    assert!(!callable(&manager, "service_role").await.is_empty());
}

#[tokio::test]
async fn service_role_may_call_what_turno_app_may_and_the_others_nothing() {
    let database = Database::with_turno().await;
    let manager = database.manager().await;
    let application = callable(&manager, "turno_app").await;
    assert!(application.len() > 30, "{application:?}");
    assert_eq!(callable(&manager, "service_role").await, application);
    assert_eq!(callable(&manager, "authenticated").await, [""; 0]);
    assert_eq!(callable(&manager, "anon").await, [""; 0]);
    let tables = "select count(*) from pg_class c cross join unnest(array['anon', 'authenticated', 'service_role']) r \
                  where c.relnamespace = 'turno'::regnamespace and c.relkind in ('r', 'p', 'v') \
                  and has_table_privilege(r, c.oid, 'select, insert, update, delete')";
    let readable: i64 = manager.query_one(tables, &[]).await.unwrap().get(0);
    assert_eq!(readable, 0);
}

/// When it is applied again, the file uses the settings of the database.
#[tokio::test]
async fn the_file_keeps_roles_that_the_settings_name() {
    let database = Database::with_turno().await;
    let manager = database.manager().await;
    let application = callable(&manager, "turno_app").await;
    manager.run("select turno.setting_set('app_role', 'shop_app'); select turno.setting_set('operator_role', 'shop_operator')").await;
    for applied in [false, true] {
        if applied {
            apply(&manager, &script_for_supabase()).await.unwrap();
        }
        for role in ["shop_app", "service_role"] {
            assert_eq!(callable(&manager, role).await, application, "{role}");
        }
        assert!(callable(&manager, "shop_operator").await.len() > application.len());
        for role in ["turno_app", "turno_operator", "anon"] {
            assert_eq!(callable(&manager, role).await, [""; 0], "{role}");
        }
    }
}

/// A grant to anon is revoked by the next migration; one to authenticated is its owner's decision, and is kept.
#[tokio::test]
async fn the_file_closes_what_was_open_to_anon() {
    let database = Database::with_turno().await;
    let manager = database.manager().await;
    manager
        .run(
            "grant usage on schema turno to anon, authenticated;
             grant execute on function turno.lock_status(text) to anon, authenticated",
        )
        .await;
    assert_eq!(callable(&manager, "anon").await.len(), 1, "the control");
    apply(&manager, &script_for_supabase()).await.unwrap();
    assert_eq!(callable(&manager, "anon").await, [""; 0]);
    assert_eq!(callable(&manager, "authenticated").await.len(), 1);
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let database = Database::with_turno().await;
    let manager = database.manager().await;
    manager
        .run("insert into turno.migration (version, name) values (10000, 'from the future')")
        .await;
    let before = schema(&manager).await;
    let error = apply(&manager, &script_for_supabase()).await.unwrap_err();
    let said = error.as_db_error().unwrap();
    assert!(said.message().contains("newer schema"), "{error:?}");
    assert_eq!(said.hint(), Some("Print the file with a newer turno."));
    assert_eq!(schema(&manager).await, before);
}

/// Without the right to create roles, and without the roles, the file says what an administrator has to do. With them, it works.
#[tokio::test]
async fn a_missing_role_is_named() {
    let server = PostgresServer::start().unwrap();
    let url = server.create_database();
    let administrator = client(&server.superuser_url("postgres")).await;
    administrator.run("drop role turno_app, turno_operator; create role service_role nologin noinherit bypassrls").await;
    let owner = client(&url).await;
    let error = apply(&owner, &script_for_supabase()).await.unwrap_err();
    let said = error.as_db_error().unwrap();
    assert!(said.message().contains("turno_app"), "{error:?}");
    assert!(said.hint().unwrap().contains("create role"), "{error:?}");
    administrator
        .run("create role turno_app nologin; create role turno_operator nologin")
        .await;
    apply(&owner, &script_for_supabase()).await.unwrap();
    assert!(!callable(&owner, "service_role").await.is_empty());
}
