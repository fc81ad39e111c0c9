//! Terminal properties.

/// Returns the columns of the terminal on standard output, or `None` if unknown.
pub fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
