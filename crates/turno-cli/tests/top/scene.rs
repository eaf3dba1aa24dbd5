//! A store in which something is to be seen.

use turno::once::Begin;
use turno::outbox::OnDead;
use turno_testkit::Process;

use crate::common::refusing::refuse;
use crate::common::{LONG, Place, text};

/// Two locks, a queue with two failed items of three, two dead events, and two unknown once keys.
pub fn set(place: &Place) {
    for (resource, ttl) in [("loan/1", "300s"), ("loan/2", "600s")] {
        let words = ["lock", "acquire", resource, "--ttl", ttl, "--user", "ana"];
        place.turno(&words).expect(0);
    }
    for payload in ["1", "2", "3"] {
        place.turno(&["inbox", "push", "mail", payload]).expect(0);
    }
    for _ in 0..2 {
        let claimed = place.json(0, &["inbox", "claim", "mail"]);
        let claim = text(&claimed["items"][0], "claim");
        let words = ["inbox", "fail", claim, "--error", "550", "--final"];
        place.turno(&words).expect(0);
    }
    for kind in ["TicketCreated", "TicketClosed"] {
        place.turno(&["outbox", "emit", kind, "7"]).expect(0);
    }
    refuse(place, OnDead::Skip, 2);
    vanish(place);
}

/// Has two runs vanish half-way.
fn vanish(place: &Place) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let turno = turno::Turno::connect(&place.store).await.unwrap();
        for key in ["pago/77", "pago/78"] {
            match turno.once(key).begin().await.unwrap() {
                Begin::Fresh(run) => run.release_unknown().await.unwrap(),
                begun => panic!("{begun:?}"),
            };
        }
        turno.close().await;
    });
}

/// A server on the store, and where it is.
pub fn serve(place: &Place) -> (Process, String) {
    let server = place.start(&["serve", "--listen", "127.0.0.1:0"]);
    let line = server.lines().next(LONG);
    let line = line.expect("the server says where it listens");
    let url = line.trim_start_matches("listening on ").to_owned();
    (server, url)
}
