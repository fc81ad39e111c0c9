//! Lists of names to transfer (`--files-from`), in rsync's format.

use numaio_mover::name::Name;
use numaio_mover::source;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names below the source to transfer, in the order of the list.
#[derive(Debug, Clone)]
pub struct FileList(Vec<Name>);

impl FileList {
    /// The list of these names.
    pub fn new(names: Vec<Name>) -> Self {
        Self(names)
    }

    /// Iterates over the names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Name::as_bytes)
    }

    /// Returns where reading begins: at each name, and at its parent directories without their
    /// contents.
    pub fn origins(&self, root: u32) -> Vec<source::Origin> {
        let only = |name: &Name| Some(name.clone()).filter(|name| !name.is_root());
        let origin = |name| source::Origin { root, only: only(name), enter: true, with_parents: true };
        self.0.iter().map(origin).collect()
    }
}

/// Parses a line as a name below the source, and normalizes slashes and `..`; `.` and `/` are the
/// root.
///
/// `None` if it leads out of the source, or has a `.` between names, which has a special meaning in
/// rsync.
pub fn parse_name(line: &[u8]) -> Option<Name> {
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
}
