//! The program that `cargo xtask fuzz` runs. libFuzzer has its own `main`; the variable `TURNO_FUZZ` names the target.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
use std::sync::LazyLock;

#[cfg(fuzzing)]
static CHECK: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("TURNO_FUZZ").unwrap_or_default();
    turno_fuzz::check(&name).expect("TURNO_FUZZ names a target")
});

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHECK(bytes));

#[cfg(not(fuzzing))]
fn main() {
    println!("run it with `cargo xtask fuzz`: it has to be built for libFuzzer");
}
