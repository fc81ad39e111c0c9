//! Prints how numaio compares with the published sets of a folder: `numaio-published DIR`.

use numaio_published::{compare_folder, format_comparison};
use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [folder] = arguments.as_slice() else {
        return fail("usage: tools/published DIR");
    };
    let comparison = match compare_folder(Path::new(folder)) {
        Ok(comparison) => comparison,
        Err(error) => return fail(&format!("cannot read '{}': {error}", folder.to_string_lossy())),
    };
    // A reader that closed the pipe has seen enough.
    let printed = io::stdout().write_all(format_comparison(&comparison).as_bytes());
    match printed.is_ok() && comparison.broken.is_empty() && !comparison.sets.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn fail(message: &str) -> ExitCode {
    // Without a standard error there is no other place to report it.
    let _ = writeln!(io::stderr(), "published: {message}");
    ExitCode::from(2)
}
