//! A terminal that a test writes to and reads from: a private tmux server.

use std::process::Command;

use turno_testkit::eventually;

use crate::common::{Fixture, LONG, TURNO};

/// A screen with `turno top` in a shell that prints its exit code. Everything is killed on drop.
pub struct Tmux<'a> {
    fixture: &'a Fixture,
}

impl<'a> Tmux<'a> {
    /// Starts `turno top` with these variables, on a screen of 120 columns and 30 rows.
    pub fn start(fixture: &'a Fixture, variables: &[(&str, &str)]) -> Self {
        let tmux = Tmux { fixture };
        // It shows a store, and does not create one.
        fixture.turno(&["migrate"]).expect(0);
        let script =
            format!("{TURNO} top & echo $! >pid; fg >/dev/null; echo ended $?; stty -a; exec cat");
        let script = format!("set -m; {script}");
        let mut command = tmux.command(&["-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", "120", "-y", "30", "sh", "-c", &script]);
        command.envs(variables.iter().copied());
        assert!(command.status().unwrap().success());
        tmux.await_text("live");
        tmux
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.fixture.program("tmux");
        command.arg("-u").arg("-S").arg(self.fixture.path("tmux"));
        command.env_remove("TMUX").args(words);
        command
    }

    pub fn tell(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses a key by its name, such as `Enter`.
    pub fn press(&self, key: &str) {
        self.tell(&["send-keys", key]);
    }

    /// Types a text, letter by letter.
    pub fn write(&self, text: &str) {
        self.tell(&["send-keys", "-l", text]);
    }

    pub fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    /// Waits until the screen contains a text.
    #[track_caller]
    pub fn await_text(&self, text: &str) -> String {
        self.await_screen(text, |screen| screen.contains(text))
    }

    #[track_caller]
    pub fn await_screen(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(LONG, what, || {
                last = self.screen();
                is_so(&last).then(|| last.clone())
            })
        }));
        seen.unwrap_or_else(|_| panic!("{what} is not to be seen in\n{last}"))
    }

    /// Waits until a row begins with these words, with any spaces between them.
    #[track_caller]
    pub fn await_row(&self, words: &[&str]) {
        self.await_screen(&words.join(" "), |screen| {
            let mut rows = screen.lines();
            rows.any(|row| {
                row.split_whitespace()
                    .take(words.len())
                    .eq(words.iter().copied())
            })
        });
    }

    /// Fills in a dialog, usually with a reason.
    #[track_caller]
    pub fn reason(&self, title: &str, reason: &str) {
        self.await_text(title);
        self.write(reason);
        self.await_text(&format!(": {reason}"));
        self.press("Enter");
    }

    /// Returns the process id of `turno top`.
    pub fn pid(&self) -> i32 {
        let text = std::fs::read_to_string(self.fixture.path("pid")).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // A server whose last session has ended does not exist any more.
        let _ = self.command(&["kill-server"]).output();
    }
}
