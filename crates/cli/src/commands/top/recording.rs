//! Recordings of `numaio top`: one snapshot on each line, over time.

use super::args::TopArgs;
use super::sampler::Sampler;
use crate::failure::{self, Failure};
use crate::options::Common;
use crate::{input, output};
use numaio_linux::{interrupt, user_files};
use numaio_model::top::without_idle_programs;
use numaio_schema::TopRecording;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Longest sleep before a check for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length of the first line, which decides whether a file is a recording.
const HEAD_BYTES: u64 = 64 << 20;

/// Records samples until an interrupt, or until the requested number is written.
pub fn record(mut sampler: Sampler, args: &TopArgs, path: &Path) -> Result<ExitCode, Failure> {
    let mut file: Box<dyn Write> = match path == Path::new("-") {
        true => Box::new(io::stdout()),
        false => Box::new(create(path)?),
    };
    interrupt::install().map_err(Failure::new)?;
    let mut next = Instant::now();
    let mut left = args.samples;
    // The first sample has no rates.
    sampler.sample(&[]);
    loop {
        next += args.every;
        while !interrupt::interrupted() && Instant::now() < next {
            thread::sleep(POLL_INTERVAL.min(next.saturating_duration_since(Instant::now())));
        }
        if interrupt::interrupted() {
            return Ok(ExitCode::SUCCESS);
        }
        let snapshot = without_idle_programs(sampler.sample(&[]));
        let mut line = serde_json::to_string(&snapshot).map_err(Failure::new)?;
        line.push('\n');
        match file.write_all(line.as_bytes()).and_then(|()| file.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            written => written.map_err(|error| failure::cannot_write(path, &error))?,
        }
        left = left.map(|left| left - 1);
        if left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Creates the file of a recording: an existing one is kept.
fn create(path: &Path) -> Result<File, Failure> {
    user_files::create_new(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(format!("cannot create '{}': it exists", path.display()))
            .hint("choose another file, or remove it"),
        _ => failure::cannot_write(path, &error),
    })
}

/// Returns whether a file starts like a recording; not if it cannot be read.
pub fn is_recording(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = user_files::open_named(path).and_then(|file| {
        // A pipe can be read only once, and then is left to the reader of tapes.
        match file.metadata()?.is_file() {
            true => BufReader::new(file.take(HEAD_BYTES)).read_until(b'\n', &mut head),
            false => Ok(0),
        }
    });
    read.is_ok() && std::str::from_utf8(&head).is_ok_and(TopRecording::is_recording)
}

/// Reads a recording.
pub fn read(common: &Common, path: &Path) -> Result<TopRecording, Failure> {
    let hint = "numaio top --record FILE writes a recording";
    let text = input::read_text(path).map_err(|failure| failure.hint(hint))?;
    let recording = TopRecording::parse(&text).map_err(|error| Failure::file(path, error).hint(hint))?;
    if recording.is_truncated {
        output::remark(
            common,
            &format!("{}: the last sample is incomplete, and is left out", path.display()),
        );
    }
    Ok(recording)
}
