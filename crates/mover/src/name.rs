//! Validated relative file names, as bytes.

use std::cmp::Ordering;
use std::fmt;

/// Maximum bytes of a component: `NAME_MAX` in `include/uapi/linux/limits.h`.
pub const MAX_COMPONENT: usize = 255;
/// Maximum bytes of a name: `PATH_MAX` in the same header is 4,096 and includes the NUL.
pub const MAX_NAME: usize = 4_095;

/// Reasons why bytes are not a valid file name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no bytes.
    #[error("the name is empty")]
    Empty,
    /// The name starts with a slash.
    #[error("the name is absolute")]
    Absolute,
    /// The name has two consecutive slashes or ends with one.
    #[error("a component of the name is empty")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("a component of the name is \".\" or \"..\"")]
    Dots,
    /// The name contains a NUL byte.
    #[error("the name contains a NUL byte")]
    Nul,
    /// A component is longer than [`MAX_COMPONENT`].
    #[error("a component of the name has {0} bytes, {MAX_COMPONENT} at most")]
    LongComponent(usize),
    /// The name is longer than [`MAX_NAME`].
    #[error("the name has {0} bytes, {MAX_NAME} at most")]
    Long(usize),
}

/// The name of a file relative to the root of a transfer; bytes, not text.
///
/// Components are separated by single slashes; none is empty, `.` or `..`, and none contains a NUL
/// byte. So a name alone never leaves the root. A symbolic link among its parents still can, so
/// names must be opened without following links (`openat2` with `RESOLVE_BENEATH`).
///
/// Names sort in depth-first order: a directory, then its contents, then its next sibling.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Box<[u8]>);

impl Name {
    /// Returns the root of the transfer, the only name without components.
    pub fn root() -> Self {
        Self(Box::default())
    }

    /// Validates a name. The bytes are stored unchanged.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the name of `below` in this directory.
    ///
    /// # Errors
    /// A [`NameError`] if `below` or the joined name is invalid.
    pub fn join(&self, below: &[u8]) -> Result<Self, NameError> {
        check(below)?;
        if self.is_root() {
            return Ok(Self(below.into()));
        }
        let whole = [&self.0, &b"/"[..], below].concat();
        if whole.len() > MAX_NAME {
            return Err(NameError::Long(whole.len()));
        }
        Ok(Self(whole.into()))
    }

    /// Returns the parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        Some(Self(self.0[..end].into()))
    }

    /// Returns the last component; `None` for the root.
    pub fn last(&self) -> Option<&[u8]> {
        self.components().last()
    }

    /// Iterates over the components, starting at the root.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|component| !component.is_empty())
    }

    /// Returns whether this is the root of the transfer.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this name is `above` or inside it.
    pub fn is_within(&self, above: &Name) -> bool {
        let rest = self.0.strip_prefix(&*above.0);
        above.is_root() || rest.is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
    }

    /// Returns the bytes, with components separated by slashes; empty for the root.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn check(bytes: &[u8]) -> Result<(), NameError> {
    match bytes {
        [] => return Err(NameError::Empty),
        [b'/', ..] => return Err(NameError::Absolute),
        _ if bytes.len() > MAX_NAME => return Err(NameError::Long(bytes.len())),
        _ if bytes.contains(&0) => return Err(NameError::Nul),
        _ => {}
    }
    for component in bytes.split(|&byte| byte == b'/') {
        match component {
            b"" => return Err(NameError::EmptyComponent),
            b"." | b".." => return Err(NameError::Dots),
            _ if component.len() > MAX_COMPONENT => return Err(NameError::LongComponent(component.len())),
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a terminal may interpret this character instead of displaying it: control
/// characters, line and paragraph separators, and bidirectional formatting characters (Unicode
/// Standard Annex 9, section 2).
pub fn is_terminal_unsafe(char: char) -> bool {
    let turns = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    char.is_control() || turns || matches!(char, '\u{2028}' | '\u{2029}')
}

/// Returns whether a character has the property `Default_Ignorable_Code_Point` (Unicode 16,
/// DerivedCoreProperties.txt).
pub fn is_ignorable(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

impl Ord for Name {
    /// Compares by components. A slash sorts before all other bytes, as if it were the NUL byte.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        self.0.iter().map(key).cmp(other.0.iter().map(key))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Name {
    /// Formats for display: `.` for the root; invalid UTF-8 and terminal controls are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        for chunk in self.0.utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    '\\' => f.write_str("\\\\")?,
                    char if is_terminal_unsafe(char) => write!(f, "{}", char.escape_default())?,
                    char => write!(f, "{char}")?,
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    #[test]
    fn rejects_unsafe_names() {
        let long = |n: usize| "x".repeat(n);
        let deep = |n: usize| ["a/".repeat(n / 2), "a".repeat(n % 2)].concat();
        let cases: [(String, NameError); 15] = [
            ("".into(), NameError::Empty),
            ("/".into(), NameError::Absolute),
            ("/etc/passwd".into(), NameError::Absolute),
            ("a//b".into(), NameError::EmptyComponent),
            ("a/".into(), NameError::EmptyComponent),
            (".".into(), NameError::Dots),
            ("..".into(), NameError::Dots),
            ("../a".into(), NameError::Dots),
            ("a/../b".into(), NameError::Dots),
            ("a/./b".into(), NameError::Dots),
            ("a/..".into(), NameError::Dots),
            ("a\0b".into(), NameError::Nul),
            (long(256), NameError::LongComponent(256)),
            (format!("a/{}/b", long(300)), NameError::LongComponent(300)),
            (deep(4_097), NameError::Long(4_097)),
        ];
        for (bytes, why) in cases {
            assert_eq!(Name::new(bytes.as_bytes()), Err(why), "{bytes}");
        }
    }

    #[test]
    fn accepts_unusual_but_safe_names() {
        for bytes in ["...", ".a", "a..", " ", "-rf", "\n", "a\\..\\b", "~", "*", "C:"] {
            assert_eq!(Name::new(bytes.as_bytes()).map(|name| name.as_bytes().to_vec()), Ok(bytes.into()));
        }
        assert!(Name::new([0xff, 0xfe]).is_ok());
        assert!(Name::new("x".repeat(MAX_COMPONENT).into_bytes()).is_ok());
        assert!(Name::new(["a/".repeat(MAX_NAME / 2), "a".into()].concat().into_bytes()).is_ok());
    }

    #[test]
    fn joined_name_has_a_limit() {
        let half = Name::new(["a/".repeat(1_023), "a".into()].concat().into_bytes()).expect("a name");
        assert_eq!(half.as_bytes().len(), 2_047);
        assert_eq!(half.join(half.as_bytes()).map(|name| name.as_bytes().len()), Ok(4_095));
        let longer = [half.as_bytes(), b"a"].concat();
        assert_eq!(half.join(&longer), Err(NameError::Long(4_096)));
    }

    #[test]
    fn display_escapes_terminal_controls() {
        let shown = |bytes: &[u8]| Name::new(bytes).map(|name| name.to_string());
        assert_eq!(shown(b"a\x1b[2Jb\n"), Ok("a\\u{1b}[2Jb\\n".into()));
        assert_eq!(shown("Größe".as_bytes()), Ok("Größe".into()));
        assert_eq!(shown("a\u{9b}b".as_bytes()), Ok("a\\u{9b}b".into()));
        assert_eq!(shown("a\u{202e}b".as_bytes()), Ok("a\\u{202e}b".into()));
        assert_eq!(shown(b"a\\\xff"), Ok("a\\\\\\xff".into()));
        assert_eq!(Name::root().to_string(), ".");
    }

    #[test]
    fn names_sort_in_depth_first_order() {
        let walk = ["a", "a/b", "a/b/c", "a/b!", "a!", "a!/b", "a-b", "a.b", "b"];
        let mut names: Vec<Name> =
            walk.iter().map(|name| Name::new(name.as_bytes()).expect("a name")).collect();
        names.push(Name::root());
        names.reverse();
        names.sort();
        let sorted: Vec<String> = names.iter().map(Name::to_string).collect();
        assert_eq!(sorted, [&["."], &walk[..]].concat());
    }

    proptest! {
        #![proptest_config(testing::config())]

        /// Checks the rules against an independent model: the components of the standard library.
        #[test]
        fn valid_names_stay_below_the_root(bytes in proptest::collection::vec(testing::odd_byte(), 0..12)) {
            use std::os::unix::ffi::OsStrExt;
            use std::path::{Component, Path};
            let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
            let plain = path.components().all(|component| matches!(component, Component::Normal(_)));
            let rebuilt: std::path::PathBuf = path.components().collect();
            let good = plain && !bytes.is_empty() && !bytes.contains(&0) && rebuilt.as_os_str() == path.as_os_str();
            prop_assert_eq!(Name::new(bytes).is_ok(), good);
        }

        #[test]
        fn parent_and_last_invert_join(name in testing::name()) {
            let (Some(parent), Some(last)) = (name.parent(), name.last()) else {
                prop_assert!(name.is_root());
                return Ok(());
            };
            prop_assert!(name.is_within(&parent) && !parent.is_within(&name));
            prop_assert_eq!(parent.join(last), Ok(name));
        }

        #[test]
        fn joined_components_rebuild_the_name(name in testing::name()) {
            let built = name.components().try_fold(Name::root(), |name, component| name.join(component));
            prop_assert_eq!(built, Ok(name));
        }

        #[test]
        fn is_within_and_order_compare_components(a in testing::name(), b in testing::name()) {
            let (above, below): (Vec<_>, Vec<_>) = (a.components().collect(), b.components().collect());
            prop_assert_eq!(b.is_within(&a), below.starts_with(&above));
            prop_assert_eq!(a.cmp(&b), above.cmp(&below));
        }
    }
}
