//! AFORE certifications, as several processes: the scenarios of the document, on PostgreSQL and SQLite.
//!
//! Each claim has its *control*: the original implementation, or the same without its guard, shows the document's problem.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod avisos;
mod bloqueos;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../src/cliente.rs"]
mod cliente;
mod compuerta;
mod contrato;
mod demostracion;
mod escenarios;
mod expiracion;
mod fallas;
mod hijo;
mod lugar;

use std::time::Duration;

/// Longer than anything takes that ends at all, on a slow machine with other work to do.
const LONG: Duration = Duration::from_secs(60);

/// One test a store from one body, which is given an empty store.
macro_rules! on_each_store {
    ($($name:ident),+ $(,)?) => {
        mod postgres {
            $(#[test] fn $name() { super::$name(&$crate::lugar::Lugar::postgres()); })+
        }
        mod sqlite {
            $(#[test] fn $name() { super::$name(&$crate::lugar::Lugar::sqlite()); })+
        }
    };
}
use on_each_store;
