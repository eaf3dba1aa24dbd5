//! The problem and its solution: the same payment at three instances at once.

use std::env::current_exe;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::ensayo::{Citas, Instancia, a_la_vez};
use crate::monto::Monto;

const INSTANCIAS: usize = 3;
const MONTO: &str = "100.00";

const CREAR: &str =
    "mutation($input: CreatePrestamoInput!) { crearPrestamo(input: $input) { idprestamo } }";
const PAGAR: &str =
    "mutation($input: CreatePagoInput!) { registrarPagoConAplicacion(input: $input) { idpago } }";
const VER: &str = "query($id: Int!) { prestamo(idprestamo: $id) { monto saldo pagos { monto } cuotas { pagado } } }";

/// Runs without and with the lock, and prints both results side by side.
pub async fn demostrar(store: &str) -> Result<()> {
    println!(
        "El mismo pago de {MONTO} llega a la vez a {INSTANCIAS} instancias, en procesos propios.\n"
    );
    let sin_lock = ensayar(store, &["--sin-lock"]).await?;
    let con_lock = ensayar(store, &[]).await?;
    println!(
        "           pagos registrados   monto pagado   monto aplicado      saldo   ¿saldo correcto?"
    );
    println!("sin lock   {}", sin_lock.linea());
    println!("con lock   {}", con_lock.linea());
    println!("\nCon lock, las demás recibieron:");
    for mensaje in &con_lock.rechazos {
        println!("  {mensaje}");
    }
    Ok(())
}

/// State of the loan after a run.
struct Resultado {
    pagos: usize,
    monto: Monto,
    pagado: Monto,
    aplicado: Monto,
    saldo: Monto,
    rechazos: Vec<String>,
}

impl Resultado {
    fn linea(&self) -> String {
        let correcto = self.saldo == self.monto - self.pagado;
        format!(
            "{:>17}   {:>12}   {:>14}   {:>8}   {}",
            self.pagos,
            self.pagado,
            self.aplicado,
            self.saldo,
            if correcto { "sí" } else { "no" }
        )
    }
}

async fn ensayar(store: &str, opciones: &[&str]) -> Result<Resultado> {
    let mut citas = Citas::abrir().await?;
    let direccion = citas.direccion.clone();
    let opciones = [opciones, &["--cita", &direccion]].concat();
    let instancias = Instancia::iniciar(&current_exe()?, store, &vec![opciones; INSTANCIAS])?;
    let input = json!({ "input": {
        "codigo": "P-001", "monto": "1200.00", "cuotas": 12, "primerVencimiento": "2027-01-31",
    }});
    let creado = instancias[0].graphql(CREAR, input).await?;
    let id = &creado["data"]["crearPrestamo"]["idprestamo"];
    ensure!(id.is_i64(), "no loan was made: {creado}");

    let input = json!({ "input": { "idprestamo": id, "idusuario": 1, "monto": MONTO } });
    let pagos = vec![(PAGAR, input); INSTANCIAS];
    let respuestas = a_la_vez(&instancias, &mut citas, &pagos).await?;
    let rechazos = respuestas
        .iter()
        .filter_map(|respuesta| Some(respuesta["errors"][0]["message"].as_str()?.to_owned()))
        .collect();
    let visto = instancias[0].graphql(VER, json!({ "id": id })).await?;
    let prestamo = &visto["data"]["prestamo"];
    Ok(Resultado {
        pagos: prestamo["pagos"].as_array().map_or(0, Vec::len),
        monto: monto(&prestamo["monto"])?,
        pagado: sumar(&prestamo["pagos"], "monto")?,
        aplicado: sumar(&prestamo["cuotas"], "pagado")?,
        saldo: monto(&prestamo["saldo"])?,
        rechazos,
    })
}

fn sumar(lista: &Value, campo: &str) -> Result<Monto> {
    let montos = lista.as_array().into_iter().flatten();
    montos.map(|uno| monto(&uno[campo])).sum()
}

fn monto(valor: &Value) -> Result<Monto> {
    valor
        .as_str()
        .and_then(Monto::leer)
        .with_context(|| format!("not an amount: {valor}"))
}
