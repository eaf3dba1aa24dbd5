//! Shared locks and permits: several holders at once.

use turno::Turno;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?;

    // Readers share a resource; a writer has it alone.
    let reader = turno.lock("report").shared().acquire().await?.acquired();
    let another = turno.lock("report").shared().acquire().await?.acquired();
    assert!(reader.is_some() && another.is_some());
    assert!(turno.lock("report").acquire().await?.is_busy());
    drop((reader, another)); // a dropped lease is released in the background

    // At most two callers use the bank's interface at once. All callers name the same number.
    let bank = || turno.lock("bank").permits(2).acquire();
    let (first, second) = (bank().await?.acquired(), bank().await?.acquired());
    assert!(first.is_some() && second.is_some());
    assert!(bank().await?.is_busy());

    // Several resources, all or none.
    let accounts = turno.locks(["account/1", "account/2"]).acquire().await?;
    let accounts = accounts.acquired().ok_or("both are free")?;
    assert!(turno.lock("account/2").acquire().await?.is_busy());
    accounts.release().await?;
    turno.close().await;
    Ok(())
}
