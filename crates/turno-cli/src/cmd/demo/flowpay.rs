//! FlowPay: several users register payments on one loan. A process that has read the balance before another one writes it
//! overwrites that payment.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use turno::lock::RunError;
use turno::{Token, Turno};

use super::figures::{Count, Figures};
use super::ledger::number;
use super::part::Part;
use super::set::{Cast, Role, Set, Variant};

pub(super) const STORY: &str = "processes register payments on one loan at the same moment";

const PROCESSES: u32 = 8;
const ROUNDS: u32 = 25;
pub(super) const OPERATIONS: u32 = PROCESSES * ROUNDS;
const LOAN: &str = "PRESTAMO/123";
/// In cents: amounts are never floats.
const BALANCE: u64 = 10_000_000;
const PAYMENT: u64 = 10_000;

const TTL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(60);

pub(super) fn casts() -> Vec<Cast> {
    vec![Cast {
        role: Role::Work,
        processes: PROCESSES as usize,
        kills: Vec::new(),
    }]
}

pub(super) fn prepare(set: &Set) -> Result<()> {
    let loan = Loan {
        balance: BALANCE,
        token: 0,
    };
    loan.write(set, "prepared")
}

pub(super) async fn work(part: &mut Part) -> Result<()> {
    for round in 0..ROUNDS {
        part.here(2 * round).await;
        match part.turno.clone() {
            None => pay(part, round, None).await?,
            Some(turno) => pay_in_turn(part, round, &turno).await?,
        }
        part.done();
    }
    Ok(())
}

/// One payment: reads and writes the balance.
async fn pay(part: &mut Part, round: u32, token: Option<Token>) -> Result<()> {
    let mut loan = Loan::read(&part.set)?;
    // By now the others have read the balance too, or wait for the lock.
    part.here(2 * round + 1).await;
    loan.balance -= PAYMENT;
    if let Some(Token(token)) = token {
        // What `guard` does in a database: a writer with an older token is rejected.
        ensure!(
            Loan::read(&part.set)?.token <= token,
            "the token {token} is stale"
        );
        loan.token = token;
    }
    loan.write(&part.set, &part.index.to_string())
}

async fn pay_in_turn(part: &mut Part, round: u32, turno: &Turno) -> Result<()> {
    let lock = turno
        .lock(part.set.name(LOAN))
        .ttl(TTL)
        .user(part.index.to_string())
        .description("Registro de pago");
    let first = lock
        .clone()
        .run(async |lease| pay(part, round, Some(lease.token())).await)
        .await;
    let paid = match first {
        Err(RunError::Busy(_)) => {
            part.away();
            lock.wait(WAIT)
                .run(async |lease| pay(part, round, Some(lease.token())).await)
                .await
        }
        other => other,
    };
    paid.map_err(|error| match error {
        RunError::Work(error) => error,
        other => anyhow!("{other}"),
    })
}

pub(super) fn count(set: &Set) -> Result<Count> {
    let lost = OPERATIONS - paid(set)?;
    let figures = Figures {
        operations: OPERATIONS,
        lost_updates: Some(lost),
        ..Figures::default()
    };
    let remark = match set.how {
        Variant::Turno => "one process at a time: the balance includes every payment".to_owned(),
        _ => format!(
            "processes that read the same balance overwrite each other: payments of {}.00 are lost",
            u64::from(lost) * PAYMENT / 100
        ),
    };
    Ok(Count { figures, remark })
}

pub(super) fn damage(set: &Set, done: u32) -> Option<String> {
    let lost = done.saturating_sub(paid(set).ok()?);
    Some(format!(", {lost} lost updates"))
}

/// Returns the number of payments in the loan's balance.
fn paid(set: &Set) -> Result<u32> {
    let paid = (BALANCE - Loan::read(set)?.balance) / PAYMENT;
    Ok(number(usize::try_from(paid)?))
}

/// A loan in a plain file.
#[derive(Debug)]
struct Loan {
    balance: u64,
    /// Fencing token of the last writer.
    token: i64,
}

impl Loan {
    fn file(set: &Set) -> PathBuf {
        set.folder.join("prestamo")
    }

    fn read(set: &Set) -> Result<Self> {
        let text = fs::read_to_string(Self::file(set)).context("the loan cannot be read")?;
        let (balance, token) = text
            .split_once(' ')
            .context("the file of the loan is incomplete")?;
        Ok(Loan {
            balance: balance.parse()?,
            token: token.parse()?,
        })
    }

    /// Writes a new file and renames it, so that no process reads a half-written file.
    fn write(&self, set: &Set, writer: &str) -> Result<()> {
        let new = set.folder.join(format!("prestamo.{writer}"));
        fs::write(&new, format!("{} {}", self.balance, self.token))?;
        fs::rename(new, Self::file(set)).context("the loan cannot be written")
    }
}
