//! `notificarServicioAfore`: once per certification, by the event's id, also when a process is killed.

use turno_testkit::{TcpProxy, eventually};

use crate::contrato::{aceptada, entrada};
use crate::lugar::{HABIL, Lugar};
use crate::{LONG, on_each_store};

on_each_store!(
    muere_entre_el_commit_y_el_envio,
    muere_mientras_envia,
    se_pierde_la_respuesta_de_la_afore,
);

const NSS: &str = "12345678901";

fn con_red(lugar: &Lugar) -> (TcpProxy, String) {
    let afore = lugar.receptor.direccion.parse().unwrap();
    let red = lugar.runtime.block_on(TcpProxy::start(afore)).unwrap();
    let direccion = red.addr().to_string();
    (red, direccion)
}

/// The certification is committed while the AFORE is unreachable, and then the instance is killed. Another one sends the
/// notification. (Its control is `falla_999_control_la_original_certifica_y_no_avisa`.)
fn muere_entre_el_commit_y_el_envio(lugar: &Lugar) {
    let config = lugar.configurar(&[("lock.timeout.seconds", "1")]);
    let (red, afore) = con_red(lugar);
    lugar.runtime.block_on(red.cut());
    let opciones = ["--config", config.to_str().unwrap()];
    let [muerta, _otras @ ..] = lugar.instancias_que_avisan(&afore, &opciones);
    assert_eq!(lugar.certificar(&muerta, entrada(NSS)), aceptada());
    muerta.proceso.kill_9();
    assert_eq!((lugar.procesadas(), lugar.recibidas().recibidas), (1, 0));

    lugar.runtime.block_on(red.restore()).unwrap();
    let avisos = lugar.todo_avisado().avisos;
    assert_eq!(avisos.len(), 1);
    assert_eq!(avisos[0]["entrada"]["nss"], NSS);
}

/// The AFORE is slow, and the instance is killed while it sends: it is unknown whether the notification has arrived. It is
/// sent again, with the same id.
fn muere_mientras_envia(lugar: &Lugar) {
    let config = lugar.configurar(&[("lock.timeout.seconds", "1")]);
    let opciones = ["--config", config.to_str().unwrap()];
    // It runs alone at first, so that it is the one that sends.
    let muerta = lugar.instancia_de(HABIL, &opciones);
    lugar.receptor.proceso.stop();
    assert_eq!(lugar.certificar(&muerta, entrada(NSS)), aceptada());
    let turno = lugar.turno();
    eventually(LONG, "a relay at work", || {
        let stats = lugar.runtime.block_on(turno.outbox().stats()).unwrap();
        (stats.processing == 1).then_some(())
    });
    muerta.proceso.kill_9();
    lugar.receptor.proceso.cont();
    let _otras = lugar.instancias(&opciones);
    assert_eq!(lugar.todo_avisado().avisos.len(), 1);
}

/// The notification has arrived, but the response is lost. The AFORE receives it twice and recognizes the repetition. This is
/// the control of the id, without which it would count two.
fn se_pierde_la_respuesta_de_la_afore(lugar: &Lugar) {
    let (red, afore) = con_red(lugar);
    let instancias = lugar.instancias_que_avisan(&afore, &[]);
    red.drop_next_answer();
    assert_eq!(lugar.certificar(&instancias[0], entrada(NSS)), aceptada());
    let recibidas = lugar.todo_avisado();
    assert_eq!((recibidas.recibidas, recibidas.avisos.len()), (2, 1));
}
