//! Business days: `validarDiasHabilService`. The holidays are data, in `calendario.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jiff::civil::{Date, Weekday};
use jiff::tz::Offset;

/// Identifier of this service's process in the calendar.
pub const PROCESO: &str = "P00020";
/// Mexico's central time. It has had no daylight saving time since 2022.
const MEXICO: Offset = Offset::constant(-6);

/// Holidays per process and year, with their names.
#[derive(Debug)]
pub struct ValidarDiasHabilService {
    inhabiles: BTreeMap<String, BTreeMap<String, BTreeMap<Date, String>>>,
    hoy: Option<Date>,
}

impl ValidarDiasHabilService {
    /// Loads the calendar of this program. `hoy` replaces today's date in tests.
    ///
    /// # Errors
    /// Returns an error if the calendar cannot be read.
    pub fn nuevo(hoy: Option<Date>) -> Result<Self> {
        let inhabiles = toml::from_str(include_str!("../calendario.toml"));
        Ok(Self {
            inhabiles: inhabiles.context("calendario.toml")?,
            hoy,
        })
    }

    /// Today's date in Mexico: the `LocalDate.now()` of the document.
    #[expect(
        clippy::disallowed_methods,
        reason = "the day is the service's own affair, which knows nothing of Turno; no lease depends on it"
    )]
    pub fn hoy(&self) -> Date {
        self.hoy
            .unwrap_or_else(|| MEXICO.to_datetime(jiff::Timestamp::now()).date())
    }

    /// Returns whether a day is a business day of a process (the document's "1").
    ///
    /// # Errors
    /// Returns an error if the calendar has no entry for the process or the year.
    pub fn obtener_dia_habil(&self, dia: Date, proceso: &str) -> Result<bool> {
        let anios = self.inhabiles.get(proceso);
        let anios = anios.with_context(|| format!("no calendar for the process {proceso}"))?;
        let festivos = anios.get(&dia.year().to_string()).with_context(|| {
            format!("no holidays of {}: add them to calendario.toml", dia.year())
        })?;
        let fin_de_semana = matches!(dia.weekday(), Weekday::Saturday | Weekday::Sunday);
        Ok(!fin_de_semana && !festivos.contains_key(&dia))
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn habil(dia: Date) -> bool {
        let servicio = ValidarDiasHabilService::nuevo(None).unwrap();
        servicio.obtener_dia_habil(dia, PROCESO).unwrap()
    }

    #[test]
    fn holidays_and_weekends_are_not_business_days() {
        assert!(habil(date(2026, 11, 17)));
        assert!(!habil(date(2026, 11, 16)), "Revolución, a Monday");
        assert!(!habil(date(2026, 12, 25)), "Navidad");
        assert!(!habil(date(2026, 11, 14)), "a Saturday");
        assert!(!habil(date(2026, 11, 15)), "a Sunday");
        assert!(!habil(date(2024, 10, 1)) && habil(date(2025, 10, 1)));
    }

    /// The data agree with the rule in the law, in each year of the calendar.
    #[test]
    fn the_data_are_those_of_the_law() {
        let servicio = ValidarDiasHabilService::nuevo(None).unwrap();
        for (anio, festivos) in &servicio.inhabiles[PROCESO] {
            let anio: i16 = anio.parse().unwrap();
            let lunes = |mes, cual| {
                let primero = date(anio, mes, 1);
                primero.nth_weekday_of_month(cual, Weekday::Monday).unwrap()
            };
            let mut segun_ley = vec![
                date(anio, 1, 1),
                lunes(2, 1),
                lunes(3, 3),
                date(anio, 5, 1),
                date(anio, 9, 16),
                lunes(11, 3),
                date(anio, 12, 25),
            ];
            if (anio - 2024) % 6 == 0 {
                segun_ley.push(date(anio, 10, 1));
            }
            segun_ley.sort();
            assert!(festivos.keys().eq(&segun_ley), "{anio}: {festivos:?}");
        }
    }

    #[test]
    fn a_year_without_data_is_an_error_and_not_a_year_without_holidays() {
        let servicio = ValidarDiasHabilService::nuevo(None).unwrap();
        let error = servicio.obtener_dia_habil(date(2001, 1, 2), PROCESO);
        assert!(error.unwrap_err().to_string().contains("2001"));
        assert!(
            servicio
                .obtener_dia_habil(date(2026, 1, 2), "P00021")
                .is_err()
        );
    }
}
