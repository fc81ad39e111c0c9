//! Options of scp that have another meaning for rsync and numaio.

use crate::failure::Failure;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Returns the failure of a command line in which `-P PORT` or `-l LIMIT` of scp was meant: the
/// number is the first path, and no such file exists.
pub fn check(words: &[OsString], paths: &[OsString]) -> Result<(), Failure> {
    let is_before = |pair: &&[OsString]| paths.first() == Some(&pair[1]) && is_number(&pair[1]);
    let option = words.windows(2).find(is_before).and_then(|pair| scp_option(&pair[0]));
    let (Some(option), Some(number)) = (option, paths.first()) else { return Ok(()) };
    if Path::new(number).exists() {
        return Ok(());
    }
    let number = number.display();
    Err(match option {
        b'P' => Failure::usage(format!("-P is --partial --progress, and file '{number}' does not exist"))
            .hint(port_hint(&number.to_string())),
        _ => Failure::usage(format!("-l is --links, which is always on, and file '{number}' does not exist"))
            .hint(limit_hint()),
    })
}

/// Returns the alternative to `-P2222` or `-l1000` in a command line that is not valid.
pub fn tip(words: &[OsString]) -> Option<String> {
    words.iter().find_map(|word| {
        let text = word.to_str()?;
        let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        let option =
            scp_option(OsStr::new(text.strip_suffix(digits)?)).filter(|_| is_number(OsStr::new(digits)))?;
        Some(if option == b'P' { port_hint(digits) } else { limit_hint().to_owned() })
    })
}

fn port_hint(port: &str) -> String {
    format!("for a port of ssh set Port in ~/.ssh/config, or NUMAIO_SSH='ssh -p {port}'")
}

fn limit_hint() -> &'static str {
    "for a limit of the rate use --bwlimit: 1M is 1 MiB per second; the unit of scp is Kbit/s"
}

/// Returns the last option of a word of short options, if it is one of scp.
fn scp_option(word: &OsStr) -> Option<u8> {
    let options = word.as_encoded_bytes().strip_prefix(b"-")?;
    let last = *options.last()?;
    (options.iter().all(u8::is_ascii_alphabetic) && [b'P', b'l'].contains(&last)).then_some(last)
}

fn is_number(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn number_after_an_option_of_scp_is_not_a_file() {
        let failure = |line: &str, paths: &str| check(&words(line), &words(paths)).err().map(|it| it.hint);
        let hint = failure("numaio copy -P 2222 a h:b", "2222 a h:b").flatten().expect("a hint");
        assert!(hint.contains("ssh -p 2222"), "{hint}");
        let hint = failure("numaio copy -rl 1000 a h:b", "1000 a h:b").flatten().expect("a hint");
        assert!(hint.contains("--bwlimit"), "{hint}");
        for line in ["numaio copy -P a h:b", "numaio copy -r 2222 b", "numaio copy -P a 2222"] {
            assert_eq!(failure(line, &line.split(' ').skip(3).collect::<Vec<_>>().join(" ")), None, "{line}");
        }
    }

    #[test]
    fn attached_numbers_have_a_tip() {
        assert!(tip(&words("copy -P2222 a h:b")).is_some_and(|tip| tip.contains("ssh -p 2222")));
        assert!(tip(&words("copy -rl800 a h:b")).is_some_and(|tip| tip.contains("--bwlimit")));
        assert_eq!(tip(&words("copy -P -2 --bwlimit=5 a5 -x7")), None);
    }
}
