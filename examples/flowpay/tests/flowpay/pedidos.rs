//! Requests to an instance.

use serde_json::{Value, json};

use crate::ensayo::Instancia;
use crate::respuestas::Prestamo;

pub const PAGAR: &str =
    "mutation($input: CreatePagoInput!) { registrarPagoConAplicacion(input: $input)
    { idpago idusuario monto fecha aplicaciones { idcuota monto } } }";
pub const MODIFICAR: &str = "mutation($input: UpdatePrestamoInput!) { updatePrestamo(input: $input)
    { idprestamo telefono direccion observaciones } }";
pub const ASIGNAR: &str = "mutation($input: AsignarGestorInput!) { asignarGestor(input: $input)
    { idgestorAnterior idgestor fecha } }";
pub const REESTRUCTURAR: &str =
    "mutation($input: CreateReestructuracionInput!) { reestructurarPrestamo(input: $input)
    { idreestructuracion idprestamoOriginal idprestamoNuevo saldo } }";
const ADQUIRIR: &str = "mutation($tipo: TipoRecurso!, $id: Int!, $opciones: OpcionesLock)
    { adquirirLock(tipoRecurso: $tipo, idrecurso: $id, opciones: $opciones) { adquirido idlock mensaje } }";
const LOCKS: &str = "query($id: Int!) { locks(tipoRecurso: PRESTAMO, idrecurso: $id)
    { idlock usuario { idusuario nombre } tipoRecurso idrecurso idusuario descripcion activo fechaCreacion fechaExpiracion fechaLiberacion evento } }";
const VERIFICAR: &str = "query($id: Int!) { verificarLock(tipoRecurso: PRESTAMO, idrecurso: $id)
    { bloqueado idusuario descripcion fechaExpiracion segundosRestantes } }";
const PRESTAMO: &str = "query($id: Int!) { prestamo(idprestamo: $id)
    { idprestamo codigo estado monto saldo idgestor telefono direccion observaciones
      cuotas { idcuota numero fechaVencimiento monto pagado estado }
      pagos { idpago idusuario monto aplicaciones { idcuota monto } }
      asignaciones { idgestorAnterior idgestor idusuario }
      reestructuraciones { idprestamoOriginal idprestamoNuevo idusuarioSolicitante saldo } } }";

/// Requests to an instance that tests need.
impl Instancia {
    /// Returns the data of a response that must not be an error.
    pub async fn datos(&self, consulta: &str, variables: Value) -> Value {
        let mut respuesta = self.graphql(consulta, variables).await.unwrap();
        assert!(respuesta["errors"].is_null(), "{respuesta:#}");
        respuesta["data"].take()
    }

    /// Creates a loan of twelve monthly instalments of 100.00.
    pub async fn crear_prestamo(&self) -> i64 {
        let crear = "mutation($input: CreatePrestamoInput!) { crearPrestamo(input: $input) { idprestamo } }";
        let input = json!({ "input": {
            "codigo": "P-001", "monto": "1200.00", "cuotas": 12, "primerVencimiento": "2027-01-31",
        }});
        let datos = self.datos(crear, input).await;
        datos["crearPrestamo"]["idprestamo"].as_i64().unwrap()
    }

    pub async fn crear_gestor(&self, nombre: &str) -> i64 {
        let crear = "mutation($nombre: String!) { crearGestor(nombre: $nombre) { idgestor } }";
        let datos = self.datos(crear, json!({ "nombre": nombre })).await;
        datos["crearGestor"]["idgestor"].as_i64().unwrap()
    }

    pub async fn prestamo(&self, id: i64) -> Prestamo {
        Prestamo(self.datos(PRESTAMO, json!({ "id": id })).await["prestamo"].take())
    }

    pub async fn pagar(&self, id: i64, idusuario: i64, monto: &str) -> Value {
        self.graphql(PAGAR, pago(id, idusuario, monto))
            .await
            .unwrap()
    }

    pub async fn adquirir_lock(&self, id: i64, opciones: Value) -> Value {
        let variables = json!({ "tipo": "PRESTAMO", "id": id, "opciones": opciones });
        self.datos(ADQUIRIR, variables).await["adquirirLock"].take()
    }

    pub async fn liberar_lock(&self, idlock: &Value, idusuario: i64) -> Value {
        let liberar = "mutation($idlock: ID!, $idusuario: Int) { liberarLock(idlock: $idlock, idusuario: $idusuario) }";
        let variables = json!({ "idlock": idlock, "idusuario": idusuario });
        self.graphql(liberar, variables).await.unwrap()
    }

    pub async fn limpiar_locks_expirados(&self) -> u64 {
        let datos = self
            .datos("mutation { limpiarLocksExpirados }", json!({}))
            .await;
        datos["limpiarLocksExpirados"].as_u64().unwrap()
    }

    pub async fn verificar_lock(&self, id: i64) -> Value {
        self.datos(VERIFICAR, json!({ "id": id })).await["verificarLock"].take()
    }

    /// Returns the rows of `tbl_lock` of one loan, newest first.
    pub async fn locks(&self, id: i64) -> Vec<Value> {
        let datos = self.datos(LOCKS, json!({ "id": id })).await;
        datos["locks"].as_array().unwrap().clone()
    }
}

pub fn pago(id: i64, idusuario: i64, monto: &str) -> Value {
    json!({ "input": { "idprestamo": id, "idusuario": idusuario, "monto": monto } })
}

pub fn reestructuracion(id: i64, idusuario: i64) -> Value {
    json!({ "input": {
        "idprestamoOriginal": id, "idusuarioSolicitante": idusuario, "cuotas": 24, "primerVencimiento": "2028-01-31",
    }})
}
