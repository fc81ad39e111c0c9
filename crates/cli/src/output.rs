//! Standard output and standard error.

use crate::args::{Color, Common};
use crate::failure::{self, Failure};
use crate::store;
use numaio_mover::wire::DisplayText;
use numaio_report::TextStyle;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Words of somebody else, without what a terminal would obey.
pub fn sanitize(words: &str) -> String {
    DisplayText::new(words).as_str().to_owned()
}

/// Writes a result to standard output. A reader that went away, as `head` does, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failure::cannot_write(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Writes a text into a file, whole or not at all, or to standard output if its name is `-`; tells whether it
/// was a file.
pub fn write(path: &Path, text: &str) -> Result<bool, Failure> {
    if path == Path::new("-") {
        return print(text).map(|()| false);
    }
    store::write_file(path, text.as_bytes()).map(|()| true)
}

/// Finds out, before long work, whether [`write()`] will be able to.
pub fn check(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    store::check_file(path)
}

/// A remark for people on standard error.
pub fn remark(common: &Common, text: &str) {
    if !common.quiet {
        // Nobody to tell if this fails.
        let _ = writeln!(io::stderr(), "numaio: {text}");
    }
}

/// Words in which names may be that somebody else chose: lines of what a terminal shows and does not obey.
fn sanitize_lines(words: &str) -> String {
    words.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// Tells why the command failed, and gives its exit status.
pub fn report_failure(failure: &Failure) -> ExitCode {
    let _ = writeln!(io::stderr(), "numaio: {}", sanitize_lines(&failure.message));
    if let Some(hint) = &failure.hint {
        let _ = writeln!(io::stderr(), "  hint: {}", sanitize_lines(hint));
    }
    ExitCode::from(failure.code)
}

/// How text is to look on standard output.
pub fn style(common: &Common) -> TextStyle {
    let terminal = io::stdout().is_terminal();
    let color = match common.color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org: set and not empty
        Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    let default = TextStyle { color, unit: common.unit, ..TextStyle::default() };
    match numaio_linux::terminal::width().filter(|_| terminal) {
        Some(width) => TextStyle { width: width.clamp(60, 160), ..default },
        None => default,
    }
}

/// How text is to look in remarks on standard error.
pub fn stderr_style(common: &Common) -> TextStyle {
    TextStyle { unit: common.unit, ..TextStyle::default() }
}
