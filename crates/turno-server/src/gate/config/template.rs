//! Custom responses of a route: `templates`, and `template` of `in_flight`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use http::header::CONTENT_TYPE;
use serde::Deserialize;
use toml::Spanned;
use turno::once::http::{Policy, Refusal, Template};

use super::value::{AnswerHeader, HeaderText};

/// Name of the template for refusals without a template of their own.
const DEFAULT: &str = "default";
/// Content type of a template that has none.
const JSON: &str = "application/json";

/// The place of an error in the file, and its message.
pub(super) type PlacedError = (Range<usize>, String);

/// The templates of a route, by refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Templates(BTreeMap<Kind, Answer>);

impl Templates {
    /// Returns whether a refusal has a template of its own.
    pub(super) fn has(&self, refusal: Refusal) -> bool {
        self.0.contains_key(&Kind(Some(refusal)))
    }

    /// Returns the place and the message of the first error.
    pub(super) fn error(&self) -> Option<PlacedError> {
        self.0.values().find_map(Answer::error)
    }

    /// Adds the templates to a policy.
    pub(super) fn add_to(&self, policy: Policy) -> Policy {
        let valid = self.0.iter().filter_map(|(kind, answer)| {
            let template = answer.template()?.clone();
            Some((kind.0, template))
        });
        valid.fold(policy, |policy, (refusal, template)| match refusal {
            Some(refusal) => policy.template(refusal, template),
            None => policy.default_template(template),
        })
    }

    /// Returns the names of the refusals, and their responses.
    pub(super) fn list(&self) -> impl Iterator<Item = (&str, &Answer)> {
        let templates = self.0.iter();
        templates.map(|(kind, answer)| (kind.0.map_or(DEFAULT, Refusal::as_str), answer))
    }
}

/// A key of `templates`: a refusal, or `None` for the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Kind(Option<Refusal>);

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name == DEFAULT {
            return Ok(Kind(None));
        }
        let refusal = name.parse().map(|refusal| Kind(Some(refusal)));
        refusal.map_err(|error: turno::Error| format!("{error}, or {DEFAULT} for all others"))
    }
}

/// A custom response.
#[derive(Debug, Deserialize)]
#[serde(try_from = "AnswerKeys")]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Content types of the variants, the first one first.
    pub(super) content_types: Vec<String>,
    /// An error is kept here with its place: serde would report it at the place of the whole table.
    template: Result<Template, PlacedError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerKeys {
    status: Spanned<u16>,
    #[serde(default)]
    headers: HashMap<AnswerHeader, HeaderText>,
    content_type: Option<Spanned<String>>,
    body: Spanned<String>,
    #[serde(default)]
    variants: Vec<VariantKeys>,
}

/// The same response in another content type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantKeys {
    content_type: Spanned<String>,
    body: Spanned<String>,
    /// Default: that of the template.
    status: Option<Spanned<u16>>,
}

impl Answer {
    /// Returns the template, if it is valid.
    pub(super) fn template(&self) -> Option<&Template> {
        self.template.as_ref().ok()
    }

    /// Returns the place and the message of an error.
    pub(super) fn error(&self) -> Option<PlacedError> {
        self.template.as_ref().err().cloned()
    }
}

impl TryFrom<AnswerKeys> for Answer {
    type Error = String;

    fn try_from(keys: AnswerKeys) -> Result<Self, String> {
        let mut headers: Vec<_> = keys.headers.into_iter().collect();
        headers.sort_by(|(a, _), (b, _)| a.0.as_str().cmp(b.0.as_str()));
        let of_headers = headers.iter().find(|(name, _)| name.0 == CONTENT_TYPE);
        if of_headers.is_some() && (keys.content_type.is_some() || !keys.variants.is_empty()) {
            return Err(
                "the content type is in headers, too: remove it there, and set content_type"
                    .to_owned(),
            );
        }
        let first = match (&keys.content_type, of_headers) {
            (Some(content_type), _) => content_type.get_ref().clone(),
            (None, Some((_, value))) => value.0.to_str().unwrap_or_default().to_owned(),
            (None, None) => JSON.to_owned(),
        };
        let mut content_types = vec![first];
        let mut template = template(&keys.status, keys.content_type.as_ref(), &keys.body);
        for variant in &keys.variants {
            let status = variant.status.as_ref().unwrap_or(&keys.status);
            let other = self::template(status, Some(&variant.content_type), &variant.body);
            content_types.push(variant.content_type.get_ref().clone());
            template = template.and_then(|template| Ok(template.variant(other?)));
        }
        for (name, value) in headers {
            template = template.map(|template| template.header(name.0, value.0));
        }
        Ok(Answer {
            status: keys.status.into_inner(),
            content_types,
            template,
        })
    }
}

/// Returns a template, or the error of one of its keys.
fn template(
    status: &Spanned<u16>,
    content_type: Option<&Spanned<String>>,
    body: &Spanned<String>,
) -> Result<Template, PlacedError> {
    let at = |span: Range<usize>| move |error: turno::Error| (span, error.to_string());
    // Each key is checked with values of the others that are valid, so that its error has its own place.
    let number = *status.get_ref();
    Template::with_type(number, "text/plain", "").map_err(at(status.span()))?;
    if let Some(media) = content_type {
        Template::with_type(200, media.get_ref(), "null").map_err(at(media.span()))?;
    }
    let media = content_type.map_or(JSON, |media| media.get_ref());
    Template::with_type(number, media, body.get_ref()).map_err(at(body.span()))
}
