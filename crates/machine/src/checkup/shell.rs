//! Names in shell commands.

use std::borrow::Cow;

/// Quotes a name as one word of a shell command (POSIX.1-2017, XCU 2.2.2).
///
/// Root runs the command, and the user who creates an interface chooses its name. A leading dash
/// is handled by [`operand`] and [`option`]; `ethtool -L` and `-l` accept any name as their
/// argument.
pub(crate) fn word(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("'{}'", name.replace('\'', r"'\''"))),
    }
}

/// Formats a name as an operand of numaio, after `--` if it starts with a dash
/// (POSIX.1-2017, XBD 12.2, guideline 10).
pub(crate) fn operand(name: &str) -> String {
    let dashes = if name.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", word(name))
}

/// Formats a name as the value of an option of numaio, joined with `=` if it starts with a dash.
pub(crate) fn option(option: &str, name: &str) -> String {
    let between = if name.starts_with('-') { "=" } else { " " };
    format!("{option}{between}{}", word(name))
}
