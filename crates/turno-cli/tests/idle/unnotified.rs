//! The setting `notify = off`: no function notifies, so every transaction can be prepared (`PREPARE TRANSACTION`), and
//! waiting programs find their work by polling.

use std::future::poll_fn;
use turno_testkit::sql::client;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use turno::outbox::Mode;
use turno::{Settings, Turno};
use turno_testkit::{PostgresServer, Sql as _, eventually_async};

use crate::actors::*;
use crate::common::LONG;
use crate::silent::soon;

const OFF: &str = "select turno.setting_set('notify', 'off')";
const ON: &str = "select turno.setting_set('notify', 'on')";
const CANNOT_PREPARE: &str = "0A000";

/// Idle programs, and for each a statement that gives it work.
struct Scene {
    owner: Client,
    /// Notifications of the functions.
    heard: UnboundedReceiver<String>,
    _listener: Client,
    waiting: Vec<Turno>,
    worker: Done,
    relay: Done,
    claim: JoinHandle<usize>,
    locks: Vec<JoinHandle<bool>>,
    once: JoinHandle<String>,
    gives: Vec<String>,
    _serving: Serving,
    _server: PostgresServer,
}

impl Scene {
    /// Starts them in a database that was prepared with `sql`.
    async fn start(sql: &str, mode: Mode) -> Self {
        let server = PostgresServer::start_with(&[("max_prepared_transactions", "10")]).unwrap();
        let url = server.create_database();
        let mut waiting = vec![connect(&url, "worker", Settings::default()).await];
        for name in ["relay", "claim", "lock", "line", "reader", "once"] {
            waiting.push(connect(&url, name, Settings::default()).await);
        }
        let owner = client(&url).await;
        owner.run(sql).await;
        let (listener, heard) = listen(&url).await;
        let mut gives = vec![
            "select turno.inbox_push('q', '\"1\"')".to_owned(),
            "select turno.inbox_push('by hand', '\"1\"')".to_owned(),
            "select turno.outbox_emit('1', '{}')".to_owned(),
        ];
        for (resource, mode) in [
            ("r", "exclusive"),
            ("line", "exclusive"),
            ("read", "shared"),
            ("over http", "exclusive"),
        ] {
            let take = format!(
                "select token::text from turno.lock_acquire('{resource}', mode => '{mode}', ttl => '1 hour', owner => 'o')"
            );
            let token = word(&owner, &take).await;
            gives.push(format!("select turno.lock_release('{resource}', {token})"));
        }
        let begin = "select claim from turno.once_begin('k', lease => '1 hour')";
        let claim = word(&owner, begin).await;
        gives.push(format!(
            "select turno.once_complete('{claim}', '\"the answer\"')"
        ));
        let serving = serve(&url, "[serve]\nmax_wait = \"1h\"\n");
        Scene {
            owner,
            heard,
            _listener: listener,
            worker: worker(&waiting[0], "q"),
            relay: relay(&waiting[1], mode, "relay"),
            claim: claim_waiter(&waiting[2], "by hand"),
            locks: vec![
                lock_waiter(&waiting[3], "r", false),
                lock_waiter(&waiting[4], "line", true),
                wait_for(waiting[5].lock("read").wait(HOUR)),
                serving.wait_for("over http"),
            ],
            once: once_waiter(&waiting[6], "k"),
            waiting,
            gives,
            _serving: serving,
            _server: server,
        }
    }

    /// Waits until all of them wait, with or without notifications.
    async fn until_all_wait(&self, are_notified: bool) {
        let waiters =
            "select (select count(*) from turno.lock t where t.waited_until > clock_timestamp())
            + (select count(*) from turno.once o where o.waited_until > clock_timestamp())";
        let marks = "select count(*) from turno.inbox_listener l
            where l.until > clock_timestamp() and l.since is not null";
        eventually_async(LONG, "programs that wait", async || {
            let wakers = self.waiting.iter().map(|turno| turno.store().wakers());
            let mut wakers = wakers.filter(|wakers| wakers.any());
            let all_know = wakers.all(|wakers| wakers.is_live() == are_notified);
            let marked = !are_notified || number(&self.owner, marks).await == 3;
            (all_know && marked && number(&self.owner, waiters).await == 5).then_some(())
        })
        .await;
    }

    /// Prepares each transaction and commits it.
    async fn give_prepared(&self) {
        for give in &self.gives {
            prepare(&self.owner, give)
                .await
                .unwrap_or_else(|code| panic!("{give}: {code}"));
            self.owner.run("commit prepared 'given'").await;
        }
    }

    async fn expect_all_found(&mut self) {
        assert_eq!(self.worker.next().await, "1");
        assert_eq!(self.relay.next().await, "1");
        for lock in self.locks.drain(..) {
            assert!(soon(lock).await, "the waiter had the lock");
        }
        assert_eq!(soon(&mut self.claim).await, 1);
        assert_eq!(soon(&mut self.once).await, "the answer");
    }

    /// Returns whether there was no notification since the last call.
    async fn heard_nothing(&mut self) -> bool {
        self.owner.run("notify turno_lock, 'end'").await;
        let next = tokio::time::timeout(LONG, self.heard.recv()).await;
        next.unwrap().unwrap() == "end"
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_notifications_a_transaction_can_be_prepared_while_programs_wait() {
    let mut scene = Scene::start(OFF, Mode::Single).await;
    scene.until_all_wait(false).await;
    scene.give_prepared().await;
    scene.expect_all_found().await;
    assert!(scene.heard_nothing().await);
    let findings = scene.waiting[0].store().diagnose().await.unwrap();
    let finding = findings.iter().find(|finding| finding.check == "settings");
    assert!(finding.unwrap().detail.contains("notify is off"));
}

/// The control: with notifications, none of these transactions can be prepared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_notifications_it_cannot() {
    let mut scene = Scene::start("", Mode::Parallel).await;
    scene.until_all_wait(true).await;
    for give in &scene.gives {
        let code = prepare(&scene.owner, give).await;
        assert_eq!(code, Err(CANNOT_PREPARE.to_owned()), "{give}");
    }
    assert!(scene.heard_nothing().await, "all was rolled back");
    for give in &scene.gives {
        scene.owner.run(give).await;
    }
    scene.expect_all_found().await;
    assert!(!scene.heard_nothing().await);
}

/// Running programs follow the setting immediately, in both directions. If not, each could sleep for a quarter of an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_follow_a_change_of_the_setting() {
    let mut scene = Scene::start("", Mode::Parallel).await;
    scene.until_all_wait(true).await;
    scene.owner.run(OFF).await;
    scene.until_all_wait(false).await;
    scene.give_prepared().await;
    scene.expect_all_found().await;
    assert!(scene.heard_nothing().await);

    scene.owner.run(ON).await;
    let sure =
        "select count(*) from turno.inbox_listener l, turno.inbox_idle(l.queue, '1 second') i
        where l.queue in ('q', '$outbox') and i.sure is not null";
    eventually_async(LONG, "idle programs that are notified", async || {
        let is_live = scene.waiting[0].store().wakers().is_live();
        (is_live && number(&scene.owner, sure).await == 2).then_some(())
    })
    .await;
    let push = "select turno.inbox_push('q', '\"2\"')";
    let code = prepare(&scene.owner, push).await;
    assert_eq!(code, Err(CANNOT_PREPARE.to_owned()));
    scene.owner.run(push).await;
    assert_eq!(scene.worker.next().await, "2");
}

/// Listens until the client is dropped.
async fn listen(url: &str) -> (Client, UnboundedReceiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let (tell, heard) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(note) = message {
                // The receiver is gone when the test has ended.
                let _ = tell.send(note.payload().to_owned());
            }
        }
    });
    client
        .run("listen turno_lock; listen turno_inbox; listen turno_once")
        .await;
    (client, heard)
}

async fn word(client: &Client, sql: &str) -> String {
    client.query_typed_one(sql, &[]).await.unwrap().get(0)
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_typed_one(sql, &[]).await.unwrap().get(0)
}

/// Runs a statement in a transaction and prepares it. Returns the code of the error if that fails.
async fn prepare(client: &Client, sql: &str) -> Result<(), String> {
    let prepare = format!("begin; {sql}; prepare transaction 'given'");
    let Err(error) = client.batch_execute(&prepare).await else {
        return Ok(());
    };
    client.run("rollback").await;
    Err(error.code().unwrap().code().to_owned())
}
