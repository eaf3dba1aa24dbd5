//! What an error of the client means: who is to blame, and what to say.

use lapin::{Error, ErrorKind};

/// Whether the broker closed a channel or a connection because of what was published on it.
///
/// 406 and 311 are a message that it will not take (one that is larger than `max_message_size`, say), 501 to 505 are
/// frames that it could not read. All else is about the broker or its configuration: 320 is an operator who closes
/// connections, 403 missing rights, 404 an exchange that has gone.
pub(crate) fn blames_message(error: &Error) -> bool {
    matches!(code(error), Some(311 | 406 | 501..=505))
}

/// The broker said why, as opposed to errors that only follow from that.
pub(crate) fn is_reason(error: &Error) -> bool {
    code(error).is_some()
}

fn code(error: &Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// What happened, in words for people. The broker's own words never have a password in them.
pub(crate) fn explain(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => {
            let said = error.get_message().as_str().trim();
            match said.is_empty() {
                true => format!("the broker answered {}", error.get_id()),
                false => format!("the broker answered {} {said}", error.get_id()),
            }
        }
        ErrorKind::IOError(error) => error.to_string(),
        ErrorKind::MissingHeartbeatError => "the broker has been silent for too long".to_owned(),
        ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) => {
            "the connection is closed".to_owned()
        }
        _ => error.to_string(),
    }
}
