//! Use case 3: managers who are assigned to one loan at the same time.

use serde_json::{Value, json};

use crate::en_cada_base;
use crate::escena::{Escena, Lugar};
use crate::pedidos::ASIGNAR;
use crate::respuestas::bloqueados;

en_cada_base! {
    /// "Caso de uso 3": one is assigned; when the others retry, each replaces the previous one.
    con_lock_las_asignaciones_van_una_tras_otra => con_lock;
    /// The control, "asignaciones simultáneas": each of the three is recorded as the first manager.
    sin_lock_tres_gestores_son_el_primero => sin_lock;
}

async fn asignaciones(escena: &Escena) -> (i64, [(&'static str, Value); 3]) {
    let id = escena.testigo.crear_prestamo().await;
    let mut pedidos = Vec::new();
    for nombre in ["Ana", "Eva", "Luz"] {
        let idgestor = escena.testigo.crear_gestor(nombre).await;
        let input = json!({ "idprestamo": id, "idgestor": idgestor, "idusuario": 1 });
        pedidos.push((ASIGNAR, json!({ "input": input })));
    }
    (id, pedidos.try_into().unwrap())
}

async fn con_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &[]).await;
    let (id, pedidos) = asignaciones(&escena).await;
    let respuestas = escena.a_la_vez(&pedidos).await;
    assert_eq!(bloqueados(&respuestas), 2, "{respuestas:#?}");
    for (respuesta, (consulta, variables)) in respuestas.iter().zip(pedidos) {
        if !respuesta["errors"].is_null() {
            escena.testigo.datos(consulta, variables).await;
        }
    }

    let prestamo = escena.testigo.prestamo(id).await;
    let historia = prestamo["asignaciones"].as_array().unwrap();
    assert_eq!(historia.len(), 3);
    assert_eq!(historia[0]["idgestorAnterior"], Value::Null);
    for dos in historia.windows(2) {
        assert_eq!(dos[1]["idgestorAnterior"], dos[0]["idgestor"]);
    }
    assert_eq!(prestamo["idgestor"], historia[2]["idgestor"]);
}

async fn sin_lock(lugar: Lugar) {
    let mut escena = Escena::nueva(lugar, &["--sin-lock"]).await;
    let (id, pedidos) = asignaciones(&escena).await;
    assert_eq!(bloqueados(&escena.a_la_vez(&pedidos).await), 0);

    let prestamo = escena.testigo.prestamo(id).await;
    let historia = prestamo["asignaciones"].as_array().unwrap();
    assert_eq!(historia.len(), 3);
    for asignacion in historia {
        assert_eq!(asignacion["idgestorAnterior"], Value::Null);
    }
}
