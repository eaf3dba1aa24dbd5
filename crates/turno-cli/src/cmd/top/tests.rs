//! Golden frames on a test terminal, and actions of keys. To update: `TURNO_UPDATE_GOLDEN=1 cargo test --bin turno top`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use turno::Token;
use turno::history::{HistoryEntry, HistoryEvent, Part};
use turno::inbox::{AttemptError, ItemId, ItemState, ItemView, QueueStats};
use turno::lock::LockHolder;
use turno::once::{OnceClaim, OnceState, OnceView};
use turno::outbox::{EventState, EventView, OutboxStats};
use turno::overview::Overview;
use turno::store::Attribution;
use uuid::Uuid;

use super::action::{Action, ActionOutcome};
use super::draw;
use super::poller::{Focus, Snapshot};
use super::screen::Ink;
use super::view::{Step, View};

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_794_790_000 + second).unwrap()
}

fn lock(resource: &str, token: i64, left: u64, whole: u64) -> LockHolder {
    LockHolder {
        resource: resource.into(),
        mode: "exclusive".into(),
        owner: format!("owner-{token}"),
        token: Token(token),
        holds: 1,
        attribution: Attribution {
            user: Some("ana".into()),
            service: Some("flowpay".into()),
            description: Some("Registro de\tpago".into()),
            host: Some("app-1".into()),
            pid: Some(17),
        },
        acquired_at: time(0),
        expires_at: time(whole as i64),
        remaining: Duration::from_secs(left),
        waiters: u64::from(token == 1),
    }
}

fn queue(name: &str, failed: u64) -> QueueStats {
    QueueStats {
        queue: name.into(),
        total: 20,
        pending: 4,
        scheduled: 1,
        processing: 2,
        completed: 13 - failed,
        failed,
        oldest_pending: Some(Duration::from_secs(75)),
    }
}

fn errors() -> Vec<AttemptError> {
    vec![AttemptError {
        attempt: 1,
        at: time(7),
        kind: "failed".into(),
        error: "550 no such user".into(),
        worker: Some("worker-1".into()),
    }]
}

fn item(id: i64) -> ItemView {
    ItemView {
        id: ItemId(id),
        state: ItemState::Failed,
        payload: Some("{\"to\": \"ana\"}".into()),
        key: None,
        group: None,
        priority: Some(1),
        attempts: 5,
        abandoned: 0,
        worker: Some("worker-1".into()),
        pushed_at: Some(time(1)),
        at: Some(time(7)),
        errors: errors(),
    }
}

fn event() -> EventView {
    EventView {
        seq: ItemId(3),
        id: Uuid::from_u128(7),
        state: EventState::Dead,
        kind: Some("TicketCreatedEvent".into()),
        key: Some("t7".into()),
        correlation_id: None,
        traceparent: None,
        headers: Default::default(),
        payload: Some("{\"id\": 7}".into()),
        refused: 5,
        doubtful: 0,
        by: Some("relay-1".into()),
        emitted_at: Some(time(2)),
        at: Some(time(9)),
        errors: errors(),
    }
}

fn key(name: &str, state: OnceState) -> OnceView {
    let claim = OnceClaim {
        key: name.into(),
        token: Token(5),
    };
    OnceView {
        claim,
        key: name.into(),
        state,
        attempt: 1,
        fingerprint: None,
        worker: Some("gate-1".into()),
        scope: None,
        began_at: time(3),
        expires_at: time(33),
        late: 0,
        answer: None,
    }
}

fn entry(id: i64, event: HistoryEvent) -> HistoryEntry {
    HistoryEntry {
        id: Some(id),
        at: time(id),
        part: Part::Lock,
        event,
        resource: "loan/1".into(),
        count: None,
        token: Some(Token(1)),
        mode: Some("exclusive".into()),
        owner: Some("owner-1".into()),
        attribution: Attribution::default(),
        acquired_at: Some(time(0)),
        expires_at: Some(time(300)),
        actor: Some("eva".into()).filter(|_| event == HistoryEvent::Broken),
        reason: Some("its host is gone".into()).filter(|_| event == HistoryEvent::Broken),
    }
}

/// Polled in the future, so that no time passes during a test.
fn snapshot() -> Snapshot {
    Snapshot {
        at: Instant::now() + Duration::from_secs(3600),
        overview: Overview {
            locks: vec![lock("loan/1", 1, 285, 300), lock("loan/2", 2, 3, 60)],
            queues: vec![queue("mail", 2), queue("pay/q", 0)],
            outbox: Some(OutboxStats {
                total: 9,
                pending: 1,
                scheduled: 0,
                processing: 0,
                dispatched: 7,
                dead: 1,
                blocked: 0,
                parked_keys: 0,
                oldest_pending: Some(Duration::from_secs(4)),
            }),
            once: vec![
                key("pago/77", OnceState::Unknown),
                key("pago/78", OnceState::InFlight),
            ],
        },
        items: Some(("mail".into(), vec![item(7), item(8)])),
        events: Some(vec![event()]),
        history: Some(vec![
            entry(3, HistoryEvent::Late),
            entry(2, HistoryEvent::Broken),
        ]),
    }
}

fn view() -> View {
    let mut view = View::new("sqlite:turno.db".into());
    view.update(snapshot());
    view
}

fn press(view: &mut View, keys: &str) -> Step {
    let mut step = Step::Stay;
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\t' => KeyCode::Tab,
            '\u{8}' => KeyCode::Backspace,
            letter => KeyCode::Char(letter),
        };
        step = view.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    step
}

fn drawn(view: &mut View, width: u16, height: u16, ink: Ink) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw::frame(frame, view, ink))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn text(view: &mut View, width: u16, height: u16) -> String {
    let buffer = drawn(view, width, height, Ink::Plain);
    let lines = buffer.content().chunks(width.into()).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// The keys that lead to a frame, and the size of the screen.
const FRAMES: [(&str, &str, u16, u16); 11] = [
    ("locks", "", 120, 24),
    ("locks-usual", "", 80, 24),
    ("locks-small", "j", 40, 10),
    ("queues", "2", 120, 20),
    ("items", "2\n", 100, 20),
    ("outbox", "3", 120, 20),
    ("once", "4", 100, 20),
    ("history", "5", 100, 20),
    ("ask", "bits host is gone", 80, 20),
    ("help", "?", 100, 24),
    ("filter", "/no such name\n", 80, 12),
];

#[test]
fn every_frame_is_as_agreed() {
    let update = std::env::var_os("TURNO_UPDATE_GOLDEN").is_some();
    for (name, keys, width, height) in FRAMES {
        let mut view = view();
        press(&mut view, keys);
        let shown = text(&mut view, width, height);
        // Tests run in the folder of their package.
        let golden = PathBuf::from(format!("src/cmd/top/golden/{name}.txt"));
        if update {
            std::fs::write(&golden, &shown).unwrap();
        }
        let agreed = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(
            shown, agreed,
            "{name} has changed; if that is meant, run with TURNO_UPDATE_GOLDEN=1"
        );
    }
}

#[test]
fn every_screen_is_large_enough() {
    let sizes = [0, 1, 2, 3, 5, 9, 13, 20, 33, 47, 61, 85, 130];
    for (_, keys, ..) in FRAMES {
        for width in sizes {
            for height in [0, 1, 2, 3, 4, 5, 8, 13, 19, 20, 40] {
                let mut view = view();
                press(&mut view, keys);
                drawn(&mut view, width, height, Ink::Colour);
            }
        }
    }
}

#[test]
fn without_colour_there_is_none() {
    let has_colour = |ink| {
        let buffer = drawn(&mut view(), 100, 24, ink);
        let mut cells = buffer.content().iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(!has_colour(Ink::Plain));
    assert!(has_colour(Ink::Colour), "the control");
}

#[test]
fn what_is_selected_stays_so_when_others_come_and_go() {
    let mut view = view();
    press(&mut view, "j");
    let mut next = snapshot();
    next.overview.locks.insert(0, lock("a", 9, 5, 5));
    view.update(next);
    press(&mut view, "b");
    let shown = text(&mut view, 80, 20);
    assert!(shown.contains("Takes loan/2 from user ana"), "{shown}");
    // The dialog keeps the row that was selected, whatever the next poll brings.
    let mut next = snapshot();
    next.overview.locks = vec![lock("loan/2", 77, 5, 5)];
    view.update(next);
    let Step::Do(action, reason) = press(&mut view, "  gone \n") else {
        panic!("nothing was done");
    };
    let Action::Break { token, .. } = action else {
        panic!("{action:?}");
    };
    assert_eq!((token, reason.as_str()), (Token(2), "gone"));
    // If the selected row is gone, the row in its place is selected.
    assert!(text(&mut view, 80, 20).contains("b break"));
}

#[test]
fn nothing_is_done_without_a_reason() {
    let mut view = view();
    assert_eq!(press(&mut view, "b\n"), Step::Stay);
    assert_eq!(press(&mut view, "  \n"), Step::Stay);
    assert_eq!(press(&mut view, "x\u{8}\n"), Step::Stay);
    assert_eq!(press(&mut view, "why\u{1b}"), Step::Stay);
    let shown = text(&mut view, 80, 20);
    assert!(shown.contains("nothing was done"), "{shown}");
    // At most the length that the history stores.
    press(&mut view, "b");
    let Step::Do(_, reason) = press(&mut view, &("ñ".repeat(2000) + "\n")) else {
        panic!("nothing was done");
    };
    assert_eq!(reason.len(), turno::TEXT_BYTES);
}

#[test]
fn every_key_does_what_it_says_and_nothing_elsewhere() {
    let verb = |keys: &str| {
        let mut view = view();
        match press(&mut view, &format!("{keys}why\n")) {
            Step::Do(action, _) => action.verb(),
            _ => "nothing",
        }
    };
    assert_eq!(verb("b"), "break");
    assert_eq!(verb("2r"), "requeue all");
    assert_eq!(verb("2\nr"), "requeue");
    assert_eq!(verb("2\nd"), "discard");
    assert_eq!(verb("3r"), "requeue");
    assert_eq!(verb("3d"), "discard");
    assert_eq!(verb("2s"), "reset stuck");
    assert_eq!(verb("4f"), "forget");
    assert_eq!(verb("4c\n"), "resolve");
    for nowhere in ["d", "r", "2jr", "2d", "3b", "3s", "4jf", "4jc", "5b", "5r"] {
        assert_eq!(verb(nowhere), "nothing", "{nowhere}");
    }
    assert_eq!(press(&mut view(), "q"), Step::Quit);
    assert_eq!(press(&mut view(), "/q"), Step::Stay);
}

#[test]
fn an_answer_is_json_or_none() {
    let answer = |typed: &str| match press(&mut view(), &format!("4c{typed}\nwhy\n")) {
        Step::Do(Action::Resolve { key, answer }, reason) => Some((key, answer, reason)),
        _ => None,
    };
    let of = |answer: Option<&str>| {
        let answer = answer.map(str::to_owned);
        Some(("pago/77".to_owned(), answer, "why".to_owned()))
    };
    assert_eq!(answer("paid"), None);
    assert_eq!(answer("{\"paid\": "), None);
    assert_eq!(answer("{\"paid\": 7} "), of(Some("{\"paid\": 7}")));
    assert_eq!(answer(""), of(None));
}

#[test]
fn an_answer_is_stored_with_a_reason_only() {
    let mut view = view();
    assert_eq!(press(&mut view, "4c7\n\n  \n"), Step::Stay);
    let shown = text(&mut view, 80, 20);
    assert!(
        shown.contains("gets the answer 7") && shown.contains("Reason:"),
        "{shown}"
    );
    assert_eq!(press(&mut view, "why\u{1b}"), Step::Stay);
    let shown = text(&mut view, 80, 20);
    assert!(shown.contains("nothing was done"), "{shown}");
}

#[test]
fn only_what_is_shown_is_looked_for() {
    let mut view = view();
    assert_eq!(view.focus(), Focus::Nothing);
    press(&mut view, "2\n");
    assert_eq!(view.focus(), Focus::Items("mail".into()));
    press(&mut view, "\u{1b}");
    assert_eq!(view.focus(), Focus::Nothing);
    press(&mut view, "\t");
    assert_eq!(view.focus(), Focus::Events);
    press(&mut view, "5");
    assert_eq!(view.focus(), Focus::History);
}

#[test]
fn what_is_old_says_so() {
    let mut view = view();
    view.poll_failed("the server is away".into());
    let shown = text(&mut view, 80, 20);
    assert!(shown.contains("old: 0 s") && shown.contains("the server is away"));
    assert!(shown.contains("loan/1"), "what was seen is still there");
    view.update(snapshot());
    assert!(text(&mut view, 80, 20).contains("live"));
    view.show_outcome(Ok(ActionOutcome::Done("1 item was requeued".into())));
    assert!(text(&mut view, 80, 20).contains("1 item was requeued"));
}
