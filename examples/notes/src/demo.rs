//! The demonstration: five processes at once, without locks and with them, and one that is killed.

use std::env;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use notes::application::{self, ANA, EVA, note_id};
use notes::service::{Gate, Step};
use sqlx::PgPool;
use turno::Turno;
use turno_testkit::{PostgresServer, Process, eventually_async};

/// Timeout of each step, longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Batch size. Two batches are enough for all notes.
const LIMIT: &str = "6";

/// Charges of the services, and the results.
struct Bill {
    completed: i64,
    transcriptions: i64,
    analyses: i64,
    duplicates: i64,
    cents: i64,
}

pub(crate) async fn run(store: Option<String>) -> Result<()> {
    // The server runs until the demonstration ends.
    let mut server = None;
    let url = match store {
        Some(url) => url,
        None => server.insert(PostgresServer::start()?).create_database(),
    };
    let db = application::connect(&url).await?;
    application::create(&db).await?;

    println!(
        "Eleven notes to process. At once: two cron jobs, a batch, and two people at the button.\n"
    );
    application::fill(&db).await?;
    let before = race(&db, &url, &["--without-locks"]).await?;
    let turno = Turno::connect(&url).await?;
    let adoption = application::adopt(&turno).await?;
    application::fill(&db).await?;
    let after = race(&db, &url, &[]).await?;
    compare(&before, &after);

    let columns = adoption.columns.join(" and ");
    println!("\nTo adopt the table, {columns} were added to it.\n");
    recover(&db, &url).await?;
    if server.is_none() {
        println!("\nThe tables are left in the database; look at them.");
    }
    Ok(())
}

/// Runs all triggers at once. The transcription service responds only when each process has called it or has ended.
async fn race(db: &PgPool, url: &str, options: &[&str]) -> Result<Bill> {
    let (three, four) = (note_id(3), note_id(4));
    let triggers = [
        ("cron 1", vec!["cron", "--limit", LIMIT]),
        ("cron 2", vec!["cron", "--limit", LIMIT]),
        ("batch", vec!["batch", "--limit", LIMIT, "--user", ANA]),
        ("ana", vec!["manual", &three, "--user", ANA]),
        ("eva", vec!["manual", &four, "--user", EVA]),
    ];
    let gate = Gate::shut(url, Step::Transcription, &triggers.each_ref().map(|t| t.0)).await?;
    let mut processes = Vec::new();
    for (who, arguments) in &triggers {
        let arguments = [&arguments[..], options].concat();
        processes.push((*who, start(url, who, &arguments)?));
    }
    for (who, process) in &processes {
        eventually_async(TIMEOUT, "a process that pays or ends", async || {
            let ended = process.wait_timeout(Duration::ZERO).is_some();
            (ended || has_paid(db, who).await).then_some(())
        })
        .await;
    }
    gate.open().await?;
    for (who, process) in &processes {
        let ended = process.wait_timeout(TIMEOUT);
        ended.with_context(|| format!("{who} does not end"))?;
    }
    bill(db).await
}

fn start(url: &str, who: &str, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments).args(["--who", who]);
    Process::spawn(command.env("TURNO_STORE", url))
}

async fn has_paid(db: &PgPool, who: &str) -> bool {
    sqlx::query_scalar("select exists (select from charges where who = $1)")
        .bind(who)
        .fetch_one(db)
        .await
        .unwrap_or(false)
}

async fn bill(db: &PgPool) -> Result<Bill> {
    let (completed, transcriptions, analyses, duplicates, cents) = sqlx::query_as(
        "select
           (select count(*) from notes where processed_at > now() - interval '1 hour'),
           count(*) filter (where step = 'transcription'),
           count(*) filter (where step = 'analysis'),
           count(*) - count(distinct (note_id, step)),
           coalesce(sum(cents), 0)
         from charges",
    )
    .fetch_one(db)
    .await?;
    Ok(Bill {
        completed,
        transcriptions,
        analyses,
        duplicates,
        cents,
    })
}

fn compare(before: &Bill, after: &Bill) {
    println!("{:<22}{:>15}{:>15}", "", "without locks", "with locks");
    let count = |what: &str, of: fn(&Bill) -> i64| {
        println!("{what:<22}{:>15}{:>15}", of(before), of(after));
    };
    count("notes processed", |bill| bill.completed);
    count("transcriptions paid", |bill| bill.transcriptions);
    count("analyses paid", |bill| bill.analyses);
    count("of these, duplicates", |bill| bill.duplicates);
    let cost = |bill: &Bill| format!("$ {}.{:02}", bill.cents / 100, bill.cents % 100);
    println!("{:<22}{:>15}{:>15}", "cost", cost(before), cost(after));
}

/// Kills a batch while the service works. Its notes are taken over after the timeout.
async fn recover(db: &PgPool, url: &str) -> Result<()> {
    application::fill(db).await?;
    let gate = Gate::shut(url, Step::Transcription, &["victim"]).await?;
    let victim = start(url, "victim", &["batch", "--limit", "3", "--user", ANA])?;
    eventually_async(TIMEOUT, "the victim's first charge", async || {
        has_paid(db, "victim").await.then_some(())
    })
    .await;
    victim.kill_9();
    gate.open().await?;
    show_stats(url, "kill -9 of a batch of three")?;
    // Make the locks older instead of waiting.
    sqlx::query(
        "update notes set processing_started_at = processing_started_at - interval '16 minutes'",
    )
    .execute(db)
    .await?;
    let cron = start(url, "cron", &["cron", "--limit", "20"])?;
    cron.wait_timeout(TIMEOUT).context("cron does not end")?;
    show_stats(url, "16 minutes and a cron job later")?;
    let lost = bill(db).await?.duplicates;
    println!("Paid for nothing: {lost} transcription, which the killed process had asked for.");
    Ok(())
}

fn show_stats(url: &str, when: &str) -> Result<()> {
    let stats = start(url, "stats", &["stats"])?;
    let line = stats.lines().next(TIMEOUT).context("no stats came")?;
    println!("{when:>32}: {line}");
    Ok(())
}
