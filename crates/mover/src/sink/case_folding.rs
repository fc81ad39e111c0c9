//! Destinations that do not tell names apart which differ in case alone, or in dots at their ends, as exFAT, directories of ext4 and
//! f2fs that are marked so (Documentation/filesystems/ext4/, "Case-insensitive file name lookups"), and what servers of Windows and
//! macOS share.

use crate::name::{is_ignorable, Name};
use crate::name_set::NameSet;
use numaio_machine::port::Names;
use std::borrow::Cow;
use unicase::UniCase;
use unicode_normalization::UnicodeNormalization;

/// Names as the destination knows them.
#[derive(Debug, Default)]
pub(super) struct CaseFolding {
    names: Names,
    seen: NameSet<8>,
}

impl CaseFolding {
    pub fn new(names: Names) -> Self {
        Self { names, seen: NameSet::default() }
    }

    pub fn names(&self) -> Names {
        self.names
    }

    /// Whether the source told before of a name that is the same here.
    pub fn is_duplicate(&mut self, name: &Name) -> bool {
        self.names != Names::Apart && !self.seen.add(self.key(name))
    }

    /// One that all names have which are the same here.
    pub fn key<'a>(&self, name: &'a Name) -> Cow<'a, [u8]> {
        match self.names {
            Names::Apart => Cow::Borrowed(name.as_bytes()),
            Names::Normalized => Cow::Owned(normalize(name.as_bytes())),
            Names::Folded => Cow::Owned(fold(name.as_bytes())),
            Names::FoldedAndCut => Cow::Owned(fold(&trim_dots(name.as_bytes()))),
        }
    }
}

/// With each accent as a character of its own (NFD).
fn normalize(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => text.nfd().collect::<String>().into_bytes(),
        _ => name.to_vec(),
    }
}

/// Without dots and blanks at the ends of components. One of nothing else stays as it is.
fn trim_dots(name: &[u8]) -> Vec<u8> {
    let is_trimmed = |byte: &u8| matches!(byte, b'.' | b' ');
    let one = |component: &[u8]| {
        let end = component.iter().rposition(|byte| !is_trimmed(byte)).map_or(component.len(), |last| last + 1);
        component[..end].to_vec()
    };
    name.split(|&byte| byte == b'/').map(one).collect::<Vec<_>>().join(&b'/')
}

/// As Unicode compares without case (The Unicode Standard, 3.13, D145: canonical caseless matching): letters as their full foldings,
/// whether or not their accents are characters of their own. Characters that need not be seen count for nothing, as to ext4, f2fs
/// and tmpfs (fs/unicode of the kernel). Tables of file systems differ: what is taken for one here, and is two there, is told,
/// and not moved.
fn fold(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => {
            let visible: Vec<String> = text.split('/').map(visible_characters).collect();
            UniCase::unicode(visible.join("/")).to_folded_case().nfd().collect::<String>().into_bytes()
        }
        _ => name.to_ascii_lowercase(),
    }
}

/// What is seen of a component, letters and accents apart. One of which nothing is seen is a name all the same.
fn visible_characters(component: &str) -> String {
    let seen: String = component.chars().filter(|letter| !is_ignorable(*letter)).nfd().collect();
    if seen.is_empty() {
        "\0".to_owned()
    } else {
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_are_one_where_the_destination_takes_them_so() {
        let name = |text: &[u8]| Name::new(text).expect("a name");
        let (mut here, mut elsewhere) = (CaseFolding::new(Names::Folded), CaseFolding::new(Names::Apart));
        let names = [&b"Dir/\xc3\x84"[..], b"dir/\xc3\xa4", b"dir/b", b"\xffA", b"\xffa"];
        assert_eq!(names.map(|names| here.is_duplicate(&name(names))), [false, true, false, false, true]);
        assert_eq!(names.map(|names| elsewhere.is_duplicate(&name(names))), [false; 5]);
        assert_eq!((&*here.key(&name(b"A")), &*elsewhere.key(&name(b"A"))), (&b"a"[..], &b"A"[..]));
    }

    #[test]
    fn dots_and_blanks_at_the_ends_count_for_nothing_where_they_are_left_out() {
        let name = |text: &[u8]| Name::new(text).expect("a name");
        let (mut trim_dots, mut fold) = (CaseFolding::new(Names::FoldedAndCut), CaseFolding::new(Names::Folded));
        let names = [&b"R.E.M/x"[..], b"r.e.m./X. .", b"a. b", b"a", b"...", b"..a", b". ."];
        assert_eq!(
            names.map(|names| trim_dots.is_duplicate(&name(names))),
            [false, true, false, false, false, false, false]
        );
        assert_eq!(names.map(|names| fold.is_duplicate(&name(names))), [false; 7]);
    }

    #[test]
    fn accents_alone_are_one_where_nothing_else_is() {
        let name = |text: &str| Name::new(text.as_bytes()).expect("a name");
        let mut here = CaseFolding::new(Names::Normalized);
        let names = ["e\u{301}/x", "\u{e9}/x", "\u{c9}/x", "E", "e", "a.", "a"];
        assert_eq!(
            names.map(|names| here.is_duplicate(&name(names))),
            [false, true, false, false, false, false, false]
        );
    }

    #[test]
    fn names_are_one_that_unicode_takes_for_one() {
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
    fn characters_that_need_not_be_seen_are_those_of_unicode() {
        let all = || char::MIN..=char::MAX;
        assert_eq!(all().filter(|letter| is_ignorable(*letter)).count(), 4_174);
        // They have no case, and neither are accents nor have them.
        let alone = |letter: &char| letter.to_lowercase().eq([*letter]) && letter.nfd().eq([*letter]);
        assert!(all().filter(|letter| is_ignorable(*letter)).all(|letter| alone(&letter)));
        let beside =
            ['\u{ac}', '\u{ae}', '\u{200a}', '\u{2010}', '\u{2029}', '\u{202f}', '\u{205f}', '\u{fff9}'];
        assert!(!beside.iter().any(|letter| is_ignorable(*letter)));
    }
}
