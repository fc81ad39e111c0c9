//! Changes that move running programs to a node together with their memory.

use numaio_machine::control::{Change, PageMove, PageRun};
use numaio_machine::ids::NodeId;
use numaio_machine::programs::ThreadSample;
use numaio_machine::set::CpuSet;
use numaio_schema::AppliedChange;

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

/// Returns the changes that bind the threads of a process to CPUs, whether or not they could use
/// them before, and move its pages to a node; with their inverses.
pub fn relocation_changes(process: &RelocatedProcess<'_>, cpus: &CpuSet, node: NodeId) -> Vec<AppliedChange> {
    let RelocatedProcess { pid, start_time, threads, runs } = *process;
    let bind = |thread: &ThreadSample| {
        let before = thread.allowed.clone().filter(|before| before != cpus)?;
        let (tid, start_time) = (thread.tid, thread.start_time);
        let at = |cpus| Change::ThreadAffinity { pid, tid, start_time, cpus };
        Some(AppliedChange { change: at(cpus.clone()), inverse: at(before) })
    };
    let pages = PageMove { pid, start_time, shared: false, runs: runs.to_vec() };
    // Threads first, so that new memory is allocated on the node.
    threads.iter().filter_map(bind).chain(page_change(pages, node)).collect()
}

/// Returns the change that moves present pages to a node, with its inverse; `None` if they are
/// there.
pub(crate) fn page_change(mut present: PageMove, node: NodeId) -> Option<AppliedChange> {
    present.runs.retain(|run| run.node != node);
    let runs: Vec<PageRun> = present.runs.iter().map(|run| PageRun { node, ..*run }).collect();
    let change = Change::ProcessPages(PageMove { runs, ..present });
    (!present.runs.is_empty()).then_some(AppliedChange { change, inverse: Change::ProcessPages(present) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::{relocate, undo, ApplyError, RelocationReport};
    use numaio_machine::control::{Control, ControlError, PageMoveReport, PageRefusal};
    use numaio_machine::ids::CpuId;
    use numaio_schema::Receipt;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
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
                _ => Err(ControlError::Frozen),
            }
        }
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
                self.nodes.borrow_mut().insert(run.start, run.node).expect("a page");
                report.moved_bytes += run.bytes;
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
        let affinity = [(70, cpus("0-15")), (71, cpus("0-3"))];
        Processes {
            nodes: RefCell::new(nodes.into_iter().collect()),
            affinity: RefCell::new(affinity.into_iter().collect()),
            ..Processes::default()
        }
    }

    fn changes(machine: &Processes) -> Vec<AppliedChange> {
        let runs = machine.page_runs(70, &[]).expect("pages");
        let threads = [thread(70, "0-15"), thread(71, "0-3")];
        let process = RelocatedProcess { pid: 70, start_time: 5, threads: &threads, runs: &runs };
        relocation_changes(&process, &cpus("14-15"), NodeId(7))
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
        assert_eq!((report.threads, report.moved_bytes, receipt.progress), (2, 8192, None));
        assert!(machine.nodes.borrow().values().all(|node| *node == NodeId(7)));
        assert!(machine.affinity.borrow().values().all(|of| *of == cpus("14-15")));
        assert!(undo(&machine, "a", receipt).expect("the same machine").0.is_empty());
        assert_eq!((machine.affinity.take(), machine.nodes.take()), (affinity.clone(), nodes.clone()));
        // After kill -9 only the planned receipt is left.
        let machine = self::machine();
        let planned = Receipt::planned("a", None, 0, changes(&machine));
        move_it(&machine).expect("moved");
        assert!(undo(&machine, "a", planned).expect("the same machine").0.is_empty());
        assert_eq!((machine.affinity.take(), machine.nodes.take()), (affinity, nodes));
    }

    #[test]
    fn pages_that_stay_are_reported_by_the_move_and_by_its_undo() {
        let mut machine = Processes { busy: vec![4096], ..machine() };
        let (receipt, report) = move_it(&machine).expect("moved");
        assert_eq!((report.moved_bytes, report.left), (4096, BTreeMap::from([(PageRefusal::Busy, 4096)])));
        machine.busy = vec![0];
        let (left, report) = undo(&machine, "a", receipt).expect("the same machine");
        assert!(left.is_empty());
        assert_eq!((report.threads, report.left), (2, BTreeMap::from([(PageRefusal::Busy, 4096)])));
        assert_eq!(machine.nodes.take()[&0], NodeId(7));
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
}
