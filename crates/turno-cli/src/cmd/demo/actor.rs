//! One of the processes, as the stage sees it.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use rustix::process::getpid;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;

use super::set::{Cast, Set};
use super::worker;
use crate::cmd::exec;

/// What a process says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// It is at this meeting, and waits.
    Here(u32),
    /// Nobody need wait for it before its next meeting.
    Away,
    /// It has done one operation.
    Done,
    /// It has ended, or was killed.
    Gone,
}

impl Said {
    fn from_line(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("here", meeting)) => meeting.parse().ok().map(Said::Here),
            None if line == "away" => Some(Said::Away),
            None if line == "done" => Some(Said::Done),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Actor {
    child: Child,
    cue: ChildStdin,
    /// The last meeting that it came to.
    meeting: Option<u32>,
    is_waiting: bool,
    is_away: bool,
    pub(super) is_gone: bool,
    pub(super) is_killed: bool,
}

impl Actor {
    /// Must be called from the main thread: when the thread that started it ends, the kernel kills the process.
    pub(super) fn start(
        set: &Set,
        cast: &Cast,
        index: usize,
        said: &UnboundedSender<(usize, Said)>,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("the path of turno itself is not known")?;
        let mut command = Command::new(&program);
        // By way of `exec`: however suddenly this process dies, its processes die with it.
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
            // Ctrl-C is for the one who directs.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().context("a process could not be started")?;
        let cue = child.stdin.take().context("its input is a pipe")?;
        let output = child.stdout.take().context("its output is a pipe")?;
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

    /// Remembers what it has said.
    pub(super) fn note(&mut self, said: Said) {
        match said {
            Said::Here(meeting) => {
                self.meeting = Some(meeting);
                self.is_waiting = true;
                self.is_away = false;
            }
            Said::Away => self.is_away = true,
            Said::Done => {}
            Said::Gone => self.is_gone = true,
        }
    }

    /// Whether somebody at this meeting has to wait for it.
    fn is_missed_at(&self, meeting: u32) -> bool {
        !self.is_gone && !self.is_away && self.meeting.is_none_or(|last| last < meeting)
    }

    /// With -9: it can do nothing about it, and nothing after it.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.start_kill()?;
        self.is_killed = true;
        self.is_waiting = false;
        Ok(())
    }

    /// Ends it, whatever it does.
    pub(super) async fn end(mut self) {
        // It may have ended by itself.
        let _ = self.child.kill().await;
    }

    /// Fails if it has failed, and was not killed.
    pub(super) async fn check(mut self) -> Result<()> {
        let status = self.child.wait().await?;
        ensure!(
            self.is_killed || status.success(),
            "a process of the demonstration failed ({status}): its message is above"
        );
        Ok(())
    }
}

/// Hands on what a process says, until it has ended.
async fn listen(index: usize, output: ChildStdout, said: UnboundedSender<(usize, Said)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(word) = Said::from_line(&line) {
            // Whoever listened may have been stopped.
            let _ = said.send((index, word));
        }
    }
    let _ = said.send((index, Said::Gone));
}

/// Lets those go on who have met all that they wait for. Answers whether there were any.
pub(super) async fn cue(actors: &mut [Actor]) -> bool {
    let ready = |meeting| !actors.iter().any(|actor| actor.is_missed_at(meeting));
    let goes = |actor: &Actor| actor.is_waiting && actor.meeting.is_some_and(ready);
    let going: Vec<bool> = actors.iter().map(goes).collect();
    for (actor, _) in actors.iter_mut().zip(&going).filter(|(_, goes)| **goes) {
        actor.is_waiting = false;
        // One that has died meanwhile is heard of in another way.
        let _ = actor.cue.write_all(b"go\n").await;
    }
    going.contains(&true)
}
