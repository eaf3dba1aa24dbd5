//! Early check of names, at a point where the error can still name the line of a file.

/// Rejects names that the library would reject.
pub(crate) fn check(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > turno::NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!(
            "must have 1 to {} bytes, and no control characters",
            turno::NAME_BYTES
        ));
    }
    Ok(())
}
