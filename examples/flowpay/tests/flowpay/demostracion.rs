//! The program without arguments.

use std::process::Command;

/// Shows the problem, its solution, and the document's message.
#[test]
fn el_programa_muestra_el_problema_y_su_ausencia() {
    let salida = Command::new(env!("CARGO_BIN_EXE_flowpay"))
        .output()
        .unwrap();
    let texto = String::from_utf8(salida.stdout).unwrap();
    assert!(salida.status.success(), "{texto}");
    let fila = |modo: &str| -> Vec<&str> {
        let fila = texto.lines().find_map(|linea| linea.strip_prefix(modo));
        fila.unwrap_or_else(|| panic!("{texto}"))
            .split_whitespace()
            .collect()
    };
    assert_eq!(
        fila("sin lock "),
        ["3", "300.00", "100.00", "1100.00", "no"]
    );
    assert_eq!(
        fila("con lock "),
        ["1", "100.00", "100.00", "1100.00", "sí"]
    );
    let rechazos = texto.matches("El recurso está bloqueado por otra operación. Tiempo restante: ");
    assert_eq!(rechazos.count(), 2, "{texto}");
}
