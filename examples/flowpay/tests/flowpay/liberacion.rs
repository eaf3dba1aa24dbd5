//! `liberarLock(…).catch(console.error)`: a release that fails.

use std::fs;

use crate::en_cada_base;
use crate::escena::Lugar;
use crate::pedidos::{REESTRUCTURAR, reestructuracion};

en_cada_base! {
    /// The operation is done and its result stands, with the manual lock and with `conLock`. The log has the error, and the lock
    /// stays until its timeout.
    si_no_se_puede_liberar_la_operacion_vale_y_el_log_lo_dice => fallida;
}

/// From now on the database rejects each release.
const SIN_LIBERAR_POSTGRES: &str = "
    create function sin_liberar() returns trigger language plpgsql
    as $$ begin raise exception 'no se libera'; end $$;
    create trigger sin_liberar before update on turno.lock
    for each row when (new.holds < old.holds) execute function sin_liberar()";
const SIN_LIBERAR_SQLITE: &str = "
    create trigger sin_liberar before update on turno_lock when new.holds < old.holds
    begin select raise(abort, 'no se libera'); end";

async fn fallida(lugar: Lugar) {
    let (instancia, archivo) = lugar.instancia_con_log(&[]);
    let (manual, con_lock) = (
        instancia.crear_prestamo().await,
        instancia.crear_prestamo().await,
    );
    lugar
        .ejecutar(SIN_LIBERAR_POSTGRES, SIN_LIBERAR_SQLITE)
        .await;

    let hecho = instancia
        .datos(REESTRUCTURAR, reestructuracion(manual, 1))
        .await;
    assert_eq!(hecho["reestructurarPrestamo"]["saldo"], "1200.00");
    let pagado = instancia.pagar(con_lock, 1, "100.00").await;
    assert!(pagado["errors"].is_null(), "{pagado:#}");
    assert_eq!(instancia.prestamo(manual).await["estado"], "REESTRUCTURADO");
    assert_eq!(instancia.prestamo(con_lock).await.pagos(), 1);

    for id in [manual, con_lock] {
        assert_eq!(instancia.verificar_lock(id).await["bloqueado"], true);
    }
    let log = fs::read_to_string(&archivo).unwrap();
    for (nivel, palabras) in [
        (" ERROR ", "No se pudo liberar el lock"),
        // Turno's own words, of `conLock`.
        (" WARN ", "the lease was not released"),
    ] {
        let linea = log.lines().find(|linea| linea.contains(palabras));
        let linea = linea.unwrap_or_else(|| panic!("no {palabras:?} in\n{log}"));
        assert!(linea.contains(nivel), "{linea}");
    }
}
