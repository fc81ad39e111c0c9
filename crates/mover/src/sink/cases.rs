//! Destinations that do not tell names apart which differ in case alone, as exFAT, and what servers of Windows and macOS share.

use crate::name::Name;
use crate::name_set::NameSet;
use std::borrow::Cow;

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

/// In small letters. Tables of file systems differ in rare ones: what is taken for one here, and is two there, is told, and not moved.
fn folded(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => name.to_ascii_lowercase(),
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
}
