//! Code that both implementations share: business days, validation, and the store of certifications.

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

/// Business logic of an instance. It does not handle duplicates.
pub struct ValidarSolicitudCertificacionAforeService {
    /// Database of certifications.
    pub base: Base,
    /// Settings of the service.
    pub configuracion: Configuracion,
    dias: ValidarDiasHabilService,
    puerta: Puerta,
}

impl ValidarSolicitudCertificacionAforeService {
    /// # Errors
    /// Returns an error if the calendar cannot be read.
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
    /// Returns an error if the calendar has no entry for today.
    pub fn es_dia_habil(&self) -> Result<bool> {
        self.dias.obtener_dia_habil(self.dias.hoy(), PROCESO)
    }

    /// Validates the request. It takes some time and writes nothing.
    pub async fn validar(&self, entrada: &Entrada) -> Salida {
        self.puerta.pasar(&entrada.nss).await;
        Salida::aceptada(entrada)
    }
}
