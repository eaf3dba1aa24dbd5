//! The schema as released, without the bodies of its functions: the parts that another program can depend on.

use std::path::Path;

use turno_testkit::conformance::TestStore;

/// Tables with their columns, constraints and indexes; types; functions with the roles that may call them. The text is the same
/// on every version of PostgreSQL: a role's rights are listed one by one, because newer versions have more of them, and
/// constraints that only repeat `not null` are omitted.
const POSTGRES: &str = include_str!("golden.sql");
const SQLITE: &str = "select sql from sqlite_schema where sql is not null order by name";

async fn schema(test_store: &TestStore) -> String {
    let mut lines = Vec::new();
    if test_store.is_sqlite() {
        let db = test_store.sqlite_connection();
        let mut statement = db.prepare(SQLITE).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        lines.extend(rows.map(|row: rusqlite::Result<String>| row.unwrap() + ";"));
    } else {
        let client = test_store.postgres_connection().await;
        let rows = client.query(POSTGRES, &[]).await.unwrap();
        lines.extend(rows.iter().map(|row| row.get::<_, String>(0)));
    }
    lines.join("\n") + "\n"
}

/// `TURNO_UPDATE_GOLDEN=1` rewrites the files.
#[tokio::test]
async fn the_schema_is_as_shipped() {
    // Tests run in their package's folder.
    let folder = Path::new("tests/golden");
    for (file, test_store) in [
        ("schema_sqlite.sql", TestStore::sqlite()),
        ("schema_postgres.txt", TestStore::empty_postgres()),
    ] {
        drop(test_store.turno().await);
        let file = folder.join(file);
        let schema = schema(&test_store).await;
        if std::env::var_os("TURNO_UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &schema).unwrap();
        }
        let shipped = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            shipped == schema,
            "{} is not the program's schema: check the change, then run this test with TURNO_UPDATE_GOLDEN=1",
            file.display()
        );
    }
}
