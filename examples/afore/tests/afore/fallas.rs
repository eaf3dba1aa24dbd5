//! Errors are reported in the contract's format, and leave nothing behind.

use serde_json::Value;
use turno::once::OnceList;
use turno_testkit::{PostgresServer, TcpProxy};

use crate::contrato::{aceptada, entrada, salida};
use crate::lugar::Lugar;
use crate::on_each_store;

on_each_store!(
    falla_999_no_deja_nada_y_libera,
    falla_999_control_la_original_certifica_y_no_avisa,
    el_registro_dice_la_peticion_y_el_error,
    peticion_malformada_no_se_ejecuta,
);

/// "Manejo de Excepciones", "Transaccionalidad": the table rejects this kind of benefit. The response is 02/999, nothing is
/// stored, no notification is sent, and the request is free at once: a repetition is processed again, and does not get 532.
fn falla_999_no_deja_nada_y_libera(lugar: &Lugar) {
    let instancias = lugar.instancias(&[]);
    let peticion = entrada("12345678901").replace("RT", "DEMASIADO LARGA");
    for instancia in &instancias {
        let dicha = lugar.certificar(instancia, &*peticion);
        assert_eq!(dicha, salida("02", "999", "DEMASIADO LARGA"));
    }
    assert_eq!(lugar.procesadas(), 0);
    assert_eq!(lugar.todo_avisado().recibidas, 0);
    let turno = lugar.turno();
    let quedan = lugar.runtime.block_on(turno.once_list(OnceList {
        limit: 10,
        ..OnceList::default()
    }));
    assert!(
        quedan
            .unwrap()
            .iter()
            .all(|queda| queda.state.as_str() == "done")
    );
    assert_eq!(
        lugar.certificar(&instancias[0], entrada("12345678901")),
        aceptada()
    );
}

/// The control: the original notifies after it has stored. With the AFORE unreachable, the client gets an error although the
/// certification was stored, and the AFORE is never notified.
fn falla_999_control_la_original_certifica_y_no_avisa(lugar: &Lugar) {
    let afore = lugar.receptor.direccion.parse().unwrap();
    let red = lugar.runtime.block_on(TcpProxy::start(afore)).unwrap();
    lugar.runtime.block_on(red.cut());
    let instancias = lugar.instancias_que_avisan(&red.addr().to_string(), &["--sin-turno"]);
    let dicha = lugar.certificar(&instancias[0], entrada("12345678901"));
    assert_eq!(dicha, salida("02", "999", "RT"));
    assert_eq!(lugar.procesadas(), 1);

    // The network works again, and new notifications arrive. The first one is lost.
    lugar.runtime.block_on(red.restore()).unwrap();
    assert_eq!(
        lugar.certificar(&instancias[1], entrada("12345678902")),
        aceptada()
    );
    let avisos = lugar.recibidas().avisos;
    assert_eq!(avisos.len(), 1);
    assert_eq!(avisos[0]["entrada"]["nss"], "12345678902");
}

/// "Entrada validarSolicitudCertificacionAfore" and "error en la aplicación": both implementations log both.
fn el_registro_dice_la_peticion_y_el_error(lugar: &Lugar) {
    let casos: [(&str, &[&str]); 2] = [("protegida", &[]), ("original", &["--sin-turno"])];
    for (nombre, opciones) in casos {
        let (instancia, registro) = lugar.instancia_con_registro(opciones);
        let peticion = entrada("12345678901").replace("RT", "DEMASIADO LARGA");
        let dicha = lugar.certificar(&instancia, &*peticion);
        assert_eq!(dicha, salida("02", "999", "DEMASIADO LARGA"));
        let registro = std::fs::read_to_string(registro).unwrap();
        for linea in [
            format!(
                "INFO afore::{nombre}: Entrada validarSolicitudCertificacionAfore nss=\"12345678901\""
            ),
            format!("ERROR afore::{nombre}: error en la aplicación error="),
        ] {
            assert!(registro.contains(&linea), "{linea}: {registro}");
        }
    }
}

/// "Bad input": 02/999, with the tipoPrestacion if it can be read, and no execution.
fn peticion_malformada_no_se_ejecuta(lugar: &Lugar) {
    // A request that were executed would wait forever.
    let instancias = lugar.instancias(&["--a-mano"]);
    let enorme = format!(
        r#"{{"tipoPrestacion": "RT", "x": "{}"}}"#,
        "A".repeat(70_000)
    );
    let hondo = entrada("12345678901").replace(
        '}',
        &format!(r#","x":{}1{}}}"#, "[".repeat(90), "]".repeat(90)),
    );
    for (n, (cuerpo, tipo)) in [
        ("", Value::Null),
        ("{", Value::Null),
        ("[]", Value::Null),
        (r#""RT""#, Value::Null),
        (r#"{"tipoPrestacion": "RT""#, Value::Null),
        (r#"{"tipoPrestacion": {"clave": 7}}"#, Value::Null),
        (r#"{"tipoPrestacion": "RT"}"#, "RT".into()),
        (&*entrada("12345"), "RT".into()),
        (&*entrada("1234567890A"), "RT".into()),
        (&*entrada("12345678901").replace("PEGJ", "pegj"), "RT".into()),
        (&*entrada("12345678901").replace("RT", ""), "".into()),
        (&*entrada("12345678901").replace("\"12345678901\"", "12345678901"), "RT".into()),
        // Jackson and serde would use the last duplicate field, other parsers the first.
        (r#"{"nss": "12345678901", "curp": "PEGJ850101HDFRRN09", "tipoPrestacion": "RT", "x": 1, "x": 2}"#, "RT".into()),
        (&*hondo, "RT".into()),
        (&*enorme, Value::Null),
    ]
    .into_iter()
    .enumerate()
    {
        let dicha = lugar.certificar(&instancias[n % 3], cuerpo);
        assert_eq!(dicha, salida("02", "999", tipo), "{cuerpo:.100}");
    }
    // consumes = application/json
    let texto = lugar.pedir_con(
        &instancias[0],
        entrada("12345678901"),
        &[("content-type", "text/plain")],
    );
    assert_eq!(lugar.esperar(texto), Some((415, Value::Null)));
    assert_eq!(lugar.procesadas(), 0);
    assert_eq!(lugar.todo_avisado().recibidas, 0);
}

/// With the database unavailable, duplicates cannot be detected, so nothing is done, and the response follows the contract.
/// (The document's `acquireLock` returns false then, so its client gets the response for a duplicate.)
#[test]
fn sin_base_de_datos_999() {
    let mut lugar = Lugar::postgres();
    let servidor = ([127, 0, 0, 1], PostgresServer::shared().port()).into();
    let red = lugar.runtime.block_on(TcpProxy::start(servidor)).unwrap();
    let directo = std::mem::take(&mut lugar.store);
    lugar.store = red.url_for(&directo);
    let instancias = lugar.instancias(&[]);
    lugar.runtime.block_on(red.cut());
    let dicha = lugar.certificar(&instancias[0], entrada("12345678901"));
    assert_eq!(dicha, salida("02", "999", "RT"));
    lugar.runtime.block_on(red.restore()).unwrap();
    assert_eq!(
        lugar.certificar(&instancias[0], entrada("12345678901")),
        aceptada()
    );
    assert_eq!(lugar.procesadas(), 1);
}
