//! Rates, and what they are beside another.

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

    /// A rate, with its ratio to an earlier one and the floor that was asked for.
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

    fn note(&mut self, name: &str, rate: f64, note: String) {
        println!("  {name:<58} {rate:>10.0} {:<8} {note}", self.unit);
        self.rows.push((name.to_owned(), rate, note));
    }
}
