//! Its end, a resize, and its behaviour without a terminal.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use turno_testkit::eventually;

use crate::common::{Fixture, Kind, LONG};
use crate::scene;
use crate::tmux::Tmux;

/// Checks that the terminal is restored: the main screen, and editable lines.
#[track_caller]
fn is_restored(top: &Tmux<'_>, code: &str) {
    let screen = top.await_screen("the shell's word", |screen| screen.contains("icanon"));
    assert!(screen.contains(&format!("ended {code}")), "{screen}");
    assert!(!screen.contains("-icanon"), "{screen}");
    assert!(
        screen.contains(" echo ") && !screen.contains(" -echo "),
        "{screen}"
    );
    assert_eq!(
        top.tell(&["display-message", "-p", "#{alternate_on}"])
            .trim(),
        "0"
    );
}

#[test]
fn the_terminal_is_given_back_when_it_is_quit() {
    let fixture = Fixture::new(Kind::Sqlite);
    let top = Tmux::start(&fixture, &[]);
    let teaches = top.await_text("No lock is held.");
    assert!(teaches.contains("turno lock acquire"), "{teaches}");
    assert_eq!(
        top.tell(&["display-message", "-p", "#{alternate_on}"])
            .trim(),
        "1"
    );
    top.press("q");
    is_restored(&top, "0");
}

#[test]
fn the_terminal_is_given_back_after_a_signal() {
    let fixture = Fixture::new(Kind::Sqlite);
    let top = Tmux::start(&fixture, &[]);
    let pid = Pid::from_raw(top.pid()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    is_restored(&top, "143");
}

/// The control: after a kill, the terminal is not restored, and the check detects that.
#[test]
fn the_terminal_is_not_given_back_after_a_kill() {
    let fixture = Fixture::new(Kind::Sqlite);
    let top = Tmux::start(&fixture, &[]);
    let pid = Pid::from_raw(top.pid()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    top.await_text("-icanon");
    let alternate = top.tell(&["display-message", "-p", "#{alternate_on}"]);
    assert_eq!(alternate.trim(), "1");
}

/// If the window is closed, no process is left that continues to read.
#[test]
fn it_ends_with_its_terminal() {
    let fixture = Fixture::new(Kind::Sqlite);
    let top = Tmux::start(&fixture, &[]);
    top.await_text("No lock is held.");
    let pid = Pid::from_raw(top.pid()).unwrap();
    top.tell(&["kill-server"]);
    eventually(LONG, "its end", || {
        test_kill_process(pid).is_err().then_some(())
    });
}

#[test]
fn it_follows_the_size_of_the_screen_and_the_wish_for_no_colour() {
    let fixture = Fixture::new(Kind::Sqlite);
    fixture
        .turno(&["lock", "acquire", "loan/1", "--ttl", "600s"])
        .expect(0);
    let top = Tmux::start(&fixture, &[("NO_COLOR", "1")]);
    top.await_text("DESCRIPTION");
    // 30 to 38 and 40 to 48 are foreground and background colours; 39 and 49 reset them.
    let drawn = top.tell(&["capture-pane", "-p", "-e"]);
    let has_colour = |drawn: &str| {
        ["\x1b[3", "\x1b[4", ";3", ";4"].iter().any(|code| {
            let mut places = drawn.match_indices(code);
            places.any(|(at, _)| {
                drawn[at + code.len()..].starts_with(|next: char| ('0'..='8').contains(&next))
            })
        })
    };
    assert!(!has_colour(&drawn), "{drawn:?}");
    top.tell(&["resize-window", "-x", "40", "-y", "8"]);
    top.await_screen("fewer columns", |screen| {
        screen.contains("loan/1") && screen.contains("LEFT") && !screen.contains("DESCRIPTION")
    });
    top.tell(&["resize-window", "-x", "100", "-y", "20"]);
    top.await_text("DESCRIPTION");
    drop(top);

    let coloured = Fixture::new(Kind::Sqlite);
    let top = Tmux::start(&coloured, &[]);
    let drawn = top.tell(&["capture-pane", "-p", "-e"]);
    assert!(has_colour(&drawn), "the control: {drawn:?}");
}

#[test]
fn a_server_that_goes_away_is_reported() {
    let fixture = Fixture::new(Kind::Sqlite);
    fixture
        .turno(&["lock", "acquire", "loan/1", "--ttl", "600s"])
        .expect(0);
    let (server, url) = scene::serve(&fixture);
    let top = Tmux::start(&fixture, &[("TURNO_SERVER", &url)]);
    top.await_text("loan/1");
    server.kill_9();
    let old = top.await_text("The data shown is old");
    assert!(old.contains("old: ") && old.contains("loan/1"), "{old}");
}

#[test]
fn where_nothing_can_be_seen_it_says_what_to_use() {
    let fixture = Fixture::new(Kind::Sqlite);
    for words in [&["top"][..], &["--json", "top"]] {
        let done = fixture.turno(words).expect(2);
        assert!(
            done.out.is_empty() && done.err.contains("turno lock list"),
            "{done:?}"
        );
    }
}
