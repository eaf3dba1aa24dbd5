//! Keyboard input.

use std::io;
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;

/// Interval in which the thread checks whether its receiver still exists.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum number of keys that are buffered.
const AHEAD: usize = 64;

/// An event of the terminal.
#[derive(Debug)]
pub(super) enum Input {
    Key(KeyEvent),
    Resized,
}

/// Reads the keyboard in a thread of its own, because reading blocks. The thread is not joined: if the terminal is gone, it
/// reads forever and ends with the program.
pub(super) struct Keys {
    input: mpsc::Receiver<io::Result<Input>>,
}

impl Keys {
    pub(super) fn read() -> Self {
        let (sender, input) = mpsc::channel(AHEAD);
        thread::spawn(move || {
            while !sender.is_closed() {
                let Some(input) = next() else { continue };
                let is_broken = input.is_err();
                if sender.blocking_send(input).is_err() || is_broken {
                    return;
                }
            }
        });
        Keys { input }
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Input> {
        let input = self.input.recv().await;
        input.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}

fn next() -> Option<io::Result<Input>> {
    match event::poll(TIMEOUT) {
        Ok(false) => return None,
        Ok(true) => {}
        Err(error) => return Some(Err(error)),
    }
    match event::read() {
        Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Some(Ok(Input::Key(key))),
        Ok(Event::Resize(..)) => Some(Ok(Input::Resized)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}
