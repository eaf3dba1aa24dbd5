//! Table of rates and their ratios.

pub struct Table {
    rows: Vec<(String, f64, String)>,
    unit: &'static str,
}

impl Table {
    pub fn new(title: &str, unit: &'static str) -> Self {
        println!("\n{title}");
        Table {
            rows: Vec::new(),
            unit,
        }
    }

    pub fn add(&mut self, name: &str, rate: f64) {
        self.note(name, rate, String::new());
    }

    /// Prints a rate, its ratio to an earlier one, and the required minimum.
    pub fn against(&mut self, name: &str, rate: f64, other: &str, floor: Option<f64>) {
        let base = self
            .rows
            .iter()
            .find(|(row, ..)| row == other)
            .map_or(f64::NAN, |(_, rate, _)| *rate);
        let ratio = rate / base;
        let floor = floor.map_or(String::new(), |floor| {
            format!(
                " (at least {floor}: {})",
                if ratio >= floor { "yes" } else { "NO" }
            )
        });
        self.note(name, rate, format!("{ratio:.2} × {other}{floor}"));
    }

    /// Prints a peer's rate, if it could be measured.
    pub fn maybe(&mut self, name: &str, rate: Option<f64>) {
        if let Some(rate) = rate {
            self.add(name, rate);
        }
    }

    /// Prints a rate with a given ratio.
    pub fn ratio(&mut self, name: &str, rate: f64, ratio: f64, floor: f64) {
        let held = if ratio >= floor { "yes" } else { "NO" };
        self.note(
            name,
            rate,
            format!("{ratio:.2} (at least {floor:.2}: {held})"),
        );
    }

    /// Prints a time with its upper limit.
    pub fn ms(&mut self, name: &str, time: f64, most: f64) {
        let held = if time <= most { "yes" } else { "NO" };
        self.note(name, time, format!("(at most {most}: {held})"));
    }

    fn note(&mut self, name: &str, rate: f64, note: String) {
        let digits = if rate < 100.0 { 2 } else { 0 };
        println!("  {name:<58} {rate:>10.digits$} {:<8} {note}", self.unit);
        self.rows.push((name.to_owned(), rate, note));
    }
}
