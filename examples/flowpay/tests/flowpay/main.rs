//! FlowPay as several processes on one database, PostgreSQL and SQLite.
//!
//! Each problem of the document is shown twice: with the lock it does not happen; without the lock, the *control*, it does.
//! The result is deterministic, because operations meet at a rendezvous between their reads and their writes.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod demostracion;
#[path = "../../src/ensayo.rs"]
mod ensayo;
mod entrada;
mod escena;
mod flotas;
mod gestor;
mod guardia;
mod liberacion;
mod mantenimiento;
mod modificacion;
mod pago;
mod pedidos;
mod reestructuracion;
mod respuestas;
mod servicio;
mod usuarios;
mod vista;

/// Generates one test per store from one body, which gets an empty store.
macro_rules! en_cada_base {
    ($($(#[$atributo:meta])* $nombre:ident => $cuerpo:expr;)*) => {
        $(
            $(#[$atributo])*
            mod $nombre {
                use super::*;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn postgres() {
                    ($cuerpo)($crate::escena::Lugar::postgres()).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sqlite() {
                    ($cuerpo)($crate::escena::Lugar::sqlite()).await;
                }
            }
        )*
    };
}
pub(crate) use en_cada_base;
