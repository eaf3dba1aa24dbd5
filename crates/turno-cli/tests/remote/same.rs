//! Every command that works through a server, on the store and through one.

use crate::common::Kind;
use crate::pair::{Pair, on_both};

macro_rules! on_each_kind {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() { super::on_both(super::Kind::Sqlite, super::$name); })+
        }
        mod postgres {
            $(#[test] fn $name() { super::on_both(super::Kind::Postgres, super::$name); })+
        }
    };
}

on_each_kind!(locks, runs, items, files, events, keys, upkeep, wrong);

fn locks(pair: &mut Pair) {
    pair.same(0, "lock status it");
    pair.same(0, "lock list");
    pair.same(0, "lock history");
    let acquire = "lock acquire 'P/1 ñ' --owner o --user ana --ttl 300s";
    pair.same(0, acquire);
    pair.same(0, acquire);
    pair.same(75, "lock acquire 'P/1 ñ' --owner other");
    pair.same(75, "lock acquire 'P/1 ñ' --owner other --wait 10ms --fifo");
    pair.same(75, "lock acquire 'P/1 ñ' --retry-max 2 --retry-delay 1ms");
    pair.same_with(75, "lock acquire 'P/1 ñ'", |command| {
        command.env("LC_ALL", "es_MX.UTF-8")
    });
    pair.same(0, "lock status 'P/1 ñ'");
    pair.same(0, "lock acquire P/2 --shared --owner o --service caja");
    pair.same(0, "lock acquire Q --permits 2 --owner o --max-hold 1h");
    pair.same(0, "lock list --prefix P/ --limit 1");
    pair.same(0, "lock list --after P/2");
    pair.same(0, "lock acquire R --owner o");
    pair.same(0, "lock renew R --lease {} --ttl 600s");
    pair.same(0, "lock release R --lease {}");
    pair.same(1, "lock release R --lease {}");
    pair.same(1, "lock renew R --lease {}");
    pair.same(1, "lock break P/2 --token 7 --reason 'a test'");
    pair.same(0, "lock history R");
    pair.same(0, "lock history --prefix R --limit 1");
}

fn runs(pair: &mut Pair) {
    pair.same(0, "run --lock it -- true");
    pair.same(7, "run --lock it -- sh -c 'echo hello; exit 7'");
    pair.same(127, "run --lock it -- no-such-command-anywhere");
    pair.same(0, "lock acquire it --owner o");
    pair.same(75, "run --lock it -- echo never");
    pair.same(0, "lock release it --lease {}");
    pair.same(0, "lock history it");
}

fn items(pair: &mut Pair) {
    pair.same(0, "inbox stats");
    pair.same(1, "inbox stats mail");
    pair.same(75, "inbox claim mail --worker w");
    pair.same(0, "inbox push mail '{\"n\": 12345678901234.10}' --key k");
    pair.same(0, "inbox push mail 1 --key k");
    pair.same(0, "inbox push mail 2 3 --group g --priority 0 --delay 1h");
    pair.same(0, "inbox push other/q 4 --max-attempts 1");
    pair.same(0, "inbox list mail --limit 1");
    pair.same(0, "inbox list mail --state scheduled");
    pair.same(0, "inbox claim mail --worker w --limit 5 --wait 1s");
    pair.same(0, "inbox list mail --state processing");
    pair.same(0, "inbox extend {} --lease 60s");
    pair.same(0, "inbox give-back {}");
    pair.same(1, "inbox complete {}");
    pair.same(0, "inbox claim mail --worker w");
    pair.same(0, "inbox complete {} --queue mail");
    pair.same(0, "inbox list mail --state completed");
    pair.same(0, "inbox claim other/q --worker w");
    pair.same(0, "inbox fail {} --error 'no\nmore' --queue other/q");
    pair.same(0, "inbox list other/q --state failed");
    pair.same(0, "inbox requeue other/q --all");
    pair.same(0, "inbox claim other/q --worker w");
    pair.same(0, "inbox reset other/q --older-than 0s");
    pair.same(0, "inbox discard other/q 7");
    pair.same(0, "inbox discard other/q --all");
    pair.same(0, "inbox stats --prefix mail");
}

fn files(pair: &mut Pair) {
    let lines = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        lines.path(),
        "{\"k\": \"a\"}\n{\"k\": \"b\"}\n{\"k\": \"a\"}\n",
    )
    .unwrap();
    let file = lines.path().to_str().unwrap();
    pair.same(0, &format!("inbox push mail --file {file} --key-field k"));
    pair.same(0, "inbox stats mail");
    std::fs::write(
        lines.path(),
        "{\"type\": \"A\", \"payload\": 1}\n{\"type\": \"B\", \"payload\": {}}\n",
    )
    .unwrap();
    pair.same(0, &format!("outbox emit --file {file}"));
    pair.same(0, "outbox list");
}

fn events(pair: &mut Pair) {
    const ID: &str = "0190f1f4-2b3c-7d4e-8f50-112233445566";
    pair.same(0, "outbox stats");
    pair.same(0, "outbox list");
    pair.same(1, &format!("outbox show {ID}"));
    let emit = format!("outbox emit A '{{\"n\": 1}}' --id {ID} --key k --header a=b");
    pair.same(0, &emit);
    pair.same(0, &emit);
    pair.same(0, "outbox emit B --delay 1h");
    pair.same(0, "outbox list --limit 1");
    pair.same(0, "outbox list --state scheduled");
    pair.same(0, &format!("outbox show {ID}"));
    pair.same(0, &format!("outbox requeue {ID}"));
    pair.same(0, "outbox requeue --all");
    pair.same(0, &format!("outbox discard {ID}"));
    pair.same(0, "outbox stats");
}

fn keys(pair: &mut Pair) {
    pair.same(0, "once --list");
    pair.same(1, "once pago/77 --status");
    let once = "once pago/77 -- sh -c 'echo done; echo beside >&2'";
    pair.same(0, once);
    pair.same(0, once);
    pair.same(1, "once pago/77 -- other");
    pair.same(3, "once pago/78 --retry-failures -- sh -c 'exit 3'");
    // A killed command may have done its work.
    pair.same(137, "once pago/79 -- sh -c 'kill -9 $$'");
    pair.same(1, "once pago/79 -- sh -c 'kill -9 $$'");
    pair.same(0, "once pago/80 --ttl 0s -- true");
    pair.same(0, "once --list --limit 1");
    pair.same(0, "once --list --state unknown");
    pair.same(0, "once pago/79 --done --exit-code 0");
    pair.same(1, "once pago/79 --done --exit-code 0");
    pair.same(0, "once pago/79 -- sh -c 'kill -9 $$'");
    pair.same(1, "once pago/99 --done");
    pair.same(0, "once pago/77 --forget");
    pair.same(0, "once pago/77 --forget");
}

fn upkeep(pair: &mut Pair) {
    pair.same(0, "lock acquire gone --ttl 1ms");
    pair.same(0, "sweep --once");
    pair.same(0, "sweep --once --purge-after 0s --keep-history 0s");
}

fn wrong(pair: &mut Pair) {
    pair.same(2, "lock acquire ''");
    pair.same(2, "lock acquire it --ttl 25h");
    pair.same(2, "lock renew it --lease other@7");
    pair.same(2, "inbox push mail 'no JSON'");
    pair.same(2, "inbox push $mail 1");
    pair.same(2, "inbox claim mail --limit 10001");
    pair.same(2, "outbox emit A {");
    pair.same(2, "once k --lease 0s -- true");
}
