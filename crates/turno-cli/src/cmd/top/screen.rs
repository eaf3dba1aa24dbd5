//! The terminal: initialized, drawn on, and restored.

use std::io;

use ratatui::DefaultTerminal;
use ratatui::crossterm::style::force_color_output;
use ratatui::style::{Color, Modifier, Style};

use super::draw;
use super::view::View;

/// A terminal in drawing mode. Dropping it restores the terminal, also after a panic.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    ink: Ink,
}

impl Screen {
    pub(super) fn open(ink: Ink) -> io::Result<Self> {
        // Decided here: the library would respect NO_COLOR only.
        force_color_output(ink == Ink::Colour);
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Screen { terminal, ink })
    }

    pub(super) fn draw(&mut self, view: &mut View) -> io::Result<()> {
        let ink = self.ink;
        self.terminal.draw(|frame| draw::frame(frame, view, ink))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone need not be restored.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Colour,
    Plain,
}

/// Meaning of a text, which determines its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Normal,
    /// Less important.
    Faint,
    /// A title, a key or a label.
    Title,
    /// Normal state.
    Good,
    /// Worth attention.
    Warn,
    /// An operator must look at it.
    Bad,
}

impl Ink {
    /// Returns the style. Uses the sixteen standard colours, whose shades the user has chosen.
    pub(super) fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        match (self, tone) {
            (_, Tone::Normal) => style,
            (_, Tone::Faint) => style.add_modifier(Modifier::DIM),
            (Ink::Colour, Tone::Title) => style.fg(Color::Cyan),
            (Ink::Colour, Tone::Good) => style.fg(Color::Green),
            (Ink::Colour, Tone::Warn) => style.fg(Color::Yellow),
            (Ink::Colour, Tone::Bad) => style.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Ink::Plain, Tone::Good | Tone::Title) => style,
            (Ink::Plain, Tone::Warn) => style.add_modifier(Modifier::BOLD),
            (Ink::Plain, Tone::Bad) => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }
}
