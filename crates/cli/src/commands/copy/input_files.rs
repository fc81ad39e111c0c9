//! Files that the options read: lists of names (`--files-from`) and patterns (`--exclude-from`), in
//! rsync's format, and plans.

use super::args::CopyArgs;
use super::filter_args::RuleSource;
use crate::failure::Failure;
use crate::input;
use numaio_transfer::endpoint::{Endpoint, Host};
use numaio_transfer::file_list::{parse_name, FileList};
use numaio_transfer::filters::FilterRule;
use numaio_transfer::paths::path_of;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

impl CopyArgs {
    /// Whether any path is on a host behind ssh.
    pub fn uses_ssh(&self) -> bool {
        let is_by_ssh = |path| matches!(Endpoint::parse(path), Ok(Endpoint { host: Some(Host::Ssh(_)), .. }));
        self.paths.iter().any(|path| is_by_ssh(path.as_os_str()))
    }

    /// Returns the inode numbers of local source directories, and 0 for other sources.
    ///
    /// A mount point that is not mounted has another inode number.
    pub fn source_inodes(&self) -> Vec<u64> {
        let sources = self.paths.split_last().map_or(&[][..], |(_, sources)| sources);
        let place = |text: &OsString| {
            let here = Endpoint::parse(text).ok().filter(|end| end.host.is_none())?;
            let found = path_of(&here.path).symlink_metadata().ok()?;
            found.is_dir().then(|| found.ino())
        };
        sources.iter().map(|text| place(text).unwrap_or(0)).collect()
    }

    /// Returns the files that the options read.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let rules = self.filters.rules.iter().filter_map(|from| match from {
            RuleSource::File(_, path) => Some(path),
            RuleSource::Pattern(..) => None,
        });
        rules.chain(&self.files_from).chain(&self.transfer.plan)
    }

    /// Returns how many of them are standard input.
    pub fn stdin_count(&self) -> usize {
        self.files().filter(|path| path.as_os_str() == "-").count()
    }

    /// Returns a file that cannot be read again: standard input by any name, or a pipe.
    pub fn unrepeatable_input(&self) -> Option<&Path> {
        let is_unrepeatable = |path: &&PathBuf| {
            path.as_os_str() == "-"
                || numaio_mover_linux::files::is_process_private(path)
                || path.metadata().is_ok_and(|found| !found.is_file())
        };
        self.files().find(is_unrepeatable).map(PathBuf::as_path)
    }
}

/// Returns the lines of a list without empty lines; without `zeros` also without comments (`#` or
/// `;`).
fn lines(path: &Path, zeros: bool) -> Result<Vec<Vec<u8>>, Failure> {
    let content = input::read_bytes(path).map_err(|error| Failure::file(path, error))?;
    if !zeros && content.contains(&0) {
        return Err(Failure::file(path, "it contains zero bytes, which names cannot have")
            .hint("add -0 if zero bytes end its lines"));
    }
    let is_end = |byte: &u8| if zeros { *byte == 0 } else { matches!(byte, b'\n' | b'\r') };
    let counts = |line: &&[u8]| match line {
        [] | [b'#' | b';', ..] if !zeros => false,
        line => !line.is_empty(),
    };
    Ok(content.split(is_end).filter(counts).map(<[u8]>::to_vec).collect())
}

/// Returns all rules in order, with the contents of rule files.
pub fn load_rules(from: &[RuleSource], zeros: bool) -> Result<Vec<FilterRule>, Failure> {
    let mut rules = Vec::new();
    for one in from {
        match one {
            RuleSource::Pattern(include, text) => add_rule(&mut rules, *include, text.clone()),
            RuleSource::File(include, path) => {
                lines(path, zeros)?.into_iter().for_each(|line| add_rule(&mut rules, *include, line));
            }
        }
    }
    Ok(rules)
}

/// Adds a rule in rsync's syntax: a prefix `+ ` or `- ` overrides `include`, and `!` clears all
/// earlier rules.
fn add_rule(rules: &mut Vec<FilterRule>, include: bool, text: Vec<u8>) {
    let (include, pattern) = match &text[..] {
        b"!" => return rules.clear(),
        [b'+', b' ', pattern @ ..] => (true, pattern),
        [b'-', b' ', pattern @ ..] => (false, pattern),
        pattern => (include, pattern),
    };
    rules.push(FilterRule { include, pattern: pattern.to_vec() });
}

/// Reads a list of names below the source.
pub fn read_file_list(path: &Path, zeros: bool) -> Result<FileList, Failure> {
    let lines = lines(path, zeros)?;
    let name = |line: &Vec<u8>| {
        parse_name(line).ok_or_else(|| {
            let shown = String::from_utf8_lossy(line).into_owned();
            let hint = match line.windows(3).any(|part| part == b"/./") {
                true => {
                    "/./ has no meaning here, unlike in rsync: remove it, or pass the part before it as SRC"
                }
                false => "names are relative to SRC, and must not lead out of it",
            };
            Failure::file(path, format!("{shown:?} is not a name below the source")).hint(hint)
        })
    };
    Ok(FileList::new(lines.iter().map(name).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rule_prefixes_and_clearing() {
        let rules = |texts: &[&str]| {
            let mut rules = Vec::new();
            texts.iter().for_each(|text| add_rule(&mut rules, false, text.as_bytes().to_vec()));
            rules.into_iter().map(|rule| (rule.include, rule.pattern)).collect::<Vec<_>>()
        };
        let wanted = [(true, b"keep".to_vec()), (false, b"skip".to_vec()), (false, b"+x".to_vec())];
        assert_eq!(rules(&["+ keep", "- skip", "+x"]), wanted);
        assert_eq!(rules(&["a", "+ b", "!", "!c"]), [(false, b"!c".to_vec())]);
    }
}
