//! The terminal: taken, drawn on, and given back as it was.

use std::io;

use ratatui::DefaultTerminal;
use ratatui::crossterm::style::force_color_output;
use ratatui::style::{Color, Modifier, Style};

use super::draw;
use super::view::View;

/// A terminal that is drawn on. Dropped, it is as before; so it is after a panic.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    ink: Ink,
}

impl Screen {
    pub(super) fn open(ink: Ink) -> io::Result<Self> {
        // Ours to decide: the library would look at NO_COLOR only.
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
        // A terminal that is gone needs nothing back.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// What is drawn with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Colour,
    Plain,
}

/// What something is to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Normal,
    /// Beside the point.
    Faint,
    /// A title, a key, a name of something.
    Title,
    /// As it should be.
    Good,
    /// Worth a look.
    Warn,
    /// A person has to look at it.
    Bad,
}

impl Ink {
    /// The sixteen colours that every terminal has, in the shades that its user chose.
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
