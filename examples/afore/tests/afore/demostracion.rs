//! The program without arguments.

use std::process::Command;

/// "Comparativa de Implementación", as the program prints it.
#[test]
fn sin_argumentos_muestra_la_comparativa() {
    let salida = Command::new(env!("CARGO_BIN_EXE_afore")).output().unwrap();
    assert!(salida.status.success(), "{salida:?}");
    let texto = String::from_utf8(salida.stdout).unwrap();
    let fila = |nombre: &str| -> Vec<u32> {
        let fila = texto.lines().find_map(|linea| linea.strip_prefix(nombre));
        let numeros = fila.unwrap_or_else(|| panic!("{texto}")).split_whitespace();
        numeros.map(|numero| numero.parse().unwrap()).collect()
    };
    assert_eq!(fila("sin Turno"), [12, 12, 0, 12], "{texto}");
    assert_eq!(fila("con Turno"), [12, 1, 11, 1], "{texto}");
}
