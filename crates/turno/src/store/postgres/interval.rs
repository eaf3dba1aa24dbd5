//! PostgreSQL's `interval`, limited to durations.

use std::time::Duration;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

type AnyError = Box<dyn std::error::Error + Sync + Send>;

/// A duration that is sent as an `interval`. A negative one is read as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval(pub Duration);

/// Returns a duration as the text of an `interval`, for drivers without intervals.
///
/// In seconds: PostgreSQL 14 rejects a number of microseconds that has more than 32 bits.
pub(crate) fn interval_text(length: Duration) -> String {
    format!("{}.{:06} seconds", length.as_secs(), length.subsec_micros())
}

impl ToSql for Interval {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, AnyError> {
        out.extend_from_slice(&crate::clock::as_us(self.0).to_be_bytes());
        out.extend_from_slice(&[0; 8]); // no days, no months: their length depends on the calendar
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INTERVAL
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Interval {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, AnyError> {
        let (us, rest) = raw
            .split_first_chunk::<8>()
            .ok_or("an interval has 16 bytes")?;
        let (days, months) = rest
            .split_first_chunk::<4>()
            .ok_or("an interval has 16 bytes")?;
        if months != [0; 4] {
            return Err("an interval with months has no fixed length".into());
        }
        let us = i64::from_be_bytes(*us) + i64::from(i32::from_be_bytes(*days)) * DAY_US;
        Ok(Interval(Duration::from_micros(
            u64::try_from(us).unwrap_or(0),
        )))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INTERVAL
    }
}
