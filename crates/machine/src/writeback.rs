//! What waits in the page cache for disks.

/// Where the kernel tells it.
pub const PATH: &str = "/proc/vmstat";

/// Pages that wait, and how many may (`dirty_background_ratio` and `dirty_ratio` in
/// `Documentation/admin-guide/sysctl/vm.rst`; both are of the memory that is available, so they change).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writeback {
    /// Pages that were written to and are not on their disks yet.
    pub waiting: u64,
    /// From how many on the kernel writes them without being asked.
    pub begins: u64,
    /// How many there may be at the most.
    pub most: u64,
}

impl Writeback {
    /// From how many pages on the kernel slows programs down that write (mm/page-writeback.c, `dirty_freerun_ceiling`).
    pub fn throttle_threshold(&self) -> u64 {
        self.begins.midpoint(self.most)
    }
}

/// Parses /proc/vmstat, lines of a name and a number of pages. None if one of those that are needed is missing, as before
/// Linux 2.6.37.
pub fn parse_vmstat(text: &str) -> Option<Writeback> {
    let pages = |wanted: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == wanted)?.1.trim().parse::<u64>().ok()
    };
    Some(Writeback {
        waiting: pages("nr_dirty")?.saturating_add(pages("nr_writeback")?),
        begins: pages("nr_dirty_background_threshold")?,
        most: pages("nr_dirty_threshold")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_and_what_may_is_read() {
        let text = "nr_free_pages 5969521\nnr_dirty 5\nnr_writeback 7\nnr_writeback_temp 9\n\
                    nr_dirty_threshold 1188812\nnr_dirty_background_threshold 593680\n";
        let found = parse_vmstat(text).expect("all is there");
        assert_eq!(found, Writeback { waiting: 12, begins: 593_680, most: 1_188_812 });
        assert_eq!(found.throttle_threshold(), 891_246);
        assert_eq!(parse_vmstat(&text.replace("nr_writeback 7\n", "")), None);
        assert_eq!(parse_vmstat(&text.replace("1188812", "-1")), None);
        let most = Writeback { waiting: 0, begins: u64::MAX, most: u64::MAX };
        assert_eq!(most.throttle_threshold(), u64::MAX);
    }
}
