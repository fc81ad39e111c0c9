use super::view::{TopView, ViewAction, ViewMode};
use super::*;
use crate::options::interval;
use numaio_model::top::ProgramSort;
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
