//! A lease as an argument of the command line, and the message for a lost one.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use turno::Token;
use turno::lock::LeaseId;

use crate::context::Context;
use crate::fail::Usage;

#[derive(Debug, Args)]
pub(crate) struct LeaseArgs {
    /// Resource
    resource: String,

    /// Id of the lease, as acquire printed it, or its fencing token
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    lease: String,
}

impl LeaseArgs {
    pub(crate) fn id(self) -> Result<LeaseId> {
        if let Ok(token) = self.lease.parse() {
            return Ok(LeaseId {
                resource: self.resource,
                token: Token(token),
            });
        }
        let id: LeaseId = self.lease.parse()?;
        if id.resource != self.resource {
            let detail = format!(
                "lease is for {}, not for {}: give the id that was printed for this resource",
                id.resource, self.resource
            );
            return Err(Usage::new("lease", detail).into());
        }
        Ok(id)
    }
}

/// Prints that a lease is lost. This is an outcome of the call, but a failure of the command.
pub(crate) fn tell_lost(context: &Context, id: &LeaseId) -> Result<ExitCode> {
    let detail = format!(
        "the lease {id} is lost: it has expired, was released, or was broken. See `turno lock history {}`",
        id.resource
    );
    if context.output.is_json() {
        context
            .output
            .json(&json!({"code": "lost", "resource": id.resource, "id": id, "detail": detail}))?;
    } else {
        context.output.note(&detail);
    }
    Ok(ExitCode::FAILURE)
}
