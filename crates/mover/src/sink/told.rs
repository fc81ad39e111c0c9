//! Which names the source told, so that others are removed: a few bytes for each, however many they are.

use crate::name::Name;

/// Parts of the set, by the first bits of a hash; each grows by itself, so that the whole is never held twice.
const PARTS: u64 = 4_096;
/// Bytes that are kept of the rest of a hash. Among ten million names the chance that one that was not told is taken for one
/// of them, and so stays, is 10^-11.
const KEPT: usize = 6;

/// A set of names; the first question comes after the last name.
#[derive(Debug, Default)]
pub(super) struct Told {
    parts: Vec<Vec<[u8; KEPT]>>,
    is_sorted: bool,
}

impl Told {
    pub fn add(&mut self, name: &Name) {
        let (part, kept) = hash(name);
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS as usize, Vec::new);
        }
        let part = &mut self.parts[part];
        if part.len() == part.capacity() {
            // Not by the half of what is there: they all grow at the same time.
            part.reserve_exact(part.len() / 8 + 16);
        }
        part.push(kept);
        self.is_sorted = false;
    }

    pub fn has(&mut self, name: &Name) -> bool {
        if !self.is_sorted {
            self.parts.iter_mut().for_each(|part| part.sort_unstable());
            self.is_sorted = true;
        }
        let (part, kept) = hash(name);
        self.parts.get(part).is_some_and(|part| part.binary_search(&kept).is_ok())
    }
}

/// In which part it is, and what is kept of it there.
fn hash(name: &Name) -> (usize, [u8; KEPT]) {
    let hash = twox_hash::XxHash3_64::oneshot(name.as_bytes());
    let [.., a, b, c, d, e, f] = (hash / PARTS).to_be_bytes();
    ((hash % PARTS) as usize, [a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_added_and_nothing_else() {
        let name = |number: u32| Name::new(format!("d/{number}").into_bytes()).expect("a name");
        let mut told = Told::default();
        assert!(!told.has(&name(0)));
        (0..50_000).for_each(|number| told.add(&name(2 * number)));
        assert!((0..100_000).all(|number| told.has(&name(number)) == (number % 2 == 0)));
        told.add(&name(1));
        assert!(told.has(&name(1)) && told.has(&name(2)) && !told.has(&name(3)));
    }
}
