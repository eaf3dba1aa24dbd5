//! The library's futures can be spawned. The test is that this compiles.

use std::time::Duration;

use turno::Turno;

#[tokio::test]
async fn acquire_and_run_can_be_spawned() {
    let turno = Turno::connect("sqlite::memory:").await.unwrap();
    let spawned = turno.clone();
    let token = tokio::spawn(async move {
        let lease = spawned
            .lock("a")
            .wait(Duration::from_secs(1))
            .acquire()
            .await
            .unwrap()
            .acquired()
            .unwrap();
        let token = lease.token();
        lease.release().await.unwrap();
        token
    })
    .await
    .unwrap();

    let spawned = turno.clone();
    let later = tokio::spawn(async move {
        let name = String::from("captured");
        spawned
            .lock("a")
            .run(async |lease| {
                tokio::task::yield_now().await;
                assert_eq!(name, "captured");
                Ok::<_, turno::Error>(lease.token())
            })
            .await
            .unwrap()
    })
    .await
    .unwrap();
    assert!(later > token);

    let spawned = turno.clone();
    let both = tokio::spawn(async move {
        spawned
            .locks(["a", "b"])
            .run(async |leases| {
                tokio::task::yield_now().await;
                Ok::<_, turno::Error>(leases.leases().len())
            })
            .await
            .unwrap()
    });
    assert_eq!(both.await.unwrap(), 2);
}
