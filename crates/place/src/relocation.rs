//! Running programs moved to a node together with their memory.

use crate::changes::{roll_back, ApplyError};
use numaio_machine::control::{Change, Control, ControlError, MovePages, PageMove, PageRefusal, PageRun};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::ThreadSample;
use numaio_machine::set::CpuSet;
use numaio_schema::{AppliedChange, Receipt};
use std::collections::BTreeMap;

/// Longest list of page runs in a receipt; a move with more is rejected.
const MAX_RUNS: usize = 1 << 20;

/// A process to move.
#[derive(Debug, Clone)]
pub struct RelocatedProcess<'a> {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Its threads.
    pub threads: &'a [ThreadSample],
    /// Present nodes of its movable pages.
    pub runs: &'a [PageRun],
}

/// The result of a relocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelocationReport {
    /// Threads whose affinity was set.
    pub threads: u32,
    /// Moved bytes.
    pub moved_bytes: u64,
    /// Bytes that stayed, by reason.
    pub left: BTreeMap<PageRefusal, u64>,
    /// Processes that ended meanwhile.
    pub ended: Vec<u32>,
}

/// Returns the changes that move processes to CPUs and to a node, with their inverses.
///
/// A thread is bound to those of the node's CPUs on which it may run; `None` if there is none for
/// a thread, or if the pages are in too many runs for a receipt. With `widen`, threads get all of
/// the CPUs, beyond their own affinity.
pub fn relocation_changes(
    processes: &[RelocatedProcess<'_>],
    cpus: &CpuSet,
    node: NodeId,
    widen: bool,
) -> Option<Vec<AppliedChange>> {
    let mut changes = Vec::new();
    for process in processes {
        for thread in process.threads {
            let Some(before) = &thread.allowed else { continue };
            let wanted = if widen { cpus.clone() } else { before.intersection(cpus) };
            if wanted.is_empty() {
                return None;
            }
            let at = |cpus: CpuSet| Change::ThreadAffinity {
                pid: process.pid,
                tid: thread.tid,
                start_time: thread.start_time,
                cpus,
            };
            if wanted != *before {
                changes.push(AppliedChange { change: at(wanted), inverse: at(before.clone()) });
            }
        }
    }
    // Threads first, so that new memory is allocated on the node.
    for process in processes {
        let elsewhere: Vec<PageRun> = process.runs.iter().filter(|run| run.node != node).copied().collect();
        if elsewhere.len() > MAX_RUNS {
            return None;
        }
        if elsewhere.is_empty() {
            continue;
        }
        let at = |runs: Vec<PageRun>| {
            Change::ProcessPages(PageMove { pid: process.pid, start_time: process.start_time, runs })
        };
        let wanted = elsewhere.iter().map(|run| PageRun { node, ..*run }).collect();
        changes.push(AppliedChange { change: at(wanted), inverse: at(elsewhere) });
    }
    Some(changes)
}

/// Applies the changes of a receipt like [`apply`](crate::changes::apply), and reports pages that
/// stayed.
///
/// Pages that cannot be moved and ended processes do not fail it.
///
/// # Errors
/// A thread or all pages could not be moved: the earlier changes were undone.
pub fn relocate<M: Control + MovePages>(
    machine: &M,
    mut receipt: Receipt,
    save: &mut dyn FnMut(&Receipt) -> Result<(), String>,
) -> Result<(Receipt, RelocationReport), ApplyError> {
    let mut report = RelocationReport::default();
    receipt.underway = Some(0);
    save(&receipt).map_err(ApplyError::ReceiptNotSaved)?;
    for index in 0..receipt.applied.len() {
        match apply_one(machine, &receipt.applied[index].change, &mut report) {
            Ok(inverse) => receipt.applied[index].inverse = inverse,
            Err(why) => {
                receipt.applied.truncate(index);
                return Err(roll_back(machine, receipt, why, save));
            }
        }
        receipt.underway = Some(index + 1).filter(|count| *count < receipt.applied.len());
    }
    // The planned inverses restore everything too, so that one save at the end is enough.
    if let Err(why) = save(&receipt) {
        receipt.underway = Some(receipt.applied.len());
        return Err(roll_back(machine, receipt, ApplyError::ReceiptNotSaved(why), save));
    }
    Ok((receipt, report))
}

fn apply_one<M: Control + MovePages>(
    machine: &M,
    change: &Change,
    report: &mut RelocationReport,
) -> Result<Change, ApplyError> {
    let Change::ProcessPages(wanted) = change else {
        return match machine.apply(change) {
            Ok(inverse) => {
                report.threads += 1;
                Ok(inverse)
            }
            // Its affinity ended with it, so that there is nothing to undo.
            Err(ControlError::Ended { .. }) => Ok(change.clone()),
            Err(error) => Err(ApplyError::Failed(error)),
        };
    };
    let moved = machine.move_pages(wanted).map_err(ApplyError::Failed)?;
    report.moved_bytes += moved.moved_bytes;
    for (why, bytes) in moved.left {
        *report.left.entry(why).or_default() += bytes;
    }
    report.ended.extend(moved.process_ended.then_some(wanted.pid));
    Ok(Change::ProcessPages(PageMove { runs: moved.previous, ..*wanted }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::control::PageMoveReport;
    use numaio_machine::ids::CpuId;
    use std::cell::RefCell;
    use std::ops::Range;

    /// A machine with threads and one page per address, of which some cannot be moved.
    #[derive(Default)]
    struct Processes {
        affinity: RefCell<BTreeMap<u32, CpuSet>>,
        nodes: RefCell<BTreeMap<u64, NodeId>>,
        busy: Vec<u64>,
        denied: bool,
        ended: bool,
    }

    impl Control for Processes {
        fn apply(&self, change: &Change) -> Result<Change, ControlError> {
            match change {
                Change::ThreadAffinity { pid, tid, start_time, cpus } => {
                    let before = self.affinity.borrow_mut().insert(*tid, cpus.clone()).unwrap_or_default();
                    let (pid, tid, start_time) = (*pid, *tid, *start_time);
                    Ok(Change::ThreadAffinity { pid, tid, start_time, cpus: before })
                }
                Change::ProcessPages(wanted) => {
                    let runs = self.move_pages(wanted)?.previous;
                    Ok(Change::ProcessPages(PageMove { runs, ..*wanted }))
                }
                _ => Err(ControlError::Frozen),
            }
        }
    }

    impl MovePages for Processes {
        fn page_runs(&self, _: u32, _: &[Range<u64>]) -> Result<Vec<PageRun>, ControlError> {
            let nodes = self.nodes.borrow();
            Ok(nodes
                .iter()
                .map(|(start, node)| PageRun { start: *start, bytes: 4096, node: *node })
                .collect())
        }
        fn move_pages(&self, wanted: &PageMove) -> Result<PageMoveReport, ControlError> {
            if self.denied {
                return Err(ControlError::Denied { what: "move".into(), why: "denied".into() });
            }
            let mut report = PageMoveReport { process_ended: self.ended, ..PageMoveReport::default() };
            for run in wanted.runs.iter().filter(|_| !self.ended) {
                if self.busy.contains(&run.start) {
                    *report.left.entry(PageRefusal::Busy).or_default() += run.bytes;
                    continue;
                }
                let before = self.nodes.borrow_mut().insert(run.start, run.node).expect("a page");
                report.moved_bytes += run.bytes;
                report.previous.push(PageRun { node: before, ..*run });
            }
            Ok(report)
        }
    }

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse_list(list).expect("a list")
    }

    fn thread(tid: u32, allowed: &str) -> ThreadSample {
        ThreadSample {
            tid,
            start_time: 5,
            cpu: CpuId(0),
            ticks: 0,
            state: 'R',
            is_real_time: false,
            allowed: Some(cpus(allowed)),
        }
    }

    fn machine() -> Processes {
        let nodes = [(0, 4), (4096, 4), (8192, 7)].map(|(start, node)| (start, NodeId(node)));
        let affinity = [(70, cpus("0-15")), (71, cpus("0-15"))];
        Processes {
            nodes: RefCell::new(nodes.into_iter().collect()),
            affinity: RefCell::new(affinity.into_iter().collect()),
            ..Processes::default()
        }
    }

    fn changes(machine: &Processes) -> Vec<AppliedChange> {
        let runs = machine.page_runs(70, &[]).expect("pages");
        let threads = [thread(70, "0-15"), thread(71, "0-15")];
        let process = RelocatedProcess { pid: 70, start_time: 5, threads: &threads, runs: &runs };
        relocation_changes(&[process], &cpus("14-15"), NodeId(7), false).expect("possible")
    }

    fn move_it(machine: &Processes) -> Result<(Receipt, RelocationReport), ApplyError> {
        relocate(machine, Receipt::planned("a", None, 0, changes(machine)), &mut |_| Ok(()))
    }

    #[test]
    fn moves_threads_then_pages_and_undoes_both() {
        let machine = machine();
        let (affinity, nodes) = (machine.affinity.borrow().clone(), machine.nodes.borrow().clone());
        let planned = changes(&machine);
        let is_pages = |applied: &AppliedChange| matches!(applied.change, Change::ProcessPages(_));
        assert_eq!(planned.iter().map(is_pages).collect::<Vec<bool>>(), [false, false, true]);
        let (receipt, report) = move_it(&machine).expect("moved");
        assert_eq!((report.threads, report.moved_bytes, receipt.underway), (2, 8192, None));
        assert!(machine.nodes.borrow().values().all(|node| *node == NodeId(7)));
        assert!(machine.affinity.borrow().values().all(|of| *of == cpus("14-15")));
        assert!(crate::changes::undo(&machine, "a", receipt).expect("the same machine").is_empty());
        assert_eq!((machine.affinity.take(), machine.nodes.take()), (affinity.clone(), nodes.clone()));
        // After kill -9 only the planned receipt is left.
        let machine = self::machine();
        let planned = Receipt::planned("a", None, 0, changes(&machine));
        move_it(&machine).expect("moved");
        assert!(crate::changes::undo(&machine, "a", planned).expect("the same machine").is_empty());
        assert_eq!((machine.affinity.take(), machine.nodes.take()), (affinity, nodes));
    }

    #[test]
    fn reports_pages_that_stay_and_never_moves_them_back() {
        let machine = Processes { busy: vec![4096], ..machine() };
        let (receipt, report) = move_it(&machine).expect("moved");
        assert_eq!((report.moved_bytes, report.left), (4096, BTreeMap::from([(PageRefusal::Busy, 4096)])));
        let Change::ProcessPages(inverse) = &receipt.applied[2].inverse else { panic!("{receipt:?}") };
        assert_eq!(inverse.runs, [PageRun { start: 0, bytes: 4096, node: NodeId(4) }]);
    }

    #[test]
    fn denied_pages_restore_the_threads() {
        let machine = Processes { denied: true, ..machine() };
        let before = machine.affinity.borrow().clone();
        assert!(matches!(move_it(&machine), Err(ApplyError::Failed(ControlError::Denied { .. }))));
        assert_eq!(machine.affinity.take(), before);
    }

    #[test]
    fn unsaved_receipt_changes_nothing() {
        let machine = machine();
        let before = (machine.affinity.borrow().clone(), machine.nodes.borrow().clone());
        let saves = RefCell::new(0);
        for failing in [1, 2] {
            *saves.borrow_mut() = 0;
            let mut save = |_: &Receipt| {
                *saves.borrow_mut() += 1;
                if *saves.borrow() == failing {
                    Err("full".to_owned())
                } else {
                    Ok(())
                }
            };
            let receipt = Receipt::planned("a", None, 0, changes(&machine));
            assert!(matches!(relocate(&machine, receipt, &mut save), Err(ApplyError::ReceiptNotSaved(_))));
            assert_eq!((machine.affinity.borrow().clone(), machine.nodes.borrow().clone()), before);
        }
    }

    #[test]
    fn ended_process_is_reported() {
        let machine = Processes { ended: true, ..machine() };
        let (_, report) = move_it(&machine).expect("no error");
        assert_eq!((report.ended, report.moved_bytes), (vec![70], 0));
    }

    #[test]
    fn affinity_is_only_widened_on_request() {
        let threads = [thread(70, "0-3")];
        let process = || RelocatedProcess { pid: 70, start_time: 5, threads: &threads, runs: &[] };
        assert_eq!(relocation_changes(&[process()], &cpus("14-15"), NodeId(7), false), None);
        let widened = relocation_changes(&[process()], &cpus("14-15"), NodeId(7), true).expect("possible");
        let Change::ThreadAffinity { cpus: found, .. } = &widened[0].change else { panic!("{widened:?}") };
        assert_eq!(*found, cpus("14-15"));
    }
}
