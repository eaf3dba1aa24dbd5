//! A roll-out: old instances, which lock with the document's statements on its table `tbl_lock`, and new ones, which lock with
//! Turno, on the same loans at once. PostgreSQL only: instances that share an SQLite file are on one machine, and are replaced
//! together.

use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use turno_testkit::eventually_async;

use crate::ensayo::{Instancia, PACIENCIA};
use crate::escena::{Escena, Lugar};
use crate::pedidos::{PAGAR, pago};
use crate::respuestas::{codigo, segundos_restantes};

/// The document's table, which old instances have.
const DOCUMENTO: &str = include_str!("../../sql/documento_postgres.sql");
/// What makes both kinds safe beside each other.
const CONVIVENCIA: &str = include_str!("../../sql/convivencia_postgres.sql");

/// The statements of the document's lock service, as Prisma sends them.
const BUSCAR: &str = r#"select idlock, "fechaExpiracion" > (clock_timestamp() at time zone 'utc')
    from tbl_lock where "tipoRecurso" = 'PRESTAMO' and idrecurso = $1 and activo = true order by idlock desc limit 1"#;
const CADUCAR: &str = "update tbl_lock set activo = false where idlock = $1";
const CREAR: &str = r#"insert into tbl_lock ("tipoRecurso", idrecurso, idusuario, descripcion, "fechaExpiracion")
    values ('PRESTAMO', $1, 3, 'Registro de pago', (clock_timestamp() at time zone 'utc') + make_interval(secs => $2))
    returning idlock"#;
const LIBERAR: &str = r#"update tbl_lock
    set activo = false, "fechaLiberacion" = (clock_timestamp() at time zone 'utc') where idlock = $1 and idusuario = 3"#;

/// Seconds of a lock: the document's five minutes.
const TIMEOUT: f64 = 300.0;
/// Amount of each payment: one, in centavos.
const MONTO: i64 = 100;

/// An old instance: one connection, and the document's steps one by one.
struct Vieja(PgConnection);

/// What an old instance has read, and writes later.
struct Lectura {
    idcuota: i64,
    pagado: i64,
}

impl Vieja {
    async fn nueva(lugar: &Lugar) -> Self {
        Vieja(PgConnection::connect(&lugar.url).await.unwrap())
    }

    /// `adquirirLock`: looks for an active lock, and creates one if there is none, or one that has expired. Returns its idlock,
    /// or the message of the rejection.
    async fn adquirir(&mut self, id: i64) -> Result<i32, String> {
        if self.hay_lock(id).await {
            return Err("El recurso está bloqueado por otra operación.".to_owned());
        }
        self.crear(id, TIMEOUT).await
    }

    /// The first step: true if there is an active lock that has not expired.
    async fn hay_lock(&mut self, id: i64) -> bool {
        let activo: Option<(i32, bool)> = sqlx::query_as(BUSCAR)
            .bind(i32::try_from(id).unwrap())
            .fetch_optional(&mut self.0)
            .await
            .unwrap();
        match activo {
            Some((_, true)) => true,
            Some((idlock, false)) => {
                let caducar = sqlx::query(CADUCAR).bind(idlock);
                caducar.execute(&mut self.0).await.unwrap();
                false
            }
            None => false,
        }
    }

    /// The second step.
    async fn crear(&mut self, id: i64, segundos: f64) -> Result<i32, String> {
        let crear = sqlx::query_scalar(CREAR)
            .bind(i32::try_from(id).unwrap())
            .bind(segundos);
        match crear.fetch_one(&mut self.0).await {
            Ok(idlock) => Ok(idlock),
            Err(sqlx::Error::Database(rechazo)) => {
                assert_eq!(rechazo.code().as_deref(), Some("55P03"), "{rechazo}");
                Err(rechazo.message().to_owned())
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn liberar(&mut self, idlock: i32) {
        let liberar = sqlx::query(LIBERAR).bind(idlock);
        let hecho = liberar.execute(&mut self.0).await.unwrap();
        assert_eq!(hecho.rows_affected(), 1);
    }

    /// Reads the first instalment that is not paid.
    async fn leer(&mut self, id: i64) -> Lectura {
        let leer = "select idcuota, pagado from tbl_cuota where idprestamo = $1 and pagado < monto order by numero limit 1";
        let fila: (i64, i64) = sqlx::query_as(leer)
            .bind(id)
            .fetch_one(&mut self.0)
            .await
            .unwrap();
        Lectura {
            idcuota: fila.0,
            pagado: fila.1,
        }
    }

    /// Writes a payment that was computed from what was read, in one transaction, as the document does.
    async fn escribir(&mut self, id: i64, lectura: Lectura) {
        let mut tx = self.0.begin().await.unwrap();
        let pago: i64 = sqlx::query_scalar(
            "insert into tbl_pago (idprestamo, idusuario, monto) values ($1, 3, $2) returning idpago",
        )
        .bind(id)
        .bind(MONTO)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
        sqlx::query("insert into tbl_aplicacion (idpago, idcuota, monto) values ($1, $2, $3)")
            .bind(pago)
            .bind(lectura.idcuota)
            .bind(MONTO)
            .execute(&mut *tx)
            .await
            .unwrap();
        let cuota = "update tbl_cuota set pagado = $2, estado = case when $2 = monto then 'PAGADA' else 'PARCIAL' end where idcuota = $1";
        sqlx::query(cuota)
            .bind(lectura.idcuota)
            .bind(lectura.pagado + MONTO)
            .execute(&mut *tx)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }

    /// One payment, from the lock to its release. False if it is rejected.
    async fn pagar(&mut self, id: i64) -> bool {
        let Ok(idlock) = self.adquirir(id).await else {
            return false;
        };
        let lectura = self.leer(id).await;
        self.escribir(id, lectura).await;
        self.liberar(idlock).await;
        true
    }
}

/// A database with Turno's functions and these scripts, in which no instance was started yet.
async fn lugar(guiones: &[&'static str]) -> Lugar {
    let lugar = Lugar::postgres();
    lugar.turno().await.close().await;
    for guion in guiones {
        lugar.ejecutar(guion, "").await;
    }
    lugar
}

/// Such a database, new instances on it, and a loan.
async fn escena(guiones: &[&'static str]) -> (Escena, i64) {
    let escena = Escena::nueva(lugar(guiones).await, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    (escena, id)
}

/// Returns what was paid and what was applied, in centavos. They differ if an update was lost.
async fn sumas(testigo: &Instancia, id: i64) -> (i64, i64) {
    let prestamo = testigo.prestamo(id).await;
    (prestamo.pagado(), prestamo.aplicado())
}

/// A new instance is between its reads and its writes: an old one is rejected, with the document's message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lo_que_tiene_una_nueva_no_lo_toma_una_vieja() {
    let (mut escena, id) = escena(&[DOCUMENTO, CONVIVENCIA]).await;
    let mut vieja = Vieja::nueva(&escena.lugar).await;
    let en_curso = escena.detener(0, PAGAR, pago(id, 1, "1.00")).await;
    let mensaje = vieja.adquirir(id).await.unwrap_err();
    assert!(segundos_restantes(&mensaje, 1) <= 300, "{mensaje}");
    assert!(en_curso.seguir().await["errors"].is_null());
    assert!(vieja.pagar(id).await);
    assert_eq!(sumas(&escena.testigo, id).await, (2 * MONTO, 2 * MONTO));
}

/// The control: without the triggers, both are in the loan at once, and the update of the old one is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_sin_convivencia_una_vieja_entra_tambien() {
    let (mut escena, id) = escena(&[DOCUMENTO]).await;
    let mut vieja = Vieja::nueva(&escena.lugar).await;
    let en_curso = escena.detener(0, PAGAR, pago(id, 1, "1.00")).await;
    assert!(vieja.pagar(id).await, "no lock stops it");
    assert!(en_curso.seguir().await["errors"].is_null());
    assert_eq!(sumas(&escena.testigo, id).await, (2 * MONTO, MONTO));
}

/// An old instance is between its reads and its writes: a new one is rejected, and told by whom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lo_que_tiene_una_vieja_no_lo_toma_una_nueva() {
    let (escena, id) = escena(&[DOCUMENTO, CONVIVENCIA]).await;
    let mut vieja = Vieja::nueva(&escena.lugar).await;
    let idlock = vieja.adquirir(id).await.unwrap();
    let lectura = vieja.leer(id).await;
    assert!(!pagar(&escena.testigo, id).await);
    let locks = escena.testigo.locks(id).await;
    assert_eq!(
        (&locks[0]["activo"], &locks[0]["idusuario"]),
        (&true.into(), &3.into())
    );
    vieja.escribir(id, lectura).await;
    vieja.liberar(idlock).await;
    assert!(pagar(&escena.testigo, id).await);
    assert_eq!(sumas(&escena.testigo, id).await, (2 * MONTO, 2 * MONTO));
}

/// The control of that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_sin_convivencia_una_nueva_entra_tambien() {
    let (escena, id) = escena(&[DOCUMENTO]).await;
    let mut vieja = Vieja::nueva(&escena.lugar).await;
    vieja.adquirir(id).await.unwrap();
    let lectura = vieja.leer(id).await;
    assert!(pagar(&escena.testigo, id).await, "no lock stops it");
    vieja.escribir(id, lectura).await;
    assert_eq!(sumas(&escena.testigo, id).await, (2 * MONTO, MONTO));
}

/// Two old instances that look at the same moment both find no lock. With the triggers, one of the two inserts fails; without
/// them, the control, there are two holders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dos_viejas_a_la_vez() {
    let casos: [(&[&str], usize); 2] = [(&[DOCUMENTO, CONVIVENCIA], 1), (&[DOCUMENTO], 2)];
    for (guiones, tomados) in casos {
        let lugar = lugar(guiones).await;
        let mut una = Vieja::nueva(&lugar).await;
        let mut otra = Vieja::nueva(&lugar).await;
        assert!(!una.hay_lock(7).await);
        assert!(!otra.hay_lock(7).await);
        let hechos = [una.crear(7, TIMEOUT).await, otra.crear(7, TIMEOUT).await];
        let cuantos = hechos.iter().filter(|hecho| hecho.is_ok()).count();
        assert_eq!(cuantos, tomados, "{hechos:?}");
    }
}

/// What an old instance may do besides: a row that is deleted releases its lock, and one that is made active again needs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn borrar_libera_y_activar_adquiere() {
    let lugar = lugar(&[DOCUMENTO, CONVIVENCIA]).await;
    let mut una = Vieja::nueva(&lugar).await;
    let mut otra = Vieja::nueva(&lugar).await;
    let borrado = una.adquirir(7).await.unwrap();
    let borrar = sqlx::query("delete from tbl_lock where idlock = $1").bind(borrado);
    borrar.execute(&mut una.0).await.unwrap();
    let liberado = una.adquirir(7).await.unwrap();
    una.liberar(liberado).await;

    let activar = "update tbl_lock set activo = true where idlock = $1";
    let suyo = otra.adquirir(7).await.unwrap();
    let rechazo = sqlx::query(activar)
        .bind(liberado)
        .execute(&mut una.0)
        .await;
    let rechazo = rechazo.unwrap_err().to_string();
    assert!(rechazo.contains("El recurso está bloqueado"), "{rechazo}");
    otra.liberar(suyo).await;
    let activo = sqlx::query(activar)
        .bind(liberado)
        .execute(&mut una.0)
        .await;
    activo.unwrap();
    assert!(otra.crear(7, TIMEOUT).await.is_err());
}

/// Three old and three new instances pay two loans at once, again and again: each payment is stored once and applied once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viejas_y_nuevas_pagan_a_la_vez() {
    const PAGOS: usize = 15;
    let lugar = lugar(&[DOCUMENTO, CONVIVENCIA]).await;
    let instancias = lugar.instancias(&[vec![], vec![], vec![]]);
    let testigo = instancias[0].clone();
    let prestamos = [
        testigo.crear_prestamo().await,
        testigo.crear_prestamo().await,
    ];
    let mut tareas = JoinSet::new();
    for instancia in instancias {
        tareas.spawn(async move {
            for id in prestamos.into_iter().cycle().take(PAGOS) {
                while !pagar(&instancia, id).await {
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut vieja = Vieja::nueva(&lugar).await;
        tareas.spawn(async move {
            for id in prestamos.into_iter().cycle().take(PAGOS) {
                while !vieja.pagar(id).await {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    while let Some(hecho) = tareas.join_next().await {
        hecho.unwrap();
    }
    let (mut pagado, mut aplicado) = (0, 0);
    for id in prestamos {
        let suyas = sumas(&testigo, id).await;
        (pagado, aplicado) = (pagado + suyas.0, aplicado + suyas.1);
    }
    let todos = i64::try_from(6 * PAGOS).unwrap() * MONTO;
    assert_eq!((pagado, aplicado), (todos, todos));
}

/// One payment at a new instance. False if it is rejected, because the loan is locked.
async fn pagar(instancia: &Instancia, id: i64) -> bool {
    let respuesta = instancia.pagar(id, 1, "1.00").await;
    if codigo(&respuesta) == Some("RECURSO_BLOQUEADO") {
        return false;
    }
    assert!(respuesta["errors"].is_null(), "{respuesta:#}");
    true
}

/// A lock that an old instance has when the triggers are installed is respected, and is released by that instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn un_lock_de_antes_se_respeta() {
    let lugar = lugar(&[DOCUMENTO]).await;
    let mut vieja = Vieja::nueva(&lugar).await;
    let idlock = vieja.adquirir(1).await.unwrap();
    lugar.ejecutar(CONVIVENCIA, "").await;
    let nueva = lugar.instancia(&[]);
    assert_eq!(nueva.crear_prestamo().await, 1);
    assert!(!pagar(&nueva, 1).await, "the lock of before is Turno's too");
    vieja.liberar(idlock).await;
    assert!(pagar(&nueva, 1).await);
}

/// Not safe, as in the document: an old instance that is late presents no token, and its write is accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn una_vieja_atrasada_escribe_igual() {
    let (escena, id) = escena(&[DOCUMENTO, CONVIVENCIA]).await;
    let mut vieja = Vieja::nueva(&escena.lugar).await;
    assert!(!vieja.hay_lock(id).await);
    let idlock = vieja.crear(id, 1.0).await.unwrap();
    let lectura = vieja.leer(id).await;
    eventually_async(PACIENCIA, "the lock to expire", async || {
        pagar(&escena.testigo, id).await.then_some(())
    })
    .await;
    vieja.escribir(id, lectura).await;
    assert_eq!(sumas(&escena.testigo, id).await, (2 * MONTO, MONTO));
    // But it cannot release the lock of a successor: its token is an old one.
    let nuevo = escena
        .testigo
        .adquirir_lock(id, json!({ "idusuario": 1 }))
        .await;
    assert_eq!(nuevo["adquirido"], true);
    vieja.liberar(idlock).await;
    assert_eq!(escena.testigo.verificar_lock(id).await["bloqueado"], true);
}

/// The end of the roll-out: the table goes, and the next instance that starts creates the view.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn al_final_tbl_lock_es_la_vista() {
    let (escena, id) = escena(&[DOCUMENTO, CONVIVENCIA]).await;
    assert!(Vieja::nueva(&escena.lugar).await.pagar(id).await);
    let fin = "drop table tbl_lock; drop function tbl_lock_adquirir(), tbl_lock_liberar()";
    escena.lugar.ejecutar(fin, "").await;
    let nueva = escena.lugar.instancia(&[]);
    assert!(pagar(&nueva, id).await);
    let filas = escena
        .lugar
        .leer(r#"select "evento" || ' ' || "idusuario" from tbl_lock order by "fechaCreacion""#)
        .await;
    assert_eq!(filas, ["released 3", "released 1"]);
}
