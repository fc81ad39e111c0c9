//! An index of numbers by hash, in little more than six bytes per number.

/// Partitions of the index, selected by hash. Each is small enough to be searched linearly.
const PARTS: u64 = 16_384;
/// Numbers in a block.
const NUMBERS: usize = 20;
/// Blocks allocated together.
const BLOCKS: usize = 256;

/// Some numbers of a partition. Blocks have a fixed size and never move, because arrays that grow
/// in many places fragment the memory.
#[derive(Debug, Clone)]
struct Block {
    /// The previous block of this partition, or [`NONE`].
    before: u32,
    used: u16,
    /// Further bits of the hashes.
    tags: [u16; NUMBERS],
    numbers: [u32; NUMBERS],
}

const NONE: u32 = u32::MAX;

/// Maps hashes to numbers. Different hashes may collide; the caller must verify each candidate.
///
/// Invariant: each added number is in one block of the partition of its hash.
#[derive(Debug, Default)]
pub(super) struct HashIndex {
    /// The current block of each partition, or [`NONE`].
    last: Vec<u32>,
    blocks: Vec<Vec<Block>>,
}

impl HashIndex {
    /// Iterates over the numbers that may have this hash.
    pub fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let (part, tag) = split(hash);
        let last = self.last.get(part).and_then(|last| self.block(*last));
        let blocks = std::iter::successors(last, |block| self.block(block.before));
        blocks.flat_map(move |block| {
            let slots = block.tags.iter().zip(block.numbers).take(usize::from(block.used));
            slots.filter(move |(other, _)| **other == tag).map(|(_, number)| number)
        })
    }

    /// Adds a number.
    pub fn add(&mut self, hash: u64, number: u32) {
        if self.last.is_empty() {
            self.last.resize(PARTS as usize, NONE);
        }
        let (part, tag) = split(hash);
        if self.block(self.last[part]).is_none_or(|block| usize::from(block.used) == NUMBERS) {
            self.last[part] = self.begin(self.last[part]);
        }
        let last = self.last[part] as usize;
        let block = &mut self.blocks[last / BLOCKS][last % BLOCKS];
        let at = usize::from(block.used);
        (block.tags[at], block.numbers[at]) = (tag, number);
        block.used += 1;
    }

    fn block(&self, index: u32) -> Option<&Block> {
        self.blocks.get(index as usize / BLOCKS)?.get(index as usize % BLOCKS)
    }

    /// Adds a block after `before`; returns its index. There are at most as many blocks as numbers.
    fn begin(&mut self, before: u32) -> u32 {
        if self.blocks.last().is_none_or(|blocks| blocks.len() == BLOCKS) {
            self.blocks.push(Vec::with_capacity(BLOCKS));
        }
        let full = (self.blocks.len() - 1) * BLOCKS;
        let Some(blocks) = self.blocks.last_mut() else { return NONE };
        blocks.push(Block { before, used: 0, tags: [0; NUMBERS], numbers: [0; NUMBERS] });
        (full + blocks.len() - 1) as u32
    }
}

/// Returns the partition and tag of a hash: thirty bits together, on which [`super::hard_links`]
/// relies.
fn split(hash: u64) -> (usize, u16) {
    ((hash % PARTS) as usize, (hash / PARTS) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_numbers_by_their_hashes() {
        let mut index = HashIndex::default();
        assert_eq!(index.candidates(1).count(), 0);
        // Two partitions with many blocks and three numbers per hash; one number in each other
        // partition.
        let hash = |number: u32| u64::from(number / 3) * PARTS + u64::from(number % 2);
        (0..30_000).for_each(|number| index.add(hash(number), number));
        (2..PARTS).for_each(|part| index.add(part, 0));
        for number in 0..30_000 {
            let mut found: Vec<u32> = index.candidates(hash(number)).collect();
            found.sort_unstable();
            let wanted: Vec<u32> =
                (0..3).map(|other| number / 3 * 3 + other).filter(|other| other % 2 == number % 2).collect();
            assert_eq!(found, wanted);
        }
        assert_eq!((index.candidates(7).count(), index.candidates(7 + PARTS).count()), (1, 0));
    }
}
