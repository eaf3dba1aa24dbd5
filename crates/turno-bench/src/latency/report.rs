//! The table of latencies: Turno and its peer at each share of their own maximal rate.

use anyhow::Result;

use super::CALLERS;
use super::open_loop::Times;
use crate::inbox::work::median;
use crate::operations::Kind;
use crate::record::{self, Row};

/// Units of the quantiles.
const QUANTILES: [(f64, &str); 3] = [(0.5, "ms p50"), (0.99, "ms p99"), (0.999, "ms p99.9")];
const RATE: &str = "per second";

/// Measurements of a subject.
#[derive(Default)]
pub struct Measured {
    pub name: &'static str,
    /// Rates of the closed loop.
    pub max_rates: Vec<f64>,
    pub levels: Vec<Level>,
}

/// Measurements at a share of the maximal rate.
pub struct Level {
    share: f64,
    rates: Vec<f64>,
    times: Times,
}

impl Level {
    pub fn new(share: f64, rate: f64, times: Times) -> Self {
        let rates = vec![rate];
        Level {
            share,
            rates,
            times,
        }
    }

    pub fn add(&mut self, rate: f64, times: &Times) -> Result<()> {
        self.rates.push(rate);
        self.times.add(times)
    }
}

impl Measured {
    fn peer(&self, level: &Level) -> String {
        format!("{}, {:.0} %", self.name, level.share * 100.0)
    }
}

pub fn print(kind: Kind, peer: &Measured, turno: &Measured) {
    let subject = format!("Latency under load: {}", kind.title());
    println!("\n{subject}");
    println!(
        "  {:<46} {:>10} {:>9} {:>9} {:>9} {:>9} {:>15}",
        "", RATE, "p50 ms", "p99 ms", "p99.9 ms", "arrivals", "load late, p99"
    );
    for measured in [peer, turno] {
        let maximum = format!("{}, {CALLERS} callers that wait", measured.name);
        let max_rate = median(measured.max_rates.clone());
        println!("  {maximum:<46} {max_rate:>10.0}");
        record::add(Row::new(&subject, &maximum, max_rate, RATE));
        for level in &measured.levels {
            let (name, times) = (measured.peer(level), &level.times);
            let rate = median(level.rates.clone());
            let [p50, p99, p999] = QUANTILES.map(|(share, _)| times.quantile_ms(share));
            println!(
                "  {name:<46} {rate:>10.0} {p50:>9.2} {p99:>9.2} {p999:>9.2} {:>9} {:>12.2} ms",
                times.count(),
                times.lateness_ms(0.99)
            );
            record::add(Row::new(&subject, &name, rate, RATE));
        }
    }
    for (share, unit) in QUANTILES {
        for (other, level) in peer.levels.iter().zip(&turno.levels) {
            let (base, value) = (
                other.times.quantile_ms(share),
                level.times.quantile_ms(share),
            );
            let of = peer.peer(other);
            record::add(Row::new(&subject, &of, base, unit));
            let row = Row::new(&subject, &turno.peer(level), value, unit);
            record::add(row.against(&of, value / base, None));
        }
    }
}
