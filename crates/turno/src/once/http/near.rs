//! Normalization of paths that a service may treat as equal to that of a route.

/// Returns a path as a lenient service reads it: in lower case, without duplicate slashes, a trailing slash, dot segments,
/// parameters of a segment (`;v=1`), and percent-encoding.
pub(super) fn plain(path: &str) -> String {
    let decoded = unescaped(path).to_lowercase();
    let mut segments = Vec::new();
    for segment in decoded.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

/// Replaces every `%XX` by its byte.
fn unescaped(path: &str) -> String {
    let mut rest = path.as_bytes();
    let mut plain = Vec::with_capacity(path.len());
    while let [byte, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                plain.push(escaped);
                rest = &after[2..];
            }
            None => {
                plain.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn what_a_service_may_take_for_the_same_is_the_same() {
        for near in [
            "/pay",
            "/pay/",
            "/PAY",
            "//pay",
            "/./pay",
            "/x/../pay",
            "/pay;v=1",
            "/%70ay",
            "/pay%2f",
            "/pay//",
        ] {
            assert_eq!(plain(near), "/pay", "{near}");
        }
        for other in ["/", "/paying", "/pay/1", "/pa%zzy", "/pay%", "/pay%7"] {
            assert_ne!(plain(other), "/pay", "{other}");
        }
        assert_eq!(plain("/V1/{Id}/{*Rest}"), "/v1/{id}/{*rest}");
    }
}
