//! A busy lock, as text for people and as JSON for programs.

use std::fmt;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::duration::ms;
use crate::lock::Busy;

/// The languages of texts for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Español.
    Spanish,
}

impl Busy {
    /// Returns a text with the holder and the remaining time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use turno_api::lock::{Busy, Holder, Language};
    ///
    /// let busy = Busy {
    ///     resource: "PRESTAMO/123".into(),
    ///     holder: Some(Holder {
    ///         user: Some("1".into()),
    ///         service: None,
    ///         description: None,
    ///         acquired_at: jiff::Timestamp::UNIX_EPOCH,
    ///         expires_at: jiff::Timestamp::UNIX_EPOCH,
    ///     }),
    ///     remaining: Duration::from_secs(285),
    /// };
    /// assert_eq!(
    ///     busy.message(Language::Spanish),
    ///     "El recurso está bloqueado por otra operación. Tiempo restante: 285 segundos. Usuario: 1"
    /// );
    /// ```
    pub fn message(&self, language: Language) -> String {
        let seconds = whole_seconds(self.remaining);
        let user = self
            .holder
            .as_ref()
            .and_then(|holder| holder.user.as_deref());
        match (language, &self.holder) {
            (Language::English, None) => {
                "The resource is just changing hands, or others are in line for it.".into()
            }
            (Language::Spanish, None) => {
                "El recurso está cambiando de manos, o hay otros en espera.".into()
            }
            (Language::English, Some(_)) => {
                let by = user.map_or(String::new(), |user| format!(" User: {user}"));
                format!(
                    "The resource is locked by another operation. Time left: {seconds} seconds.{by}"
                )
            }
            (Language::Spanish, Some(_)) => {
                let by = user.map_or(String::new(), |user| format!(" Usuario: {user}"));
                format!(
                    "El recurso está bloqueado por otra operación. Tiempo restante: {seconds} segundos.{by}"
                )
            }
        }
    }
}

/// Rounded up: "0 seconds left" would be wrong while the lock is held.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.resource, self.message(Language::English))
    }
}

/// The JSON of every interface.
impl Serialize for Busy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Busy", 5)?;
        object.serialize_field("code", "busy")?;
        object.serialize_field("resource", &self.resource)?;
        object.serialize_field("detail", &self.message(Language::English))?;
        object.serialize_field("holder", &self.holder)?;
        object.serialize_field("retry_after_ms", &ms(self.remaining))?;
        object.end()
    }
}
