//! Actions of keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use turno::TEXT_BYTES;

use super::{Cursor, Mode, Step, Subject, Tab, Tone, View};

/// Number of rows of a page.
const PAGE: isize = 10;

impl View {
    pub(in crate::cmd::top) fn key(&mut self, key: KeyEvent) -> Step {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            return Step::Quit;
        }
        match std::mem::replace(&mut self.mode, Mode::Browsing) {
            Mode::Browsing if !has_control => return self.command(key.code),
            // Any key closes the help.
            Mode::Browsing | Mode::Helping => {}
            Mode::Filtering => match key.code {
                KeyCode::Enter => {}
                KeyCode::Esc => self.filter.clear(),
                _ => {
                    edit(&mut self.filter, key);
                    self.mode = Mode::Filtering;
                }
            },
            Mode::Asking(action, mut typed) => match key.code {
                KeyCode::Esc => self.note = Some(("nothing was done".to_owned(), Tone::Faint)),
                KeyCode::Enter if action.accepts(typed.trim()) => match action.next(typed.trim()) {
                    Some(next) => self.mode = Mode::Asking(next, String::new()),
                    None => return Step::Do(action, typed.trim().to_owned()),
                },
                _ => {
                    edit(&mut typed, key);
                    self.mode = Mode::Asking(action, typed);
                }
            },
        }
        Step::Stay
    }

    fn command(&mut self, key: KeyCode) -> Step {
        self.note = None;
        match key {
            KeyCode::Char('q') => return Step::Quit,
            KeyCode::Char('?') => self.mode = Mode::Helping,
            KeyCode::Char('/') => self.mode = Mode::Filtering,
            KeyCode::Char(digit @ '1'..='5') => {
                self.switch(Tab::ALL[digit as usize - '1' as usize]);
            }
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(Tab::ALL.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(PAGE),
            KeyCode::PageUp => self.select(-PAGE),
            KeyCode::Home | KeyCode::Char('g') => self.select(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.select(isize::MAX),
            KeyCode::Enter => self.open(),
            // Escape first clears the filter, then closes the list.
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc => self.close(),
            KeyCode::Char(letter @ ('b' | 'r' | 'd' | 's' | 'f' | 'c')) => self.ask(letter),
            _ => {}
        }
        Step::Stay
    }

    fn switch(&mut self, tab: Tab) {
        if self.tab != tab {
            self.tab = tab;
            self.opened = None;
            self.cursor = Cursor::default();
        }
    }

    fn turn(&mut self, by: usize) {
        self.switch(Tab::ALL[(self.tab as usize + by) % Tab::ALL.len()]);
    }

    fn select(&mut self, by: isize) {
        let Some(list) = self.list() else { return };
        self.settle(&list);
        let last = list.rows.len().saturating_sub(1);
        self.cursor.index = self.cursor.index.saturating_add_signed(by).min(last);
        let row = list.rows.get(self.cursor.index);
        self.cursor.subject = row.map(|row| row.subject.clone());
    }

    /// Lists the failed items of the selected queue.
    fn open(&mut self) {
        let Some(list) = self.list() else { return };
        self.settle(&list);
        if let Some(Subject::Queue(queue)) = &self.cursor.subject {
            self.opened = Some(queue.clone());
            self.cursor = Cursor::default();
        }
    }

    fn close(&mut self) {
        if let Some(queue) = self.opened.take() {
            self.cursor = Cursor {
                subject: Some(Subject::Queue(queue)),
                ..Cursor::default()
            };
        }
    }

    /// Asks for a reason or an answer, if the selected row has this action.
    fn ask(&mut self, letter: char) {
        let Some(list) = self.list() else { return };
        self.settle(&list);
        let row = list.rows.into_iter().nth(self.cursor.index);
        let actions = row.map(|row| row.actions).unwrap_or_default();
        match actions.into_iter().find(|action| action.key() == letter) {
            Some(action) => self.mode = Mode::Asking(action, String::new()),
            None => {
                let what = match letter {
                    'b' => "be broken, only locks",
                    'r' => "be requeued, only failed items and dead events",
                    'd' => "be discarded, only failed items and dead events",
                    's' => "be reset, only queues with items in processing",
                    'c' => "be resolved, only unknown once keys",
                    _ => "be forgotten, only unknown once keys",
                };
                self.note = Some((format!("the selected row cannot {what}"), Tone::Warn));
            }
        }
    }
}

/// Edits a line of text.
fn edit(text: &mut String, key: KeyEvent) {
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('u') if has_control => text.clear(),
        KeyCode::Char(letter) if !has_control && !letter.is_control() => {
            text.push(letter);
            // At most the length that the history stores.
            text.truncate(text.floor_char_boundary(TEXT_BYTES));
        }
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}
