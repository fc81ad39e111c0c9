//! A wildcard pattern of rsync, and matching it against a name.

use crate::name::{Name, MAX_NAME};

/// Maximum bytes of a pattern.
pub const MAX_PATTERN: usize = MAX_NAME + 1;

/// Words of the bit set of matcher states: one state before each part and one after the last.
const WORDS: usize = (MAX_PATTERN + 1).div_ceil(64);

const SLASH: usize = b'/' as usize;

/// Reasons why bytes are not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty.
    #[error("the pattern is empty")]
    Empty,
    /// The pattern is longer than [`MAX_PATTERN`].
    #[error("the pattern has {0} bytes, {MAX_PATTERN} at most")]
    Long(usize),
    /// The pattern contains a NUL byte, which no name has.
    #[error("the pattern contains a NUL byte")]
    Nul,
}

/// A wildcard pattern with the semantics of rsync.
///
/// A leading slash anchors it at the root. A trailing slash restricts it to directories. With
/// another slash or `**` it is matched against the end of the full name, otherwise against the last
/// component. `*` matches any bytes except slashes, `**` any bytes, `?` one byte except a slash,
/// `[...]` one byte of a class (ASCII, regardless of locale). A backslash escapes the next byte,
/// but only in a pattern with `*`, `?` or `[`. `dir/***` matches `dir` and everything below it.
///
/// Matching takes at most time proportional to the lengths of name and pattern multiplied, and 1
/// KiB of stack.
#[derive(Debug, Clone)]
pub struct Pattern {
    parts: Vec<Part>,
    subject: Subject,
    only_directories: bool,
    /// Directories are matched with a slash after their name.
    trailing_slash: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Byte(u8),
    /// `?`
    Any,
    /// The bytes of a class, as a bit set; never a slash.
    Class([u64; 4]),
    /// `*`
    Star,
    /// `**`
    Stars,
    /// An unterminated construct, which matches nothing.
    Never,
}

/// The part of a name that a pattern is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    /// The full name.
    FullName,
    /// The full name with a leading slash.
    FullNameWithSlash,
    /// The last components, of this number.
    Last(usize),
    /// The full name, or the rest after any slash.
    AfterAnySlash,
}

impl Pattern {
    /// Parses a pattern. Patterns that rsync accepts but that never match are accepted, too.
    ///
    /// # Errors
    /// A [`PatternError`] if the bytes are empty, too long or contain a NUL byte.
    pub fn new(bytes: &[u8]) -> Result<Self, PatternError> {
        match bytes {
            [] => return Err(PatternError::Empty),
            _ if bytes.len() > MAX_PATTERN => return Err(PatternError::Long(bytes.len())),
            _ if bytes.contains(&0) => return Err(PatternError::Nul),
            _ => {}
        }
        let is_wild = bytes.iter().any(|byte| b"*?[".contains(byte));
        let has_stars = bytes.windows(2).any(|pair| pair == b"**");
        let (body, only_directories) = match bytes {
            [body @ .., b'/'] if !body.is_empty() => (body, true),
            _ => (bytes, false),
        };
        let (anchored, body) = match body {
            [b'/', rest @ ..] => (true, rest),
            _ => (false, body),
        };
        let subject = match (anchored, has_stars) {
            (true, _) => Subject::FullName,
            (false, true) if body.starts_with(b"**") => Subject::FullNameWithSlash,
            (false, true) => Subject::AfterAnySlash,
            (false, false) => Subject::Last(1 + body.iter().filter(|&&byte| byte == b'/').count()),
        };
        let parts = if is_wild { parts(body) } else { body.iter().map(|&byte| Part::Byte(byte)).collect() };
        Ok(Self { parts, subject, only_directories, trailing_slash: body.ends_with(b"***") })
    }

    /// Returns the bytes to compare with, and with which part of a name, if there are no wildcards.
    pub(super) fn literal(&self) -> Option<(Subject, Box<[u8]>)> {
        let byte = |part: &Part| if let Part::Byte(byte) = part { Some(*byte) } else { None };
        let bytes = self.parts.iter().map(byte).collect::<Option<_>>()?;
        matches!(self.subject, Subject::FullName | Subject::Last(_)).then_some((self.subject, bytes))
    }

    pub(super) fn only_directories(&self) -> bool {
        self.only_directories
    }

    /// Returns whether the pattern matches a name. No pattern matches the root.
    pub fn matches(&self, name: &Name, is_directory: bool) -> bool {
        if name.is_root() || (self.only_directories && !is_directory) {
            return false;
        }
        let name = name.as_bytes();
        let front: &[u8] = if self.subject == Subject::FullNameWithSlash { b"/" } else { b"" };
        let Some(subject) = self.subject.of(name) else { return false };
        let behind: &[u8] = if self.trailing_slash && is_directory { b"/" } else { b"" };
        self.run([front, subject, behind].into_iter().flatten().copied())
    }

    /// Simulates the pattern as a state machine in one pass over the text.
    fn run(&self, text: impl Iterator<Item = u8>) -> bool {
        let words = self.parts.len() / 64 + 1;
        let (mut one, mut other) = ([0; WORDS], [0; WORDS]);
        let (mut now, mut next) = (&mut one[..words], &mut other[..words]);
        self.enter(now, 0);
        for byte in text {
            next.fill(0);
            for state in states(now) {
                match self.parts.get(state) {
                    Some(Part::Star) if byte != b'/' => self.enter(next, state),
                    Some(Part::Stars) => self.enter(next, state),
                    Some(part) if part.matches_byte(byte) => self.enter(next, state + 1),
                    _ => {}
                }
            }
            if self.subject == Subject::AfterAnySlash {
                if byte == b'/' {
                    self.enter(next, 0);
                }
            } else if next.iter().all(|&word| word == 0) {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        states(now).last() == Some(self.parts.len())
    }

    /// Adds a state, and the next one if it is a star, which may match nothing. No two stars are
    /// adjacent.
    fn enter(&self, states: &mut [u64], state: usize) {
        states[state / 64] |= 1 << (state % 64);
        if matches!(self.parts.get(state), Some(Part::Star | Part::Stars)) {
            states[(state + 1) / 64] |= 1 << ((state + 1) % 64);
        }
    }
}

/// Iterates over the states of a set in ascending order.
fn states(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest.checked_sub(1)?;
            Some(index * 64 + bit)
        })
    })
}

impl Subject {
    /// Returns this part of a name, without a leading slash; `None` if it has too few components.
    pub(super) fn of(self, name: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Last(count) => last(name, count),
            Self::FullName | Self::FullNameWithSlash | Self::AfterAnySlash => Some(name),
        }
    }
}

impl Part {
    fn matches_byte(&self, byte: u8) -> bool {
        match self {
            Self::Byte(own) => *own == byte,
            Self::Any => byte != b'/',
            Self::Class(bits) => bits[usize::from(byte / 64)] >> (byte % 64) & 1 == 1,
            Self::Star | Self::Stars | Self::Never => false,
        }
    }
}

/// Returns the last `count` components of a name; `None` if it has fewer.
fn last(name: &[u8], count: usize) -> Option<&[u8]> {
    let mut slashes = (0..name.len()).rev().filter(|&at| name[at] == b'/');
    match slashes.nth(count - 1) {
        Some(slash) => Some(&name[slash + 1..]),
        None if name.split(|&byte| byte == b'/').count() == count => Some(name),
        None => None,
    }
}

fn parts(mut rest: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    loop {
        let part = match rest {
            [] => return parts,
            [b'*', b'*', later @ ..] => {
                let stars = later.iter().take_while(|&&byte| byte == b'*').count();
                rest = &later[stars..];
                Part::Stars
            }
            [b'*', later @ ..] => {
                rest = later;
                Part::Star
            }
            [b'?', later @ ..] => {
                rest = later;
                Part::Any
            }
            [b'[', later @ ..] => match class(later) {
                Some((bits, later)) => {
                    rest = later;
                    Part::Class(bits)
                }
                None => return vec![Part::Never],
            },
            [b'\\', byte, later @ ..] => {
                rest = later;
                Part::Byte(*byte)
            }
            [b'\\'] => return vec![Part::Never],
            [byte, later @ ..] => {
                rest = later;
                Part::Byte(*byte)
            }
        };
        parts.push(part);
    }
}

/// Parses a class after its `[`; returns the class and the rest after its `]`. `None` if it is
/// unterminated or contains an unknown class name.
///
/// A leading `!` or `^` negates it; a `]` there, or directly after it, is a member. A backslash
/// escapes the next byte.
fn class(mut rest: &[u8]) -> Option<([u64; 4], &[u8])> {
    let mut bits = [0; 4];
    let negated = matches!(rest, [b'!' | b'^', ..]);
    if negated {
        rest = &rest[1..];
    }
    // The previous member, if a range can start with it.
    let mut before = None;
    let mut is_first = true;
    loop {
        let from_here = rest;
        let (byte, later) = rest.split_first()?;
        rest = later;
        match (byte, before) {
            (b']', _) if !is_first => break,
            (b'-', Some(start)) if !matches!(rest, [] | [b']', ..]) => {
                let (end, later) = member(rest)?;
                (start..=end).for_each(|byte| add(&mut bits, byte));
                (before, rest) = (None, later);
            }
            (b'[', _) if rest.starts_with(b":") => {
                let end = rest.iter().position(|&byte| byte == b']')?;
                if let [b':', name @ .., b':'] = &rest[..end] {
                    let is_member = named(name)?;
                    (0..=255).filter(is_member).for_each(|byte| add(&mut bits, byte));
                    (before, rest) = (None, &rest[end + 1..]);
                } else {
                    add(&mut bits, b'[');
                    before = Some(b'[');
                }
            }
            _ => {
                let (byte, later) = member(from_here)?;
                add(&mut bits, byte);
                (before, rest) = (Some(byte), later);
            }
        }
        is_first = false;
    }
    if negated {
        bits = bits.map(|word| !word);
    }
    // Neither a class nor a negated class matches the slash.
    bits[SLASH / 64] &= !(1 << (SLASH % 64));
    Some((bits, rest))
}

/// Parses a member of a class; returns it and the rest.
fn member(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [b'\\', byte, rest @ ..] => Some((*byte, rest)),
        [b'\\'] | [] => None,
        [byte, rest @ ..] => Some((*byte, rest)),
    }
}

fn add(bits: &mut [u64; 4], byte: u8) {
    bits[usize::from(byte / 64)] |= 1 << (byte % 64);
}

/// Returns the predicate of a POSIX character class, in ASCII.
fn named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| b" \t".contains(byte),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| byte.is_ascii_graphic() || *byte == b' ',
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        Pattern::new(pattern).expect("a pattern").matches(&Name::new(name).expect("a name"), false)
    }

    #[test]
    fn rejects_invalid_patterns() {
        assert_eq!(Pattern::new(b"").err(), Some(PatternError::Empty));
        assert_eq!(Pattern::new(b"a\0").err(), Some(PatternError::Nul));
        assert_eq!(Pattern::new(&[b'a'; 4_097]).err(), Some(PatternError::Long(4_097)));
        assert!(matches(&[b'?'; 255], &[b'x'; 255]));
        assert!(!matches(&[b'?'; MAX_PATTERN], b"a"));
        assert!(matches(&[b'*'; MAX_PATTERN], b"a/b"));
    }

    #[test]
    fn classes_match_their_members() {
        let members = |class: &str| -> String {
            let printable = (b'!'..=b'~').filter(|byte| !b"/.".contains(byte));
            printable.filter(|&byte| matches(class.as_bytes(), &[byte])).map(char::from).collect()
        };
        assert_eq!(members("[abc]"), "abc");
        assert_eq!(members("[a-c]"), "abc");
        assert_eq!(members("[c-a]"), "c", "as in rsync: the start of a range is a member");
        assert_eq!(members("[]a]"), "]a");
        assert_eq!(members("[a-]"), "-a");
        assert_eq!(members("[-a]"), "-a");
        assert_eq!(members("[a-c-e]"), "-abce");
        assert_eq!(members("[\\]\\\\]"), "\\]");
        assert_eq!(members("[\\a-\\c]"), "abc");
        assert_eq!(members("[[:digit:]x]"), "0123456789x");
        assert_eq!(members("[[:digit:]-x]"), "-0123456789x");
        assert_eq!(members("[[:x]"), ":[x");
        assert_eq!(members("[[:upper:][:lower:]]").len(), 52);
        assert_eq!(members("[!!-~]"), "");
        assert_eq!(
            members("[^b-~]"),
            (b'!'..=b'a').map(char::from).filter(|c| !"/.".contains(*c)).collect::<String>()
        );
        for never in ["[", "[a", "[]", "[!", "[!]", "[a-", "[\\", "[[:nonsense:]]", "[[:", "*\\"] {
            assert_eq!(members(never), "", "{never}");
        }
    }

    /// A backtracking matcher would take exponential time for these patterns.
    #[test]
    fn many_stars_match_in_bounded_time() {
        let name = ["a".repeat(255), "/".into()].concat().repeat(15) + "a";
        let pattern = "*a".repeat(2_000) + "b";
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
        let pattern = "**a*".repeat(1_000) + "b";
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
        let pattern = "**a*".repeat(1_000);
        assert!(matches(pattern.as_bytes(), name.as_bytes()));
    }

    /// A simple exponential reference matcher.
    fn try_all(parts: &[Part], text: &[u8]) -> bool {
        match (parts, text) {
            ([], text) => text.is_empty(),
            ([Part::Stars, rest @ ..], text) => (0..=text.len()).any(|n| try_all(rest, &text[n..])),
            ([Part::Star, rest @ ..], text) => {
                let most = text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
                (0..=most).any(|n| try_all(rest, &text[n..]))
            }
            ([part, rest @ ..], [byte, text @ ..]) => part.matches_byte(*byte) && try_all(rest, text),
            (_, []) => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..testing::config() })]

        #[test]
        fn matcher_agrees_with_the_reference_matcher(
            pattern in "[ab*?/]{1,8}|[ab*/]{1,5}\\[[!ab-]{1,3}\\][ab*/]{0,4}",
            name in "[ab]{1,3}(/[ab]{1,3}){0,3}",
        ) {
            let pattern = Pattern::new(pattern.as_bytes()).expect("a pattern");
            let components: Vec<&str> = name.split('/').collect();
            let ends = (0..components.len()).map(|at| components[at..].join("/"));
            let texts: Vec<String> = match pattern.subject {
                Subject::FullName => vec![name.clone()],
                Subject::FullNameWithSlash => vec![format!("/{name}")],
                Subject::Last(count) => ends.filter(|end| end.split('/').count() == count).collect(),
                Subject::AfterAnySlash => ends.collect(),
            };
            let expected = !pattern.only_directories && texts.iter().any(|text| try_all(&pattern.parts, text.as_bytes()));
            let name = Name::new(name.into_bytes()).expect("a name");
            prop_assert_eq!(pattern.matches(&name, false), expected);
        }

        #[test]
        fn accepts_all_bytes_except_nul(pattern in proptest::collection::vec(1u8.., 1..20), name in testing::name()) {
            let pattern = Pattern::new(&pattern).expect("a pattern");
            let _ = pattern.matches(&name, true);
        }
    }
}
