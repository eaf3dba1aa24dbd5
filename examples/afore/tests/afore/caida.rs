//! Behind the gate, the contract holds while the store is killed and the service does not respond.

use axum::http::Response;
use bytes::Bytes;
use serde_json::Value;
use turno::Turno;
use turno::once::{OnceList, OnceState};
use turno_testkit::{PostgresServer, eventually};

use crate::LONG;
use crate::compuerta::compuerta_con;
use crate::contrato::{duplicada, entrada, salida};
use crate::escenarios::PETICIONES;
use crate::hijo::Hijo;
use crate::lugar::{HABIL, Lugar};

const RUTAS: &str = include_str!("../../routes.toml");
const NSS: &str = "12345678901";

/// Three gates with a store of their own, in front of one instance of the original. Its certifications are in another database.
struct Caida {
    lugar: Lugar,
    almacen: PostgresServer,
    store: String,
    instancia: Hijo,
    compuertas: [Hijo; 3],
}

impl Caida {
    fn nueva(rutas: &str) -> Self {
        let lugar = Lugar::postgres();
        let almacen = PostgresServer::start().unwrap();
        let store = almacen.create_database();
        let instancia = lugar.instancia_de(HABIL, &["--a-mano", "--sin-turno"]);
        // The lease ends soon after the store is back.
        let archivo = lugar.escribir("routes.toml", &rutas.replace("\"30s\"", "\"2s\""));
        let opciones = [
            "--routes",
            archivo.to_str().unwrap(),
            "--answer-timeout",
            "1s",
        ];
        let compuertas = [(); 3].map(|()| compuerta_con(&store, &instancia, &opciones));
        Caida {
            lugar,
            almacen,
            store,
            instancia,
            compuertas,
        }
    }

    /// Sends the same request 12 times at once, and returns a function that waits for the responses.
    fn doce(&self) -> impl FnOnce() -> Vec<Response<Bytes>> {
        let json = [("content-type", "application/json")];
        let tareas: Vec<_> = self
            .compuertas
            .iter()
            .cycle()
            .take(PETICIONES)
            .map(|compuerta| self.lugar.pedir_entera(compuerta, entrada(NSS), &json))
            .collect();
        move || {
            let dichas = tareas.into_iter().map(|tarea| self.lugar.esperar(tarea));
            dichas
                .map(|dicha| dicha.expect("a gate that runs answers"))
                .collect()
        }
    }

    /// The whole course: 12 requests; one of them is in the service, which does not respond in time, when the store is killed; 12
    /// while it is down; 12 after it is back, when the lease of the first request is over. Returns all 36 responses.
    fn caer(&self) -> Vec<Response<Bytes>> {
        let antes = self.doce();
        self.instancia.dice("procesando ");
        self.almacen.kill_9().unwrap();
        let mut respuestas = self.doce()();
        respuestas.extend(antes());
        self.almacen.restart().unwrap();
        let turno = self.lugar.runtime.block_on(Turno::connect(&self.store));
        let turno = turno.unwrap();
        eventually(LONG, "the end of the lease", || {
            let claves = turno.once_list(OnceList::default());
            let claves = self.lugar.runtime.block_on(claves).unwrap();
            (claves[0].state == OnceState::Unknown).then_some(())
        });
        respuestas.extend(self.doce()());
        respuestas
    }
}

/// Whether a response has the contract's form: 200, JSON, and the fields of a response that was not certified.
fn en_contrato(respuesta: &Response<Bytes>) -> bool {
    let tipo = respuesta.headers().get("content-type");
    let cuerpo: Value = serde_json::from_slice(respuesta.body()).unwrap_or_default();
    respuesta.status() == 200
        && tipo.is_some_and(|tipo| tipo == "application/json")
        && [duplicada(), salida("02", "999", "RT")].contains(&cuerpo)
}

fn fuera(respuestas: &[Response<Bytes>]) -> usize {
    let fuera = respuestas.iter().filter(|dicha| !en_contrato(dicha));
    fuera.count()
}

/// "Mantenimiento del Contrato", "Manejo de Excepciones": every response is one that the clients know, and the request is
/// processed once.
#[test]
fn con_el_almacen_muerto_y_el_servicio_mudo_se_cumple_el_contrato() {
    let caida = Caida::nueva(RUTAS);
    let respuestas = caida.caer();
    assert_eq!(respuestas.len(), 3 * PETICIONES);
    assert_eq!(fuera(&respuestas), 0, "{respuestas:#?}");
    // The service ends its work. The gates do not know that, and the request stays refused, in the contract's form.
    caida.instancia.sigue(PETICIONES);
    eventually(LONG, "the certification", || {
        (caida.lugar.procesadas() == 1).then_some(())
    });
    let despues = caida.doce()();
    assert_eq!(fuera(&despues), 0, "{despues:#?}");
    assert_eq!(caida.lugar.procesadas(), 1);
    caida.instancia.proceso.kill_9();
    let mas = caida.instancia.proceso.lines().rest();
    assert!(mas.is_empty(), "not processed again: {mas:?}");
}

/// The control of the form: without the templates, the responses are problems.
#[test]
fn control_sin_plantillas_no_se_cumple_el_contrato() {
    let (sin_plantillas, _) = RUTAS.split_once("[route.templates.").unwrap();
    let caida = Caida::nueva(sin_plantillas);
    let respuestas = caida.caer();
    assert_eq!(fuera(&respuestas), 3 * PETICIONES, "{respuestas:#?}");
    let codigos: Vec<Value> = respuestas
        .iter()
        .map(|dicha| serde_json::from_slice::<Value>(dicha.body()).unwrap()["code"].clone())
        .collect();
    for codigo in ["store_unavailable", "upstream_late", "unknown"] {
        assert!(codigos.contains(&codigo.into()), "{codigo}: {codigos:?}");
    }
}

/// The control of "once": with `rerun`, a request that the service still processes is sent to it again.
#[test]
fn control_con_rerun_se_procesa_dos_veces() {
    let rerun = RUTAS.replace("unknown = \"refuse\"", "unknown = \"rerun\"");
    let caida = Caida::nueva(&rerun);
    let respuestas = caida.caer();
    assert_eq!(fuera(&respuestas), 0, "{respuestas:#?}");
    caida.instancia.dice("procesando ");
    caida.instancia.sigue(2);
    eventually(LONG, "both certifications", || {
        (caida.lugar.procesadas() == 2).then_some(())
    });
}
