//! AFORE: the same certification request reaches several instances at the same moment.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use turno::Turno;
use turno::once::{OnceError, canonical_json};

use super::figures::{Count, Figures};
use super::ledger;
use super::part::Part;
use super::set::{Cast, Role, Set, Variant};

pub(super) const STORY: &str =
    "the same certification requests reach all instances at the same moment";

const PROCESSES: u32 = 8;
const REQUESTS: u32 = 25;
/// The longest time after which a request can be repeated.
const TTL: Duration = Duration::from_secs(60);
pub(super) const OPERATIONS: u32 = PROCESSES * REQUESTS;

pub(super) fn casts() -> Vec<Cast> {
    vec![Cast {
        role: Role::Work,
        processes: PROCESSES as usize,
        kills: Vec::new(),
    }]
}

pub(super) async fn work(part: &mut Part) -> Result<()> {
    for request in 0..REQUESTS {
        part.here(2 * request).await;
        let answer = match part.turno.clone() {
            None => certify(part, request).await?,
            Some(turno) => certify_once(part, request, &turno).await?,
        };
        let response = format!("{} {}", answer["diagnosticoProcesar"], part.index);
        ledger::append(&part.set.folder.join("respuestas"), &response)?;
        part.done();
    }
    Ok(())
}

/// `POST /disposicionimss/certificacion`: must not run twice.
async fn certify(part: &mut Part, request: u32) -> Result<Value> {
    // By now the others have the request too, or know that it is in flight.
    part.here(2 * request + 1).await;
    ledger::append(
        &executions(&part.set),
        &format!("certificacion-{request} instance-{}", part.index),
    )?;
    Ok(answer("01", "000"))
}

async fn certify_once(part: &mut Part, request: u32, turno: &Turno) -> Result<Value> {
    let key = part.set.name(&digest(&body(part.index, request))?);
    let done = turno
        .once(key)
        .ttl(TTL)
        .run(async || certify(part, request).await)
        .await;
    match done {
        Ok(answer) => Ok(answer),
        Err(OnceError::InFlight(_)) => Ok(answer("02", "532")),
        Err(OnceError::Work(error)) => Err(error),
        Err(other) => Err(anyhow!("{other}")),
    }
}

/// Returns the same request, as different clients serialize it.
fn body(index: usize, request: u32) -> String {
    if index.is_multiple_of(2) {
        format!(r#"{{"nss": "123456789{request:02}", "tipoPrestacion": "01"}}"#)
    } else {
        format!(r#"{{"tipoPrestacion":"01","nss":"123456789{request:02}"}}"#)
    }
}

/// Returns the fingerprint that makes two requests the same.
fn digest(body: &str) -> Result<String> {
    let digest = Sha256::digest(canonical_json(body.as_bytes())?);
    let mut text = String::new();
    for byte in digest {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

fn answer(result: &str, diagnosis: &str) -> Value {
    json!({"resultadoOperacion": result, "diagnosticoProcesar": diagnosis, "tipoPrestacion": "01"})
}

pub(super) fn count(set: &Set) -> Result<Count> {
    let (executed, different) = ledger::tally(&executions(set))?;
    let answers = ledger::lines(&set.folder.join("respuestas"))?;
    let in_flight = answers.iter().filter(|line| line.starts_with("\"532\""));
    let figures = Figures {
        operations: OPERATIONS,
        duplicates: Some(executed - different),
        lost_items: Some(REQUESTS - different),
        ..Figures::default()
    };
    let remark = match set.how {
        Variant::Turno => format!(
            "{executed} executed, {} rejected as in flight (02/532)",
            in_flight.count()
        ),
        _ => format!("{executed} executed for {different} requests"),
    };
    Ok(Count { figures, remark })
}

pub(super) fn damage(set: &Set) -> Option<String> {
    let (executed, different) = ledger::tally(&executions(set)).ok()?;
    Some(format!(", {} duplicates", executed - different))
}

/// Returns the file with the executions.
fn executions(set: &Set) -> PathBuf {
    set.folder.join("certificaciones")
}
