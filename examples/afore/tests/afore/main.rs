//! AFORE certifications, as several processes: the scenarios of the document, on PostgreSQL and SQLite.
//!
//! Each promise has its *control*: the original implementation, or the same without its guard, shows the document's problem.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod avisos;
mod bloqueos;
mod caida;
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

/// Timeout, longer than any operation takes on a slow machine with other load.
const LONG: Duration = Duration::from_secs(60);

/// Generates one test per store from one body, which gets an empty store.
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
