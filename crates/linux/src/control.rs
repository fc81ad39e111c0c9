//! Changing this machine's settings.

use crate::Root;
use numaio_machine::control::{Change, ControlError};
use numaio_machine::sysfs::SysfsExt;
use rustix::fs::OFlags;

/// `Documentation/admin-guide/sysctl/kernel.rst`, `numa_balancing`.
const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Applies a change below `root`; gives the change that undoes it.
pub fn apply(root: &Root, change: &Change) -> Result<Change, ControlError> {
    match change {
        Change::NumaBalancing { mode } => {
            let before = set(root, NUMA_BALANCING, *mode)?;
            Ok(Change::NumaBalancing { mode: before })
        }
    }
}

/// Writes a number to a sysctl that exists, and checks that the kernel took it; gives the number before.
fn set(root: &Root, path: &str, value: u32) -> Result<u32, ControlError> {
    let refused = |why: String| ControlError::Refused { what: format!("set {path} to {value}"), why };
    let before = root.value(path).map_err(|error| refused(error.why.to_string()))?;
    let flags = OFlags::WRONLY | OFlags::TRUNC;
    let file = root.open_file(path, flags).map_err(|errno| refused(errno.to_string()))?;
    // A sysctl takes its value by one write from the file's start.
    rustix::io::write(&file, value.to_string().as_bytes()).map_err(|errno| refused(errno.to_string()))?;
    let after: u32 = root.value(path).map_err(|error| refused(error.why.to_string()))?;
    if after != value {
        return Err(refused(format!("the kernel keeps {after}")));
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conformance;
    use numaio_machine::control::Control;
    use std::fs;

    struct Below<'a>(&'a Root);

    impl Control for Below<'_> {
        fn apply(&self, change: &Change) -> Result<Change, ControlError> {
            apply(self.0, change)
        }
    }

    #[test]
    fn a_change_gives_its_inverse() {
        let dir = std::env::temp_dir().join(format!("numaio-control-{}", std::process::id()));
        let file = dir.join(NUMA_BALANCING.trim_start_matches('/'));
        fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
        let root = Root::open(&dir).expect("a root");
        let off = Change::NumaBalancing { mode: 0 };
        let absent = apply(&root, &off);
        fs::write(&file, "12\n").expect("a setting");
        let inverse = apply(&root, &off);
        let after = fs::read_to_string(&file).expect("a setting");
        conformance::control(&Below(&root), &Change::NumaBalancing { mode: 2 }).expect("allowed");
        let undone = apply(&root, &Change::NumaBalancing { mode: 12 });
        fs::remove_dir_all(&dir).expect("removed");
        assert!(matches!(absent, Err(ControlError::Refused { .. })), "a kernel without it: {absent:?}");
        assert_eq!(inverse, Ok(Change::NumaBalancing { mode: 12 }));
        assert_eq!(after, "0");
        assert_eq!(undone, Ok(off));
    }
}
