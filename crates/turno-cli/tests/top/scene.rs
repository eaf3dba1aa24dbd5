//! A store with something to show.

use turno::once::Begin;
use turno::outbox::OnDead;
use turno_testkit::Process;

use crate::common::refusing::refuse;
use crate::common::{Fixture, LONG, text};

/// Creates two locks, a queue with two failed items of three, two dead events, and two unknown once keys.
pub fn set(fixture: &Fixture) {
    for (resource, ttl) in [("loan/1", "300s"), ("loan/2", "600s")] {
        let words = ["lock", "acquire", resource, "--ttl", ttl, "--user", "ana"];
        fixture.turno(&words).expect(0);
    }
    for payload in ["1", "2", "3"] {
        fixture.turno(&["inbox", "push", "mail", payload]).expect(0);
    }
    for _ in 0..2 {
        let claimed = fixture.json(0, &["inbox", "claim", "mail"]);
        let claim = text(&claimed["items"][0], "claim");
        let words = ["inbox", "fail", claim, "--error", "550", "--final"];
        fixture.turno(&words).expect(0);
    }
    for kind in ["TicketCreated", "TicketClosed"] {
        fixture.turno(&["outbox", "emit", kind, "7"]).expect(0);
    }
    refuse(fixture, OnDead::Skip, 2);
    vanish(fixture);
}

/// Creates two unknown runs.
fn vanish(fixture: &Fixture) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let turno = turno::Turno::connect(&fixture.store).await.unwrap();
        for key in ["pago/77", "pago/78"] {
            match turno.once(key).begin().await.unwrap() {
                Begin::Fresh(run) => run.release_unknown().await.unwrap(),
                begun => panic!("{begun:?}"),
            };
        }
        turno.close().await;
    });
}

/// Starts a server on the store. Returns it with its address.
pub fn serve(fixture: &Fixture) -> (Process, String) {
    let server = fixture.start(&["serve", "--listen", "127.0.0.1:0"]);
    let line = server.lines().next(LONG);
    let line = line.expect("the server says where it listens");
    let url = line.trim_start_matches("listening on ").to_owned();
    (server, url)
}
