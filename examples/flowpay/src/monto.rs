//! Money: decimals with two places, never floating point. The database stores whole centavos.

use std::iter::Sum;
use std::ops::{Add, Sub};

use async_graphql::{InputValueError, InputValueResult, Scalar, ScalarType, Value};
use rust_decimal::Decimal;

/// Number of decimals of an amount.
const DECIMALES: u32 = 2;
/// Maximum amount, in centavos: 10¹² units, small enough that sums cannot overflow.
const CENTAVOS_MAXIMO: i128 = 100_000_000_000_000;

/// An amount of money, always with two decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monto(Decimal);

impl Monto {
    pub const CERO: Monto = Monto(Decimal::from_parts(0, 0, 0, false, DECIMALES));

    /// Converts from centavos, the database's format.
    pub fn de_centavos(centavos: i64) -> Self {
        Monto(Decimal::new(centavos, DECIMALES))
    }

    /// Converts to centavos, the database's format.
    pub fn centavos(self) -> i64 {
        i64::try_from(self.0.mantissa()).expect("amounts are bounded when they are read")
    }

    /// Parses an exact amount: `100`, `100.5` and `100.50`; not `100.505`, and not a float.
    pub fn leer(texto: &str) -> Option<Self> {
        let mut exacto = Decimal::from_str_exact(texto).ok()?.normalize();
        if exacto.scale() > DECIMALES {
            return None;
        }
        exacto.rescale(DECIMALES);
        (exacto.scale() == DECIMALES && exacto.mantissa().abs() <= CENTAVOS_MAXIMO)
            .then_some(Monto(exacto))
    }
}

impl std::fmt::Display for Monto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Add for Monto {
    type Output = Monto;

    fn add(self, otro: Monto) -> Monto {
        Monto(self.0 + otro.0)
    }
}

impl Sub for Monto {
    type Output = Monto;

    fn sub(self, otro: Monto) -> Monto {
        Monto(self.0 - otro.0)
    }
}

impl Sum for Monto {
    fn sum<I: Iterator<Item = Monto>>(montos: I) -> Monto {
        montos.fold(Monto::CERO, Add::add)
    }
}

/// An amount as a string with at most two decimals, such as "100.50". Numbers with a decimal point are rejected, because they
/// would have been parsed as floats.
// Not async_graphql's scalar for Decimal, which converts numbers through f64.
#[Scalar]
impl ScalarType for Monto {
    fn parse(valor: Value) -> InputValueResult<Self> {
        let leido = match &valor {
            Value::String(texto) => Monto::leer(texto),
            Value::Number(entero) if !entero.is_f64() => Monto::leer(&entero.to_string()),
            _ => None,
        };
        leido.ok_or_else(|| {
            InputValueError::custom(
                "un monto se escribe como cadena, con dos decimales como máximo: \"100.50\"",
            )
            .with_extension("codigo", "MONTO_INVALIDO")
        })
    }

    fn to_value(&self) -> Value {
        Value::String(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_exactly_or_not_at_all() {
        for (texto, centavos) in [
            ("100", 10_000),
            ("0.1", 10),
            ("100.50", 10_050),
            ("7.1000", 710),
        ] {
            let monto = Monto::leer(texto).unwrap();
            assert_eq!(monto.centavos(), centavos, "{texto}");
            assert_eq!(Monto::de_centavos(centavos), monto);
        }
        assert_eq!(Monto::leer("100.5").unwrap().to_string(), "100.50");
        for malo in [
            "",
            "x",
            "1.005",
            "1e2",
            "NaN",
            "10000000000000",
            "99999999999999999999999999999",
        ] {
            assert_eq!(Monto::leer(malo), None, "{malo}");
        }
    }

    #[test]
    fn tenths_add_up() {
        let decimos: Monto = std::iter::repeat_n(Monto::leer("0.10").unwrap(), 3).sum();
        assert_eq!(decimos, Monto::leer("0.30").unwrap());
        assert_eq!(Monto::CERO.to_string(), "0.00");
    }

    #[test]
    fn a_float_is_refused() {
        assert!(<Monto as ScalarType>::parse(Value::from(100.5)).is_err());
        assert!(<Monto as ScalarType>::parse(Value::from(100)).is_ok());
    }
}
