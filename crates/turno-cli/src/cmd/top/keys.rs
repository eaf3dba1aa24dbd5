//! What is typed.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;

/// How long the thread may sleep without asking whether anybody still listens.
const PATIENCE: Duration = Duration::from_millis(100);
/// How many keys may be typed ahead.
const AHEAD: usize = 64;

/// Something that happened at the terminal.
#[derive(Debug)]
pub(super) enum Input {
    Key(KeyEvent),
    Resized,
}

/// Reads the keyboard in a thread of its own, because reading it blocks. Dropped, the thread ends.
pub(super) struct Keys {
    input: mpsc::Receiver<io::Result<Input>>,
    thread: Option<JoinHandle<()>>,
}

impl Keys {
    pub(super) fn read() -> Self {
        let (sender, input) = mpsc::channel(AHEAD);
        let thread = thread::spawn(move || {
            while !sender.is_closed() {
                let Some(input) = next() else { continue };
                let is_broken = input.is_err();
                if sender.blocking_send(input).is_err() || is_broken {
                    return;
                }
            }
        });
        Keys {
            input,
            thread: Some(thread),
        }
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<Input> {
        let input = self.input.recv().await;
        input.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.input.close();
        if let Some(thread) = self.thread.take() {
            // A panic was told of already.
            let _ = thread.join();
        }
    }
}

fn next() -> Option<io::Result<Input>> {
    match event::poll(PATIENCE) {
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
