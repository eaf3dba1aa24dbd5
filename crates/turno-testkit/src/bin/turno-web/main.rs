//! One web server of a fault test: `turno-web STORE_URL FACE ENDING IN_FLIGHT UNKNOWN LEASE_MS FOLDER`.
//!
//! It accepts payments at `POST /pagos`. Each run of its handler is recorded in the application's own table `ran` when it
//! begins, and pays by a row in the table `effect`. Both are in the database of the store.
//!
//! | word | one of |
//! |---|---|
//! | FACE | `layer`: the handler with the layer · `bare`: without · `http://…`: a gate in front of the service there |
//! | ENDING | `effect`: the answer is stored in the transaction of the effect · `plain`: after it, by the layer · `naive`: in it, without a check for other runs |
//! | IN_FLIGHT | `conflict`, `wait`, `template` |
//! | UNKNOWN | `refuse`, `rerun`, `probe`: the table `effect` is queried |
//!
//! With `?hold=before` (or `after`), the first run of a request prints `held KEY` before (or after) it has paid, and waits for
//! the line `go`. It responds to the line `counts` with the layer's counters, and to the line `arrived` with the number of
//! requests that have arrived before it.
//!
//! With the layer, each request is recorded in a history in FOLDER.
//!
//! It prints `listening PORT` first, and exits when its input ends.
#![forbid(unsafe_code)]

mod application;
mod handler;
mod policy;
mod recorded;

use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_request};
use axum::routing::post;
use tokio::net::TcpListener;
use turno::Turno;
use turno::once::http::{Counts, OnceLayer, Policy, Routes};
use turno_server::gate::{Gate, Options};
use turno_testkit::history::Recorder;

use self::application::Application;
use self::handler::Web;
use self::recorded::{Recording, record};

/// Path of the service.
const PATH: &str = "/pagos";

fn main() -> Result<()> {
    let mut words = Words(std::env::args().skip(1));
    let (url, face): (String, String) = (words.next()?, words.next()?);
    let ending = words.next()?;
    let (in_flight, unknown): (String, String) = (words.next()?, words.next()?);
    let lease = Duration::from_millis(words.next()?);
    let folder: PathBuf = words.next()?;
    let recording = Recording {
        recorder: Recorder::create(&folder, &format!("web-{}", std::process::id()))?,
        lease,
        runs_again: unknown == "rerun",
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let application = Arc::new(Application::new(&url)?);
        let policy = policy::of(&in_flight, &unknown, application.clone())?.lease(lease);
        let web = Arc::new(Web::new(application, ending));
        serve(&url, &face, policy, web, recording).await
    })
}

async fn serve(
    url: &str,
    face: &str,
    policy: Policy,
    web: Arc<Web>,
    recording: Recording,
) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let listening = format!("listening {}", listener.local_addr()?.port());
    let router = Router::new()
        .route(PATH, post(handler::pay))
        .with_state(web.clone());
    let arrived: Arc<AtomicUsize> = Arc::default();
    let count = arrived.clone();
    let counted = map_request(move |request: Request| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(request)
    });
    let answer = move |word: &str, counts: Counts| match word {
        "counts" => format!("counts {counts:?}"),
        _ => format!("arrived {}", arrived.load(Ordering::Relaxed)),
    };
    let router = match face {
        "bare" => {
            obey(&web, move |word| answer(word, Counts::default()));
            router
        }
        "layer" => {
            let layer = OnceLayer::new(Turno::connect(url).await?, policy);
            let counting = layer.clone();
            obey(&web, move |word| answer(word, counting.counts()));
            router
                .layer(layer)
                .layer(from_fn_with_state(recording, record))
        }
        upstream => {
            let routes = Routes::new().add(PATH, policy)?;
            let turno = Turno::connect(url).await?;
            let gate = Arc::new(Gate::new(
                turno,
                upstream.parse()?,
                routes,
                Options::default(),
            ));
            let counting = gate.clone();
            obey(&web, move |word| answer(word, counting.counts()));
            say(&listening)?;
            gate.run(listener, std::future::pending()).await;
            return Ok(());
        }
    };
    say(&listening)?;
    Ok(axum::serve(listener, router.layer(counted)).await?)
}

/// Reads commands, in a thread that ends with the process.
fn obey(web: &Arc<Web>, answer: impl Fn(&str) -> String + Send + 'static) {
    let web = web.clone();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            match line.as_str() {
                "go" => web.go(),
                // If this fails, the parent does not read any more, and the input ends too.
                word => drop(say(&answer(word))),
            }
        }
        // The parent process has ended.
        std::process::exit(0);
    });
}

/// One write per line, so that a kill can lose a line but never truncate it.
fn say(line: &str) -> Result<()> {
    Ok(io::stdout().write_all(format!("{line}\n").as_bytes())?)
}

struct Words<I>(I);

impl<I: Iterator<Item = String>> Words<I> {
    fn next<T>(&mut self) -> Result<T>
    where
        T: FromStr<Err: Into<anyhow::Error>>,
    {
        let word = self
            .0
            .next()
            .context("usage: turno-web STORE_URL FACE ENDING IN_FLIGHT UNKNOWN LEASE_MS FOLDER")?;
        word.parse()
            .map_err(|error: T::Err| error.into().context(format!("{word:?}")))
    }
}
