//! What is known of the terminal.

use std::io;

/// Columns of the terminal on standard output; none if that is no terminal or does not tell.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
