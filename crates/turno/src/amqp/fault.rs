//! Classification of the client library's errors: their cause and their message.

use lapin::{Error, ErrorKind};

/// Returns whether the broker closed a channel or a connection because of a message that was published on it.
///
/// 406 and 311 mean a message that the broker rejects, such as one larger than `max_message_size`. 501 to 505 mean
/// frames that it could not read. All other codes are about the broker or its configuration: 320 is an operator who closes
/// connections, 403 missing rights, 404 an exchange that does not exist any more.
pub(crate) fn blames_message(error: &Error) -> bool {
    matches!(code(error), Some(311 | 406 | 501..=505))
}

/// Returns whether the broker gave this error as a reason, in contrast to errors that only follow from another one.
pub(crate) fn is_reason(error: &Error) -> bool {
    code(error).is_some()
}

fn code(error: &Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// Returns a message for operators. The broker's own text never contains a password.
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
