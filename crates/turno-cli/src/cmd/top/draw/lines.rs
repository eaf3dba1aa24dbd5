//! Width, cutting and wrapping of text.

use ratatui::text::{Line as TextLine, Span};

use crate::cmd::top::list::Piece;
use crate::cmd::top::screen::{Ink, Tone};

/// Returns the width of a text in columns.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Cuts a text to a width, with a mark where it was cut.
pub(super) fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut cut = head(text, room.saturating_sub(1)).to_owned();
    if room > 0 {
        cut.push('…');
    }
    cut
}

/// Returns the beginning of a text that fits a width.
fn head(text: &str, room: usize) -> &str {
    let mut used = 0;
    let mut letters = text.char_indices();
    let end = letters.find(|(_, letter)| {
        used += width(letter.encode_utf8(&mut [0; 4]));
        used > room
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// Wraps a text to a width, between words where that is possible.
pub(super) fn broken(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let mut line = head(rest, room);
        // A character that is wider than the line is not shown, nor is the text after it.
        if line.len() == rest.len() || line.is_empty() {
            lines.push(line.to_owned());
            return lines;
        }
        if !rest[line.len()..].starts_with(' ') {
            let words = line.rfind(' ').filter(|end| *end > 0);
            line = words.map_or(line, |end| &line[..end]);
        }
        lines.push(line.to_owned());
        rest = rest[line.len()..].trim_start_matches(' ');
    }
}

pub(super) fn styled(pieces: &[Piece], ink: Ink) -> TextLine<'static> {
    let spans = pieces
        .iter()
        .map(|(text, tone)| Span::styled(text.clone(), ink.style(*tone)));
    TextLine::from_iter(spans)
}

/// Joins pieces on one line, as many as fit.
pub(super) fn joined(pieces: &[Piece], ink: Ink, room: usize) -> TextLine<'static> {
    let mut line = TextLine::raw(" ");
    for (text, tone) in pieces.iter().filter(|(text, _)| !text.is_empty()) {
        let between = if line.spans.len() > 1 { " · " } else { "" };
        if line.width() + width(between) + width(text) > room {
            break;
        }
        line.push_span(Span::styled(between, ink.style(Tone::Faint)));
        line.push_span(Span::styled(text.clone(), ink.style(*tone)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_letters() {
        assert_eq!(fit("ñandú", 5), "ñandú");
        assert_eq!(fit("ñandúes", 5), "ñand…");
        // These characters are two columns wide.
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("x", 0), "");
    }

    #[test]
    fn what_is_long_is_broken() {
        assert_eq!(broken("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(broken("one two three", 8), ["one two", "three"]);
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("a longword", 4), ["a", "long", "word"]);
        assert_eq!(broken("", 3), [""]);
        assert_eq!(broken("日", 1), [""]);
    }
}
