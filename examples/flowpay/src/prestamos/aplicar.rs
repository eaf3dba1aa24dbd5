//! Allocation of a payment to instalments, and division of a debt into new ones.

use jiff::ToSpan;
use jiff::civil::Date;

use crate::datos::NuevaCuota;
use crate::estado::EstadoCuota;
use crate::fallo::Fallo;
use crate::monto::Monto;
use crate::tipos::{Aplicacion, Cuota};

/// Maximum number of instalments of a loan: 30 years, monthly.
const CUOTAS_MAXIMO: u32 = 360;

/// Effect of a payment on one instalment.
#[derive(Debug, Clone)]
pub struct Parte {
    pub aplicacion: Aplicacion,
    /// Total paid of the instalment afterwards.
    pub pagado: Monto,
    pub estado: EstadoCuota,
}

/// Allocates a payment to instalments, oldest first. A payment of more than the outstanding amount is rejected, because the
/// rest would belong to no instalment.
pub fn aplicar(cuotas: &[Cuota], monto: Monto) -> Result<Vec<Parte>, Fallo> {
    if monto <= Monto::CERO {
        return Err(Fallo::negocio(
            "MONTO_INVALIDO",
            "El monto debe ser mayor que cero.",
        ));
    }
    let mut resto = monto;
    let mut partes = Vec::new();
    for cuota in cuotas {
        let aplicado = resto.min(cuota.pendiente());
        if aplicado == Monto::CERO {
            continue;
        }
        resto = resto - aplicado;
        let pagado = cuota.pagado + aplicado;
        partes.push(Parte {
            aplicacion: Aplicacion {
                idcuota: cuota.idcuota,
                monto: aplicado,
            },
            pagado,
            estado: if pagado == cuota.monto {
                EstadoCuota::Pagada
            } else {
                EstadoCuota::Parcial
            },
        });
    }
    if resto > Monto::CERO {
        let saldo = monto - resto;
        return Err(Fallo::negocio(
            "MONTO_EXCEDE_SALDO",
            format!("El monto {monto} excede el saldo pendiente de {saldo}."),
        ));
    }
    Ok(partes)
}

/// Divides a debt into equal monthly instalments. The last one gets the remainder.
pub fn dividir(saldo: Monto, cuotas: u32, primera: Date) -> Result<Vec<NuevaCuota>, Fallo> {
    let invalidas = |mensaje: String| Fallo::negocio("CUOTAS_INVALIDAS", mensaje);
    if !(1..=CUOTAS_MAXIMO).contains(&cuotas) {
        return Err(invalidas(format!(
            "El número de cuotas debe estar entre 1 y {CUOTAS_MAXIMO}."
        )));
    }
    let cada_una = saldo.centavos() / i64::from(cuotas);
    if cada_una <= 0 {
        return Err(invalidas(format!(
            "El saldo {saldo} no alcanza para {cuotas} cuotas."
        )));
    }
    let ultima = saldo.centavos() - cada_una * i64::from(cuotas - 1);
    (0..cuotas)
        .map(|mes| {
            // Counted from the first date each time, so that a 31st returns after a shorter month.
            let vence = primera
                .checked_add(i64::from(mes).months())
                .map_err(|_| invalidas("Las fechas de vencimiento no existen.".into()))?;
            let centavos = if mes + 1 == cuotas { ultima } else { cada_una };
            Ok(NuevaCuota {
                fecha_vencimiento: vence.to_string(),
                monto: Monto::de_centavos(centavos),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuota(idcuota: i64, monto: i64, pagado: i64, estado: EstadoCuota) -> Cuota {
        Cuota {
            idcuota,
            numero: idcuota,
            fecha_vencimiento: String::new(),
            monto: Monto::de_centavos(monto),
            pagado: Monto::de_centavos(pagado),
            estado,
        }
    }

    fn cuotas() -> [Cuota; 4] {
        [
            cuota(1, 100, 100, EstadoCuota::Pagada),
            cuota(2, 100, 30, EstadoCuota::Parcial),
            cuota(3, 100, 0, EstadoCuota::Cancelada),
            cuota(4, 100, 0, EstadoCuota::Pendiente),
        ]
    }

    #[test]
    fn the_oldest_open_instalment_is_paid_first() {
        let partes = aplicar(&cuotas(), Monto::de_centavos(90)).unwrap();
        let partes: Vec<_> = partes
            .iter()
            .map(|p| {
                (
                    p.aplicacion.idcuota,
                    p.aplicacion.monto.centavos(),
                    p.pagado.centavos(),
                    p.estado,
                )
            })
            .collect();
        assert_eq!(
            partes,
            [
                (2, 70, 100, EstadoCuota::Pagada),
                (4, 20, 20, EstadoCuota::Parcial)
            ]
        );
    }

    #[test]
    fn what_is_too_much_or_nothing_is_refused() {
        assert!(aplicar(&cuotas(), Monto::de_centavos(170)).is_ok());
        for centavos in [171, 0, -1] {
            assert!(
                aplicar(&cuotas(), Monto::de_centavos(centavos)).is_err(),
                "{centavos}"
            );
        }
    }

    #[test]
    fn a_debt_is_divided_without_losing_a_centavo() {
        let nuevas = dividir(Monto::de_centavos(100), 3, "2027-01-31".parse().unwrap()).unwrap();
        let nuevas: Vec<_> = nuevas
            .iter()
            .map(|n| (n.fecha_vencimiento.as_str(), n.monto.centavos()))
            .collect();
        assert_eq!(
            nuevas,
            [("2027-01-31", 33), ("2027-02-28", 33), ("2027-03-31", 34)]
        );
        for (centavos, cuotas) in [(2, 3), (100, 0), (100, 361)] {
            let fecha = "2027-01-31".parse().unwrap();
            assert!(dividir(Monto::de_centavos(centavos), cuotas, fecha).is_err());
        }
    }
}
