//! A compact set of names that stores a few hash bytes per name.

/// Partitions of a set, selected by hash. Each is small enough for sorted insertion and grows on
/// its own, so that the complete set is never copied.
const PARTS: u128 = 16_384;

/// A set of names that stores `BYTES` hash bytes per name. With ten million names, the probability
/// that a name is wrongly found is 10^-11 with 6 bytes; that any two names collide, 10^-24 with 14.
#[derive(Debug, Default)]
pub(crate) struct NameSet<const BYTES: usize> {
    parts: Vec<Vec<[u8; BYTES]>>,
}

impl<const BYTES: usize> NameSet<BYTES> {
    /// Adds a name; returns `false` if it was present.
    pub fn add(&mut self, name: impl AsRef<[u8]>) -> bool {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS as usize, Vec::new);
        }
        let (part, kept) = hash(name.as_ref());
        let part = &mut self.parts[part];
        let Err(at) = part.binary_search(&kept) else { return false };
        if part.len() == part.capacity() {
            // Small steps instead of doubling, because all partitions grow at the same time.
            part.reserve_exact(part.len() / 8 + 8);
        }
        part.insert(at, kept);
        true
    }

    /// Returns whether a name was added.
    pub fn has(&self, name: impl AsRef<[u8]>) -> bool {
        let (part, kept) = hash(name.as_ref());
        self.parts.get(part).is_some_and(|part| part.binary_search(&kept).is_ok())
    }
}

/// Returns the partition of a name and the hash bytes to store.
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
    fn contains_exactly_the_added_names() {
        let name = |number: u32| format!("d/{number}").into_bytes();
        let mut met = NameSet::<6>::default();
        assert!(!met.has(name(0)));
        assert!((0..100_000).all(|number| met.add(name(2 * number))));
        assert!((0..200_000).all(|number| met.has(name(number)) == (number % 2 == 0)));
        assert!((0..100_000).all(|number| !met.add(name(2 * number))));
        assert!(met.add(name(1)) && met.has(name(1)) && !met.has(name(3)));
    }
}
