//! What a name may be, told before the library would: where a line of a file can still be named with it.

/// Refuses what the library would refuse as a name.
pub(crate) fn check(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > turno::NAME_BYTES || name.chars().any(char::is_control) {
        return Err(format!(
            "must have 1 to {} bytes, and no control characters",
            turno::NAME_BYTES
        ));
    }
    Ok(())
}
