//! Table of rows under a header, fitted to the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as TextLine, Span};

use super::lines::{fit, width};
use crate::cmd::top::list::{Cell, Column, List, Side};
use crate::cmd::top::screen::{Ink, Tone};
use crate::cmd::top::view::Cursor;

/// Number of spaces between two columns.
const BETWEEN: usize = 2;
/// Maximum width of a column of short words.
const WIDEST: usize = 30;
/// Minimum width of a text column, if its content needs it.
const LEAST: usize = 6;

pub(super) fn draw(buffer: &mut Buffer, area: Rect, list: &List, cursor: &mut Cursor, ink: Ink) {
    let height = usize::from(area.height).saturating_sub(1);
    cursor.top = cursor.top.min(cursor.index);
    cursor.top = cursor.top.max((cursor.index + 1).saturating_sub(height));
    // A list that has become short is shown from its beginning.
    cursor.top = cursor.top.min(list.rows.len().saturating_sub(height));
    let shown = &list.rows[cursor.top..list.rows.len().min(cursor.top + height)];

    let columns = list.columns.iter().enumerate();
    let columns: Vec<(usize, &Column)> = columns
        .filter(|(_, column)| area.width >= column.from)
        .collect();
    let needs: Vec<usize> = columns
        .iter()
        .map(|(index, column)| {
            let cells = shown.iter().map(|row| wide(&row.cells[*index]));
            cells.chain([width(column.title)]).max().unwrap_or_default()
        })
        .collect();
    let widths = widths(&columns, &needs, usize::from(area.width).saturating_sub(2));

    let mut y = area.y;
    let mut write = |line: TextLine<'_>, style: Style| {
        if y < area.bottom() {
            buffer.set_line(area.x, y, &line, area.width);
            buffer.set_style(Rect::new(area.x, y, area.width, 1), style);
            y += 1;
        }
    };
    let titles = columns
        .iter()
        .map(|(_, column)| vec![(column.title.to_owned(), Tone::Title)]);
    let titles: Vec<Cell> = titles.collect();
    write(line(&columns, &widths, titles.iter(), ink), Style::new());
    for (index, row) in shown.iter().enumerate() {
        let cells = columns.iter().map(|(column, _)| &row.cells[*column]);
        if cursor.top + index == cursor.index {
            // Without its own colours, which would clash with the reversed style.
            let plain = line(&columns, &widths, cells, Ink::Plain);
            write(plain, Style::new().add_modifier(Modifier::REVERSED));
        } else {
            write(line(&columns, &widths, cells, ink), Style::new());
        }
    }
}

fn wide(cell: &Cell) -> usize {
    cell.iter().map(|(text, _)| width(text)).sum()
}

/// Returns the widths of the columns. Numbers and short words get what they need. Texts share the rest equally, and a text that
/// needs less leaves the difference to the others.
fn widths(columns: &[(usize, &Column)], needs: &[usize], room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = needs.iter().map(|need| (*need).min(WIDEST)).collect();
    let is_text = |index: &usize| columns[*index].1.side == Side::Text;
    let mut texts: Vec<usize> = (0..columns.len()).filter(is_text).collect();
    let spaces = BETWEEN * columns.len().saturating_sub(1);
    let others = (0..columns.len()).filter(|index| !is_text(index));
    let taken: usize = others.map(|index| widths[index]).sum();
    let mut rest = room.saturating_sub(spaces + taken);
    texts.sort_by_key(|index| needs[*index]);
    for (place, index) in texts.iter().enumerate() {
        let share = (rest / (texts.len() - place)).max(LEAST);
        widths[*index] = needs[*index].min(share);
        rest = rest.saturating_sub(widths[*index]);
    }
    widths
}

fn line<'a>(
    columns: &[(usize, &Column)],
    widths: &[usize],
    cells: impl Iterator<Item = &'a Cell>,
    ink: Ink,
) -> TextLine<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (((_, column), room), cell) in columns.iter().zip(widths).zip(cells) {
        let gap = room.saturating_sub(wide(cell));
        if column.side == Side::Right {
            spans.push(Span::raw(" ".repeat(gap)));
        }
        match cell.as_slice() {
            [(text, tone)] => spans.push(Span::styled(fit(text, *room), ink.style(*tone))),
            // A bar, which has a fixed width.
            pieces => spans.extend(
                pieces
                    .iter()
                    .map(|(text, tone)| Span::styled(text.clone(), ink.style(*tone))),
            ),
        }
        if column.side != Side::Right {
            spans.push(Span::raw(" ".repeat(gap)));
        }
        spans.push(Span::raw(" ".repeat(BETWEEN)));
    }
    TextLine::from(spans)
}
