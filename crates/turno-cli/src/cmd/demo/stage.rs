//! Director of a run: starts the processes, lets them meet, kills some, and counts the results.
//!
//! Races are forced and not left to chance: a process that has read, selected or begun something waits until all others have
//! too, or until Turno makes them wait. Apart from the calls of Turno, the processes do the same with and without it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use rustix::process::Signal;
use tokio::sync::mpsc;
use turno::Turno;

use super::actor::{Actor, Message, cue};
use super::figures::Run;
use super::set::{Cast, Set};
use crate::output::Output;
use crate::progress;
use crate::signals::{ENDING, Signals};

/// A signal ended the demonstration.
#[derive(Debug)]
pub(super) struct Stopped(pub(super) Signal);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// The director of all runs.
#[derive(Debug)]
pub(super) struct Stage {
    output: Output,
    signals: Signals,
}

impl Stage {
    /// From here on, ending signals are caught, and end the processes too.
    pub(super) fn new(output: Output) -> Result<Self> {
        let signals = Signals::listen(&ENDING)?;
        Ok(Stage { output, signals })
    }

    /// Prepares a run, runs it, and counts the results.
    pub(super) async fn play(&mut self, set: &Set, turno: &Turno) -> Result<Run> {
        std::fs::create_dir(&set.folder)
            .context("a folder for the scenario could not be created")?;
        self.heed(set.scenario.prepare(set, turno)).await?;
        let casts = set.scenario.casts(set.how);
        let mut run = Running {
            set,
            bar: progress::bar(self.output, set.scenario.operations().into()),
            done: 0,
            killed: 0,
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
            killed: run.killed,
            took: run.took,
            count: self.heed(set.scenario.count(set)).await?,
        })
    }

    /// Runs some work, unless a signal ends it.
    async fn heed<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            signal = self.signals.next() => Err(Stopped(signal).into()),
        }
    }
}

/// A run in progress.
struct Running<'a> {
    set: &'a Set,
    bar: ProgressBar,
    done: u32,
    killed: usize,
    took: Duration,
}

impl Running<'_> {
    async fn play(&mut self, cast: &Cast, signals: &mut Signals) -> Result<()> {
        let (said, mut hears) = mpsc::unbounded_channel();
        let mut actors = (0..cast.processes)
            .map(|index| Actor::start(self.set, cast, index, &said))
            .collect::<Result<Vec<_>>>()?;
        // Set when all processes are ready: their start-up time does not count.
        let mut began = None;
        while actors.iter().any(|actor| !actor.is_gone) {
            let (index, word) = tokio::select! {
                heard = hears.recv() => heard.context("all processes have closed their output")?,
                signal = signals.next() => {
                    for actor in actors {
                        actor.end().await;
                    }
                    return Err(Stopped(signal).into());
                }
            };
            if word == Message::Done {
                self.done += 1;
                self.tell();
            }
            actors[index].note(word);
            if let Message::Here(meeting) = word
                && cast.kills.contains(&(index, meeting))
            {
                actors[index].kill()?;
            }
            if cue(&mut actors).await {
                began.get_or_insert_with(Instant::now);
            }
        }
        self.took += began.map_or(Duration::ZERO, |began| began.elapsed());
        self.killed += actors.iter().filter(|actor| actor.is_killed).count();
        for actor in actors {
            actor.check().await?;
        }
        Ok(())
    }

    /// Updates the progress bar.
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
