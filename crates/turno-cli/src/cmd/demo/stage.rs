//! Where a run is played: starts the processes, lets them meet, kills some, and counts what came of it.
//!
//! Races are made certain here and not left to luck: whoever has read, selected or begun something waits until all
//! others have too, or have been told by Turno that it is not their turn. The processes do the same with Turno and
//! without, apart from Turno's calls.

use std::fmt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::ProgressBar;
use rustix::process::{Signal, getpid};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{self, UnboundedSender};
use turno::Turno;

use super::figures::Run;
use super::set::{Cast, Set};
use super::worker;
use crate::cmd::exec;
use crate::output::Output;
use crate::progress;
use crate::signals::{ENDING, Signals};

/// Somebody ended the demonstration before it was over.
#[derive(Debug)]
pub(super) struct Stopped(pub(super) Signal);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// What a process says.
#[derive(Debug)]
enum Said {
    Here(u32),
    Away,
    Done,
    Gone,
}

/// One process, as the stage sees it.
#[derive(Debug)]
struct Actor {
    child: Child,
    cue: ChildStdin,
    /// The last meeting that it came to.
    meeting: Option<u32>,
    is_waiting: bool,
    is_away: bool,
    is_gone: bool,
    is_killed: bool,
}

impl Actor {
    /// Whether somebody at this meeting has to wait for it.
    fn is_missed_at(&self, meeting: u32) -> bool {
        !self.is_gone && !self.is_away && self.meeting.is_none_or(|last| last < meeting)
    }
}

/// Where all runs are played.
#[derive(Debug)]
pub(super) struct Stage {
    output: Output,
    signals: Signals,
}

impl Stage {
    /// From here on the signals that end commands are heard, and end the processes too.
    pub(super) fn new(output: Output) -> Result<Self> {
        let signals = Signals::listen(&ENDING)?;
        Ok(Stage { output, signals })
    }

    /// Prepares one run, plays it, and counts.
    pub(super) async fn play(&mut self, set: &Set, turno: &Turno) -> Result<Run> {
        std::fs::create_dir(&set.folder).context("a folder for the scenario is needed")?;
        self.heed(set.scenario.prepare(set, turno)).await?;
        let casts = set.scenario.casts(set.how);
        let mut run = Running {
            set,
            bar: progress::bar(self.output, set.scenario.operations().into()),
            done: 0,
            took: Duration::ZERO,
        };
        run.tell();
        for cast in &casts {
            run.play(cast, &mut self.signals).await?;
        }
        run.bar.finish_and_clear();
        Ok(Run {
            how: set.how,
            processes: casts.iter().map(|cast| cast.processes).sum(),
            killed: casts.iter().map(|cast| cast.kills.len()).sum(),
            took: run.took,
            count: self.heed(set.scenario.count(set)).await?,
        })
    }

    /// Does something, unless a signal ends it.
    async fn heed<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            signal = self.signals.next() => Err(Stopped(signal).into()),
        }
    }
}

/// One run, while it lasts.
struct Running<'a> {
    set: &'a Set,
    bar: ProgressBar,
    done: u32,
    took: Duration,
}

impl Running<'_> {
    async fn play(&mut self, cast: &Cast, signals: &mut Signals) -> Result<()> {
        let (said, mut hears) = mpsc::unbounded_channel();
        let mut actors = (0..cast.processes)
            .map(|index| start(self.set, cast, index, &said))
            .collect::<Result<Vec<_>>>()?;
        // Started, and not yet together: what it takes to start processes is nobody's affair.
        let mut began = None;
        while actors.iter().any(|actor| !actor.is_gone) {
            let (index, word) = tokio::select! {
                heard = hears.recv() => heard.context("nobody says anything any more")?,
                signal = signals.next() => {
                    end(actors).await;
                    return Err(Stopped(signal).into());
                }
            };
            if matches!(word, Said::Done) {
                self.done += 1;
                self.tell();
            }
            note(&mut actors[index], &word);
            if let Said::Here(meeting) = word
                && cast.kills.contains(&(index, meeting))
            {
                kill(&mut actors[index])?;
            }
            if cue(&mut actors).await {
                began.get_or_insert_with(Instant::now);
            }
        }
        self.took += began.map_or(Duration::ZERO, |began| began.elapsed());
        for mut actor in actors {
            let status = actor.child.wait().await?;
            ensure!(
                actor.is_killed || status.success(),
                "a process of the demonstration failed ({status}): its message is above"
            );
        }
        Ok(())
    }

    /// How far it is, for whoever watches.
    fn tell(&self) {
        if self.bar.is_hidden() {
            return;
        }
        let Set { scenario, how, .. } = self.set;
        let damage = scenario.damage(self.set, self.done).unwrap_or_default();
        self.bar.set_position(self.done.into());
        self.bar.set_message(format!(
            "{} {}: {} done{damage}",
            scenario.name(),
            scenario.label(*how),
            self.done,
        ));
    }
}

fn start(
    set: &Set,
    cast: &Cast,
    index: usize,
    said: &UnboundedSender<(usize, Said)>,
) -> Result<Actor> {
    let program = std::env::current_exe().context("the path of turno itself is not known")?;
    let mut command = Command::new(&program);
    // By way of `exec`: however suddenly this process dies, its processes die with it.
    command
        .arg(exec::VERB)
        .arg(getpid().as_raw_nonzero().to_string())
        .arg(&program)
        .args([
            worker::VERB,
            set.scenario.name(),
            set.how.word(),
            cast.role.word(),
        ])
        .arg(&set.folder)
        .args([&set.run, &index.to_string()])
        .env_remove(worker::STORE)
        .env_remove(worker::BROKER)
        .envs(set.store.iter().map(|store| (worker::STORE, store)))
        .envs(set.broker.iter().map(|broker| (worker::BROKER, broker)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
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

/// Hands on what a process says, until it has ended.
async fn listen(index: usize, output: ChildStdout, said: UnboundedSender<(usize, Said)>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let word = match line.split_once(' ') {
            Some(("here", meeting)) => meeting.parse().map_or(Said::Away, Said::Here),
            _ if line == "done" => Said::Done,
            _ => Said::Away,
        };
        // Whoever listened may have been stopped.
        let _ = said.send((index, word));
    }
    let _ = said.send((index, Said::Gone));
}

fn note(actor: &mut Actor, word: &Said) {
    match word {
        Said::Here(meeting) => {
            actor.meeting = Some(*meeting);
            actor.is_waiting = true;
            actor.is_away = false;
        }
        Said::Away => actor.is_away = true,
        Said::Done => {}
        Said::Gone => actor.is_gone = true,
    }
}

/// With -9: it can do nothing about it, and nothing after it.
fn kill(actor: &mut Actor) -> Result<()> {
    actor.child.start_kill()?;
    actor.is_killed = true;
    actor.is_waiting = false;
    Ok(())
}

/// Lets those go on who have met all that they wait for. Answers whether there were any.
async fn cue(actors: &mut [Actor]) -> bool {
    let ready = |meeting| !actors.iter().any(|actor| actor.is_missed_at(meeting));
    let going: Vec<bool> = actors
        .iter()
        .map(|actor| actor.is_waiting && actor.meeting.is_some_and(ready))
        .collect();
    for (actor, _) in actors.iter_mut().zip(&going).filter(|(_, goes)| **goes) {
        actor.is_waiting = false;
        // One that has died meanwhile is heard of in another way.
        let _ = actor.cue.write_all(b"go\n").await;
    }
    going.contains(&true)
}

/// Leaves no process behind.
async fn end(actors: Vec<Actor>) {
    for mut actor in actors {
        let _ = actor.child.kill().await;
    }
}
