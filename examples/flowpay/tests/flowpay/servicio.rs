//! Functions of the lock service, as in the document, between processes.

use serde_json::{Value, json};
use turno::lock::LeaseId;
use turno_testkit::eventually_async;

use crate::en_cada_base;
use crate::ensayo::PACIENCIA;
use crate::escena::{Escena, Lugar};
use crate::pedidos::{ASIGNAR, MODIFICAR, PAGAR, REESTRUCTURAR, pago, reestructuracion};
use crate::respuestas::{codigo, fecha, segundos_restantes};

en_cada_base! {
    /// "Ejemplo de Flujo Completo", "Flujo de Adquisición" 3a and 3b, `adquirirLock`, `liberarLock`.
    el_flujo_completo_del_documento => flujo;
    /// `verificarLock` and "Monitoreo": holder, purpose and expiry.
    verificar_lock_dice_quien_lo_tiene => verificar;
    /// "Expiración Automática" and "Si está expirado: limpia el lock y crea uno nuevo".
    un_lock_expirado_lo_toma_el_siguiente => expirado;
    /// "Configuración de Timeouts": 5 minutes by default, 10, and at most 15.
    los_timeouts_son_los_del_documento => timeouts;
    /// "Modelo de Datos: tbl_lock", "Trazabilidad completa (usuario, descripción, fechas)".
    los_campos_de_tbl_lock_se_pueden_leer => auditoria;
    /// "Modelo de Datos": the view `tbl_lock` has the document's columns, and can be queried with SQL.
    la_vista_tbl_lock_tiene_las_columnas_del_documento => vista;
    /// "Los locks expirados se marcan como inactivos automáticamente": listed as expired, before and after the sweep.
    un_lock_expirado_se_lista_hasta_que_se_limpia => expirado_listado;
    /// "Monitorear locks activos … con tiempos de expiración muy largos": by `activo`, and by expiry.
    los_locks_se_filtran_y_se_ordenan => filtros;
    /// "Casos de Uso": lock, description and timeout of each operation.
    cada_operacion_tiene_el_timeout_del_documento => operaciones;
    /// `liberarLock(idlock, idusuario)`: not for another user's lock, and not twice.
    solo_su_usuario_libera_un_lock => ajeno;
}

async fn flujo(lugar: Lugar) {
    let instancias = lugar.instancias(&vec![vec![]; 3]);
    let [a, b, c] = &instancias[..] else { panic!() };
    let opciones = |usuario: i64| json!({ "idusuario": usuario, "timeoutSegundos": 300 });

    // 1. Usuario A
    let de_a = a.adquirir_lock(123, opciones(1)).await;
    assert_eq!(de_a["adquirido"], true);
    assert_eq!(de_a["mensaje"], Value::Null);
    // 2. Usuario B, and another one
    for otra in [b, c] {
        let rechazado = otra.adquirir_lock(123, opciones(2)).await;
        assert_eq!(rechazado["adquirido"], false);
        assert_eq!(rechazado["idlock"], Value::Null);
        let segundos = segundos_restantes(rechazado["mensaje"].as_str().unwrap(), 1);
        assert!((1..=300).contains(&segundos), "{segundos}");
    }
    // 3. Usuario A is done, at any instance.
    assert_eq!(
        c.liberar_lock(&de_a["idlock"], 1).await["data"]["liberarLock"],
        true
    );
    // 4. Usuario B again
    let de_b = b.adquirir_lock(123, opciones(2)).await;
    assert_eq!(de_b["adquirido"], true);
    assert!(token(&de_b) > token(&de_a));
}

/// Returns the fencing token of an idlock.
fn token(lock: &Value) -> i64 {
    let idlock: LeaseId = lock["idlock"].as_str().unwrap().parse().unwrap();
    assert_eq!(idlock.resource, "PRESTAMO/123");
    idlock.token.0
}

async fn verificar(lugar: Lugar) {
    let instancias = lugar.instancias(&vec![vec![]; 2]);
    let libre = instancias[0].verificar_lock(7).await;
    assert_eq!(libre["bloqueado"], false);
    assert_eq!(libre["idusuario"], Value::Null);

    let opciones = json!({ "idusuario": 1, "descripcion": "Registro de pago" });
    let lock = instancias[0].adquirir_lock(7, opciones).await;
    let estado = instancias[1].verificar_lock(7).await;
    assert_eq!(estado["bloqueado"], true);
    assert_eq!(estado["idusuario"], 1);
    assert_eq!(estado["descripcion"], "Registro de pago");
    assert_eq!(
        estado["fechaExpiracion"],
        instancias[1].locks(7).await[0]["fechaExpiracion"]
    );
    assert_eq!(instancias[1].verificar_lock(8).await["bloqueado"], false);

    instancias[1].liberar_lock(&lock["idlock"], 1).await;
    assert_eq!(instancias[0].verificar_lock(7).await, libre);
}

async fn expirado(lugar: Lugar) {
    let instancias = lugar.instancias(&vec![vec![]; 2]);
    let corto = json!({ "idusuario": 1, "timeoutSegundos": 1 });
    let de_a = instancias[0].adquirir_lock(9, corto).await;
    assert_eq!(de_a["adquirido"], true);
    let de_b = eventually_async(PACIENCIA, "the lock to expire", async || {
        let lock = instancias[1]
            .adquirir_lock(9, json!({ "idusuario": 2 }))
            .await;
        (lock["adquirido"] == true).then_some(lock)
    })
    .await;

    // A late call of the first holder changes nothing for the second.
    let tarde = instancias[0].liberar_lock(&de_a["idlock"], 1).await;
    assert_eq!(tarde["data"]["liberarLock"], false);
    assert_eq!(instancias[0].verificar_lock(9).await["idusuario"], 2);
    let locks = instancias[0].locks(9).await;
    assert_eq!(locks.len(), 2, "{locks:#?}");
    assert_eq!(locks[0]["idlock"], de_b["idlock"]);
    assert_eq!(locks[0]["activo"], true);
    assert_eq!(locks[1]["idlock"], de_a["idlock"]);
    assert_eq!(locks[1]["activo"], false);
    assert_eq!(locks[1]["evento"], "taken_over");
    assert_eq!(locks[1]["fechaLiberacion"], Value::Null);
}

async fn timeouts(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    for (id, (pedido, segundos)) in (1..).zip([
        (None, 300),
        (Some(300), 300),
        (Some(600), 600),
        (Some(900), 900),
    ]) {
        let lock = instancia
            .adquirir_lock(id, json!({ "timeoutSegundos": pedido }))
            .await;
        assert_eq!(lock["adquirido"], true);
        let fila = &instancia.locks(id).await[0];
        let dura = fecha(fila, "fechaExpiracion").duration_since(fecha(fila, "fechaCreacion"));
        assert_eq!(dura.as_secs(), segundos);
    }
    let adquirir = "mutation($s: Int!) { adquirirLock(tipoRecurso: PAGO, idrecurso: 1, opciones: { timeoutSegundos: $s }) { adquirido } }";
    for segundos in [0, 901] {
        let rechazo = instancia
            .graphql(adquirir, json!({ "s": segundos }))
            .await
            .unwrap();
        assert_eq!(codigo(&rechazo), Some("TIMEOUT_INVALIDO"));
    }
}

async fn auditoria(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let opciones = json!({ "idusuario": 1, "descripcion": "Registro de pago" });
    let lock = instancia.adquirir_lock(5, opciones).await;
    let filas = instancia.locks(5).await;
    assert_eq!(filas.len(), 1);
    let fila = &filas[0];
    assert_eq!(fila["idlock"], lock["idlock"]);
    assert_eq!(fila["tipoRecurso"], "PRESTAMO");
    assert_eq!(fila["idrecurso"], 5);
    assert_eq!(fila["idusuario"], 1);
    assert_eq!(fila["descripcion"], "Registro de pago");
    assert_eq!(fila["activo"], true);
    assert!(fecha(fila, "fechaCreacion") < fecha(fila, "fechaExpiracion"));
    assert_eq!(fila["fechaLiberacion"], Value::Null);

    instancia.liberar_lock(&lock["idlock"], 1).await;
    let filas = instancia.locks(5).await;
    assert_eq!(filas.len(), 1);
    assert_eq!(filas[0]["activo"], false);
    assert_eq!(filas[0]["idusuario"], 1);
    assert_eq!(filas[0]["descripcion"], "Registro de pago");
    assert_eq!(filas[0]["fechaCreacion"], fila["fechaCreacion"]);
    assert!(fecha(&filas[0], "fechaLiberacion") >= fecha(fila, "fechaCreacion"));

    // All locks, of any kind of resource.
    let otros = "mutation { a: adquirirLock(tipoRecurso: PAGO, idrecurso: 1) { adquirido }
                            b: adquirirLock(tipoRecurso: REESTRUCTURACION, idrecurso: 1) { adquirido } }";
    instancia.datos(otros, json!({})).await;
    let todos = instancia
        .datos("{ locks { tipoRecurso } }", json!({}))
        .await;
    let mut tipos: Vec<_> = todos["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fila| fila["tipoRecurso"].as_str().unwrap())
        .collect();
    tipos.sort_unstable();
    assert_eq!(tipos, ["PAGO", "PRESTAMO", "REESTRUCTURACION"]);
}

async fn ajeno(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let lock = instancia.adquirir_lock(3, json!({ "idusuario": 1 })).await;
    let rechazo = instancia.liberar_lock(&lock["idlock"], 2).await;
    assert_eq!(codigo(&rechazo), Some("LOCK_DE_OTRO_USUARIO"));
    assert_eq!(instancia.verificar_lock(3).await["bloqueado"], true);

    for liberado in [true, false] {
        let respuesta = instancia.liberar_lock(&lock["idlock"], 1).await;
        assert_eq!(respuesta["data"]["liberarLock"], liberado);
    }
    let rechazo = instancia.liberar_lock(&json!("1"), 1).await;
    assert_eq!(codigo(&rechazo), Some("ARGUMENTO_INVALIDO"));
}

async fn vista(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let opciones = json!({ "idusuario": 1, "descripcion": "Registro de pago" });
    let primero = instancia.adquirir_lock(5, opciones.clone()).await;
    instancia.liberar_lock(&primero["idlock"], 1).await;
    instancia.adquirir_lock(5, opciones).await;

    // Quoted as Prisma quotes them; SQLite accepts that too.
    let filas = lugar
        .leer(
            r#"select
                 "tipoRecurso" || ' ' || "idrecurso" || ' ' || "idusuario" || ' ' || "descripcion"
                 || case when "activo" then ' activo' else ' inactivo' end
                 || case when "fechaCreacion" < "fechaExpiracion" then ' expira' else '' end
                 || case when "fechaLiberacion" is null then '' else ' liberado' end
               from tbl_lock
               order by "fechaCreacion""#,
        )
        .await;
    assert_eq!(
        filas,
        [
            "PRESTAMO 5 1 Registro de pago inactivo expira liberado",
            "PRESTAMO 5 1 Registro de pago activo expira",
        ]
    );
    let idlocks = lugar
        .leer("select idlock from tbl_lock where evento = 'released'")
        .await;
    assert_eq!(idlocks, [primero["idlock"].as_str().unwrap()]);
}

async fn expirado_listado(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let corto = json!({ "idusuario": 1, "timeoutSegundos": 1 });
    let lock = instancia.adquirir_lock(6, corto).await;
    let expirado = eventually_async(PACIENCIA, "the lock to expire", async || {
        let locks = instancia.locks(6).await;
        assert_eq!(locks.len(), 1, "{locks:#?}");
        (locks[0]["activo"] == false).then(|| locks[0].clone())
    })
    .await;
    assert_eq!(expirado["idlock"], lock["idlock"]);
    assert_eq!(expirado["evento"], "expired");
    assert_eq!(expirado["idusuario"], 1);
    assert_eq!(expirado["fechaLiberacion"], Value::Null);
    assert_eq!(instancia.verificar_lock(6).await["bloqueado"], false);

    // It was not swept yet: the sweep finds it, and changes nothing that can be seen.
    assert_eq!(instancia.limpiar_locks_expirados().await, 1);
    assert_eq!(instancia.locks(6).await, [expirado]);
}

async fn filtros(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let libre = instancia.adquirir_lock(1, json!({ "idusuario": 1 })).await;
    let liberado = instancia.liberar_lock(&libre["idlock"], 1).await;
    assert_eq!(liberado["data"]["liberarLock"], true, "{liberado}");
    for (id, segundos) in [(2, 300), (3, 900), (4, 600)] {
        instancia
            .adquirir_lock(id, json!({ "timeoutSegundos": segundos }))
            .await;
    }
    for (argumentos, esperados) in [
        ("", vec![4, 3, 2, 1]),
        ("(activo: true)", vec![4, 3, 2]),
        ("(activo: false)", vec![1]),
        ("(activo: true, orden: EXPIRAN_PRIMERO)", vec![2, 4, 3]),
        ("(activo: true, orden: EXPIRAN_ULTIMO)", vec![3, 4, 2]),
        ("(orden: EXPIRAN_ULTIMO, limite: 1)", vec![3]),
        ("(activo: true, tipoRecurso: PAGO)", vec![]),
    ] {
        let consulta = format!("{{ locks{argumentos} {{ idrecurso }} }}");
        let locks = instancia.datos(&consulta, json!({})).await["locks"].take();
        let ids: Vec<i64> = locks
            .as_array()
            .unwrap()
            .iter()
            .map(|fila| fila["idrecurso"].as_i64().unwrap())
            .collect();
        assert_eq!(ids, esperados, "{argumentos}");
    }
}

async fn operaciones(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let idgestor = escena.testigo.crear_gestor("Ana").await;
    let modificar = json!({ "input": { "idprestamo": id, "idusuario": 1, "telefono": "5" } });
    let asignar = json!({ "input": { "idprestamo": id, "idusuario": 1, "idgestor": idgestor } });
    for (consulta, variables, descripcion, segundos) in [
        (
            PAGAR,
            pago(id, 1, "100.00"),
            "Registro de pago para préstamo P-001",
            300,
        ),
        (MODIFICAR, modificar, "Actualización de préstamo P-001", 300),
        (ASIGNAR, asignar, "Asignación de Ana a préstamo P-001", 300),
        (
            REESTRUCTURAR,
            reestructuracion(id, 1),
            "Reestructuración de préstamo P-001",
            600,
        ),
    ] {
        let en_curso = escena.detener(0, consulta, variables).await;
        let fila = &escena.testigo.locks(id).await[0];
        assert_eq!(fila["activo"], true, "{fila:#}");
        assert_eq!(fila["tipoRecurso"], "PRESTAMO");
        assert_eq!(fila["descripcion"], descripcion);
        let dura = fecha(fila, "fechaExpiracion").duration_since(fecha(fila, "fechaCreacion"));
        assert_eq!(dura.as_secs(), segundos, "{descripcion}");
        let hecho = en_curso.seguir().await;
        assert!(hecho["errors"].is_null(), "{hecho:#}");
    }
}
