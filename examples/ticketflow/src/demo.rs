//! The demonstration: the same tickets and the same crashes, first the usual way, then with Turno.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Table};
use turno::Turno;
use turno_testkit::{PostgresServer, RabbitMq, eventually_async};

use crate::cast::{Actor, Cast, LONG, await_death_of_one};
use crate::db::Db;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::tap::Tap;

/// Number of tickets that the API creates before its last crash.
const TICKETS: u32 = 20;

/// One way of publishing and consuming events.
struct Way {
    name: &'static str,
    exchange: &'static str,
    /// Options of the API that dies after a commit, before it can publish.
    api: &'static [&'static str],
    /// Options of the API that dies before a commit, after it has published.
    hasty_api: &'static [&'static str],
    hasty_fault: &'static str,
    consumer: &'static [&'static str],
    workers: usize,
}

const USUAL: Way = Way {
    name: "publish by hand",
    exchange: ".usual",
    api: &["api", "--sin-outbox", "despues-del-commit"],
    hasty_api: &["api", "--sin-outbox", "antes-del-commit"],
    hasty_fault: "kill@despues-de-publicar",
    consumer: &["consumer", "--sin-seen"],
    workers: 0,
};

const TURNO: Way = Way {
    name: "Turno's outbox",
    exchange: "",
    api: &["api"],
    hasty_api: &["api"],
    hasty_fault: "kill@antes-del-commit",
    consumer: &["consumer"],
    workers: 3,
};

/// Private servers, which end with this process, or the user's own store and broker.
struct Servers {
    _private: Option<(PostgresServer, RabbitMq)>,
    store: String,
    settings: Settings,
}

impl Servers {
    fn start(store: Option<String>) -> Result<Self> {
        let mut settings = Settings::default();
        if let Some(store) = store {
            let file = Path::new("appsettings.json");
            if file.exists() {
                settings = Settings::read(file)?;
            }
            return Ok(Servers {
                _private: None,
                store,
                settings,
            });
        }
        println!("Starting a private PostgreSQL and RabbitMQ (some ten seconds) …");
        let (postgres, rabbitmq) = (PostgresServer::start()?, RabbitMq::start()?);
        settings.rabbitmq.host = "127.0.0.1".to_owned();
        settings.rabbitmq.port = rabbitmq.port();
        Ok(Servers {
            store: postgres.create_database(),
            _private: Some((postgres, rabbitmq)),
            settings,
        })
    }
}

pub(crate) async fn run(store: Option<String>) -> Result<()> {
    let servers = tokio::task::spawn_blocking(|| Servers::start(store)).await??;
    let program = std::env::current_exe().context("who am I?")?;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "",
        "tickets",
        "events",
        "published",
        "handled",
        "lost",
        "of no ticket",
        "doubled",
    ]);
    for way in [USUAL, TURNO] {
        println!("\n{}:", way.name);
        let (tally, published) = way.play(&program, &servers).await?;
        let numbers = [
            tally.tickets,
            tally.expected,
            i64::try_from(published)?,
            tally.handled,
            tally.lost,
            tally.phantom,
            tally.doubled,
        ];
        let mut row = vec![Cell::new(way.name)];
        let number = |number| Cell::new(number).set_alignment(CellAlignment::Right);
        row.extend(numbers.map(number));
        table.add_row(row);
    }
    println!("\n{table}");
    println!(
        "The worker that was killed had published, and could not say so: its event came twice, and was handled once."
    );
    Ok(())
}

impl Way {
    /// Creates and changes tickets while processes die. Returns what happened to the events, and how many were published.
    async fn play(&self, program: &Path, servers: &Servers) -> Result<(Tally, usize)> {
        let mut settings = servers.settings.clone();
        settings.rabbitmq.exchange.push_str(self.exchange);
        let cast = Cast::new(program, servers.store.clone(), settings)?;
        let tap = Tap::open(&cast.settings.rabbitmq).await?;
        let db = Db::connect(&cast.store).await?;
        let before = Tally::of(&db).await?;
        // Discard messages of an earlier demonstration that was interrupted.
        tap.take_ids().await?;

        // It runs alone at first, so that it is certain to get enough messages to reach its fault.
        let doomed_consumer = cast.start(self.consumer, Some("kill@despues-del-commit:5"))?;
        let mut consumers = Vec::new();
        let workers = self.start_workers(&cast)?;
        let mut api = cast.start(self.api, Some("kill@despues-del-commit:15"))?;
        println!(
            "  an API, {} workers and a consumer are at work",
            workers.len()
        );
        for number in 1..=TICKETS {
            if let Err(error) = ticket(&api, number).await {
                api.await_death().context(error)?;
                println!("  the API was killed (-9) after a commit; another goes on");
                api = cast.start(self.api, None)?;
            }
            if number == TICKETS / 4 {
                doomed_consumer.await_death()?;
                println!(
                    "  the consumer was killed (-9) before it could acknowledge; two others go on"
                );
                consumers.push(cast.start(self.consumer, None)?);
                consumers.push(cast.start(self.consumer, None)?);
            }
        }
        let hasty = cast.start(self.hasty_api, Some(self.hasty_fault))?;
        // It dies before it can respond.
        let _ = hasty.create("a ticket that is rolled back").await;
        hasty.await_death()?;
        println!("  an API was killed (-9) before a commit");
        if !workers.is_empty() {
            await_death_of_one(&workers)?;
            println!("  a worker was killed (-9) after it had published");
        }
        let turno = Turno::connect(&cast.store).await?;
        eventually_async(LONG, "the outbox to be empty", async || {
            let stats = turno.outbox().stats().await.ok()?;
            (stats.pending + stats.scheduled + stats.processing == 0).then_some(())
        })
        .await;
        let published = tap.take_ids().await?;
        let events = published.iter().collect::<BTreeSet<_>>().len();
        eventually_async(LONG, "all that was published to be handled", async || {
            let tally = Tally::of(&db).await.ok()?.since(before);
            (tally.handled - tally.doubled == i64::try_from(events).ok()?).then_some(())
        })
        .await;
        self.drain(&cast, consumers).await?;
        Ok((Tally::of(&db).await?.since(before), published.len()))
    }

    /// Starts the workers. The active one dies as soon as it has published for the second time.
    fn start_workers(&self, cast: &Cast) -> Result<Vec<Actor>> {
        let fault = Some("kill@despues-de-publicar:2 once");
        (0..self.workers)
            .map(|_| cast.start(&["worker"], fault))
            .collect()
    }

    /// Waits until the consumers' queue is empty, and stays empty after the consumers have returned their prefetched messages.
    async fn drain(&self, cast: &Cast, mut consumers: Vec<Actor>) -> Result<()> {
        let settings = &cast.settings.rabbitmq;
        let queue = Tap::on(settings, settings.queue()).await?;
        loop {
            eventually_async(LONG, "the queue to be empty", async || {
                (queue.count().await.ok()? == 0).then_some(())
            })
            .await;
            for consumer in consumers.drain(..) {
                consumer.process.term();
                let ended = consumer.process.wait_timeout(LONG);
                ended.context("a consumer does not end")?;
            }
            if queue.count().await? == 0 {
                return Ok(());
            }
            consumers.push(cast.start(self.consumer, None)?);
        }
    }
}

async fn ticket(api: &Actor, number: u32) -> Result<()> {
    let id = api.create(&format!("ticket {number}")).await?;
    api.change_status(&id, "InProgress").await
}
