//! DAMON by its files in sysfs.

use crate::Root;
use numaio_machine::control::{AccessMonitor, Change, ControlError};
use numaio_machine::hot_pages::{
    damon_settings, kdamond_folder, monitored_by, read_tried_regions, AccessedRange, DamonIntervals,
    MonitoredProcess, DAMON, NR_KDAMONDS,
};
use numaio_machine::sysfs::SysfsExt;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;

/// Returns why DAMON cannot be used, as text.
///
/// Any monitor of another program is a reason, even a stopped one: creating ours removes it.
pub fn check(root: &Root) -> Result<(), String> {
    let Ok(count) = root.value::<usize>(NR_KDAMONDS) else {
        return Err("the kernel lacks it, or permission is missing".to_owned());
    };
    if count > 0 {
        let state = root.optional(&format!("{}/state", kdamond_folder(0))).unwrap_or_default();
        return Err(format!("another program uses it ({count} in {DAMON}, the first is '{state}')"));
    }
    root.open_file(NR_KDAMONDS, OFlags::WRONLY).map(drop).map_err(|errno| io::Error::from(errno).to_string())
}

/// Starts or stops the monitors of processes; returns the inverse change.
pub fn apply(root: &Root, monitor: &AccessMonitor) -> Result<Change, ControlError> {
    let inverse = |on| {
        let plain = |it: &MonitoredProcess| MonitoredProcess { pid: it.pid, ranges: Vec::new() };
        let processes = monitor.processes.iter().map(plain).collect();
        Change::AccessMonitor(AccessMonitor { processes, enabled: on, ..*monitor })
    };
    if !monitor.enabled {
        stop(root, monitor)?;
        return Ok(inverse(true));
    }
    let what = inverse(true).to_string();
    check(root).map_err(|why| ControlError::Refused { what, why })?;
    start(root, monitor).inspect_err(|_| drop(remove(root, monitor.processes.len())))?;
    Ok(inverse(false))
}

fn start(root: &Root, monitor: &AccessMonitor) -> Result<(), ControlError> {
    let AccessMonitor { sample_us, aggregation_us, .. } = *monitor;
    write(root, NR_KDAMONDS, &monitor.processes.len().to_string())?;
    for (index, process) in monitor.processes.iter().enumerate() {
        let folder = kdamond_folder(index);
        for (path, value) in damon_settings(process, DamonIntervals { sample_us, aggregation_us }) {
            write(root, &format!("{folder}/{path}"), &value)?;
        }
        write(root, &format!("{folder}/state"), "on")?;
    }
    Ok(())
}

/// Stops and removes monitors, unless they are not those of the change: they have ended, or belong
/// to another program.
fn stop(root: &Root, monitor: &AccessMonitor) -> Result<(), ControlError> {
    let pids: Vec<u32> = monitor.processes.iter().map(|process| process.pid).collect();
    match monitored_by(root, &pids, monitor.sample_us) {
        true => remove(root, pids.len()),
        false => Ok(()),
    }
}

fn remove(root: &Root, count: usize) -> Result<(), ControlError> {
    for index in 0..count {
        // A monitor ends with its process, and then rejects this.
        let _ = write(root, &format!("{}/state", kdamond_folder(index)), "off");
    }
    write(root, NR_KDAMONDS, "0")
}

/// Returns the regions of each monitor; waits for the end of its aggregation.
///
/// # Errors
/// A monitor has ended, with its process.
pub fn regions(root: &Root, count: usize) -> Result<Vec<Vec<AccessedRange>>, ControlError> {
    let of = |index| {
        let folder = kdamond_folder(index);
        write(root, &format!("{folder}/state"), "update_schemes_tried_regions")?;
        Ok(read_tried_regions(root, &folder))
    };
    (0..count).map(of).collect()
}

fn write(root: &Root, path: &str, value: &str) -> Result<(), ControlError> {
    let file = root.open_file(path, OFlags::WRONLY | OFlags::TRUNC);
    let written = file.and_then(|file| rustix::io::write(&file, value.as_bytes()).map(drop));
    written.map_err(|errno| {
        let (what, why) = (format!("set {path} to {value}"), io::Error::from(errno).to_string());
        match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => ControlError::Denied { what, why },
            _ => ControlError::Refused { what, why },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{print_skipped, TestTree};
    use numaio_machine::hot_pages::{hot_ranges, total_bytes, MonitoredRange};
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    fn monitor(pid: u32, ranges: &[(u64, u64)], on: bool) -> AccessMonitor {
        let ranges = ranges.iter().map(|(start, end)| MonitoredRange { start: *start, end: *end }).collect();
        AccessMonitor {
            processes: vec![MonitoredProcess { pid, ranges }],
            sample_us: 20_000,
            aggregation_us: 400_000,
            enabled: on,
        }
    }

    /// Creates the files that the kernel would create.
    fn tree(name: &str, count: &str) -> TestTree {
        let tree = TestTree::new(name);
        tree.file(NR_KDAMONDS, count);
        let folder = kdamond_folder(0);
        let process = &monitor(0, &[(0, 4096)], true).processes[0];
        for (path, _) in damon_settings(process, DamonIntervals { sample_us: 0, aggregation_us: 0 }) {
            tree.file(&format!("{folder}/{path}"), "");
        }
        tree.file(&format!("{folder}/state"), "off");
        tree
    }

    #[test]
    fn starts_and_stops_only_its_own_monitor() {
        let tree = tree("damon-own", "0");
        let root = tree.root();
        let on = monitor(70, &[(4096, 8192)], true);
        let inverse = apply(&root, &on).expect("started");
        let state = format!("{}/state", kdamond_folder(0));
        assert_eq!((tree.text(NR_KDAMONDS).as_str(), tree.text(&state).as_str()), ("1", "on"));
        // A second program is rejected, and changes nothing.
        let error = apply(&root, &monitor(71, &[(4096, 8192)], true)).expect_err("in use").to_string();
        assert!(error.contains("another program uses it (1 in "), "{error}");
        assert_eq!(tree.text(&format!("{}/contexts/0/targets/0/pid_target", kdamond_folder(0))), "70");
        // The monitor of another program stays.
        apply(&root, &monitor(71, &[], false)).expect("nothing to stop");
        assert_eq!(tree.text(&state), "on");
        let Change::AccessMonitor(off) = inverse else { panic!("{inverse:?}") };
        apply(&root, &off).expect("stopped");
        assert_eq!((tree.text(NR_KDAMONDS).as_str(), tree.text(&state).as_str()), ("0", "off"));
        apply(&root, &off).expect("twice");
    }

    #[test]
    fn monitors_of_other_programs_are_left_alone() {
        let tree = tree("damon-other", "1");
        let root = tree.root();
        let error = apply(&root, &monitor(70, &[(4096, 8192)], true)).expect_err("in use");
        assert!(matches!(error, ControlError::Refused { .. }), "{error}");
        assert_eq!(tree.text(NR_KDAMONDS), "1");
        assert!(check(&TestTree::new("damon-none").root()).is_err());
    }

    #[test]
    fn finds_the_pages_that_this_process_uses() {
        let root = Root::live().expect("/");
        if let Err(why) = check(&root) {
            return print_skipped(&format!("skipped: DAMON: {why}"));
        }
        let memory = vec![1u8; 64 << 20];
        let start = (memory.as_ptr() as usize).next_multiple_of(4096) as u64;
        let pieces: Vec<(u64, u64)> =
            (0..63).map(|piece| (start + (piece << 20), start + ((piece + 1) << 20))).collect();
        let on = monitor(std::process::id(), &pieces, true);
        let off = match apply(&root, &on) {
            Ok(Change::AccessMonitor(off)) => off,
            other => return print_skipped(&format!("skipped: DAMON: {other:?}")),
        };
        // 8 of 64 MiB are used, also while the regions are read.
        let is_done = AtomicBool::new(false);
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    black_box(
                        memory[16 << 20..24 << 20].iter().step_by(4096).fold(0u8, |sum, byte| sum ^ byte),
                    );
                }
            });
            thread::sleep(Duration::from_secs(2));
            let found = regions(&root, 1);
            is_done.store(true, Ordering::Relaxed);
            found
        });
        apply(&root, &off).expect("stopped");
        assert!(check(&root).is_ok(), "the monitor is removed");
        let hot = hot_ranges(&found.expect("regions")[0], 1, 0);
        let bytes = total_bytes(&hot);
        assert!((6 << 20..24 << 20).contains(&bytes), "{} MiB in {hot:?}", bytes >> 20);
    }
}
