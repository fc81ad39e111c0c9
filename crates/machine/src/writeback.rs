//! Dirty pages that wait for writeback.

/// File with the counters.
pub const PATH: &str = "/proc/vmstat";

/// Number of dirty pages and the kernel's thresholds.
///
/// The thresholds follow `dirty_background_ratio` and `dirty_ratio`
/// (`Documentation/admin-guide/sysctl/vm.rst`) of available memory, and therefore vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writeback {
    /// Dirty pages and pages under writeback.
    pub waiting: u64,
    /// Number of pages at which the kernel starts background writeback.
    pub begins: u64,
    /// Maximum number of dirty pages.
    pub most: u64,
}

impl Writeback {
    /// Returns the number of pages at which the kernel throttles writers
    /// (mm/page-writeback.c, `dirty_freerun_ceiling`).
    pub fn throttle_threshold(&self) -> u64 {
        self.begins.midpoint(self.most)
    }
}

/// Parses /proc/vmstat, lines of a name and a page count.
///
/// Returns `None` if a required counter is missing, as before Linux 2.6.37.
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
    fn parses_counters_and_thresholds() {
        let text = "nr_free_pages 5969521\nnr_dirty 5\nnr_writeback 7\nnr_writeback_temp 9\n\
                    nr_dirty_threshold 1188812\nnr_dirty_background_threshold 593680\n";
        let found = parse_vmstat(text).expect("all counters");
        assert_eq!(found, Writeback { waiting: 12, begins: 593_680, most: 1_188_812 });
        assert_eq!(found.throttle_threshold(), 891_246);
        assert_eq!(parse_vmstat(&text.replace("nr_writeback 7\n", "")), None);
        assert_eq!(parse_vmstat(&text.replace("1188812", "-1")), None);
        let most = Writeback { waiting: 0, begins: u64::MAX, most: u64::MAX };
        assert_eq!(most.throttle_threshold(), u64::MAX);
    }
}
