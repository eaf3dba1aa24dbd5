//! `application.properties`, with the keys of the document.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Default settings: the file of the document.
const DOCUMENTO: &str = include_str!("../application.properties");

/// Settings of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuracion {
    /// `lock.timeout.seconds`: after this time without a renewal, other instances take over.
    pub lock_timeout: Duration,
    /// `lock.retry.max`: maximum number of attempts for a busy lock.
    pub lock_retry_max: u32,
    /// `lock.retry.delay.ms`: pause between two attempts.
    pub lock_retry_delay: Duration,
    /// `lock.cleanup.interval.seconds`; `None` if `lock.cleanup.enabled` is false.
    pub lock_cleanup: Option<Duration>,
    /// `application.service.name`
    pub service_name: String,
    /// `application.user.default`
    pub user_default: String,
}

impl Configuracion {
    /// Reads a file. Default: the values of the document.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if a key is missing, unknown or has an invalid value. The message names
    /// it.
    pub fn leer(archivo: Option<&Path>) -> Result<Self> {
        let Some(archivo) = archivo else {
            return Self::de_texto(DOCUMENTO);
        };
        let texto = std::fs::read_to_string(archivo);
        texto
            .map_err(Into::into)
            .and_then(|texto| Self::de_texto(&texto))
            .with_context(|| archivo.display().to_string())
    }

    fn de_texto(texto: &str) -> Result<Self> {
        let mut claves = Claves::leer(texto)?;
        let cada = Duration::from_secs(claves.numero("lock.cleanup.interval.seconds")?);
        let configuracion = Self {
            lock_timeout: Duration::from_secs(claves.numero("lock.timeout.seconds")?),
            lock_retry_max: u32::try_from(claves.numero("lock.retry.max")?)?,
            lock_retry_delay: Duration::from_millis(claves.numero("lock.retry.delay.ms")?),
            lock_cleanup: match claves.tomar("lock.cleanup.enabled")?.as_str() {
                "true" => Some(cada),
                "false" => None,
                otro => bail!("lock.cleanup.enabled is {otro:?}: write true or false"),
            },
            service_name: claves.tomar("application.service.name")?,
            user_default: claves.tomar("application.user.default")?,
        };
        ensure!(
            !configuracion.lock_timeout.is_zero()
                && configuracion.lock_retry_max > 0
                && configuracion.lock_cleanup != Some(Duration::ZERO),
            "lock.timeout.seconds, lock.retry.max and lock.cleanup.interval.seconds must be above zero"
        );
        claves.nada_mas()?;
        Ok(configuracion)
    }
}

struct Claves(BTreeMap<String, String>);

impl Claves {
    fn leer(texto: &str) -> Result<Self> {
        let mut claves = BTreeMap::new();
        for (linea, numero) in texto.lines().map(str::trim).zip(1..) {
            if linea.is_empty() || linea.starts_with(['#', '!']) {
                continue;
            }
            let partes = linea.split_once(['=', ':']);
            let (clave, valor) = partes.with_context(|| format!("line {numero}: no `=`"))?;
            claves.insert(clave.trim().to_owned(), valor.trim().to_owned());
        }
        Ok(Self(claves))
    }

    fn tomar(&mut self, clave: &str) -> Result<String> {
        let valor = self.0.remove(clave);
        valor.with_context(|| format!("{clave} is missing"))
    }

    fn numero(&mut self, clave: &str) -> Result<u64> {
        let valor = self.tomar(clave)?;
        let numero = valor.parse();
        numero.with_context(|| format!("{clave} is {valor:?}: write a whole number"))
    }

    /// Rejects unknown keys of this service, because a misspelt key would have no effect. Keys of others, such as Spring's,
    /// are ignored.
    fn nada_mas(&self) -> Result<()> {
        let propia =
            |clave: &&String| clave.starts_with("lock.") || clave.starts_with("application.");
        match self.0.keys().find(propia) {
            Some(clave) => bail!("{clave} is no key that is known here"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Configuración": each key of the document and its meaning.
    #[test]
    fn the_documents_keys() {
        let configuracion = Configuracion::leer(None).unwrap();
        let documento = Configuracion {
            lock_timeout: Duration::from_secs(30),
            lock_retry_max: 3,
            lock_retry_delay: Duration::from_millis(500),
            lock_cleanup: Some(Duration::from_secs(300)),
            service_name: "CERT_AFORE".to_owned(),
            user_default: "SYSTEM".to_owned(),
        };
        assert_eq!(configuracion, documento);
        let sin = DOCUMENTO.replace("enabled=true", "enabled=false");
        assert_eq!(Configuracion::de_texto(&sin).unwrap().lock_cleanup, None);
    }

    /// Each key of the document is read: another value is another setting. README.md has a row for each.
    #[test]
    fn every_key_is_read_and_documented() {
        let claves = [
            ("lock.timeout.seconds", "31"),
            ("lock.retry.max", "4"),
            ("lock.retry.delay.ms", "501"),
            ("lock.cleanup.enabled", "false"),
            ("lock.cleanup.interval.seconds", "301"),
            ("application.service.name", "OTRO"),
            ("application.user.default", "OTRO"),
            (
                "spring.jpa.properties.hibernate.isolation",
                "READ_COMMITTED",
            ),
        ];
        let del_documento = Claves::leer(DOCUMENTO).unwrap().0;
        assert_eq!(del_documento.len(), claves.len());
        for (clave, otro) in claves {
            let valor = &del_documento[clave];
            let cambiado =
                DOCUMENTO.replace(&format!("{clave}={valor}"), &format!("{clave}={otro}"));
            assert_ne!(cambiado, DOCUMENTO);
            let tiene_efecto =
                Configuracion::de_texto(&cambiado).unwrap() != Configuracion::leer(None).unwrap();
            assert_eq!(tiene_efecto, !clave.starts_with("spring."), "{clave}");
            let fila = format!("\n| `{clave}` | `{valor}` |");
            assert!(include_str!("../README.md").contains(&fila), "{clave}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (era, es, dicho) in [
            ("seconds=30", "seconds=soon", "lock.timeout.seconds"),
            ("lock.retry.max=3", "", "lock.retry.max is missing"),
            ("lock.retry.max=3", "lock.retry.max=0", "above zero"),
            ("enabled=true", "enabled=si", "write true or false"),
            (
                "# Nombre",
                "lock.timout.seconds=5\n#",
                "lock.timout.seconds",
            ),
            ("# Nombre", "nothing\n#", "line 12"),
        ] {
            let error = Configuracion::de_texto(&DOCUMENTO.replacen(era, es, 1)).unwrap_err();
            assert!(format!("{error:#}").contains(dicho), "{error:#}");
        }
    }
}
