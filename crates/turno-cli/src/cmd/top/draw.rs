//! Layout of the screen: title, tabs, list, details of the selected row, and keys.

mod lines;
mod popup;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line as TextLine, Span, Text};
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};
use turno::MAX_PAGE;
use turno::once::OnceState;
use turno::overview::Overview;

use self::lines::{fit, joined};
use super::list::{List, Piece, Row};
use super::screen::{Ink, Tone};
use super::view::{Mode, Tab, View};
use crate::duration::Shown;

/// Minimum heights in lines for empty lines between the parts, and for the details.
const AIRY: u16 = 16;
const DETAILED: u16 = 20;

/// Draws the screen.
pub(super) fn frame(frame: &mut Frame<'_>, view: &mut View, ink: Ink) {
    let list = view.list();
    if let Some(list) = &list {
        view.settle(list);
    }
    let selected = list
        .as_ref()
        .and_then(|list| list.rows.get(view.cursor.index));
    let area = frame.area();
    let details = selected.map_or(0, |row| details_height(row, area));
    let [title, tabs, _, summary, body, below, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(u16::from(area.height >= AIRY)),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(details),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title_line(view, ink, title.width), title);
    frame.render_widget(tabs_line(view, ink, tabs.width), tabs);
    frame.render_widget(
        summary_line(view, list.as_ref(), ink, summary.width),
        summary,
    );
    let actions: Vec<_> = selected.map_or_else(Vec::new, |row| row.actions.clone());
    match &list {
        None => frame.render_widget(TextLine::styled(" polling…", ink.style(Tone::Faint)), body),
        Some(list) if list.rows.is_empty() => empty(frame, body, view, list, ink),
        Some(list) => {
            table::draw(frame.buffer_mut(), body, list, &mut view.cursor, ink);
            if let Some(row) = selected {
                below_line(frame, below, row, ink);
            }
        }
    }
    popup::footer(frame, footer, view, &actions, ink);
    match &view.mode {
        Mode::Asking(action, reason) => popup::ask(frame, action, reason, ink),
        Mode::Helping => popup::help(frame, ink),
        Mode::Browsing | Mode::Filtering => {}
    }
}

fn title_line(view: &View, ink: Ink, width: u16) -> TextLine<'static> {
    let state = match &view.poll_error {
        Some(_) => (format!("old: {} ", Shown(view.age())), Tone::Bad),
        None => ("live ".to_owned(), Tone::Good),
    };
    let name = fit(&view.store, usize::from(width).saturating_sub(21));
    let left = TextLine::from(vec![
        Span::styled(
            " turno top",
            ink.style(Tone::Title).add_modifier(Modifier::BOLD),
        ),
        Span::styled(format!("  {name}"), ink.style(Tone::Faint)),
    ]);
    let gap = usize::from(width).saturating_sub(left.width() + Span::raw(&state.0).width());
    let mut spans = left.spans;
    spans.push(Span::raw(" ".repeat(gap)));
    spans.push(Span::styled(state.0, ink.style(state.1)));
    TextLine::from(spans)
}

/// How much text the tabs have: as much as fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TabText {
    All,
    Alarms,
    Names,
    Keys,
}

/// Returns the tabs with their counts. Tabs that need attention are highlighted.
fn tabs_line(view: &View, ink: Ink, width: u16) -> TextLine<'static> {
    let lines =
        [TabText::All, TabText::Alarms, TabText::Names].map(|length| tabs_with(view, ink, length));
    let mut lines = lines.into_iter();
    let fits = lines.find(|line| line.width() <= width.into());
    fits.unwrap_or_else(|| tabs_with(view, ink, TabText::Keys))
}

fn tabs_with(view: &View, ink: Ink, length: TabText) -> TextLine<'static> {
    let mut line = TextLine::default();
    for (tab, key) in Tab::ALL.into_iter().zip(1..) {
        let (name, figure, alarm) = tab_texts(tab, view.overview());
        let (figure, alarm) = match length {
            TabText::All => (figure, alarm),
            TabText::Alarms => (None, alarm),
            TabText::Names | TabText::Keys => (None, None),
        };
        let is_open = tab == view.tab;
        let mut style = ink.style(Tone::Normal);
        if is_open {
            style = style.add_modifier(Modifier::REVERSED | Modifier::BOLD);
        }
        let title = match length {
            TabText::Keys if !is_open => key.to_string(),
            _ => format!("{key} {name}"),
        };
        line.push_span(Span::raw(match length {
            TabText::All if key > 1 => "   ",
            TabText::Alarms if key > 1 => "  ",
            _ => " ",
        }));
        line.push_span(Span::styled(title, style));
        let between = if figure.is_some() { " · " } else { " " };
        if let Some(figure) = figure {
            line.push_span(Span::styled(format!(" {figure}"), ink.style(Tone::Faint)));
        }
        if let Some(alarm) = alarm {
            line.push_span(Span::styled(between, ink.style(Tone::Faint)));
            line.push_span(Span::styled(alarm, ink.style(Tone::Bad)));
        }
    }
    line
}

/// Returns the name of a tab, its count, and what needs attention.
fn tab_texts(
    tab: Tab,
    overview: Option<&Overview>,
) -> (&'static str, Option<String>, Option<String>) {
    let name = match tab {
        Tab::Locks => "Locks",
        Tab::Queues => "Queues",
        Tab::Outbox => "Outbox",
        Tab::Once => "Once",
        Tab::History => "History",
    };
    let Some(overview) = overview else {
        return (name, None, None);
    };
    let wrong = |count: u64, word: &str| (count > 0).then(|| format!("{count} {word}"));
    let (figure, alarm) = match tab {
        Tab::Locks => {
            let is_full = overview.locks.len() >= MAX_PAGE as usize;
            let more = if is_full { "+" } else { "" };
            (Some(format!("{}{more}", overview.locks.len())), None)
        }
        Tab::Queues => {
            let pending: u64 = overview.queues.iter().map(|stats| stats.pending).sum();
            let failed = overview.queues.iter().map(|stats| stats.failed).sum();
            (Some(pending.to_string()), wrong(failed, "failed"))
        }
        Tab::Outbox => {
            let stats = overview.outbox.as_ref();
            let dead = stats.map_or(0, |stats| stats.dead + stats.blocked);
            (
                stats.map(|stats| stats.pending.to_string()),
                wrong(dead, "dead"),
            )
        }
        Tab::Once => {
            let unknown = overview.once.iter();
            let unknown = unknown.filter(|view| view.state == OnceState::Unknown);
            let unknown = unknown.count() as u64;
            let flying = overview.once.len() as u64 - unknown;
            (Some(flying.to_string()), wrong(unknown, "unknown"))
        }
        Tab::History => (None, None),
    };
    (name, figure, alarm)
}

fn summary_line(view: &View, list: Option<&List>, ink: Ink, width: u16) -> TextLine<'static> {
    if let Some(why) = &view.poll_error {
        let says = format!("The data shown is old: {why}");
        let says = fit(&says, usize::from(width).saturating_sub(2));
        return TextLine::styled(format!(" {says}"), ink.style(Tone::Bad));
    }
    let mut all: Vec<Piece> = list.map_or_else(Vec::new, |list| list.summary.clone());
    if !view.filter.is_empty() && view.mode != Mode::Filtering {
        all.insert(0, (format!("/{}", view.filter), Tone::Warn));
    }
    if let Some(command) = list.and_then(|list| list.beyond) {
        all.push((format!("more with {command}"), Tone::Warn));
    }
    joined(&all, ink, usize::from(width))
}

fn empty(frame: &mut Frame<'_>, area: Rect, view: &View, list: &List, ink: Ink) {
    let mut lines = vec![TextLine::default()];
    if view.filter.is_empty() {
        lines.push(TextLine::raw(format!(" {}", list.empty)));
        if !list.fill.is_empty() {
            lines.push(TextLine::default());
            lines.push(TextLine::styled(" Example:", ink.style(Tone::Faint)));
            lines.push(TextLine::styled(
                format!("   {}", list.fill),
                ink.style(Tone::Title),
            ));
        }
    } else {
        lines.push(TextLine::raw(format!(
            " Nothing here contains “{}”.",
            view.filter
        )));
    }
    let text = Paragraph::new(Text::from(lines)).wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}

/// Returns the height of the details: what they need, at most a third of the screen.
fn details_height(row: &Row, area: Rect) -> u16 {
    if area.height < DETAILED || row.details.is_empty() {
        return 0;
    }
    let lines = details_lines(row, usize::from(area.width)).len();
    let lines = u16::try_from(lines).unwrap_or(u16::MAX);
    // One more for the line above.
    lines.saturating_add(1).min(area.height / 3)
}

fn below_line(frame: &mut Frame<'_>, area: Rect, row: &Row, ink: Ink) {
    let block = Block::new()
        .borders(Borders::TOP)
        .border_style(ink.style(Tone::Faint));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let lines = details_lines(row, usize::from(area.width)).into_iter();
    let lines = lines.map(|pieces| lines::styled(&pieces, ink));
    frame.render_widget(Text::from_iter(lines), inner);
}

/// Lays out the details: short ones side by side, long ones on lines of their own.
fn details_lines(row: &Row, width: usize) -> Vec<Vec<Piece>> {
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    let mut used = width;
    for (name, value) in &row.details {
        let needs = lines::width(name) + lines::width(value) + 4;
        if used + needs > width {
            lines.push(Vec::new());
            used = 0;
        }
        let line = lines.last_mut();
        let line = line.expect("the first detail starts a line");
        line.push((format!(" {name} "), Tone::Title));
        let room = width.saturating_sub(lines::width(name) + 3);
        let mut rest = lines::broken(value, room.max(1)).into_iter();
        line.push((rest.next().unwrap_or_default() + "  ", Tone::Normal));
        used += needs;
        for more in rest {
            let indent = " ".repeat(lines::width(name) + 2);
            lines.push(vec![(indent + &more, Tone::Normal)]);
            used = width;
        }
    }
    lines
}
