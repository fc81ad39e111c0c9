//! What is known of the terminal.

/// Columns of the terminal on standard output; none if that is no terminal or does not tell.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
