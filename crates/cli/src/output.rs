//! Standard output and standard error.

use crate::failure::{self, Failure};
use crate::locale;
use crate::options::{Color, Common};
use numaio_linux::user_files;
use numaio_machine::printable::printable;
use numaio_report::TextStyle;
use numaio_transfer::ssh::stderr_relay::LineSink;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Formats a document as indented JSON.
pub fn json(document: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(document).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}

/// Writes to standard output.
///
/// A reader that closed the pipe, as `head` does, is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failure::cannot_write(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Writes a complete file atomically, or to standard output if its name is `-`; returns whether it
/// was a file.
pub fn write(path: &Path, text: &str) -> Result<bool, Failure> {
    if path == Path::new("-") {
        return print(text).map(|()| false);
    }
    user_files::write_file(path, text.as_bytes()).map_err(|error| failure::cannot_write(path, &error))?;
    detail(format_args!("wrote {}", path.display()));
    Ok(true)
}

/// Checks before long work that [`write()`] will succeed.
pub fn check(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    user_files::check_file(path).map_err(|error| failure::cannot_write(path, &error))
}

/// Prints a remark to standard error, unless `--quiet` is given.
pub fn remark(common: &Common, text: &str) {
    if !common.quiet {
        print_error(&format!("numaio: {}", printable(text)));
    }
}

/// Prints a remark of several lines, unless `--quiet` is given.
pub fn remark_lines(common: &Common, text: &str) {
    if !common.quiet {
        let lines: Vec<String> = text.lines().map(printable).collect();
        print_error(&format!("numaio: {}", lines.join("\n")));
    }
}

/// Whether details are printed; one setting per process, since files are read at many places.
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Prints details from now on if `--verbose` is given.
pub fn set_verbose(common: &Common) {
    VERBOSE.store(common.verbose, Ordering::Relaxed);
}

/// Prints a detail to standard error if `--verbose` is given.
pub fn detail(text: impl Display) {
    if VERBOSE.load(Ordering::Relaxed) {
        print_error(&format!("numaio: {}", printable(&text.to_string())));
    }
}

/// Prints why the command failed, and returns its exit status.
pub fn report_failure(failure: &Failure) -> ExitCode {
    print_error(&format!("numaio: {}", printable(&failure.message)));
    if let Some(hint) = &failure.hint {
        print_error(&format!("  hint: {}", printable(hint)));
    }
    ExitCode::from(failure.code)
}

/// Prints an error that does not end the command, even with `--quiet`.
pub fn error_line(text: &str) {
    print_error(&format!("numaio: {}", printable(text)));
}

/// Writes lines to standard error, wrapped to the width of a terminal. Errors are ignored: nothing
/// is left to report them to.
fn print_error(text: &str) {
    let text = if locale::is_utf8() { text.to_owned() } else { numaio_report::to_ascii(text) };
    let width = numaio_linux::terminal::width().filter(|_| io::stderr().is_terminal());
    let text = match width {
        Some(width) => wrap_lines(&text, width),
        None => text,
    };
    let _ = writeln!(io::stderr(), "{text}");
}

/// Wraps each line to a width, with continuation lines indented by two blanks.
fn wrap_lines(text: &str, width: usize) -> String {
    text.lines().map(|line| numaio_report::wrap_hanging(line, width)).collect::<Vec<_>>().join("\n")
}

/// Returns a sink that prints lines of other processes to standard error, unchanged.
pub fn stderr_sink() -> LineSink {
    // In one call, because several processes write there. A failure cannot be reported anywhere.
    Arc::new(|line| drop(io::stderr().write_all(format!("{line}\n").as_bytes())))
}

/// Returns the layout of text on standard output.
pub fn style(common: &Common) -> TextStyle {
    let terminal = io::stdout().is_terminal();
    let color = match common.color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org: set and not empty
        Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    let default = TextStyle { color, ascii: !locale::is_utf8(), unit: common.unit, ..TextStyle::default() };
    match numaio_linux::terminal::width().filter(|_| terminal) {
        Some(width) => TextStyle { width: width.clamp(60, 160), ..default },
        None => default,
    }
}

/// Returns the layout of a table that is split to fit a terminal, and written whole to a file.
pub fn whole_style(common: &Common) -> TextStyle {
    match io::stdout().is_terminal() {
        true => style(common),
        false => TextStyle { width: usize::MAX, ..style(common) },
    }
}

/// Returns the layout of text in remarks on standard error.
pub fn stderr_style(common: &Common) -> TextStyle {
    TextStyle { ascii: !locale::is_utf8(), unit: common.unit, ..TextStyle::default() }
}
