//! Presentations wait in an inbox. A scheduler in each of several instances sends them to a web service, and each
//! presentation is to be sent by one instance only.
//!
//! What an instance is made of: [`scheduler`] → [`use_case`] → [`inbox_repository`] → [`database`], and
//! [`web_service_client`]. [`how`] lists the ways of keeping instances apart.
//!
//! What compares them: [`web_service`] counts calls in its [`ledger`], [`instance`] starts and kills processes, [`stage`]
//! has everything running, [`scene`] says what happens on it, [`table`] prints what came of it.
#![forbid(unsafe_code)]

pub mod database;
pub mod how;
pub mod inbox_repository;
pub mod instance;
pub mod ledger;
pub mod scene;
pub mod scheduler;
pub mod stage;
pub mod table;
pub mod use_case;
pub mod web_service;
pub mod web_service_client;
