//! Choice of a content type by the request's `Accept` header (RFC 9110, section 12.5.1).

use http::header::{ACCEPT, HeaderMap};

/// Weight of a media range in thousandths.
type Quality = u16;

/// A media type, or a media range, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MediaType {
    kind: String,
    subtype: String,
    parameters: Vec<(String, String)>,
}

impl MediaType {
    /// Parses a content type. Returns `None` if it is not one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = split(text, b';');
        let media = Self::essence(parts.next()?)?;
        let is_range = media.kind == "*" || media.subtype == "*";
        let parameters = parts.map(parameter).collect::<Option<_>>()?;
        (!is_range).then_some(MediaType {
            parameters,
            ..media
        })
    }

    fn essence(text: &str) -> Option<Self> {
        let (kind, subtype) = text.trim_ascii().split_once('/')?;
        (is_token(kind) && is_token(subtype)).then(|| MediaType {
            kind: kind.to_ascii_lowercase(),
            subtype: subtype.to_ascii_lowercase(),
            parameters: Vec::new(),
        })
    }

    /// Returns whether it is one of these types, or has this suffix (`+json`).
    pub(super) fn is_one_of(&self, types: &[&str], suffix: &str) -> bool {
        let essence = Some((self.kind.as_str(), self.subtype.as_str()));
        types.iter().any(|known| known.split_once('/') == essence)
            || (!suffix.is_empty() && self.subtype.ends_with(suffix))
    }

    /// Returns how specific this range is for a media type, or `None` if it does not include it.
    fn specificity(&self, media: &MediaType) -> Option<usize> {
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("*", "*") => Some(0),
            (kind, "*") if kind == media.kind => Some(1),
            (kind, subtype) if kind == media.kind && subtype == media.subtype => {
                let has = |wanted| media.parameters.contains(wanted);
                let is_included = self.parameters.iter().all(has);
                is_included.then_some(2 + self.parameters.len())
            }
            _ => None,
        }
    }
}

/// Returns the values of a request's `Accept` headers as one list.
pub(super) fn accepted(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// Returns the index of the content type that the client prefers; of equal ones, the first. If it accepts none, or says nothing,
/// that is the first: a response in another type is more use than none (RFC 9110 allows it).
///
/// A content type that is no media type is chosen only as the first.
pub(super) fn preferred<'a>(
    offered: impl IntoIterator<Item = Option<&'a MediaType>>,
    accept: &str,
) -> usize {
    let ranges: Vec<(MediaType, Quality)> = split(accept, b',').filter_map(range).collect();
    let mut best = (0, 0);
    for (index, media) in offered.into_iter().enumerate() {
        let quality = media.map_or(0, |media| quality(media, &ranges));
        if quality > best.1 {
            best = (index, quality);
        }
    }
    best.0
}

/// Returns the weight of a media type: that of the most specific range that includes it.
fn quality(media: &MediaType, ranges: &[(MediaType, Quality)]) -> Quality {
    let included = ranges.iter().filter_map(|(range, quality)| {
        let specificity = range.specificity(media)?;
        Some((specificity, *quality))
    });
    included.max().map_or(0, |(_, quality)| quality)
}

/// Parses one element of `Accept`. An element that is not valid is ignored.
fn range(text: &str) -> Option<(MediaType, Quality)> {
    let mut parts = split(text, b';');
    let mut range = MediaType::essence(parts.next()?)?;
    if range.kind == "*" && range.subtype != "*" {
        return None;
    }
    for part in parts {
        let (name, value) = parameter(part)?;
        if name == "q" {
            // What follows belongs to no media type.
            return Some((range, weight(&value)?));
        }
        range.parameters.push((name, value));
    }
    Some((range, 1000))
}

/// Parses a weight: `0`, `0.5`, `1`, with up to three decimals.
fn weight(text: &str) -> Option<Quality> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let thousandths: Quality = format!("{decimals:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// Parses `name=value` or `name="value"`, in lower case.
fn parameter(text: &str) -> Option<(String, String)> {
    let (name, value) = text.trim_ascii().split_once('=')?;
    let value = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted.strip_suffix('"')?),
        None if is_token(value) => value.to_owned(),
        None => return None,
    };
    is_token(name).then(|| (name.to_ascii_lowercase(), value.to_ascii_lowercase()))
}

fn unquoted(quoted: &str) -> String {
    let mut text = String::with_capacity(quoted.len());
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            letter => text.push(letter),
        }
    }
    text
}

fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

/// Splits a text at a separator outside of quotation marks.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = text.bytes().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = is_quoted,
                b'"' => is_quoted = !is_quoted,
                byte => return byte == separator && !is_quoted,
            }
            false
        });
        match end {
            Some(end) => {
                rest = Some(&text[end + 1..]);
                Some(&text[..end])
            }
            None => rest.take(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: [&str; 4] = [
        "application/json",
        "application/xml",
        "text/plain; charset=UTF-8",
        "text/html;level=1",
    ];

    fn chosen(accept: &str) -> &'static str {
        let offered = OFFERED.map(|text| MediaType::parse(text).unwrap());
        OFFERED[preferred(offered.iter().map(Some), accept)]
    }

    #[test]
    fn the_client_chooses_by_weight_and_then_the_order_of_the_template_counts() {
        let [json, xml, text, html] = OFFERED;
        for (accept, wanted) in [
            ("", json),
            ("*/*", json),
            ("application/*", json),
            ("application/xml", xml),
            ("APPLICATION/XML", xml),
            ("text/plain", text),
            ("text/plain;charset=utf-8", text),
            ("text/plain; charset=\"utf-8\"", text),
            ("text/*", text),
            ("text/html", html),
            ("application/json;q=0.5, application/xml", xml),
            ("application/json;q=0.5, application/xml;q=0.50", json),
            ("application/json;q=0.499,application/xml;q=0.5", xml),
            ("application/xml , application/json", json),
            ("*/*;q=0.1, text/*;q=0.2, application/xml;q=0.3", xml),
            // A more specific range counts more than a larger weight.
            ("application/json;q=0, */*", xml),
            ("application/json;q=0.1, application/*;q=0.9", xml),
            (
                "text/html;level=1;q=0.1, text/html;q=0.9, text/plain;q=0.5",
                text,
            ),
            ("text/html;level=2, text/plain;q=0.5", text),
            // A separator inside of quotation marks is no separator.
            (
                "text/plain;x=\",application/xml;q=1\", application/xml;q=0.1",
                xml,
            ),
            ("text/plain;x=\"\\\",\";q=1, application/xml;q=0.1", xml),
            // Extensions after the weight are ignored.
            ("application/xml;q=1;x=y, application/json;q=0.9", xml),
        ] {
            assert_eq!(chosen(accept), wanted, "{accept}");
        }
    }

    #[test]
    fn without_a_match_it_is_the_first() {
        for accept in [
            "image/png",
            "text/plain;charset=latin1",
            "*/*;q=0",
            "application/json;q=0",
            "*/xml",
            "xml",
            "application/xml;q=2",
            "application/xml;q=1.1",
            "application/xml;q=0.0001",
            "application/xml;q=-1",
            "application/xml;q=",
            "application/xml;x",
            "application/xml;x=\"",
            "application/ xml",
            "\"application/xml",
            ",,;;,",
        ] {
            assert_eq!(chosen(accept), OFFERED[0], "{accept}");
        }
    }

    #[test]
    fn several_headers_are_one_list() {
        let mut headers = HeaderMap::new();
        headers.append(ACCEPT, "text/plain;q=0.5".parse().unwrap());
        headers.append(ACCEPT, "application/xml".parse().unwrap());
        assert_eq!(chosen(&accepted(&headers)), OFFERED[1]);
    }

    #[test]
    fn a_content_type_is_no_range() {
        for text in ["", "text", "text/", "*/*", "text/*", "a/b;c", "a b/c"] {
            assert_eq!(MediaType::parse(text), None, "{text}");
        }
        let json = MediaType::parse("application/Problem+JSON").unwrap();
        assert!(json.is_one_of(&[], "+json"));
        assert!(!json.is_one_of(&["application/json"], ""));
    }
}
