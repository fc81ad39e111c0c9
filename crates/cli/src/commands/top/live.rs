//! The loop of the live view: keys, signals and snapshots.

use super::args::TopArgs;
use super::feed::{Feed, FeedEvent};
use super::move_offer;
use super::sampler::Sampler;
use super::screen::{self, ScreenStyle};
use super::terminal::{self, LiveTerminal, SignalRequest};
use super::undo_offer;
use super::view::{Dialog, OfferedMove, TopView, ViewAction};
use crate::failure::{Failure, SIGNALED};
use crate::options::Common;
use crate::output;
use numaio_machine::topology::Topology;
use numaio_schema::{TopProgram, TopRecording};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::TryRecvError;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a key before signals and snapshots are handled.
const TICK: Duration = Duration::from_millis(100);

/// Why the loop ended.
enum LoopEnd {
    Quit,
    Signal(i32),
    FeedLost,
}

/// The parts of a running view.
struct LiveView {
    view: TopView,
    feed: Feed,
    style: ScreenStyle,
    /// The machine, unless a recording is shown.
    topology: Option<Arc<Topology>>,
}

/// Shows this machine until the user quits.
pub fn observe(common: &Common, args: &TopArgs, sampler: Sampler) -> Result<ExitCode, Failure> {
    let topology = sampler.topology();
    let origin = format!("every {} s", args.every.as_secs_f64());
    run(common, args, origin, Some(topology), || Feed::sample(sampler, args.every))
}

/// Shows a recording until the user quits.
pub fn replay(common: &Common, args: &TopArgs, recording: TopRecording) -> Result<ExitCode, Failure> {
    terminal::check()?;
    run(common, args, "recording".to_owned(), None, || Feed::replay(recording))
}

fn run(
    common: &Common,
    args: &TopArgs,
    origin: String,
    topology: Option<Arc<Topology>>,
    feed: impl FnOnce() -> Feed,
) -> Result<ExitCode, Failure> {
    let style = output::style(common);
    let style = ScreenStyle { color: style.color, ascii: style.ascii, unit: style.unit };
    let filter = args.filter.clone().unwrap_or_default();
    // Details on standard error would write over the screen.
    output::set_verbose(&Common::silent());
    let lost = |error: io::Error| Failure::new(format!("cannot use the terminal: {error}"));
    let mut terminal = LiveTerminal::enter().map_err(lost)?;
    let view = TopView::new(origin, args.sort.value(), filter);
    let mut live = LiveView { view, feed: feed(), style, topology };
    let end = live.run(&mut terminal);
    drop(terminal);
    match end.map_err(lost)? {
        LoopEnd::Quit => Ok(ExitCode::SUCCESS),
        LoopEnd::Signal(signal) => {
            terminal::end_by_signal(signal);
            Ok(ExitCode::from(SIGNALED.saturating_add(u8::try_from(signal).unwrap_or(0))))
        }
        LoopEnd::FeedLost => Err(Failure::new("cannot sample this machine: the sampling thread failed")),
    }
}

impl LiveView {
    fn run(&mut self, terminal: &mut LiveTerminal) -> io::Result<LoopEnd> {
        let (mut is_changed, mut has_ended) = (true, false);
        loop {
            if is_changed {
                let mut visible = 0..0;
                terminal.draw(|buffer| visible = screen::draw(&mut self.view, &self.style, buffer))?;
                self.feed.control.set_focus(self.view.focus(visible));
            }
            is_changed = false;
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        is_changed = true;
                        let action = self.view.handle_key(key);
                        if let Some(end) = action.map_or(Ok(None), |action| self.act(action, terminal))? {
                            return Ok(end);
                        }
                    }
                    Event::Resize(..) => is_changed = true,
                    _ => {}
                }
            }
            for request in terminal.signal_requests() {
                is_changed = true;
                match request {
                    SignalRequest::Suspend => terminal.suspend()?,
                    SignalRequest::Redraw => terminal.redraw()?,
                    SignalRequest::End(signal) => return Ok(LoopEnd::Signal(signal)),
                }
            }
            if self.view.is_paused {
                continue;
            }
            match self.feed.events.try_recv() {
                Ok(FeedEvent::Snapshot(snapshot)) => {
                    is_changed = true;
                    self.view.update(*snapshot);
                }
                Ok(FeedEvent::End) => {
                    (is_changed, has_ended) = (true, true);
                    self.view.notice = Some("end of the recording; q quits".to_owned());
                }
                Err(TryRecvError::Disconnected) if !has_ended => return Ok(LoopEnd::FeedLost),
                Err(_) => {}
            }
        }
    }

    /// Does what a key requests; returns the end if it is one.
    fn act(&mut self, action: ViewAction, terminal: &mut LiveTerminal) -> io::Result<Option<LoopEnd>> {
        match action {
            ViewAction::Quit => return Ok(Some(LoopEnd::Quit)),
            ViewAction::Suspend => terminal.suspend()?,
            ViewAction::Redraw => terminal.redraw()?,
            ViewAction::SetPaused(is_paused) => self.feed.control.set_paused(is_paused),
            ViewAction::ShowMove | ViewAction::Move(_) | ViewAction::ShowUndo | ViewAction::Undo(_)
                if self.topology.is_none() =>
            {
                self.view.notice = Some("a recording cannot be changed".to_owned());
            }
            ViewAction::ShowMove => self.show_move(),
            ViewAction::Move(offered) => self.perform_move(offered),
            ViewAction::ShowUndo => self.show_undo(),
            ViewAction::Undo(id) => {
                let outcome = undo_offer::revert(&id);
                self.feed.control.expire_inspections();
                self.view.notice = Some(outcome.unwrap_or_else(|failure| failure.message));
            }
        }
        Ok(None)
    }

    /// Asks whether to move the selected program, or shows why it stays.
    fn show_move(&mut self) {
        let (Some(topology), Some(program)) = (&self.topology, self.view.selected()) else { return };
        match move_offer::question(topology, program, self.style.unit) {
            Err(reason) => self.view.notice = Some(reason),
            Ok(dialog) => self.view.show(dialog),
        }
    }

    /// Moves a program, unless the decision changed while the question was shown.
    fn perform_move(&mut self, offered: OfferedMove) {
        let programs = self.view.snapshot.iter().flat_map(|snapshot| &snapshot.programs);
        let is_offered = |program: &&TopProgram| {
            let to = program.balance.as_ref().and_then(|balance| balance.to);
            (program.pid, program.start_time, to) == (offered.pid, offered.start_time, Some(offered.to))
        };
        let pid = offered.pid;
        if programs.into_iter().find(is_offered).is_none() {
            self.view.notice = Some(format!("not moved: the decision about process {pid} has changed"));
            return;
        }
        match move_offer::perform(offered) {
            Ok((moved, text)) => {
                self.feed.control.report_move(moved);
                self.view.notice = Some(text.lines().next().unwrap_or_default().to_owned());
            }
            Err(failure) => {
                self.view.notice = Some(format!("cannot move process {pid}: {}", failure.message));
            }
        }
    }

    /// Asks whether to revert the newest change of numaio.
    fn show_undo(&mut self) {
        match undo_offer::newest_change() {
            Err(failure) => self.view.notice = Some(failure.message),
            Ok(None) => {
                self.view.notice = Some("numaio has no changes to revert on this machine".to_owned());
            }
            Ok(Some(id)) => {
                let lines = vec![
                    format!("Revert the newest change of numaio, '{id}'?"),
                    "numaio undo --list describes it.".to_owned(),
                ];
                let confirms = Some(ViewAction::Undo(id));
                self.view.show(Dialog { title: "Undo".to_owned(), lines, confirms });
            }
        }
    }
}
