//! *Alternativas consideradas* 1 and 2. The third is in `problem`, because it does not solve the problem.

use std::process::Stdio;

use presentations::instance::STORE;
use presentations::scene;
use presentations::strategy::{Strategy, partition};
use uuid::Uuid;

use crate::on_each_store;
use crate::test_database::{PROGRAM, TestDatabase};

/// *Alternativa 1*, *ventajas*: each instance gets its own records, and none waits.
#[tokio::test]
async fn skip_locked_distributes_and_does_not_wait() {
    let place = TestDatabase::postgres().await;
    let race = scene::race(&place.setup, Strategy::SkipLocked)
        .await
        .unwrap();
    assert_eq!((race.calls, race.doubled), (6, 0), "{race:?}");
    assert_eq!((race.instances, race.waited), (3, false), "{race:?}");
}

/// The lock on the row ends with its instance.
#[tokio::test]
async fn skip_locked_forgets_an_instance_that_was_killed() {
    let place = TestDatabase::postgres().await;
    let killed = scene::killed(&place.setup, Strategy::SkipLocked)
        .await
        .unwrap();
    assert!(killed.again.is_some(), "{killed:?}");
    assert_eq!((killed.lost, killed.left), (0, 0), "{killed:?}");
}

/// *Alternativa 1*, *desventajas*: "No soportado en H2", nor on SQLite.
#[tokio::test]
async fn skip_locked_is_refused_on_sqlite() {
    let place = TestDatabase::sqlite().await;
    let output = tokio::process::Command::new(PROGRAM)
        .args(["instance", "--how", "skip-locked"])
        .args(["--service", "http://127.0.0.1:1"])
        .args(["--instance-partition", "0", "--total-instances", "3"])
        .env(STORE, &place.setup.store)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("not possible on SQLite"), "{message}");
}

on_each_store! {
    /// *Alternativa 2*, *ventajas*: works on any database, predictable distribution.
    hash_partitions_do_not_meet;
    /// *Alternativa 2*, *desventajas*: "Si una instancia cae, su partición no se procesa".
    the_partition_of_a_dead_instance_is_left;
}

async fn hash_partitions_do_not_meet(place: TestDatabase) {
    let race = scene::race(&place.setup, Strategy::HashPartition)
        .await
        .unwrap();
    assert_eq!((race.calls, race.doubled), (6, 0), "{race:?}");
    assert_eq!((race.instances, race.waited), (3, false), "{race:?}");
}

async fn the_partition_of_a_dead_instance_is_left(place: TestDatabase) {
    let killed = scene::killed(&place.setup, Strategy::HashPartition)
        .await
        .unwrap();
    assert_eq!(killed.again, None, "{killed:?}");
    // Two of six, with three instances: the one in flight, and the one not yet started.
    assert_eq!((killed.lost, killed.left), (0, 2), "{killed:?}");
}

/// *Alternativa 2*, *desventajas*: "Requiere conocer el número de instancias". While two instances are configured for three
/// and two others already for four, some presentations belong to several instances and some to none.
#[test]
fn partitions_that_disagree_on_the_number_of_instances_overlap_and_leave_gaps() {
    let owners = |id: Uuid| {
        let old = (0..2).filter(|instance| partition(id, 3) == *instance);
        let new = (2..4).filter(|instance| partition(id, 4) == *instance);
        old.chain(new).count()
    };
    let owners: Vec<usize> = (0..12).map(|id| owners(Uuid::from_u128(id))).collect();
    assert!(owners.contains(&2), "sent twice: {owners:?}");
    assert!(owners.contains(&0), "not sent: {owners:?}");
}
