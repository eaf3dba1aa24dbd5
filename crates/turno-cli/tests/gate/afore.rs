//! The contract of afore: identical concurrent requests reach several instances.

use std::thread;

use serde_json::json;

use crate::common::{Fixture, LONG};
use crate::http::ask;
use crate::legacy::{Gate, Legacy, PATH, ROUTES, assert_duplicate, assert_processed};

on_each_store!(
    of_identical_requests_one_is_processed,
    the_same_request_is_one_however_it_is_written,
    what_the_service_answers_passes_unchanged,
    a_killed_gate_leaves_the_request_to_the_next_one,
    a_request_that_cannot_be_compared_is_refused,
);

const MANY: usize = 16;

fn of_identical_requests_one_is_processed(fixture: Fixture) {
    let legacy = Legacy::start();
    let gates = [(); 2].map(|()| Gate::start(&fixture, &legacy, ROUTES));
    let entrada = r#"{"curp": "AAAA", "tipoPrestacion": "RT", "esperar": true}"#;
    thread::scope(|scope| {
        let (answers, heard) = std::sync::mpsc::channel();
        for n in 0..MANY {
            let (gate, answers) = (&gates[n % 2], answers.clone());
            scope.spawn(move || answers.send(gate.certify(entrada)).unwrap());
        }
        legacy.begins("AAAA");
        // All others get an immediate response: the one in progress has not ended.
        for _ in 1..MANY {
            assert_duplicate(&heard.recv_timeout(LONG).unwrap(), &json!("RT"));
        }
        assert_eq!(legacy.processed(), 1);
        legacy.go();
        assert_processed(&heard.recv_timeout(LONG).unwrap());
    });
    // It has ended: the same request is processed again, by either gate.
    for (gate, processed) in gates.iter().zip(2..) {
        legacy.go();
        assert_processed(&gate.certify(entrada));
        legacy.begins("AAAA");
        assert_eq!(legacy.processed(), processed);
    }
    for gate in gates {
        gate.process.term();
        assert!(gate.process.wait_timeout(LONG).unwrap().success());
        let counts = gate.process.lines().rest().pop().unwrap();
        let counts: serde_json::Value = serde_json::from_str(&counts).unwrap();
        assert!(counts["fresh"].as_u64().unwrap() > 0, "{counts}");
    }
}

fn the_same_request_is_one_however_it_is_written(fixture: Fixture) {
    let legacy = Legacy::start();
    let gate = Gate::start(&fixture, &legacy, ROUTES);
    let entrada = r#"{"curp":"BBBB","tipoPrestacion":{"clave":7.0},"esperar":true}"#;
    thread::scope(|scope| {
        let first = scope.spawn(|| gate.certify(entrada));
        legacy.begins("BBBB");
        for same in [
            "{ \"esperar\" : true,\n \"tipoPrestacion\": {\"clave\": 7.0}, \"curp\": \"BBBB\" }",
            r#"{"curp":"\u0042BBB","tipoPrestacion":{"clave":7.0},"esperar":true}"#,
        ] {
            assert_duplicate(&gate.certify(same), &json!({"clave": 7.0}));
        }
        for other in [
            r#"{"curp":"CCCC","tipoPrestacion":{"clave":7.0}}"#,
            r#"{"curp":"BBBB","tipoPrestacion":{"clave":7},"esperar":false}"#,
            r#"{"curp":"BBBB","tipoPrestacion":null}"#,
        ] {
            assert_processed(&gate.certify(other));
        }
        // And the same request of another user.
        let headers = [("content-type", "application/json"), ("x-user", "luis")];
        legacy.go();
        legacy.go();
        let response = ask(&gate.address, &format!("POST {PATH}"), &headers, entrada).unwrap();
        assert_processed(&response);
        assert_processed(&first.join().unwrap());
    });
    assert_eq!(legacy.processed(), 5);
}

fn what_the_service_answers_passes_unchanged(fixture: Fixture) {
    let legacy = Legacy::start();
    let gate = Gate::start(&fixture, &legacy, ROUTES);
    let direct =
        |entrada: &str| ask(&legacy.address, &format!("POST {PATH}"), &[], entrada).unwrap();
    let passes = |entrada: &str| {
        let (through, itself) = (gate.certify(entrada), direct(entrada));
        assert_eq!(
            (
                through.status,
                &through.body,
                &through.headers["content-type"]
            ),
            (itself.status, &itself.body, &itself.headers["content-type"])
        );
        assert_eq!(through.headers["x-servicio"], "CERT_AFORE");
        through
    };
    assert_eq!(passes(r#"{"curp": "CAER"}"#).status, 500);
    let failed = passes(r#"{"curp": "FALLAR", "tipoPrestacion": "RT"}"#);
    assert_eq!(failed.json()["diagnosticoProcesar"], "999");
    legacy.holiday(true);
    let holiday = passes(r#"{"curp": "DDDD", "tipoPrestacion": "RT"}"#);
    assert_eq!(holiday.json()["diagnosticoProcesar"], "532");
    legacy.holiday(false);
    assert_processed(&passes(r#"{"curp": "DDDD", "tipoPrestacion": "RT"}"#));
    // Other paths and methods are not affected.
    let response = ask(&gate.address, "GET /", &[], "").unwrap();
    assert_eq!(response.json()["procesadas"], legacy.processed());
}

fn a_killed_gate_leaves_the_request_to_the_next_one(fixture: Fixture) {
    let legacy = Legacy::start();
    let routes = ROUTES.replace("\"30s\"", "\"1s\"");
    let [killed, gate] = [(); 2].map(|()| Gate::start(&fixture, &legacy, &routes));
    let entrada = r#"{"curp": "EEEE", "tipoPrestacion": "RT", "esperar": true}"#;
    thread::scope(|scope| {
        let first = scope.spawn(|| killed.try_certify(entrada));
        assert_eq!(legacy.begins("EEEE"), "1");
        killed.process.kill_9();
        assert!(
            first.join().unwrap().is_none(),
            "its client is not answered"
        );
        let second = scope.spawn(|| {
            loop {
                let response = gate.certify(entrada);
                if response.json()["resultadoOperacion"] != "02" {
                    return response;
                }
                // Until the lease expires, the first one counts.
                assert_duplicate(&response, &json!("RT"));
            }
        });
        assert_eq!(legacy.begins("EEEE"), "2", "the service can tell");
        // Both, including the one whose gate was killed.
        legacy.go();
        legacy.go();
        assert_processed(&second.join().unwrap());
    });
    assert_eq!(legacy.processed(), 2);
}

fn a_request_that_cannot_be_compared_is_refused(fixture: Fixture) {
    let legacy = Legacy::start();
    let gate = Gate::start(&fixture, &legacy, ROUTES);
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let large = format!("{{\"curp\": \"{}\"}}", "A".repeat(5000));
    for (entrada, status, code) in [
        ("{", 400, "unidentified"),
        (r#"{"curp": "A", "curp": "B"}"#, 400, "unidentified"),
        (&deep, 400, "unidentified"),
        (&large, 413, "too_large"),
    ] {
        for (language, detail) in [("es", "Envíe"), ("en", "")] {
            let headers = [
                ("content-type", "application/json"),
                ("accept-language", language),
            ];
            let response = ask(&gate.address, &format!("POST {PATH}"), &headers, entrada).unwrap();
            let problem = response.json();
            assert_eq!(
                (response.status, &problem["code"]),
                (status, &code.into()),
                "{response:?}"
            );
            assert_eq!(response.headers["content-type"], "application/problem+json");
            assert_eq!(response.headers["content-language"], language);
            let said = problem["detail"].as_str().unwrap();
            assert!(said.starts_with(detail), "{said}");
        }
    }
    assert_eq!(legacy.processed(), 0);
}
