//! "Expiración de Bloqueos": requests whose instance is lost, or only seems to be.

use serde_json::Value;
use turno_testkit::eventually;

use crate::contrato::{aceptada, duplicada, entrada};
use crate::hijo::Hijo;
use crate::lugar::Lugar;
use crate::{LONG, on_each_store};

on_each_store!(
    tras_un_kill_9_otra_instancia_la_procesa,
    una_instancia_que_despierta_tarde_no_escribe_nada,
    control_la_original_escribe_aunque_despierte_tarde,
);

const NSS: &str = "12345678901";

/// Repeats the request until it is processed. Before that, each response must be the one for a duplicate.
fn insistir(lugar: &Lugar, instancia: &Hijo) -> Value {
    eventually(LONG, "the end of the lease", || {
        let dicha = lugar.certificar(instancia, entrada(NSS));
        (dicha != duplicada()).then_some(dicha)
    })
}

/// An instance that is killed has had no effect: all its writes are in one transaction with the end of the run. After
/// `lock.timeout.seconds`, the next instance that gets the request processes it, once.
fn tras_un_kill_9_otra_instancia_la_procesa(lugar: &Lugar) {
    let config = lugar.configurar(&[("lock.timeout.seconds", "1")]);
    let opciones = ["--a-mano", "--config", config.to_str().unwrap()];
    let [muerta, otra, _] = lugar.instancias(&opciones);
    let primera = lugar.pedir(&muerta, entrada(NSS));
    muerta.dice("procesando ");
    muerta.proceso.kill_9();
    assert_eq!(lugar.esperar(primera), None, "its client is not answered");

    otra.sigue(1);
    assert_eq!(insistir(lugar, &otra), aceptada());
    assert_eq!(lugar.procesadas(), 1);
    let segunda = "select count(*) from TB_NSAR_CERTIFICACION where NU_INTENTO = 2";
    assert_eq!(lugar.numero(segunda), 1, "the service can tell");
    assert_eq!(lugar.todo_avisado().avisos.len(), 1);
}

/// An instance is stopped for longer than its lease and then continues. Its token is stale: its transaction is rolled back,
/// and its client gets the true response, that another instance processes the request.
fn una_instancia_que_despierta_tarde_no_escribe_nada(lugar: &Lugar) {
    let config = lugar.configurar(&[("lock.timeout.seconds", "1")]);
    let opciones = ["--a-mano", "--config", config.to_str().unwrap()];
    let [dormida, otra, _] = lugar.instancias(&opciones);
    let primera = lugar.pedir(&dormida, entrada(NSS));
    dormida.dice("procesando ");
    dormida.proceso.stop();
    otra.sigue(1);
    assert_eq!(insistir(lugar, &otra), aceptada());

    dormida.sigue(1);
    dormida.proceso.cont();
    assert_eq!(lugar.esperar(primera), Some((200, duplicada())));
    assert_eq!(lugar.procesadas(), 1);
    assert_eq!(lugar.todo_avisado().avisos.len(), 1);
}

/// The control: without a token, an instance that continues late writes.
fn control_la_original_escribe_aunque_despierte_tarde(lugar: &Lugar) {
    let [dormida, otra, _] = lugar.instancias(&["--a-mano", "--sin-turno"]);
    let primera = lugar.pedir(&dormida, entrada(NSS));
    dormida.dice("procesando ");
    dormida.proceso.stop();
    otra.sigue(1);
    assert_eq!(lugar.certificar(&otra, entrada(NSS)), aceptada());
    dormida.sigue(1);
    dormida.proceso.cont();
    assert_eq!(lugar.esperar(primera), Some((200, aceptada())));
    assert_eq!((lugar.procesadas(), lugar.recibidas().avisos.len()), (2, 2));
}
