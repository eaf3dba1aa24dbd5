//! Text format of sizes in bytes.

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Parses `65536`, `64KiB` or `1MiB`.
pub(crate) fn parse(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let unit = |suffix: &str| {
        let at = text.len().checked_sub(suffix.len())?;
        let (number, end) = text.split_at_checked(at)?;
        end.eq_ignore_ascii_case(suffix).then_some(number)
    };
    let (number, factor) = match (unit("KiB"), unit("MiB")) {
        (Some(number), _) => (number, KIB),
        (_, Some(number)) => (number, MIB),
        _ => (text, 1),
    };
    let number: Option<usize> = number.trim().parse().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "write a size as 65536, 64KiB or 1MiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_may_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1MiB", 1_048_576),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5MiB",
            "1 potato",
            "ñ",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
