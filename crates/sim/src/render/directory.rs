//! Writing files of a directory as the kernel formats them.

use numaio_machine::ids::Id;
use numaio_machine::set::IdSet;
use numaio_machine::tree::Tree;

/// A directory that files are written to.
pub(super) struct Dir<'a> {
    pub tree: &'a mut Tree,
    pub path: String,
}

impl<'a> Dir<'a> {
    /// Starts writing a directory.
    pub fn new(tree: &'a mut Tree, path: impl Into<String>) -> Self {
        Self { tree, path: path.into() }
    }

    /// A file of one value and a line end, as sysfs attributes are.
    pub fn value(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.tree.file(&format!("{}/{name}", self.path), format!("{value}\n"));
        self
    }

    /// Writes a relative link, as the kernel does, to an absolute path.
    pub fn link(&mut self, name: &str, target: &str) -> &mut Self {
        let path = format!("{}/{name}", self.path);
        self.tree.link(&path, &relative(&self.path, target));
        self
    }

    /// Both text forms of a set: `stem` as a mask, `list` as a list.
    pub fn set<T: Id>(&mut self, stem: &str, list: &str, set: &IdSet<T>, bits: u32) -> &mut Self {
        self.value(stem, mask(set, bits)).value(list, set)
    }
}

/// Returns `target` relative to the directory `from`; both are absolute.
fn relative(from: &str, target: &str) -> String {
    let from: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    let to: Vec<&str> = target.split('/').filter(|part| !part.is_empty()).collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    "../".repeat(from.len() - common) + &to[common..].join("/")
}

/// The mask format of a set among `bits` possible ids: 32-bit words, the first with only the digits
/// it needs (`%*pb`, `Documentation/core-api/printk-formats.rst`).
pub(super) fn mask<T: Id>(set: &IdSet<T>, bits: u32) -> String {
    let words = bits.div_ceil(32).max(1);
    let mut values = vec![0u32; words as usize];
    for id in set.iter().map(T::number).filter(|id| *id < words * 32) {
        values[(id / 32) as usize] |= 1 << (id % 32);
    }
    let digits =
        |index: usize| if index + 1 == words as usize { ((bits - 1) % 32 / 4 + 1) as usize } else { 8 };
    let text = |(index, word): (usize, &u32)| format!("{word:0width$x}", width = digits(index));
    values.iter().enumerate().rev().map(text).collect::<Vec<_>>().join(",")
}

/// Returns the number of ids that a kernel would reserve: one more than the greatest.
pub(super) fn room<T: Id>(set: &IdSet<T>) -> u32 {
    set.iter().next_back().map_or(1, |id| id.number() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::set::CpuSet;

    #[test]
    fn masks_have_the_digits_the_kernel_prints() {
        let of = |list: &str, bits| mask(&CpuSet::parse_list(list).expect(list), bits);
        assert_eq!(of("0-1", 2), "3");
        assert_eq!(of("0,4", 5), "11");
        assert_eq!(of("32", 40), "01,00000000");
        assert_eq!(of("", 64), "00000000,00000000");
        assert_eq!(of("0-63", 64), "ffffffff,ffffffff");
    }

    #[test]
    fn links_are_relative() {
        assert_eq!(relative("/sys/class/net", "/sys/devices/pci0000:00/x"), "../../devices/pci0000:00/x");
        assert_eq!(relative("/sys/a/b", "/sys/a/b/c"), "c");
    }
}
