//! Sets in hwloc's notation.

use numaio_machine::set::IdSet;

/// Formats a set in hwloc's notation: 32-bit words, highest first.
pub(super) fn bitmap<T: numaio_machine::ids::Id>(set: &IdSet<T>) -> String {
    let mut words: Vec<u32> = vec![0];
    for id in set.iter() {
        let (word, bit) = ((id.number() / 32) as usize, id.number() % 32);
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << bit;
    }
    let words: Vec<String> = words.iter().rev().map(|word| format!("0x{word:08x}")).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::CpuId;

    #[test]
    fn sets_are_written_as_words_highest_first() {
        let set = |ids: &[u32]| bitmap(&ids.iter().map(|id| CpuId(*id)).collect::<IdSet<CpuId>>());
        assert_eq!(set(&[]), "0x00000000");
        assert_eq!(set(&[0, 1, 31]), "0x80000003");
        assert_eq!(set(&[33, 64]), "0x00000001,0x00000002,0x00000000");
    }
}
