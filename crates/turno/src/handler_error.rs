//! Errors of handlers, as text with all causes.

use std::error::Error;

/// The error of a handler. Every type that implements [`std::error::Error`] converts into it, and so do strings and
/// `anyhow::Error`.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// Returns the error's text, followed by its causes. A cause whose text is already there is left out.
pub(crate) fn text_with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the mail was not sent")]
    struct Outer(#[source] std::num::ParseIntError);

    #[derive(Debug, thiserror::Error)]
    #[error("repeated: {0}")]
    struct Repeats(#[source] std::num::ParseIntError);

    #[test]
    fn causes_are_kept_and_not_repeated() {
        let parse = || "x".parse::<u8>().unwrap_err();
        assert_eq!(
            text_with_causes(&Outer(parse())),
            "the mail was not sent: invalid digit found in string"
        );
        assert_eq!(
            text_with_causes(&Repeats(parse())),
            "repeated: invalid digit found in string"
        );
        let text: HandlerError = "plain".into();
        assert_eq!(text_with_causes(&*text), "plain");
    }
}
