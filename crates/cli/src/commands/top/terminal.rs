//! The terminal of the live view: raw mode and the alternate screen, left at every end.

use crate::failure::Failure;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    disable_raw_mode, enable_raw_mode, EnterAlternateScreen, LeaveAlternateScreen,
};
use ratatui::Terminal;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, IsTerminal, Stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Whether the screen is in use; one per process, for the panic hook.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// The request of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRequest {
    /// Stop the process until it is continued.
    Suspend,
    /// Draw the screen from scratch, because the process was stopped.
    Redraw,
    /// End the process by this signal.
    End(i32),
}

/// Checks that standard input and output are a terminal that has a screen.
pub fn check() -> Result<(), Failure> {
    let hint = "numaio top --once prints one sample";
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let failure = Failure::usage("cannot show the live view: standard input or output is not a terminal");
        return Err(failure.hint(hint));
    }
    match std::env::var("TERM").as_deref() {
        Err(_) | Ok("" | "dumb") => {
            let failure = Failure::usage(
                "cannot show the live view: the terminal has no screen (TERM is not set, or dumb)",
            );
            Err(failure.hint(hint))
        }
        Ok(_) => Ok(()),
    }
}

/// The terminal while the live view uses it.
pub struct LiveTerminal {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    signals: Signals,
}

impl LiveTerminal {
    /// Enters the alternate screen, which is left when this value is dropped, and at a panic.
    ///
    /// # Errors
    /// I/O errors of the terminal.
    pub fn enter() -> io::Result<Self> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGTSTP, SIGCONT])?;
        end_with_the_terminal()?;
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            leave_screen();
            before(panic);
        }));
        let guard = ScreenGuard;
        enter_screen()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        std::mem::forget(guard);
        Ok(Self { terminal, signals })
    }

    /// Draws the screen.
    ///
    /// # Errors
    /// I/O errors of the terminal.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// Returns the requests of signals since the last call.
    pub fn signal_requests(&mut self) -> Vec<SignalRequest> {
        let request = |signal| match signal {
            SIGTSTP => SignalRequest::Suspend,
            SIGCONT => SignalRequest::Redraw,
            signal => SignalRequest::End(signal),
        };
        self.signals.pending().map(request).collect()
    }

    /// Leaves the screen, stops the process, and enters the screen again when it is continued.
    ///
    /// # Errors
    /// I/O errors of the terminal.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave_screen();
        emulate_default_handler(SIGTSTP)?;
        self.redraw()
    }

    /// Sets up the terminal again, and clears it.
    ///
    /// # Errors
    /// I/O errors of the terminal.
    pub fn redraw(&mut self) -> io::Result<()> {
        enter_screen()?;
        self.terminal.clear()
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        leave_screen();
    }
}

/// Leaves the screen when it is dropped.
struct ScreenGuard;

impl Drop for ScreenGuard {
    fn drop(&mut self) {
        leave_screen();
    }
}

/// Ends the process when the terminal is closed. This needs a thread of its own: crossterm reads
/// the end of a closed terminal without end, and does not return.
fn end_with_the_terminal() -> io::Result<()> {
    let mut hangups = Signals::new([SIGHUP])?;
    thread::spawn(move || {
        for signal in hangups.forever() {
            leave_screen();
            end_by_signal(signal);
        }
    });
    Ok(())
}

/// Ends the process by a signal, as if it had no handler; returns if the signal does not end it.
pub fn end_by_signal(signal: i32) {
    // An error cannot be reported: the terminal may be lost.
    let _ = emulate_default_handler(signal);
}

fn enter_screen() -> io::Result<()> {
    IS_ENTERED.store(true, Ordering::Relaxed);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// Leaves the screen, once. Errors are ignored: the terminal may be lost.
fn leave_screen() {
    if IS_ENTERED.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
