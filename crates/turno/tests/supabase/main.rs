//! A database like Supabase's: its roles, default privileges and row-level security, and Turno installed by the printed
//! migration file, as a role that is not a superuser.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adopted;
mod database;
mod migration;
mod rpc;
