//! A relay that gets one event now and then sends few statements for it.

use turno::Settings;
use turno::outbox::{Event, Mode};

use crate::actors::{connect, relay};
use crate::log::{new_database, statements, until_silent};

/// A claim that finds the event, its result, a claim that finds nothing more, and the question when to look again. That is when the
/// claim of the event would have ended: then a claim and the question once more.
const STATEMENTS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_event_takes_few_statements() {
    let modes = [Mode::Parallel, Mode::Ordered];
    let (urls, names): (Vec<_>, Vec<_>) = modes.map(|_| new_database()).into_iter().unzip();
    let databases: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut idle = Vec::new();
    for (mode, url) in modes.into_iter().zip(&urls) {
        let emitter = connect(url, "emitter", Settings::default()).await;
        let turno = connect(url, "relay", Settings::default()).await;
        idle.push((emitter, relay(&turno, mode, "relay")));
    }
    until_silent(&databases).await;
    let sent = || databases.iter().map(|name| statements(name)["relay"]);
    let before: Vec<usize> = sent().collect();
    for (emitter, relay) in &mut idle {
        let event = [Event::new("e", &())];
        emitter.outbox().emit_many(&event).await.unwrap();
        assert_eq!(relay.next().await, "e");
    }
    until_silent(&databases).await;
    for ((before, after), mode) in before.into_iter().zip(sent()).zip(modes) {
        let sent = after - before;
        assert!(sent <= STATEMENTS, "{mode:?}: {sent} statements");
    }
}
