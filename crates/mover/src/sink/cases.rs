//! Destinations that do not tell names apart which differ in case alone, as exFAT, directories of ext4 and f2fs that are marked so
//! (Documentation/filesystems/ext4/, "Case-insensitive file name lookups"), and what servers of Windows and macOS share.

use crate::name::Name;
use crate::name_set::NameSet;
use std::borrow::Cow;
use unicase::UniCase;
use unicode_normalization::UnicodeNormalization;

/// Names as the destination knows them.
#[derive(Debug, Default)]
pub(super) struct Cases {
    folds: bool,
    met: NameSet<8>,
}

impl Cases {
    pub fn new(folds: bool) -> Self {
        Self { folds, met: NameSet::default() }
    }

    /// Whether the source told before of a name that is the same here.
    pub fn is_second(&mut self, name: &Name) -> bool {
        self.folds && !self.met.add(folded(name.as_bytes()))
    }

    /// One that all names have which are the same here.
    pub fn known<'a>(&self, name: &'a Name) -> Cow<'a, [u8]> {
        match self.folds {
            true => Cow::Owned(folded(name.as_bytes())),
            false => Cow::Borrowed(name.as_bytes()),
        }
    }
}

/// As Unicode compares without case (The Unicode Standard, 3.13, D145: canonical caseless matching): letters as their full foldings,
/// whether or not their accents are characters of their own. Tables of file systems differ: what is taken for one here, and is two there,
/// is told, and not moved.
fn folded(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_ascii() => {
            let apart: String = text.nfd().collect();
            UniCase::unicode(apart).to_folded_case().nfd().collect::<String>().into_bytes()
        }
        _ => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_are_one_where_the_destination_takes_them_so() {
        let name = |text: &[u8]| Name::new(text).expect("a name");
        let (mut here, mut elsewhere) = (Cases::new(true), Cases::new(false));
        let told = [&b"Dir/\xc3\x84"[..], b"dir/\xc3\xa4", b"dir/b", b"\xffA", b"\xffa"];
        assert_eq!(told.map(|told| here.is_second(&name(told))), [false, true, false, false, true]);
        assert_eq!(told.map(|told| elsewhere.is_second(&name(told))), [false; 5]);
        assert_eq!((&*here.known(&name(b"A")), &*elsewhere.known(&name(b"A"))), (&b"a"[..], &b"A"[..]));
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
        ];
        for (a, b) in one {
            assert_eq!(folded(a.as_bytes()), folded(b.as_bytes()), "{a} and {b}");
        }
        let two = [("e", "\u{e9}"), ("i", "\u{131}"), ("s", "ss"), ("a.b", "a-b"), ("\u{b2}", "2")];
        for (a, b) in two {
            assert_ne!(folded(a.as_bytes()), folded(b.as_bytes()), "{a} and {b}");
        }
    }
}
