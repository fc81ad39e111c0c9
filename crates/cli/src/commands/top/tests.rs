use super::move_offer::question;
use super::view::{OfferedMove, TopView, ViewAction, ViewMode};
use super::*;
use crate::options::interval;
use numaio_machine::discover::discover_quick;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;
use numaio_model::top::ProgramSort;
use numaio_schema::{BalanceAdvice, BalanceReason, TopProgram};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn snapshot() -> TopSnapshot {
    TopSnapshot::from_json(include_str!("../../../../schema/tests/fixtures/top-1.json")).expect("a snapshot")
}

fn view() -> TopView {
    let mut view = TopView::new(String::new(), ProgramSort::Cpu, String::new());
    view.update(snapshot());
    view
}

fn press(view: &mut TopView, code: KeyCode) -> Option<ViewAction> {
    view.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn selected(view: &TopView) -> u32 {
    view.selected().map_or(0, |program| program.pid)
}

#[test]
fn intervals_have_units_and_limits() {
    let parsed = |text: &str| interval(text).map(|time| time.as_millis());
    assert_eq!(
        ["2s", "500ms", "1.5", "1m"].map(|text| parsed(text).ok()),
        [Some(2000), Some(500), Some(1500), Some(60_000)]
    );
    for wrong in ["", "s", "0", "-1s", "2h", "nan", "1e9", "99ms", "2 apples"] {
        assert_eq!(
            parsed(wrong),
            Err("expected a time from 100ms to 60m, such as 2s or 500ms".to_owned()),
            "{wrong}"
        );
    }
}

#[test]
fn selection_follows_its_program_through_snapshots() {
    let mut view = view();
    assert_eq!(selected(&view), 610, "the busiest program");
    press(&mut view, KeyCode::Down);
    assert_eq!(selected(&view), 733);
    let mut busier = snapshot();
    busier.programs.iter_mut().for_each(|program| program.cpus = Some(f64::from(program.pid)));
    view.update(busier.clone());
    assert_eq!(selected(&view), 733);
    busier.programs.retain(|program| program.pid != 733);
    view.update(busier);
    assert_ne!(selected(&view), 733);
    assert!(selected(&view) > 0, "another program is selected");
    // Another process with the same ID is another program.
    let mut other = snapshot();
    other.programs.iter_mut().for_each(|program| program.start_time += 1);
    let before = selected(&view);
    view.update(other);
    assert!(before > 0 && selected(&view) > 0);
}

#[test]
fn the_first_row_stays_selected_until_the_user_selects() {
    let mut view = view();
    let mut other = snapshot();
    other.programs[1].cpus = Some(9.0);
    view.update(other);
    assert_eq!(selected(&view), 527);
}

#[test]
fn filter_is_typed_and_restored_by_escape() {
    let mut view = view();
    press(&mut view, KeyCode::Char('/'));
    "dq".chars().for_each(|c| assert_eq!(press(&mut view, KeyCode::Char(c)), None));
    assert_eq!((view.filter.as_str(), view.programs().count()), ("dq", 0));
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    assert_eq!((view.filter.as_str(), &view.mode), ("d", &ViewMode::Tables));
    press(&mut view, KeyCode::Char('/'));
    press(&mut view, KeyCode::Char('x'));
    press(&mut view, KeyCode::Esc);
    assert_eq!((view.filter.as_str(), &view.mode), ("d", &ViewMode::Tables));
    press(&mut view, KeyCode::Esc);
    assert_eq!(view.filter, "");
    // A filter that matches nothing leaves nothing to move.
    press(&mut view, KeyCode::Char('/'));
    "zz".chars().for_each(|c| drop(press(&mut view, KeyCode::Char(c))));
    press(&mut view, KeyCode::Enter);
    assert_eq!((press(&mut view, KeyCode::Char('m')), selected(&view)), (None, 0));
}

#[test]
fn a_question_is_confirmed_only_by_y() {
    let ask = |key: KeyCode| {
        let mut view = view();
        let confirms = Some(ViewAction::Undo("irq-1".to_owned()));
        view.show(view::Dialog { title: String::new(), lines: Vec::new(), confirms });
        (press(&mut view, key), view.mode)
    };
    let undo = Some(ViewAction::Undo("irq-1".to_owned()));
    assert_eq!(ask(KeyCode::Char('y')), (undo, ViewMode::Tables));
    for key in [KeyCode::Enter, KeyCode::Esc, KeyCode::Char('n'), KeyCode::Char('q')] {
        assert_eq!(ask(key), (None, ViewMode::Tables));
    }
}

#[test]
fn control_keys_work_in_every_mode() {
    let mut view = view();
    for before in ["", "/", "?"] {
        before.chars().for_each(|c| drop(press(&mut view, KeyCode::Char(c))));
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(view.handle_key(control('c')), Some(ViewAction::Quit));
        assert_eq!(view.handle_key(control('z')), Some(ViewAction::Suspend));
        assert_eq!(view.handle_key(control('l')), Some(ViewAction::Redraw));
    }
}

#[test]
fn keys_before_the_first_snapshot_are_harmless() {
    let mut view = TopView::new(String::new(), ProgramSort::Cpu, String::new());
    for key in "jkGgse/x?pm".chars() {
        let _ = press(&mut view, KeyCode::Char(key));
    }
    assert!(view.focus(0..9).is_empty());
}

/// Returns `dd` of the snapshot with a decision of a balancer.
fn decided(to: Option<u32>, reason: BalanceReason) -> TopProgram {
    let dd = snapshot().programs.into_iter().find(|program| program.name == "dd").expect("dd");
    let predicted_bytes_per_s = to.map(|_| 34.7e6);
    let balance = Some(BalanceAdvice { to: to.map(NodeId), predicted_bytes_per_s, reason });
    TopProgram { balance, ..dd }
}

fn gain() -> BalanceReason {
    BalanceReason::Gain { gain_bytes_per_s: 16.2e6, move_bytes: 1 << 20, cost_s: 0.02 }
}

#[test]
fn move_of_a_balancer_needs_a_confirmation_and_names_its_gain() {
    let program = decided(Some(7), gain());
    let dialog = question(&Topology::default(), &program, BandwidthUnit::default()).expect("a question");
    let offered = OfferedMove { pid: 527, start_time: program.start_time, to: NodeId(7) };
    assert_eq!(dialog.confirms, Some(ViewAction::Move(offered)));
    let text = dialog.lines.join("\n");
    for part in ["Move dd (527) with its memory to node 7?", "gains 16.2 MB/s for 1 MiB moved", "u reverts"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn refused_move_shows_the_reason_of_the_balancer() {
    let program = decided(None, BalanceReason::SmallGain { gain: 0.02, min_gain: 0.05 });
    let reason = question(&Topology::default(), &program, BandwidthUnit::default()).expect_err("no move");
    assert_eq!(reason, "numaio balance would not move dd (527): the gain of 2 % is below 5 %");
}

#[test]
fn without_a_model_only_nearness_is_known_and_nothing_is_confirmed() {
    let program = decided(None, BalanceReason::NoModel { node: NodeId(7) });
    let topology = discover_quick(&numaio_sim::render(&numaio_sim::shapes::dl585()));
    let dialog = question(&topology, &program, BandwidthUnit::default()).expect("commands");
    assert_eq!(dialog.confirms, None);
    let text = dialog.lines.join("\n");
    assert!(text.contains("Only nearness is known: node 7 has no model: numaio model --node 7"), "{text}");
    assert!(text.contains("$ taskset -a -p -c"), "{text}");
}
