//! The frame of a report on a stream that may also carry other text, such as messages of a shell's
//! startup files.
//!
//! A header line `numaio-frame/1 BYTES SHA256` at the start of a line, followed by the report. The
//! checksum covers the report.

use super::limited_command::displayable;
use sha2::{Digest, Sha256};

const MAGIC: &str = "numaio-frame/1 ";
/// Maximum length of a header line: the magic, a number and a checksum.
const MAX_HEADER_BYTES: usize = 120;

/// Why a stream has no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is no header.
    #[error("no report in its output{}", found(.0))]
    NoFrame(String),
    /// The stream ends within the report.
    #[error("its report is incomplete: {received} of {expected} bytes")]
    Incomplete {
        /// Received bytes of the report.
        received: usize,
        /// Length according to the header.
        expected: usize,
    },
    /// The report differs from the sent one.
    #[error("its report is corrupted: the checksum differs")]
    Corrupted,
    /// The report is not text.
    #[error("its report is not UTF-8")]
    NotText,
}

fn found(line: &str) -> String {
    if line.is_empty() {
        String::new()
    } else {
        format!(", which begins with '{line}'")
    }
}

/// Returns a report in its frame.
pub fn encode(report: &str) -> String {
    // Earlier output may end without a newline.
    format!("\n{MAGIC}{} {}\n{report}", report.len(), checksum(report.as_bytes()))
}

/// Returns the first complete report of a stream.
///
/// # Errors
/// There is none; the error describes the last frame.
pub fn decode(stream: &[u8]) -> Result<&str, FrameError> {
    let first = stream.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let mut error = FrameError::NoFrame(displayable(first.unwrap_or_default(), 80));
    let mut rest = stream;
    loop {
        if let Some((expected, sum, report)) = header(rest) {
            match report.get(..expected) {
                None => error = FrameError::Incomplete { received: report.len(), expected },
                Some(report) if checksum(report) != sum => error = FrameError::Corrupted,
                Some(report) => return std::str::from_utf8(report).map_err(|_| FrameError::NotText),
            }
        }
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => rest = &rest[end + 1..],
            None => return Err(error),
        }
    }
}

/// Parses the header at the start of a line; returns length, checksum and what follows.
fn header(line: &[u8]) -> Option<(usize, &str, &[u8])> {
    let fields = line.strip_prefix(MAGIC.as_bytes())?;
    let end = fields.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n')?;
    let (length, sum) = std::str::from_utf8(&fields[..end]).ok()?.trim_end_matches('\r').split_once(' ')?;
    Some((length.parse().ok()?, sum, &fields[end + 1..]))
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_found_between_other_output() {
        let report = "{\n  \"schema\": \"\u{e9}\"\n}\n";
        let framed = encode(report);
        assert_eq!(decode(framed.as_bytes()), Ok(report));
        let noisy = format!("Welcome!\nnumaio-frame/1 x y\nno newline{framed}logout\n");
        assert_eq!(decode(noisy.as_bytes()), Ok(report));
        assert_eq!(decode(encode("").as_bytes()), Ok(""));
    }

    #[test]
    fn incomplete_and_corrupted_reports_are_rejected() {
        let framed = encode("report");
        let cut = &framed.as_bytes()[..framed.len() - 2];
        assert_eq!(decode(cut), Err(FrameError::Incomplete { received: 4, expected: 6 }));
        assert_eq!(decode(framed.replace("report", "repost").as_bytes()), Err(FrameError::Corrupted));
        let no_frame = decode(b"\n\n-bash: motd\x1b\n").expect_err("no frame").to_string();
        assert_eq!(no_frame, "no report in its output, which begins with '-bash: motd\u{fffd}'");
        assert_eq!(decode(b"").expect_err("no frame").to_string(), "no report in its output");
        let complete = format!("{}{framed}", String::from_utf8_lossy(cut));
        assert_eq!(decode(complete.as_bytes()), Ok("report"));
        assert!(decode(b"numaio-frame/1 18446744073709551615 0\nx").is_err());
    }
}
