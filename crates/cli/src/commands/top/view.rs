//! The state of the live view: keys and snapshots change it, and the screen shows it.

use numaio_machine::ids::NodeId;
use numaio_model::top::{arrange, ProgramFilter, ProgramSort};
use numaio_schema::{TopProgram, TopSnapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::ops::Range;

/// Maximum length of a filter, in characters.
const LONGEST_FILTER: usize = 60;

/// The box in front of the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ViewMode {
    /// Nothing.
    #[default]
    Tables,
    /// The line in which a filter is typed; the filter before is restored by Escape.
    Filter {
        /// The filter before.
        before: String,
    },
    /// A box with text.
    Dialog(Dialog),
}

/// A box with text, and possibly a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    /// The title.
    pub title: String,
    /// The lines.
    pub lines: Vec<String>,
    /// The action of `y`; `None` if any key closes the box.
    pub confirms: Option<ViewAction>,
}

/// The request of a key to the program around the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewAction {
    /// End the program.
    Quit,
    /// Suspend the program, as Ctrl-Z does.
    Suspend,
    /// Draw the screen from scratch.
    Redraw,
    /// Pause or continue the feed.
    SetPaused(bool),
    /// Show how to move the selected program.
    ShowMove,
    /// Move a program.
    Move(OfferedMove),
    /// Show the change that would be reverted.
    ShowUndo,
    /// Revert the change with this ID.
    Undo(String),
}

/// A process and the node to which it is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedMove {
    /// Process ID.
    pub pid: u32,
    /// Its start time.
    pub start_time: u64,
    /// The node.
    pub to: NodeId,
}

/// A process: its ID and start time.
type ProcessKey = (u32, u64);

/// The state of the live view.
#[derive(Debug, Default)]
pub struct TopView {
    /// The current snapshot.
    pub snapshot: Option<TopSnapshot>,
    /// The box in front of the tables.
    pub mode: ViewMode,
    /// Order of the programs.
    pub sort: ProgramSort,
    /// Text that programs must contain.
    pub filter: String,
    /// Whether the selected program is explained.
    pub is_explaining: bool,
    /// Whether the view is paused.
    pub is_paused: bool,
    /// Source of the snapshots, such as `every 2 s`.
    pub origin: String,
    /// A message on the last line, until the next key.
    pub notice: Option<String>,
    order: Vec<usize>,
    selected: Option<ProcessKey>,
    row: usize,
    offset: usize,
}

impl TopView {
    /// Creates a view without a snapshot.
    pub fn new(origin: String, sort: ProgramSort, filter: String) -> Self {
        Self { origin, sort, filter, ..Self::default() }
    }

    /// Shows a snapshot.
    pub fn update(&mut self, snapshot: TopSnapshot) {
        self.snapshot = Some(snapshot);
        self.arrange();
    }

    /// Returns the matching programs in order.
    pub fn programs(&self) -> impl Iterator<Item = &TopProgram> {
        let all = self.snapshot.as_ref().map_or(&[][..], |snapshot| snapshot.programs.as_slice());
        self.order.iter().filter_map(|index| all.get(*index))
    }

    /// Returns the row of the selected program in the order.
    pub fn selected_row(&self) -> usize {
        self.row
    }

    /// Returns the selected program.
    pub fn selected(&self) -> Option<&TopProgram> {
        self.programs().nth(self.row)
    }

    /// Scrolls so that the selected program is visible, and returns the visible rows.
    pub fn scroll(&mut self, rows: usize) -> Range<usize> {
        let count = self.order.len();
        self.offset = self.offset.min(self.row).max((self.row + 1).saturating_sub(rows));
        self.offset = self.offset.min(count.saturating_sub(rows));
        self.offset..count.min(self.offset + rows)
    }

    /// Returns the process IDs of the visible rows, that of the selected program first.
    pub fn focus(&self, visible: Range<usize>) -> Vec<u32> {
        let pids: Vec<u32> = self.programs().map(|program| program.pid).collect();
        let selected = self.selected().map(|program| program.pid);
        selected.into_iter().chain(pids.get(visible).into_iter().flatten().copied()).collect()
    }

    /// Shows a box.
    pub fn show(&mut self, dialog: Dialog) {
        self.mode = ViewMode::Dialog(dialog);
    }

    /// Handles a key; returns what it requests.
    pub fn handle_key(&mut self, key: KeyEvent) -> Option<ViewAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(ViewAction::Quit),
                KeyCode::Char('z') => Some(ViewAction::Suspend),
                KeyCode::Char('l') => Some(ViewAction::Redraw),
                _ => None,
            };
        }
        self.notice = None;
        match std::mem::take(&mut self.mode) {
            ViewMode::Tables => self.handle_table_key(key.code),
            ViewMode::Filter { before } => {
                self.handle_filter_key(key.code, before);
                None
            }
            ViewMode::Dialog(dialog) => self.handle_dialog_key(key.code, dialog),
        }
    }

    fn handle_table_key(&mut self, key: KeyCode) -> Option<ViewAction> {
        let last = self.order.len().saturating_sub(1);
        match key {
            KeyCode::Char('q') => return Some(ViewAction::Quit),
            KeyCode::Esc if self.is_explaining => self.is_explaining = false,
            KeyCode::Esc if !self.filter.is_empty() => self.set_filter(String::new()),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.row.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.row.saturating_sub(1)),
            KeyCode::PageDown => self.select(self.row.saturating_add(10)),
            KeyCode::PageUp => self.select(self.row.saturating_sub(10)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(last),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.arrange();
            }
            KeyCode::Char('/') => self.mode = ViewMode::Filter { before: self.filter.clone() },
            KeyCode::Char('e') | KeyCode::Enter => self.is_explaining = !self.is_explaining,
            KeyCode::Char('p') => {
                self.is_paused = !self.is_paused;
                return Some(ViewAction::SetPaused(self.is_paused));
            }
            KeyCode::Char('m') if self.selected().is_some() => return Some(ViewAction::ShowMove),
            KeyCode::Char('u') => return Some(ViewAction::ShowUndo),
            KeyCode::Char('?' | 'h') => self.show(self.help()),
            _ => {}
        }
        None
    }

    fn handle_filter_key(&mut self, key: KeyCode, before: String) {
        let mut filter = self.filter.clone();
        match key {
            KeyCode::Enter => return,
            KeyCode::Esc => return self.set_filter(before),
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(c) if filter.chars().count() < LONGEST_FILTER && !c.is_control() => filter.push(c),
            _ => {}
        }
        self.set_filter(filter);
        self.mode = ViewMode::Filter { before };
    }

    fn handle_dialog_key(&mut self, key: KeyCode, dialog: Dialog) -> Option<ViewAction> {
        match (key, dialog.confirms) {
            (KeyCode::Char('y'), Some(action)) => Some(action),
            _ => None,
        }
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
    }

    fn select(&mut self, row: usize) {
        self.row = row.min(self.order.len().saturating_sub(1));
        self.selected = self.selected().map(|program| (program.pid, program.start_time));
    }

    /// Sorts the programs, and keeps the selection at its program, or at its row if that ended.
    fn arrange(&mut self) {
        let Some(snapshot) = &self.snapshot else { return };
        self.order = arrange(snapshot, self.sort, &ProgramFilter::new(&self.filter));
        let is_selected = |program: &TopProgram| Some((program.pid, program.start_time)) == self.selected;
        // Without a choice of the user the first row stays selected.
        let row = self.selected.and_then(|_| self.programs().position(is_selected));
        match row {
            Some(row) => self.row = row,
            None => {
                self.row = self.row.min(self.order.len().saturating_sub(1));
                if self.selected.is_some() {
                    self.select(self.row);
                }
            }
        }
    }

    fn help(&self) -> Dialog {
        let keys = [
            ("up, down, j, k", "select a program"),
            ("s", "sort by the next value"),
            ("/", "filter; Escape clears"),
            ("e, Enter", "explain the program"),
            ("m", "move it as numaio balance would"),
            ("u", "undo a change of numaio"),
            ("p", "pause"),
            ("q, Ctrl-C", "quit"),
        ];
        let mut lines: Vec<String> = keys.iter().map(|(key, what)| format!("{key:<15}{what}")).collect();
        let unknown = self.snapshot.iter().flat_map(|snapshot| &snapshot.unknown);
        lines.extend(unknown.map(|unknown| format!("Unknown: {}: {}", unknown.name, unknown.reason)));
        Dialog { title: "Keys".to_owned(), lines, confirms: None }
    }
}
