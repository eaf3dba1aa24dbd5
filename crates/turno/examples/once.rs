//! Once: a request that is repeated gets the answer of the first run.

use std::convert::Infallible;

use turno::Turno;
use turno::once::{OnceError, Probe};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turno = Turno::connect("sqlite::memory:").await?;
    let charge = |receipt: &'static str| async move || Ok::<_, Infallible>(receipt.to_owned());

    let first = turno.once("payment/77").run(charge("receipt 1")).await?;
    let again = turno.once("payment/77").run(charge("receipt 2")).await?;
    assert_eq!((first.as_str(), again.as_str()), ("receipt 1", "receipt 1"));

    // The same key with other content is rejected.
    let hashed = |content: &str| turno.once("payment/78").fingerprint(content);
    hashed("100.00").run(charge("receipt 3")).await?;
    let other = hashed("200.00").run(charge("receipt 4")).await;
    assert!(matches!(other, Err(OnceError::Mismatch)));

    // A run that was cut off leaves its key unknown: it may have paid.
    let claim = turno.once("payment/79").begin().await?.fresh();
    claim.ok_or("a new key")?.release_unknown().await?;
    let refused = turno.once("payment/79").run(charge("receipt 5")).await;
    assert!(matches!(refused, Err(OnceError::Unknown(_))));

    // A probe asks the bank what became of it, before the work runs again.
    let receipt = turno
        .once("payment/79")
        .run_with_probe(
            async |_| Ok::<_, Infallible>("receipt 6".to_owned()),
            async |_| Ok(Probe::Done("receipt 5".to_owned())),
        )
        .await?;
    assert_eq!(receipt, "receipt 5");
    Ok(())
}
