//! Conversion of a run's answer to its stored form and back.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::Turno;
use crate::error::{Error, Kind, Result};
use crate::store::OnceView;

/// Answer of another caller's run.
#[derive(Debug, Clone)]
pub struct Answer {
    text: Option<String>,
}

impl Answer {
    pub(super) fn of(turno: &Turno, key: &str, stored: Option<String>) -> Result<Self> {
        let text = stored
            .map(|stored| opened(turno, key, stored))
            .transpose()?;
        Ok(Answer { text })
    }

    /// Returns the JSON text, or `None` if the work is done and its answer was not stored.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the value, or `None` if the work is done and its answer was not stored.
    ///
    /// # Errors
    /// Returns an error if the answer does not have this type.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use turno::once::Begin;
    ///
    /// let turno = turno::Turno::connect("sqlite::memory:").await?;
    /// turno.once("pago/77").run(async || Ok::<_, turno::Error>(7)).await?;
    /// let Begin::Replay(answer) = turno.once("pago/77").begin().await? else { panic!("the work is done") };
    /// assert_eq!(answer.get::<u32>()?, Some(7));
    /// assert!(answer.get::<String>().unwrap_err().is_broken());
    /// # Ok(()) }
    /// ```
    pub fn get<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(text) = &self.text else {
            return Ok(None);
        };
        serde_json::from_str(text).map(Some).map_err(|error| {
            Error::caused(
                Kind::Broken,
                format!(
                    "the stored answer is of another kind ({error}): use another key for another question"
                ),
                error,
            )
        })
    }
}

/// Serializes a value to JSON text.
pub(super) fn text_of<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::caused(
            Kind::invalid("answer"),
            format!("answer cannot be written as JSON ({error})"),
            error,
        )
    })
}

/// Returns JSON text as it is stored: validated, and encrypted if the settings have keys.
pub(super) fn stored(turno: &Turno, key: &str, answer: Option<&str>) -> Result<Option<String>> {
    let Some(text) = answer else {
        return Ok(None);
    };
    let largest = turno.settings().max_payload;
    if text.len() > largest {
        return Err(Error::invalid(
            "answer",
            format!(
                "answer has {} bytes, and {largest} is the most: complete without it, or raise max_payload",
                text.len()
            ),
        ));
    }
    serde_json::from_str::<&RawValue>(text).map_err(|error| {
        Error::caused(
            Kind::invalid("answer"),
            format!("answer is not JSON ({error}): give JSON text"),
            error,
        )
    })?;
    match &turno.settings().answer_keys {
        Some(keys) => keys.seal(key, text).map(Some),
        None => Ok(Some(text.to_owned())),
    }
}

fn opened(turno: &Turno, key: &str, stored: String) -> Result<String> {
    match &turno.settings().answer_keys {
        Some(keys) => keys.open(key, stored),
        None => super::seal::refuse_sealed(stored),
    }
}

/// Returns the view with its answer decrypted.
pub(super) fn shown(turno: &Turno, mut view: OnceView) -> Result<OnceView> {
    view.answer = match view.answer.take() {
        Some(answer) => Some(opened(turno, &view.key, answer.into())?.into()),
        None => None,
    };
    Ok(view)
}
