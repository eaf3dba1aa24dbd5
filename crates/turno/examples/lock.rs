//! A lock with a fencing token: one caller at a time works on a resource.

use std::time::Duration;

use turno::Turno;
use turno::lock::{Acquire, RunError};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?; // or "sqlite:app.db", or "postgres://…"

    // Renewed in the background while the work runs, and released on success, error, panic and cancellation.
    let receipt = turno
        .lock("loan/123")
        .ttl(Duration::from_secs(30))
        .user("ana")
        .description("register a payment")
        .run(async |lease| Ok::<_, turno::Error>(format!("paid under token {}", lease.token())))
        .await?;
    println!("{receipt}");

    // Held across calls. A busy lock is an outcome, not an error.
    let Acquire::Acquired(lease) = turno.lock("loan/123").acquire().await? else {
        return Err("the lock is busy".into());
    };
    match turno.lock("loan/123").acquire().await? {
        Acquire::Acquired(_) => return Err("two holders".into()),
        Acquire::Busy(busy) => println!("{busy}"),
    }
    let refused = turno
        .lock("loan/123")
        .run(async |_| Ok::<_, turno::Error>(()));
    assert!(matches!(refused.await, Err(RunError::Busy(_))));

    let status = turno.lock("loan/123").status().await?;
    assert_eq!(status.holders[0].token, lease.token());
    lease.release().await?;
    Ok(())
}
