use super::*;
use crate::commands::top::view::Dialog;
use numaio_machine::ids::NodeId;
use numaio_machine::units::BandwidthUnit;
use numaio_schema::{BalanceAdvice, BalanceReason, TopSnapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use std::path::Path;

const STYLE: ScreenStyle = ScreenStyle { color: true, ascii: false, unit: BandwidthUnit::GigabytesPerS };

fn snapshot() -> TopSnapshot {
    TopSnapshot::from_json(include_str!("../../../../../schema/tests/fixtures/top-1.json"))
        .expect("a snapshot")
}

fn view() -> TopView {
    let mut view = TopView::new("every 2 s".to_owned(), Default::default(), String::new());
    view.update(snapshot());
    view
}

fn press(view: &mut TopView, keys: &str) {
    for key in keys.chars() {
        let _ = view.handle_key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    }
}

fn buffer(view: &mut TopView, style: &ScreenStyle, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(view, style, &mut buffer);
    buffer
}

/// Returns the text of a buffer, without blanks at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let lines = buffer.content().chunks(width).map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// Compares a screen with a file of `screens`; UPDATE_EXPECTED=1 rewrites the file.
fn expect(name: &str, screen: &Buffer) {
    let found = text(screen);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/top/screens").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, &found).expect("the expected screen");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{name}; UPDATE_EXPECTED=1 rewrites it");
}

#[test]
fn screens_of_three_sizes() {
    for (name, width, height) in [("80x24.txt", 80, 24), ("40x15.txt", 40, 15), ("120x40.txt", 120, 40)] {
        expect(name, &buffer(&mut view(), &STYLE, width, height));
    }
}

#[test]
fn explanation_replaces_nodes_and_devices() {
    let mut view = view();
    press(&mut view, "sssje");
    assert_eq!(view.selected().map(|program| program.pid), Some(527));
    let explained = text(&buffer(&mut view, &STYLE, 80, 24));
    assert!(explained.contains("Balance: move to node 7 (vda)"), "{explained}");
    press(&mut view, "e");
    assert!(text(&buffer(&mut view, &STYLE, 80, 24)).contains("NODE"));
}

#[test]
fn decision_of_a_balancer_is_shown_and_explained() {
    let mut snapshot = snapshot();
    let dd = snapshot.programs.iter_mut().find(|program| program.pid == 527).expect("dd");
    let reason = BalanceReason::Gain { gain_bytes_per_s: 16.2e6, move_bytes: 1 << 20, cost_s: 0.02 };
    dd.balance = Some(BalanceAdvice { to: Some(NodeId(7)), predicted_bytes_per_s: Some(34.7e6), reason });
    dd.advice = None;
    let mut view = view();
    view.update(snapshot.clone());
    let tables = text(&buffer(&mut view, &STYLE, 120, 40));
    assert!(tables.contains("7: +16.2 MB/s"), "{tables}");
    press(&mut view, "sssje");
    expect("explain-80x24.txt", &buffer(&mut view, &STYLE, 80, 24));
    let dd = snapshot.programs.iter_mut().find(|program| program.pid == 527).expect("dd");
    let reason = BalanceReason::NoModel { node: NodeId(7) };
    dd.balance = Some(BalanceAdvice { to: None, predicted_bytes_per_s: None, reason });
    dd.advice = Some("move to node 7 (vda)".to_owned());
    view.update(snapshot);
    let explained = text(&buffer(&mut view, &STYLE, 80, 24));
    let words = explained.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(words.contains("only nearness is known: node 7 has no model"), "{explained}");
}

#[test]
fn help_and_filter_are_shown_in_ascii() {
    let ascii = ScreenStyle { ascii: true, ..STYLE };
    let mut view = view();
    press(&mut view, "?");
    let help = buffer(&mut view, &ascii, 80, 24);
    expect("help-80x24.txt", &help);
    press(&mut view, "x/postgr");
    let filtered = text(&buffer(&mut view, &ascii, 80, 24));
    assert!(filtered.contains("Filter: postgr_") && filtered.contains("postgres"), "{filtered}");
    assert!(!filtered.contains("iperf3"), "{filtered}");
    assert!(text(&help).is_ascii() && filtered.is_ascii());
}

#[test]
fn questions_and_long_lines_stay_inside_the_screen() {
    let mut view = view();
    let lines = vec!["a word ".repeat(40), "x".repeat(300)];
    let confirms = Some(crate::commands::top::view::ViewAction::Quit);
    view.show(Dialog { title: "Move".to_owned(), lines, confirms });
    for (width, height) in [(40, 12), (80, 24), (200, 50)] {
        let screen = text(&buffer(&mut view, &STYLE, width, height));
        assert!(screen.contains("y yes"), "{screen}");
    }
}

#[test]
fn every_size_is_drawn_without_a_panic() {
    let mut many = snapshot();
    many.programs = (0..300)
        .map(|pid| numaio_schema::TopProgram {
            pid,
            name: "名前が長い".repeat(9),
            ..many.programs[1].clone()
        })
        .collect();
    many.nodes = (0..64).map(|_| many.nodes[0].clone()).collect();
    let mut view = view();
    view.update(many);
    for width in [0, 1, 10, 39, 40, 41, 79, 133, 255] {
        for height in [0, 1, 2, 3, 11, 12, 13, 25, 80] {
            for keys in ["e", "e", "G", "g", "?x"] {
                press(&mut view, keys);
                buffer(&mut view, &STYLE, width, height);
            }
        }
    }
}

#[test]
fn selection_is_reversed_and_remote_programs_are_red() {
    let mut view = view();
    let screen = buffer(&mut view, &STYLE, 80, 24);
    let lines: Vec<String> = text(&screen).lines().map(str::to_owned).collect();
    let row = lines.iter().position(|line| line.contains("postgres")).expect("a row");
    let row = u16::try_from(row).expect("a line");
    let line = &lines[usize::from(row)];
    let remote = line.find("100 %").map(|at| line[..at].chars().count()).expect("a remote share");
    let cell = &screen[(u16::try_from(remote).expect("a column"), row)];
    assert_eq!((cell.fg, cell.modifier.contains(Modifier::REVERSED)), (Color::Red, true));
    let plain = buffer(&mut view, &ScreenStyle { color: false, ..STYLE }, 80, 24);
    assert!(plain.content().iter().all(|cell| cell.fg == Color::Reset), "no colors");
}

#[test]
fn selected_program_stays_visible() {
    let mut view = view();
    press(&mut view, "G");
    let last = view.selected().map(|program| program.name.clone()).expect("a program");
    assert!(text(&buffer(&mut view, &STYLE, 40, 12)).contains(&last));
    press(&mut view, "g");
    let first = view.selected().map(|program| program.name.clone()).expect("a program");
    assert!(text(&buffer(&mut view, &STYLE, 40, 12)).contains(&first));
}
