//! "Modelo de Datos": `usuario tbl_usuario? @relation(…)`.

use serde_json::{Value, json};

use crate::en_cada_base;
use crate::escena::Lugar;
use crate::pedidos::{ASIGNAR, MODIFICAR, PAGAR, REESTRUCTURAR};
use crate::respuestas::{codigo, mensaje};

en_cada_base! {
    /// A lock or an operation of a user who does not exist is rejected, and changes nothing. Without a user, it is not.
    un_usuario_que_no_existe_se_rechaza => desconocido;
    /// The relation of a lock to its user.
    un_lock_dice_el_nombre_de_su_usuario => relacion;
}

async fn desconocido(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let id = instancia.crear_prestamo().await;
    let idgestor = instancia.crear_gestor("Ana").await;
    let antes = instancia.prestamo(id).await;
    let adquirir = "mutation($input: OpcionesLock!) { adquirirLock(tipoRecurso: PRESTAMO, idrecurso: 1, opciones: $input) { adquirido } }";
    for (consulta, input) in [
        (adquirir, json!({ "idusuario": 99 })),
        (
            PAGAR,
            json!({ "idprestamo": id, "idusuario": 99, "monto": "1" }),
        ),
        (
            MODIFICAR,
            json!({ "idprestamo": id, "idusuario": 99, "telefono": "5" }),
        ),
        (
            ASIGNAR,
            json!({ "idprestamo": id, "idusuario": 99, "idgestor": idgestor }),
        ),
        (
            REESTRUCTURAR,
            json!({ "idprestamoOriginal": id, "idusuarioSolicitante": 99, "cuotas": 12, "primerVencimiento": "2028-01-31" }),
        ),
    ] {
        let respuesta = instancia
            .graphql(consulta, json!({ "input": input }))
            .await
            .unwrap();
        assert_eq!(
            codigo(&respuesta),
            Some("USUARIO_NO_ENCONTRADO"),
            "{respuesta:#}"
        );
        assert_eq!(mensaje(&respuesta), "El usuario 99 no existe.");
    }
    assert_eq!(instancia.prestamo(id).await, antes);
    assert_eq!(instancia.locks(id).await, Vec::<Value>::new());

    let sin_usuario = json!({ "input": { "idprestamo": id, "monto": "1" } });
    let pago = instancia.datos(PAGAR, sin_usuario).await;
    assert_eq!(pago["registrarPagoConAplicacion"]["idusuario"], Value::Null);
}

async fn relacion(lugar: Lugar) {
    let instancia = lugar.instancia(&[]);
    let crear = r#"mutation { crearUsuario(nombre: "Eva") { idusuario nombre } }"#;
    let eva = instancia.datos(crear, json!({})).await["crearUsuario"].take();
    assert_eq!(eva["nombre"], "Eva");
    let visto = instancia
        .datos(
            "query($id: Int!) { usuario(idusuario: $id) { idusuario nombre } }",
            json!({ "id": eva["idusuario"] }),
        )
        .await;
    assert_eq!(visto["usuario"], eva);

    instancia
        .adquirir_lock(8, json!({ "idusuario": eva["idusuario"] }))
        .await;
    instancia.adquirir_lock(9, json!({})).await;
    assert_eq!(instancia.locks(8).await[0]["usuario"], eva);
    assert_eq!(instancia.locks(9).await[0]["usuario"], Value::Null);
}
