//! Dialogs, messages and help.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line as TextLine, Span, Text};
use ratatui::widgets::{Block, BorderType, Clear, Padding, Paragraph, Wrap};

use super::lines::{broken, fit, width};
use crate::cmd::top::action::Action;
use crate::cmd::top::screen::{Ink, Tone};
use crate::cmd::top::view::{Mode, View};

const HELP: [(&str, &str); 12] = [
    ("1 – 5, Tab, ← →", "switch between the tabs"),
    ("↑ ↓ or k j, PgUp PgDn, g G", "select a row"),
    ("Enter", "list the failed items of a queue; Esc goes back"),
    ("/", "filter everything; Esc clears the filter"),
    ("b", "break a lock"),
    (
        "r",
        "requeue a failed item, all of a queue, or a dead event",
    ),
    ("d", "discard a failed item or a dead event"),
    ("f", "forget an unknown once key: its work was not done"),
    ("c", "resolve an unknown once key: its work was done"),
    ("s", "reset the stuck items of a queue"),
    ("?", "this help"),
    ("q", "quit"),
];

/// Draws the last message, the text that is being typed, or the keys.
pub(super) fn footer(frame: &mut Frame<'_>, area: Rect, view: &View, actions: &[Action], ink: Ink) {
    let room = usize::from(area.width).saturating_sub(1);
    if view.mode == Mode::Filtering {
        // Shows the end of the text, where the cursor is.
        let text = tail(&view.filter, room.saturating_sub(2));
        let line = TextLine::from(vec![
            Span::styled(" /", ink.style(Tone::Title)),
            Span::raw(text.clone()),
        ]);
        frame.render_widget(line, area);
        cursor(frame, area.x + 2, area.y, &text);
        return;
    }
    if let Some((text, tone)) = &view.note {
        let text = format!(" {}", fit(text, room));
        frame.render_widget(TextLine::styled(text, ink.style(*tone)), area);
        return;
    }
    let opens = view
        .is_openable()
        .then(|| ("Enter".to_owned(), "failed items"));
    let actions = actions
        .iter()
        .map(|action| (action.key().to_string(), action.verb()));
    let actions = opens.into_iter().chain(actions);
    let always = [("/", "filter"), ("?", "help"), ("q", "quit")];
    let always = always.map(|(key, word)| (key.to_owned(), word));
    let mut line = TextLine::raw("");
    for (key, word) in actions.chain(always) {
        if line.width() + width(&key) + width(word) + 3 > room {
            break;
        }
        line.push_span(Span::styled(format!(" {key} "), ink.style(Tone::Title)));
        line.push_span(Span::styled(format!("{word} "), ink.style(Tone::Faint)));
    }
    frame.render_widget(line, area);
}

/// Draws the dialog for a reason or an answer. It is at the bottom, so that the selected row stays visible.
pub(super) fn ask(frame: &mut Frame<'_>, action: &Action, reason: &str, ink: Ink) {
    let all = frame.area();
    let room = usize::from(all.width).saturating_sub(4).max(1);
    let meaning = broken(&action.meaning(), room);
    let label = action.label();
    let typed = tail(reason, room.saturating_sub(width(label) + 1));
    let mut lines: Vec<TextLine<'_>> = meaning.into_iter().map(TextLine::raw).collect();
    lines.push(TextLine::from(vec![
        Span::styled(label, ink.style(Tone::Title)),
        Span::raw(typed.clone()),
    ]));
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let height = height.min(all.height);
    let area = Rect::new(all.x, all.bottom() - height, all.width, height);
    let keys = format!(" Enter: {} · Esc: cancel ", action.verb());
    let block =
        boxed(action.title(), Tone::Warn, ink).title_bottom(TextLine::raw(keys).right_aligned());
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(Text::from(lines)).block(block), area);
    if inner.height > 0 {
        let x = inner.x + u16::try_from(width(label)).unwrap_or_default();
        cursor(frame, x, inner.bottom() - 1, &typed);
    }
}

pub(super) fn help(frame: &mut Frame<'_>, ink: Ink) {
    let all = frame.area();
    let wide = HELP
        .iter()
        .map(|(keys, _)| width(keys))
        .max()
        .unwrap_or_default();
    let lines = HELP.map(|(keys, does)| {
        let gap = " ".repeat(wide - width(keys) + 2);
        TextLine::from(vec![
            Span::styled(keys, ink.style(Tone::Title)),
            Span::raw(gap),
            Span::raw(does),
        ])
    });
    let mut text = Text::from_iter(lines);
    text.push_line(TextLine::default());
    text.push_line("Every action requires a reason, which is stored in the history.");
    let width = all.width.min(90);
    // Wide text is wrapped.
    let height = all.height.min(if width < 90 { 26 } else { 16 });
    let area = Rect::new(
        all.x + (all.width - width) / 2,
        all.y + (all.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, area);
    let text =
        Paragraph::new(text)
            .wrap(Wrap { trim: false })
            .block(boxed("Keys", Tone::Title, ink));
    frame.render_widget(text, area);
}

fn boxed(title: &str, tone: Tone, ink: Ink) -> Block<'static> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(ink.style(Tone::Faint))
        .padding(Padding::horizontal(1))
        .title(Span::styled(format!(" {title} "), ink.style(tone)))
}

/// Returns the end of a text that fits a width.
fn tail(text: &str, room: usize) -> String {
    let mut from = text.char_indices().map(|(start, _)| start);
    let start = from.find(|start| width(&text[*start..]) <= room);
    start.map_or_else(String::new, |start| text[start..].to_owned())
}

fn cursor(frame: &mut Frame<'_>, x: u16, y: u16, typed: &str) {
    let after = u16::try_from(width(typed)).unwrap_or_default();
    frame.set_cursor_position(Position::new(x.saturating_add(after), y));
}
