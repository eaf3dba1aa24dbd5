//! Presentations wait in an inbox. Several instances, each with a scheduler, send them to a web service. Each presentation
//! must be sent by one instance only.
//!
//! Parts of an instance: [`scheduler`] → [`use_case`] → [`inbox_repository`] → [`database`], and [`web_service_client`].
//! [`strategy`] lists the ways of coordinating instances.
//!
//! Parts of the comparison: [`web_service`] counts calls in its [`ledger`], [`instance`] starts and kills processes, [`stage`]
//! runs all parts, [`scene`] has the scenarios, [`isolation`] those of an isolation level, [`table`] prints the results.
#![forbid(unsafe_code)]

pub mod database;
pub mod inbox_repository;
pub mod instance;
pub mod isolation;
pub mod ledger;
pub mod scene;
pub mod scheduler;
pub mod stage;
pub mod strategy;
pub mod table;
pub mod use_case;
pub mod web_service;
pub mod web_service_client;
