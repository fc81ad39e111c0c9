//! Destinations on which names that differ only in case, or in trailing dots, are equivalent:
//! exFAT, casefolded directories of ext4 and f2fs (Documentation/filesystems/ext4/,
//! "Case-insensitive file name lookups"), and shares of Windows and macOS servers.

use crate::name::{is_ignorable, Name};
use crate::name_set::NameSet;
use crate::port::NameMatching;
use std::borrow::Cow;
use unicase::UniCase;
use unicode_normalization::UnicodeNormalization;

/// The names received so far, to detect duplicates according to the equivalence of the destination.
///
/// Invariant: holds the key of every added name, or none where only equal bytes are equivalent.
#[derive(Debug)]
pub(super) struct DuplicateNames {
    names: NameMatching,
    keys: NameSet<8>,
}

impl DuplicateNames {
    /// Creates an empty set.
    pub fn new(names: NameMatching) -> Self {
        Self { names, keys: NameSet::default() }
    }

    /// Adds a name; returns whether an equivalent name was added before.
    pub fn add(&mut self, name: &Name) -> bool {
        self.names != NameMatching::Exact && !self.keys.add(key(self.names, name))
    }
}

/// Returns a key that is equal for equivalent names.
pub(super) fn key(names: NameMatching, name: &Name) -> Cow<'_, [u8]> {
    match names {
        NameMatching::Exact => Cow::Borrowed(name.as_bytes()),
        NameMatching::Normalized => Cow::Owned(normalize(name.as_bytes())),
        NameMatching::CaseInsensitive => Cow::Owned(fold(name.as_bytes())),
        NameMatching::CaseInsensitiveTrimmed => Cow::Owned(fold(&trim_dots(name.as_bytes()))),
    }
}

/// Decomposes accented characters (NFD).
fn normalize(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => text.nfd().collect::<String>().into_bytes(),
        _ => name.to_vec(),
    }
}

/// Removes trailing dots and blanks of components. A component of only these is unchanged.
fn trim_dots(name: &[u8]) -> Vec<u8> {
    let is_trimmed = |byte: &u8| matches!(byte, b'.' | b' ');
    let one = |component: &[u8]| {
        let end =
            component.iter().rposition(|byte| !is_trimmed(byte)).map_or(component.len(), |last| last + 1);
        component[..end].to_vec()
    };
    name.split(|&byte| byte == b'/').map(one).collect::<Vec<_>>().join(&b'/')
}

/// Applies canonical caseless matching (The Unicode Standard, 3.13, D145): full case folding and
/// decomposition. Ignorable characters are removed, as in ext4, f2fs and tmpfs (fs/unicode of the
/// kernel). The tables of file systems differ: a name that is wrongly taken for a duplicate is
/// reported and not copied.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => {
            let visible: Vec<String> = text.split('/').map(visible_characters).collect();
            UniCase::unicode(visible.join("/")).to_folded_case().nfd().collect::<String>().into_bytes()
        }
        _ => name.to_ascii_lowercase(),
    }
}

/// Removes ignorable characters and decomposes. A component of only these remains a non-empty name.
fn visible_characters(component: &str) -> String {
    let metadata: String = component.chars().filter(|letter| !is_ignorable(*letter)).nfd().collect();
    if metadata.is_empty() {
        "\0".to_owned()
    } else {
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_case_insensitive_duplicates_only_where_folded() {
        let name = |text: &[u8]| Name::new(text).expect("a name");
        let (mut here, mut elsewhere) =
            (DuplicateNames::new(NameMatching::CaseInsensitive), DuplicateNames::new(NameMatching::Exact));
        let names = [&b"Dir/\xc3\x84"[..], b"dir/\xc3\xa4", b"dir/b", b"\xffA", b"\xffa"];
        assert_eq!(names.map(|names| here.add(&name(names))), [false, true, false, false, true]);
        assert_eq!(names.map(|names| elsewhere.add(&name(names))), [false; 5]);
        let keys = [NameMatching::CaseInsensitive, NameMatching::Exact]
            .map(|names| key(names, &name(b"A")).into_owned());
        assert_eq!(keys, [b"a", b"A"]);
    }

    #[test]
    fn ignores_trailing_dots_and_blanks_only_where_trimmed() {
        let name = |text: &[u8]| Name::new(text).expect("a name");
        let (mut trim_dots, mut fold) = (
            DuplicateNames::new(NameMatching::CaseInsensitiveTrimmed),
            DuplicateNames::new(NameMatching::CaseInsensitive),
        );
        let names = [&b"R.E.M/x"[..], b"r.e.m./X. .", b"a. b", b"a", b"...", b"..a", b". ."];
        assert_eq!(
            names.map(|names| trim_dots.add(&name(names))),
            [false, true, false, false, false, false, false]
        );
        assert_eq!(names.map(|names| fold.add(&name(names))), [false; 7]);
    }

    #[test]
    fn normalization_ignores_only_the_encoding_of_accents() {
        let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
        let mut here = DuplicateNames::new(NameMatching::Normalized);
        let names = ["e\u{301}/x", "\u{e9}/x", "\u{c9}/x", "E", "e", "a.", "a"];
        assert_eq!(
            names.map(|names| here.add(&name(names))),
            [false, true, false, false, false, false, false]
        );
    }

    #[test]
    fn folding_matches_unicode_caseless_matching() {
        let one = [
            ("stra\u{df}e", "STRASSE"),
            ("\u{e9}t\u{e9}", "E\u{301}te\u{301}"),
            ("\u{1e9e}", "ss"),
            ("\u{3c2}\u{3a3}", "\u{3c3}\u{3c3}"),
            ("\u{212a}\u{212b}", "k\u{e5}"),
            ("\u{fb01}", "FI"),
            ("\u{3b1}\u{345}\u{301}", "\u{391}\u{301}\u{399}"),
            ("a\u{200b}\u{fffd}", "A\u{fffd}"),
            ("\u{2764}\u{fe0f}", "\u{2764}"),
            ("a\u{34f}\u{301}", "\u{c1}"),
            ("z\u{e0fff}", "Z"),
            ("\u{202e}", "\u{61c}"),
        ];
        for (a, b) in one {
            assert_eq!(fold(a.as_bytes()), fold(b.as_bytes()), "{a} and {b}");
        }
        let two = [
            ("e", "\u{e9}"),
            ("i", "\u{131}"),
            ("s", "ss"),
            ("a.b", "a-b"),
            ("\u{b2}", "2"),
            ("\u{ad}", ""),
            ("\u{ad}", "\u{ad}/\u{ad}"),
        ];
        for (a, b) in two {
            assert_ne!(fold(a.as_bytes()), fold(b.as_bytes()), "{a} and {b}");
        }
    }

    #[test]
    fn ignorable_characters_match_unicode() {
        let all = || char::MIN..=char::MAX;
        assert_eq!(all().filter(|letter| is_ignorable(*letter)).count(), 4_174);
        // They have no case, and neither are accents nor have any.
        let alone = |letter: &char| letter.to_lowercase().eq([*letter]) && letter.nfd().eq([*letter]);
        assert!(all().filter(|letter| is_ignorable(*letter)).all(|letter| alone(&letter)));
        let beside =
            ['\u{ac}', '\u{ae}', '\u{200a}', '\u{2010}', '\u{2029}', '\u{202f}', '\u{205f}', '\u{fff9}'];
        assert!(!beside.iter().any(|letter| is_ignorable(*letter)));
    }
}
