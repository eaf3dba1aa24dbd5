//! A process of the demonstration, from the point of view of the director.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use rustix::process::getpid;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;

use super::set::{Cast, Set};
use super::worker;
use crate::cmd::exec;

/// A message of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message {
    /// It has reached this meeting, and waits.
    Here(u32),
    /// The others need not wait for it before its next meeting.
    Away,
    /// It has completed one operation.
    Done,
    /// It has ended, or was killed.
    Gone,
}

impl Message {
    fn from_line(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("here", meeting)) => meeting.parse().ok().map(Message::Here),
            None if line == "away" => Some(Message::Away),
            None if line == "done" => Some(Message::Done),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Actor {
    child: Child,
    cue: ChildStdin,
    /// The last meeting that it reached.
    meeting: Option<u32>,
    is_waiting: bool,
    is_away: bool,
    pub(super) is_gone: bool,
    pub(super) is_killed: bool,
}

impl Actor {
    /// Starts a process. Must be called from the main thread: the kernel kills the process when the thread that started it ends.
    pub(super) fn start(
        set: &Set,
        cast: &Cast,
        index: usize,
        said: &UnboundedSender<(usize, Message)>,
    ) -> Result<Self> {
        let program =
            std::env::current_exe().context("the path of the turno program is not known")?;
        let mut command = Command::new(&program);
        // Through `exec`, so that the process dies with this one, even if this one is killed.
        command
            .arg(exec::VERB)
            .arg(getpid().as_raw_nonzero().to_string())
            .arg(&program)
            .args([worker::VERB, set.scenario.name()])
            .args([set.how.word(), cast.role.word()])
            .arg(&set.folder)
            .args([&set.run, &index.to_string()])
            .env_remove(worker::STORE)
            .env_remove(worker::BROKER)
            .envs(set.store.iter().map(|store| (worker::STORE, store)))
            .envs(set.broker.iter().map(|broker| (worker::BROKER, broker)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is only for the director.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().context("a process could not be started")?;
        let cue = child
            .stdin
            .take()
            .context("the input of the process is not a pipe")?;
        let output = child
            .stdout
            .take()
            .context("the output of the process is not a pipe")?;
        tokio::spawn(listen(index, output, said.clone()));
        Ok(Actor {
            child,
            cue,
            meeting: None,
            is_waiting: false,
            is_away: false,
            is_gone: false,
            is_killed: false,
        })
    }

    /// Records a message.
    pub(super) fn note(&mut self, said: Message) {
        match said {
            Message::Here(meeting) => {
                self.meeting = Some(meeting);
                self.is_waiting = true;
                self.is_away = false;
            }
            Message::Away => self.is_away = true,
            Message::Done => {}
            Message::Gone => self.is_gone = true,
        }
    }

    /// Whether the others at this meeting have to wait for it.
    fn is_missed_at(&self, meeting: u32) -> bool {
        !self.is_gone && !self.is_away && self.meeting.is_none_or(|last| last < meeting)
    }

    /// Kills the process with -9, which it cannot handle.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.start_kill()?;
        self.is_killed = true;
        self.is_waiting = false;
        Ok(())
    }

    /// Ends the process in any state.
    pub(super) async fn end(mut self) {
        // It may have ended on its own.
        let _ = self.child.kill().await;
    }

    /// Returns an error if the process has failed and was not killed.
    pub(super) async fn check(mut self) -> Result<()> {
        let status = self.child.wait().await?;
        ensure!(
            self.is_killed || status.success(),
            "a process of the demonstration failed ({status}): see its message above"
        );
        Ok(())
    }
}

/// Forwards the messages of a process until it ends.
async fn listen(index: usize, output: ChildStdout, said: UnboundedSender<(usize, Message)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(word) = Message::from_line(&line) {
            // The receiver may have been dropped.
            let _ = said.send((index, word));
        }
    }
    let _ = said.send((index, Message::Gone));
}

/// Lets the processes continue whose meeting is complete. Returns whether there were any.
pub(super) async fn cue(actors: &mut [Actor]) -> bool {
    let ready = |meeting| !actors.iter().any(|actor| actor.is_missed_at(meeting));
    let goes = |actor: &Actor| actor.is_waiting && actor.meeting.is_some_and(ready);
    let going: Vec<bool> = actors.iter().map(goes).collect();
    for (actor, _) in actors.iter_mut().zip(&going).filter(|(_, goes)| **goes) {
        actor.is_waiting = false;
        // A process that has died meanwhile is reported as gone.
        let _ = actor.cue.write_all(b"go\n").await;
    }
    going.contains(&true)
}
