//! The program without arguments, on the user's own store.

use crate::on_each_store;
use crate::stage::Stage;

on_each_store! {
    el_programa_compara_sin_y_con_outbox;
}

/// First run of the program: without the outbox, the crashes lose, invent and double an event; with the outbox, none.
async fn el_programa_compara_sin_y_con_outbox(stage: Stage) {
    let words = ["--store", &stage.cast.store];
    let output = stage.cast.command(&words, None).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let last_three = |name: &str| -> Vec<String> {
        let line = text
            .lines()
            .find(|line| line.contains(&format!("│ {name}")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        let cells = line.trim_end_matches('│').split('┆').map(str::trim);
        cells.skip(5).map(str::to_owned).collect()
    };
    assert_eq!(last_three("publish by hand"), ["1", "1", "1"], "{text}");
    assert_eq!(last_three("Turno's outbox"), ["0", "0", "0"], "{text}");
}
