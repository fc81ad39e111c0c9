//! The chain of a resolution, as lines and as ways.

use super::{NearDevice, Resolved, Step};
use std::iter::successors;

impl Resolved {
    /// The chain in a line, what lies side by side joined by commas:
    /// `/data -> xfs on /dev/md0 -> md0 -> sda, sdb -> 0000:3b:00.0 -> node 1`. Where it divides into ways of
    /// different lengths, as the files of a process do, each of them has a line of its own.
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

    /// The steps from the handle to one of its devices.
    pub fn path_to(&self, device: &NearDevice) -> Vec<&Step> {
        let next = |step: &&Step| step.from.and_then(|from| self.chain.get(from));
        let mut way: Vec<&Step> =
            successors(self.chain.get(device.step), next).take(self.chain.len()).collect();
        way.reverse();
        way
    }

    /// For each step those that come from it. A step of a document that names a later one has no place here.
    fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.chain.len()];
        for (index, step) in self.chain.iter().enumerate() {
            if let Some(from) = step.from.filter(|from| *from < index) {
                children[from].push(index);
            }
        }
        children
    }

    /// Levels as words, each word once in its level.
    fn words(&self, levels: Vec<Vec<usize>>) -> String {
        let level = |steps: Vec<usize>| {
            let mut words: Vec<&str> = Vec::new();
            for step in steps.iter().filter_map(|step| self.chain.get(*step)) {
                if !words.contains(&step.what.as_str()) {
                    words.push(&step.what);
                }
            }
            words.join(", ")
        };
        levels.into_iter().map(level).collect::<Vec<String>>().join(" -> ")
    }
}

/// Steps below and with `start`, by their distance from it.
fn levels(children: &[Vec<usize>], start: &[usize]) -> Vec<Vec<usize>> {
    let below = |level: &Vec<usize>| {
        let next: Vec<usize> = level.iter().flat_map(|step| children[*step].iter().copied()).collect();
        (!next.is_empty()).then_some(next)
    };
    successors((!start.is_empty()).then(|| start.to_vec()), below).collect()
}
