//! Files with lists of names (`--files-from`) or patterns (`--exclude-from`), in rsync's format.

use super::filters::{FilterRule, RuleSource};
use super::CopyArgs;
use crate::failure::Failure;
use crate::input;
use numaio_mover::name::Name;
use numaio_mover::source;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::{Path, PathBuf};

impl CopyArgs {
    /// Returns the files that the options read.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let rules = self.filters.rules.iter().filter_map(|from| match from {
            RuleSource::File(_, path) => Some(path),
            RuleSource::ForwardedOptions(..) => None,
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
            RuleSource::ForwardedOptions(include, text) => add_rule(&mut rules, *include, text.clone()),
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

/// Names below the source to transfer, in the order of the list.
#[derive(Debug, Clone)]
pub struct FileList(Vec<Name>);

impl FileList {
    /// Reads a list of names, and normalizes slashes and `..` within names.
    pub fn read(path: &Path, zeros: bool) -> Result<Self, Failure> {
        let lines = lines(path, zeros)?;
        let name = |line: &Vec<u8>| {
            parse_name(line).ok_or_else(|| {
                let shown = String::from_utf8_lossy(line).into_owned();
                let hint = match line.windows(3).any(|part| part == b"/./") {
                    true => "/./ has no meaning here, unlike in rsync: remove it, or pass the part before it as SRC",
                    false => "names are relative to SRC, and must not lead out of it",
                };
                Failure::file(path, format!("{shown:?} is not a name below the source")).hint(hint)
            })
        };
        Ok(Self(lines.iter().map(name).collect::<Result<_, _>>()?))
    }

    /// Returns where reading begins: at each name, and at its parent directories without their
    /// contents.
    pub fn origins(&self, root: u32) -> Vec<source::Origin> {
        let only = |name: &Name| Some(name.clone()).filter(|name| !name.is_root());
        let origin = |name| source::Origin { root, only: only(name), enter: true, with_parents: true };
        self.0.iter().map(origin).collect()
    }
}

/// Parses a line as a name; `.` and `/` are the root.
///
/// `None` if it leads out of the source, or has a `.` between names, which has a special meaning in
/// rsync.
fn parse_name(line: &[u8]) -> Option<Name> {
    let mut components: Vec<&[u8]> = Vec::new();
    let mut dot = false;
    for component in line.split(|byte| *byte == b'/') {
        match component {
            b"" => {}
            b"." => dot = !components.is_empty(),
            _ if dot => return None,
            b".." => drop(components.pop()?),
            component => components.push(component),
        }
    }
    match components.is_empty() {
        true => Some(Name::root()),
        false => Name::new(components.join(&b'/')).ok(),
    }
}

/// Serializes names as strings with a character for each byte.
impl Serialize for FileList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |name: &Name| name.as_bytes().iter().map(|byte| char::from(*byte)).collect::<String>();
        serializer.collect_seq(self.0.iter().map(text))
    }
}

impl<'de> Deserialize<'de> for FileList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let name = |text: String| {
            let bytes: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
            let name = bytes.as_deref().and_then(parse_name);
            name.ok_or_else(|| serde::de::Error::custom("a list contains an invalid name"))
        };
        Ok(Self(texts.into_iter().map(name).collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_outside_of_the_source() {
        let shown = |line: &str| parse_name(line.as_bytes()).map(|name| name.to_string());
        assert_eq!(shown("/./a//b/c/."), Some("a/b/c".into()));
        assert_eq!(shown("a/../b"), Some("b".into()));
        assert_eq!(shown("./"), Some(".".into()));
        assert_eq!(shown("../a"), None);
        assert_eq!(shown("a/./b"), None);
        assert_eq!(shown("a/../../b"), None);
    }

    #[test]
    fn names_of_any_bytes_round_trip() {
        let names = [&b"plain"[..], b"\xff\x00x", b"a\xc3\xa9/\xfe"].map(parse_name);
        let listed = FileList(names.into_iter().flatten().collect());
        assert_eq!(listed.0.len(), 2, "names cannot have zero bytes");
        let text = serde_json::to_string(&listed).expect("JSON");
        let back: FileList = serde_json::from_str(&text).expect("a list");
        assert_eq!(back.0, listed.0);
        assert!(serde_json::from_str::<FileList>("[\"\u{4e00}\"]").is_err());
        assert!(serde_json::from_str::<FileList>("[\"../x\"]").is_err());
    }

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
