//! Problem 2 and use case 2: managers who change one loan at the same time.

use serde_json::{Value, json};

use crate::en_cada_base;
use crate::escena::{Escena, Lugar};
use crate::pedidos::{ASIGNAR, MODIFICAR};
use crate::respuestas::bloqueados;

en_cada_base! {
    /// "Modificación Simultánea de Préstamo", "Caso de uso 2": no change is lost. One caller gets the lock, the others get an
    /// error.
    con_lock_ninguna_modificacion_se_pierde => con_lock;
    /// The control, "última escritura gana": all three callers get a success, and only one change remains.
    sin_lock_gana_la_ultima_escritura => sin_lock;
    /// "Garantiza consistencia en asignación de gestores": a change does not undo an assignment.
    con_lock_una_modificacion_no_deshace_una_asignacion => asignacion_con_lock;
    /// The control, "conflictos en asignación de gestores": the loan has no manager, although the assignment was successful.
    sin_lock_una_modificacion_deshace_una_asignacion => asignacion_sin_lock;
}

const CAMPOS: [(&str, &str); 3] = [
    ("telefono", "+52 55 1234 5678"),
    ("direccion", "Av. Juárez 1"),
    ("observaciones", "Llamar por la tarde"),
];

fn modificacion(id: i64, campo: usize) -> (&'static str, Value) {
    let (nombre, valor) = CAMPOS[campo];
    let input = json!({ "idprestamo": id, "idusuario": campo + 1, nombre: valor });
    (MODIFICAR, json!({ "input": input }))
}

async fn con_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let respuestas = escena
        .a_la_vez(&[0, 1, 2].map(|campo| modificacion(id, campo)))
        .await;
    assert_eq!(bloqueados(&respuestas), 2, "{respuestas:#?}");
    assert_eq!(escritos(&escena, id).await, 1);

    // The rejected callers retry.
    for (campo, respuesta) in respuestas.iter().enumerate() {
        if !respuesta["errors"].is_null() {
            let (consulta, variables) = modificacion(id, campo);
            escena.testigo.datos(consulta, variables).await;
        }
    }
    assert_eq!(escritos(&escena, id).await, 3);
}

async fn sin_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &["--sin-lock"]).await;
    let id = escena.testigo.crear_prestamo().await;
    let respuestas = escena
        .a_la_vez(&[0, 1, 2].map(|campo| modificacion(id, campo)))
        .await;
    assert_eq!(bloqueados(&respuestas), 0);
    assert_eq!(escritos(&escena, id).await, 1);
}

/// Returns the number of changes that the loan shows.
async fn escritos(escena: &Escena, id: i64) -> usize {
    let prestamo = escena.testigo.prestamo(id).await;
    let escrito = |(campo, valor): &&(&str, &str)| prestamo[*campo] == *valor;
    CAMPOS.iter().filter(escrito).count()
}

async fn asignacion_con_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let id = escena.testigo.crear_prestamo().await;
    let idgestor = escena.testigo.crear_gestor("Ana").await;
    let (consulta, variables) = modificacion(id, 0);
    let modifica = escena.detener(0, consulta, variables).await;
    let asignar = json!({ "input": { "idprestamo": id, "idgestor": idgestor, "idusuario": 2 } });
    let rechazo = escena
        .testigo
        .graphql(ASIGNAR, asignar.clone())
        .await
        .unwrap();
    assert_eq!(bloqueados(&[rechazo]), 1);
    assert!(modifica.seguir().await["errors"].is_null());

    escena.testigo.datos(ASIGNAR, asignar).await;
    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!(prestamo["idgestor"], idgestor);
    assert_eq!(prestamo["telefono"], CAMPOS[0].1);
}

async fn asignacion_sin_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &["--sin-lock"]).await;
    let id = escena.testigo.crear_prestamo().await;
    let idgestor = escena.testigo.crear_gestor("Ana").await;
    let (consulta, variables) = modificacion(id, 0);
    let modifica = escena.detener(0, consulta, variables).await;
    let asignar = json!({ "input": { "idprestamo": id, "idgestor": idgestor, "idusuario": 2 } });
    let asigna = escena.detener(1, ASIGNAR, asignar).await;
    assert!(asigna.seguir().await["errors"].is_null());
    assert!(modifica.seguir().await["errors"].is_null());

    let prestamo = escena.testigo.prestamo(id).await;
    assert_eq!(prestamo["idgestor"], Value::Null);
    assert_eq!(prestamo["asignaciones"][0]["idgestor"], idgestor);
}
