//! Which names were met: some bytes of a hash for each, however many they are.

/// Parts of a set, by the first bits of a hash: each is small enough that something can be put into its midst, and grows
/// by itself, so that the whole is never held twice.
const PARTS: u128 = 16_384;

/// A set of names, of which so many bytes are kept. Among ten million names the chance that one which was not met is taken for
/// one that was is 10^-11 with 6 bytes, and that any two are taken for one 10^-24 with 14.
#[derive(Debug, Default)]
pub(crate) struct NameSet<const BYTES: usize> {
    parts: Vec<Vec<[u8; BYTES]>>,
}

impl<const BYTES: usize> NameSet<BYTES> {
    /// Adds a name; false if it is there.
    pub fn add(&mut self, name: impl AsRef<[u8]>) -> bool {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS as usize, Vec::new);
        }
        let (part, kept) = hash(name.as_ref());
        let part = &mut self.parts[part];
        let Err(at) = part.binary_search(&kept) else { return false };
        if part.len() == part.capacity() {
            // Not by the half of what is there: they all grow at the same time.
            part.reserve_exact(part.len() / 8 + 8);
        }
        part.insert(at, kept);
        true
    }

    pub fn has(&self, name: impl AsRef<[u8]>) -> bool {
        let (part, kept) = hash(name.as_ref());
        self.parts.get(part).is_some_and(|part| part.binary_search(&kept).is_ok())
    }
}

/// In which part a name is, and what is kept of it there.
fn hash<const BYTES: usize>(name: &[u8]) -> (usize, [u8; BYTES]) {
    let hash = twox_hash::XxHash3_128::oneshot(name);
    let mut kept = [0; BYTES];
    kept.iter_mut().zip((hash / PARTS).to_le_bytes()).for_each(|(kept, byte)| *kept = byte);
    ((hash % PARTS) as usize, kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_added_and_nothing_else() {
        let name = |number: u32| format!("d/{number}").into_bytes();
        let mut met = NameSet::<6>::default();
        assert!(!met.has(name(0)));
        assert!((0..100_000).all(|number| met.add(name(2 * number))));
        assert!((0..200_000).all(|number| met.has(name(number)) == (number % 2 == 0)));
        assert!((0..100_000).all(|number| !met.add(name(2 * number))));
        assert!(met.add(name(1)) && met.has(name(1)) && !met.has(name(3)));
    }
}
