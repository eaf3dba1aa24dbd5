//! What both implementations have in common: the day, the validation, and where certifications are kept.

use anyhow::Result;
use jiff::civil::Date;

use crate::base::Base;
use crate::calendario::{PROCESO, ValidarDiasHabilService};
use crate::configuracion::Configuracion;
use crate::contrato::{
    ValidarSolicitudCertificacionAforeEntrada as Entrada,
    ValidarSolicitudCertificacionAforeSalida as Salida,
};
use crate::puerta::Puerta;

/// The business of an instance. Nothing in it knows of duplicates.
pub struct ValidarSolicitudCertificacionAforeService {
    /// Certifications.
    pub base: Base,
    /// Settings.
    pub configuracion: Configuracion,
    dias: ValidarDiasHabilService,
    puerta: Puerta,
}

impl ValidarSolicitudCertificacionAforeService {
    /// # Errors
    /// If the calendar cannot be read.
    pub fn nuevo(
        base: Base,
        configuracion: Configuracion,
        hoy: Option<Date>,
        puerta: Puerta,
    ) -> Result<Self> {
        Ok(Self {
            base,
            configuracion,
            dias: ValidarDiasHabilService::nuevo(hoy)?,
            puerta,
        })
    }

    /// # Errors
    /// If the calendar has nothing for today.
    pub fn es_dia_habil(&self) -> Result<bool> {
        self.dias.obtener_dia_habil(self.dias.hoy(), PROCESO)
    }

    /// The validation itself, which takes its time and writes nothing.
    pub async fn validar(&self, entrada: &Entrada) -> Salida {
        self.puerta.pasar(&entrada.nss).await;
        Salida::aceptada(entrada)
    }
}
