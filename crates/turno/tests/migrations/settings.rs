//! Settings of the database: validated, recorded, kept; and the roles that they name.

use turno::history::{History, HistoryEvent, Part};
use turno::store::{
    ChangedSetting, MigrateOptions, Migrated, SchemaDrift, SettingChange, Severity, postgres,
};
use turno::{Result, Roles, Turno};
use turno_testkit::conformance::TestStore;
use turno_testkit::{PostgresServer, Sql as _, sql};

use super::roles::{find, name, says};

fn settings(changes: &[&str]) -> MigrateOptions {
    MigrateOptions {
        settings: changes.iter().map(|text| text.parse().unwrap()).collect(),
        user: Some("eva".into()),
        ..MigrateOptions::default()
    }
}

async fn set(turno: &Turno, changes: &[&str]) -> Result<Migrated> {
    turno.store().migrate_with(&settings(changes)).await
}

/// Returns the current value of a setting.
async fn value(turno: &Turno, name: &str) -> String {
    let settings = turno.store().database_settings().await.unwrap();
    let found = settings.into_iter().find(|setting| setting.name == name);
    found.unwrap().value
}

#[tokio::test]
async fn a_setting_is_kept_shown_and_recorded() {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    let settings = turno.store().database_settings().await.unwrap();
    let names: Vec<&str> = settings.iter().map(|it| it.name.as_str()).collect();
    let known = [
        "app_role",
        "max_payload",
        "max_ttl",
        "notify",
        "operator_role",
    ];
    assert_eq!(names, known);
    assert!(settings.iter().all(|setting| !setting.is_changed()));
    let doctor = async || turno.store().diagnose().await.unwrap();
    let finding = find(&doctor().await, "settings").clone();
    assert_eq!(finding.detail, "all have their defaults");

    let migrated = set(&turno, &["max_ttl=60 days", "notify=on"])
        .await
        .unwrap();
    let changed = ChangedSetting {
        name: "max_ttl".into(),
        before: "30 days".into(),
        value: "60 days".into(),
    };
    assert_eq!(
        migrated.changed_settings,
        [changed],
        "the other had the value"
    );
    let finding = find(&doctor().await, "settings").clone();
    assert_eq!(finding.severity, Severity::Ok);
    assert_eq!(finding.detail, "max_ttl is 60 days (default 30 days)");
    // A migration and a repair keep it, and setting the same value again changes nothing.
    turno.store().migrate().await.unwrap();
    turno.store().repair(Roles::Grant).await.unwrap();
    let again = set(&turno, &["max_ttl=60 days"]).await.unwrap();
    assert!(again.changed_settings.is_empty());
    assert_eq!(value(&turno, "max_ttl").await, "60 days");
    let owner = test_store.postgres_connection().await;
    let sql = "select turno.setting_set('max_payload', '128MB')";
    let stored: String = owner.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(stored, "134217728");
    for (reset, name) in [
        ("max_ttl=", "max_ttl"),
        ("max_payload=default", "max_payload"),
    ] {
        set(&turno, &[reset]).await.unwrap();
        let rows = owner.query("select from turno.setting", &[]).await.unwrap();
        assert_eq!(rows.len(), usize::from(name == "max_ttl"));
    }
    let history = History {
        part: Some(Part::Setting),
        ..History::default()
    };
    let entries = turno.history(history).await.unwrap();
    let actions: Vec<_> = entries
        .iter()
        .map(|entry| {
            assert_eq!(entry.event, HistoryEvent::Changed);
            let text = |value: &Option<String>| value.clone().unwrap();
            (
                entry.resource.as_str(),
                text(&entry.actor),
                text(&entry.reason),
            )
        })
        .collect();
    let by = |user: &str| user.to_owned();
    assert_eq!(
        actions,
        [
            ("max_payload", by("eva"), by("from 134217728 to 67108864")),
            ("max_ttl", by("eva"), by("from 60 days to 30 days")),
            ("max_payload", by("owner"), by("from 67108864 to 134217728")),
            ("max_ttl", by("eva"), by("from 30 days to 60 days")),
        ]
    );
}

#[tokio::test]
async fn a_bad_setting_is_refused_and_nothing_is_stored() {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    let unknown = set(&turno, &["notify=off", "max_tll=60d"])
        .await
        .unwrap_err();
    assert_eq!(unknown.field(), Some("setting"));
    let said = unknown.to_string();
    assert!(
        said.contains("'max_tll'") && said.contains("app_role, max_payload, max_ttl"),
        "{said}"
    );
    for bad in [
        "notify=maybe",
        "max_ttl=soon",
        "max_ttl=90",
        "max_ttl=1h",
        "max_ttl=20 years",
        "max_payload=1",
        "max_payload=much",
        "max_payload=4GB",
        "app_role=public",
        "app_role=pg_monitor",
        "app_role=owner",
        "app_role=turno_operator",
        "operator_role=turno_app",
        "app_role=a\tb",
    ] {
        let error = set(&turno, &[bad]).await.unwrap_err();
        assert_eq!(error.field(), Some("setting"), "{bad}: {error:?}");
    }
    let skip = MigrateOptions {
        roles: Roles::Skip,
        ..settings(&["app_role=other"])
    };
    let error = turno.store().migrate_with(&skip).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("--no-roles"),
        "{error:?}"
    );
    let settings_now = turno.store().database_settings().await.unwrap();
    assert!(settings_now.iter().all(|setting| !setting.is_changed()));
    // Only the owner changes settings; the others read them.
    for role in ["app", "operator"] {
        let client = test_store.postgres_connection_as(role).await;
        let refused = client
            .query("select turno.setting_set('notify', 'off')", &[])
            .await;
        assert_eq!(refused.unwrap_err().code().unwrap().code(), "42501");
        let read = client.query("select * from turno.settings()", &[]).await;
        assert_eq!(read.unwrap().len(), 5);
        let other = Turno::connect(&test_store.url_as(role)).await.unwrap();
        assert!(set(&other, &["notify=off"]).await.unwrap_err().is_refused());
    }
    let sqlite = TestStore::sqlite();
    let error = set(&sqlite.turno().await, &["notify=off"])
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("PostgreSQL"),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_printed_schema_has_the_settings() {
    let test_store = TestStore::empty_postgres();
    let script = postgres::script_with_settings(&settings(&["max_ttl=90 days", "notify=off"]));
    says(test_store.url(), &script.unwrap()).await;
    let turno = test_store.turno().await;
    assert_eq!(value(&turno, "max_ttl").await, "90 days");
    assert_eq!(value(&turno, "notify").await, "off");
    assert_eq!(
        turno.store().schema_drift().await.unwrap(),
        SchemaDrift::default()
    );
}

/// Returns whether a role can acquire a lock.
async fn locks(url: &str) -> Result<()> {
    let turno = Turno::connect(url).await?;
    turno
        .lock("r")
        .acquire()
        .await?
        .acquired()
        .unwrap()
        .release()
        .await?;
    Ok(())
}

const TENANTS: &str = "
    create role shop_turno_app nologin; create role shop_turno_operator nologin;
    create role \"Bank App\" nologin; create role bank_operator nologin;
    create role shop login in role shop_turno_app; create role shop_night login in role shop_turno_operator;
    create role bank login in role \"Bank App\"";

/// Roles belong to the cluster: with the default names, a member has rights in every database. With separate names, only in one.
#[tokio::test]
async fn two_databases_of_a_cluster_have_roles_of_their_own() {
    let server = PostgresServer::start().unwrap();
    let (shop, bank) = (server.create_database(), server.create_database());
    let admin = server.superuser_url(name(&shop));
    let (in_shop, in_bank) = (
        Turno::connect(&shop).await.unwrap(),
        Turno::connect(&bank).await.unwrap(),
    );
    let url = |role: &str, database: &str| server.url_as(role, name(database));
    // The control: one role, two databases.
    for database in [&shop, &bank] {
        locks(&url("app", database)).await.unwrap();
    }
    // The owner has no right to create roles: nothing changes until an administrator has created them.
    let shops = [
        "app_role=shop_turno_app",
        "operator_role=shop_turno_operator",
    ];
    let error = set(&in_shop, &shops).await.unwrap_err();
    assert!(
        error.is_refused()
            && error
                .to_string()
                .contains("create role shop_turno_app nologin"),
        "{error:?}"
    );
    locks(&url("app", &shop)).await.unwrap();
    says(&admin, TENANTS).await;
    let migrated = set(&in_shop, &shops).await.unwrap();
    assert_eq!(migrated.changed_settings.len(), 2);
    // In SQL, without the program.
    says(
        &bank,
        "select turno.setting_set('app_role', 'Bank App'); select turno.setting_set('operator_role', 'bank_operator')",
    )
    .await;

    let only_their_own = async || {
        for (role, own, other) in [("shop", &shop, &bank), ("bank", &bank, &shop)] {
            locks(&url(role, own)).await.unwrap();
            let error = locks(&url(role, other)).await.unwrap_err();
            assert!(error.is_refused(), "{error:?}");
        }
        for database in [&shop, &bank] {
            let error = locks(&url("app", database)).await.unwrap_err();
            assert!(error.is_refused(), "{error:?}");
        }
    };
    only_their_own().await;
    let error = locks(&url("shop", &bank)).await.unwrap_err();
    assert!(
        error.to_string().contains("`grant \"Bank App\" to <role>`"),
        "{error}"
    );
    let as_shop = Turno::connect(&url("shop", &shop)).await.unwrap();
    let error = as_shop.sweep(&Default::default()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`grant shop_turno_operator to <role>`"),
        "{error}"
    );
    let night = Turno::connect(&url("shop_night", &shop)).await.unwrap();
    night.sweep(&Default::default()).await.unwrap();
    let findings = as_shop.store().diagnose().await.unwrap();
    for check in ["functions", "grants", "settings", "sweep"] {
        let finding = find(&findings, check);
        assert_eq!(finding.severity, Severity::Ok, "{finding:?}");
    }
    let shown = &find(&findings, "settings").detail;
    assert!(
        shown.contains("app_role is shop_turno_app (default turno_app)"),
        "{shown}"
    );

    // Later migrations and repairs keep the choice.
    for turno in [&in_shop, &in_bank] {
        let store = turno.store();
        assert!(store.migrate().await.unwrap().changed_settings.is_empty());
        assert_eq!(
            store.repair(Roles::Grant).await.unwrap(),
            SchemaDrift::default()
        );
        assert_eq!(store.schema_drift().await.unwrap(), SchemaDrift::default());
    }
    only_their_own().await;
    // A right of the former role is found, and revoked.
    says(
        &shop,
        "grant usage on schema turno to turno_app; grant execute on function turno.lock_acquire to turno_app",
    )
    .await;
    let drift = in_shop.store().repair(Roles::Grant).await.unwrap();
    assert_eq!(drift.excess_grants, ["turno_app: lock_acquire"]);
    assert_eq!(
        in_shop.store().schema_drift().await.unwrap(),
        SchemaDrift::default()
    );
    only_their_own().await;
    // And back to the defaults.
    set(&in_shop, &["app_role=", "operator_role="])
        .await
        .unwrap();
    locks(&url("app", &shop)).await.unwrap();
    assert!(locks(&url("shop", &shop)).await.unwrap_err().is_refused());
    assert!(locks(&url("app", &bank)).await.unwrap_err().is_refused());
}

/// The first migration creates the roles that the settings name, and not those of the default names.
#[tokio::test]
async fn roles_of_settings_are_created_where_that_is_allowed() {
    let server = PostgresServer::start().unwrap();
    let url = server.create_database();
    says(
        &server.superuser_url(name(&url)),
        "drop role app, operator, turno_app, turno_operator; alter role owner createrole",
    )
    .await;
    let store = postgres::PostgresStore::connect(&url, 1).await.unwrap();
    let changes = settings(&["app_role=shop_app", "operator_role=shop_operator"]);
    let migrated = turno::store::Store::migrate_with(&store, &changes)
        .await
        .unwrap();
    assert_eq!((migrated.from, migrated.missing_roles.len()), (None, 0));
    let client = sql::client(&url).await;
    let roles =
        "select r.rolname::text from pg_roles r where r.rolname ~ '^(turno|shop)_' order by 1";
    let rows = client.query(roles, &[]).await.unwrap();
    let roles: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(roles, ["shop_app", "shop_operator"]);
    says(&url, "create role shop login; grant shop_app to shop").await;
    locks(&server.url_as("shop", name(&url))).await.unwrap();
    let drift = turno::store::Store::schema_drift(&store).await.unwrap();
    assert_eq!(drift, SchemaDrift::default());
}

/// Rights on functions of adopted tables move to the new role, and new functions are granted to it.
#[tokio::test]
async fn functions_of_adopted_tables_follow_the_setting() {
    let test_store = TestStore::postgres();
    let role = format!("{}_app", name(test_store.url()));
    let admin = test_store.postgres_connection_as("postgres").await;
    admin.run(&format!("create role {role} nologin")).await;
    let table = "create table notes (id bigint generated by default as identity primary key); select turno.adopt('notes', 'id')";
    says(test_store.url(), table).await;
    let client = test_store.postgres_connection().await;
    let may = async |role: &str| {
        let sql = format!(
            "select has_function_privilege('{role}', 'acquire_processing_lock(bigint, integer)', 'execute')"
        );
        client.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0)
    };
    assert!(may("turno_app").await && !may(&role).await, "the control");
    let turno = test_store.turno().await;
    let change = MigrateOptions {
        settings: vec![SettingChange::new("app_role", &role)],
        ..MigrateOptions::default()
    };
    turno.store().migrate_with(&change).await.unwrap();
    assert!(!may("turno_app").await && may(&role).await);
    let again = "select turno.unadopt('notes'); select turno.adopt('notes', 'id')";
    says(test_store.url(), again).await;
    assert!(!may("turno_app").await && may(&role).await);
}
