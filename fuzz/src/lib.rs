//! What must hold for any bytes that come from outside. Each target is one function, which panics where it does not hold.
//!
//! `cargo xtask fuzz` calls them with bytes that libFuzzer makes up. The tests call them with the corpus: the inputs that reached new
//! code in earlier runs, one per line of `corpus/NAME.txt`, in base64.

mod addresses;
mod canonical_json;
mod gate_heads;
mod names;
mod routes_file;
mod stored_answers;

/// A target: its name, and its check.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("addresses", addresses::check),
    ("canonical_json", canonical_json::check),
    ("gate_heads", gate_heads::check),
    ("names", names::check),
    ("routes_file", routes_file::check),
    ("stored_answers", stored_answers::check),
];

/// Returns the check of a target.
pub fn check(name: &str) -> Option<fn(&[u8])> {
    let target = TARGETS.iter().find(|(known, _)| *known == name)?;
    Some(target.1)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;

    use super::*;

    #[test]
    fn every_input_of_the_corpus_passes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        for (name, check) in TARGETS {
            let corpus = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
            let inputs: Vec<_> = corpus.lines().collect();
            assert!(inputs.len() >= 10, "{name} has a corpus");
            for input in inputs {
                println!("{name}: {input}");
                check(&BASE64.decode(input).unwrap());
            }
        }
    }
}
