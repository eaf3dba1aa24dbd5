//! Progress of long work: on standard error, and only if it is a terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::Output;

/// Refresh interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

const BAR: &str = "{wide_bar} {percent:>3} %  {msg}  {eta} left";
const SPINNER: &str = "{spinner} {msg}";

/// A bar for work of known length. It disappears when it is dropped.
pub(crate) fn bar(output: Output, length: u64) -> ProgressBar {
    if !is_watched(output) {
        return ProgressBar::hidden();
    }
    ProgressBar::new(length).with_style(style(BAR))
}

/// A spinner for work of unknown length. It disappears when it is dropped.
pub(crate) fn spinner(output: Output, message: impl Into<String>) -> ProgressBar {
    if !is_watched(output) {
        return ProgressBar::hidden();
    }
    let spinner = ProgressBar::new_spinner()
        .with_style(style(SPINNER))
        .with_message(message.into());
    spinner.enable_steady_tick(TICK);
    spinner
}

fn is_watched(output: Output) -> bool {
    !output.is_json() && io::stderr().is_terminal()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constants, and valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [BAR, SPINNER] {
            style(template);
        }
    }
}
