//! The view `tbl_lock` and migrations of Turno, which may change the tables that it shows.

use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::escena::Lugar;

/// A change of a table of Turno, as a migration makes it, undone at once.
const CAMBIO_POSTGRES: &str =
    "begin; alter table turno.lock_history alter column event type varchar(100); rollback";
/// On SQLite, a table is changed by building it anew.
const CAMBIO_SQLITE: &str = "begin; create table nueva as select * from turno_lock_history; \
    drop table turno_lock_history; alter table nueva rename to turno_lock_history; rollback";
const FILAS: &str = "select idlock from tbl_lock";

/// PostgreSQL: the view is over a function, so that no migration waits for it. The control is a view over Turno's table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn la_vista_no_impide_una_migracion() {
    let lugar = Lugar::postgres();
    let instancia = lugar.instancia(&[]);
    instancia.crear_prestamo().await;
    instancia.pagar(1, 1, "1.00").await;
    assert_eq!(lugar.leer(FILAS).await.len(), 1);
    let mut db = PgConnection::connect(&lugar.url).await.unwrap();
    let cambio = sqlx::raw_sql(CAMBIO_POSTGRES).execute(&mut db).await;
    cambio.unwrap();

    let directa = "create view directa as select event from turno.lock_history";
    sqlx::raw_sql(directa).execute(&mut db).await.unwrap();
    let rechazo = sqlx::raw_sql(CAMBIO_POSTGRES).execute(&mut db).await;
    let rechazo = rechazo.unwrap_err().to_string();
    assert!(rechazo.contains("used by a view"), "{rechazo}");
}

/// SQLite has no such functions: the view is dropped before a migration, and the next instance that starts creates it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_la_vista_se_borra_y_se_crea_otra_vez() {
    let lugar = Lugar::sqlite();
    let instancia = lugar.instancia(&[]);
    instancia.crear_prestamo().await;
    instancia.pagar(1, 1, "1.00").await;
    assert_eq!(lugar.leer(FILAS).await.len(), 1);
    let mut db = SqliteConnection::connect(&lugar.url).await.unwrap();
    let rechazo = sqlx::raw_sql(CAMBIO_SQLITE).execute(&mut db).await;
    let rechazo = rechazo.unwrap_err().to_string();
    assert!(rechazo.contains("error in view tbl_lock"), "{rechazo}");
    sqlx::raw_sql("rollback").execute(&mut db).await.unwrap();

    let borrar = sqlx::raw_sql("drop view tbl_lock").execute(&mut db).await;
    borrar.unwrap();
    let cambio = sqlx::raw_sql(CAMBIO_SQLITE).execute(&mut db).await;
    cambio.unwrap();
    let _nueva = lugar.instancia(&[]);
    assert_eq!(lugar.leer(FILAS).await.len(), 1);
}
