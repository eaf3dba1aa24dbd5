//! Waits for a condition that another process or task fulfils.

use std::thread;
use std::time::{Duration, Instant};

/// Poll interval: short enough not to slow tests down, long enough not to starve the awaited process.
const PAUSE: Duration = Duration::from_millis(5);

/// Polls `condition` until it returns a value, and returns that value.
///
/// ```
/// use std::time::Duration;
/// use turno_testkit::eventually;
///
/// let mut looks = 0;
/// let seen = eventually(Duration::from_secs(5), "three looks", || {
///     looks += 1;
///     (looks == 3).then_some(looks)
/// });
/// assert_eq!(seen, 3);
/// ```
///
/// # Panics
///
/// Panics after `timeout` without a value; the message names `what` was awaited.
#[track_caller]
pub fn eventually<T>(timeout: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    match poll(timeout, &mut condition) {
        Some(value) => value,
        None => panic!("waited {timeout:?} in vain for {what}"),
    }
}

/// Async version of [`eventually`].
///
/// Cancel-safe only if `condition` is: on drop, the poll in progress is dropped, too.
///
/// # Panics
///
/// Panics after `timeout` without a value, also if a single poll never ends.
pub async fn eventually_async<T>(
    timeout: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> T {
    let looking = async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(timeout, looking).await {
        Ok(value) => value,
        Err(_) => panic!("waited {timeout:?} in vain for {what}"),
    }
}

/// [`eventually`] without the panic. Polls at least once, and once more after the last pause.
pub(crate) fn poll<T>(timeout: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "in vain for a moon of cheese")]
    fn a_condition_that_never_holds_is_named() {
        eventually(Duration::ZERO, "a moon of cheese", || None::<()>);
    }

    #[tokio::test]
    #[should_panic(expected = "in vain for godot")]
    async fn a_look_that_never_ends_is_cut_off() {
        eventually_async(Duration::from_millis(1), "godot", async || {
            std::future::pending::<Option<()>>().await
        })
        .await;
    }

    #[tokio::test]
    async fn the_value_is_returned() {
        let value = eventually_async(Duration::from_secs(5), "a value", async || Some(7)).await;
        assert_eq!(value, 7);
    }
}
