//! Display of a resolution's chain.

use super::resolved::{NearDevice, Resolved, Step};
use std::iter::successors;

impl Resolved {
    /// Returns the chain in one line, with parallel steps joined by commas:
    /// `/data -> xfs on /dev/md0 -> md0 -> sda, sdb -> 0000:3b:00.0 -> node 1`.
    ///
    /// Branches of different lengths, such as the files of a process, have a line each.
    pub fn lines(&self) -> Vec<String> {
        let children = self.children();
        let only_child = |step: &usize| match children.get(*step).map(Vec::as_slice) {
            Some([only]) => Some(*only),
            _ => None,
        };
        let stem: Vec<usize> = successors(Some(0), only_child).collect();
        let branches = stem.last().and_then(|last| children.get(*last)).map_or(&[][..], Vec::as_slice);
        let ways: Vec<Vec<Vec<usize>>> =
            branches.iter().map(|branch| levels(&children, &[*branch])).collect();
        let stem: Vec<Vec<usize>> = stem.into_iter().map(|step| vec![step]).collect();
        if ways.windows(2).all(|pair| pair[0].len() == pair[1].len()) {
            return vec![self.words([stem, levels(&children, branches)].concat())];
        }
        ways.into_iter().map(|way| self.words([stem.clone(), way].concat())).collect()
    }

    /// Returns the steps from the handle to one of its devices.
    pub fn path_to(&self, device: &NearDevice) -> Vec<&Step> {
        let next = |step: &&Step| step.from.and_then(|from| self.chain.get(from));
        let mut way: Vec<&Step> =
            successors(self.chain.get(device.step), next).take(self.chain.len()).collect();
        way.reverse();
        way
    }

    /// Returns the children of each step; ignores a step of a document whose parent comes later.
    fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.chain.len()];
        for (index, step) in self.chain.iter().enumerate() {
            if let Some(from) = step.from.filter(|from| *from < index) {
                children[from].push(index);
            }
        }
        children
    }

    /// Returns levels as text, each name once per level.
    fn words(&self, levels: Vec<Vec<usize>>) -> String {
        let level = |steps: Vec<usize>| {
            let mut words: Vec<&str> = Vec::new();
            for step in steps.iter().filter_map(|step| self.chain.get(*step)) {
                if !words.contains(&step.name.as_str()) {
                    words.push(&step.name);
                }
            }
            words.join(", ")
        };
        levels.into_iter().map(level).collect::<Vec<String>>().join(" -> ")
    }
}

/// Returns the steps at and below `start`, by their distance from it.
fn levels(children: &[Vec<usize>], start: &[usize]) -> Vec<Vec<usize>> {
    let below = |level: &Vec<usize>| {
        let next: Vec<usize> = level.iter().flat_map(|step| children[*step].iter().copied()).collect();
        (!next.is_empty()).then_some(next)
    };
    successors((!start.is_empty()).then(|| start.to_vec()), below).collect()
}
