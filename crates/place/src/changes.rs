//! Changes of settings, applied completely or not at all, and undone by receipts.

use numaio_machine::control::{Change, Control, ControlError, PageRefusal};
use numaio_machine::devices::interrupt_names;
use numaio_machine::sysfs::Sysfs;
use numaio_schema::{AppliedChange, Receipt};
use std::collections::BTreeMap;

/// An error of applying or undoing changes.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A change failed; the earlier ones were undone.
    #[error("{0}")]
    Failed(ControlError),
    /// A change failed, and earlier ones could not be undone.
    #[error("{why}, and cannot restore earlier changes: {left:?}")]
    PartiallyApplied {
        /// Why the change failed.
        why: String,
        /// The changes that remain.
        left: Vec<AppliedChange>,
    },
    /// The receipt could not be saved: nothing was changed, or all changes were undone.
    #[error("cannot save the receipt, so nothing was changed: {0}")]
    ReceiptNotSaved(String),
    /// The receipt belongs to another machine.
    #[error("the receipt is for machine '{receipt}', and this is machine '{machine}'")]
    OtherMachine {
        /// Fingerprint in the receipt.
        receipt: String,
        /// Fingerprint of this machine.
        machine: String,
    },
}

/// Applies the changes of a receipt in order.
///
/// `save` stores the receipt before the first change, with the expected inverses, and after each
/// one, so that the last saved receipt restores the machine even if the process is killed. If a
/// change fails or cannot be saved, the earlier ones are undone in reverse order, and those that
/// cannot be undone are saved.
pub fn apply(
    control: &dyn Control,
    mut receipt: Receipt,
    save: &mut dyn FnMut(&Receipt) -> Result<(), String>,
) -> Result<Receipt, ApplyError> {
    receipt.progress = Some(0);
    save(&receipt).map_err(ApplyError::ReceiptNotSaved)?;
    for index in 0..receipt.applied.len() {
        let inverse = control.apply(&receipt.applied[index].change).map_err(ApplyError::Failed);
        let saved = inverse.and_then(|inverse| {
            receipt.applied[index].inverse = inverse;
            receipt.progress = Some(index + 1).filter(|count| *count < receipt.applied.len());
            save(&receipt)
                .map_err(ApplyError::ReceiptNotSaved)
                .inspect_err(|_| receipt.progress = Some(index + 1))
        });
        if let Err(why) = saved {
            receipt.applied.truncate(receipt.progress.unwrap_or(0));
            return Err(roll_back(control, receipt, why, save));
        }
    }
    Ok(receipt)
}

/// The result of relocating running programs or guests, or of undoing that.
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

/// Applies the changes of a receipt like [`apply`], and reports pages that stayed.
///
/// Pages that cannot be moved, ended threads and ended processes do not fail it. The planned
/// inverses remain, because libvirt may move a thread before its own change.
///
/// # Errors
/// A thread or all pages could not be moved: the earlier changes were undone.
pub fn relocate(
    control: &dyn Control,
    mut receipt: Receipt,
    save: &mut dyn FnMut(&Receipt) -> Result<(), String>,
) -> Result<(Receipt, RelocationReport), ApplyError> {
    let mut report = RelocationReport::default();
    receipt.progress = Some(0);
    save(&receipt).map_err(ApplyError::ReceiptNotSaved)?;
    for index in 0..receipt.applied.len() {
        if let Err(why) = apply_one(control, &receipt.applied[index].change, &mut report) {
            receipt.applied.truncate(index);
            return Err(roll_back(control, receipt, ApplyError::Failed(why), save));
        }
    }
    receipt.progress = None;
    match save(&receipt) {
        Ok(()) => Ok((receipt, report)),
        Err(why) => Err(roll_back(control, receipt, ApplyError::ReceiptNotSaved(why), save)),
    }
}

/// Applies a change, unless its process has ended: its settings ended with it.
fn apply_one(
    control: &dyn Control,
    change: &Change,
    report: &mut RelocationReport,
) -> Result<(), ControlError> {
    let Change::ProcessPages(wanted) = change else {
        return match control.apply(change) {
            Ok(_) => {
                report.threads += 1;
                Ok(())
            }
            Err(ControlError::Ended { .. }) => Ok(()),
            Err(error) => Err(error),
        };
    };
    let moved = control.move_pages(wanted)?;
    report.moved_bytes += moved.moved_bytes;
    for (why, bytes) in moved.left {
        *report.left.entry(why).or_default() += bytes;
    }
    report.ended.extend(moved.process_ended.then_some(wanted.pid));
    Ok(())
}

/// Undoes the applied changes after a failure.
fn roll_back(
    control: &dyn Control,
    mut receipt: Receipt,
    why: ApplyError,
    save: &mut dyn FnMut(&Receipt) -> Result<(), String>,
) -> ApplyError {
    let (left, _) = revert(control, std::mem::take(&mut receipt.applied));
    if left.is_empty() {
        return why;
    }
    // `revert` returns them in reverse order.
    receipt.applied = left.iter().rev().cloned().collect();
    receipt.progress = Some(left.len());
    // If this fails, the receipt saved before still restores the machine: it has more changes.
    let _ = save(&receipt);
    ApplyError::PartiallyApplied { why: why.to_string(), left }
}

/// Removes changes of unmovable interrupts; returns the other changes and the interrupt numbers.
///
/// Writes each interrupt's current CPUs as a test, which changes nothing.
///
/// # Errors
/// The kernel refuses for another reason, such as missing permission.
pub fn without_unmovable(
    control: &dyn Control,
    applied: Vec<AppliedChange>,
) -> Result<(Vec<AppliedChange>, Vec<u32>), ApplyError> {
    let (mut movable, mut unmovable) = (Vec::new(), Vec::new());
    for applied in applied {
        if let Change::IrqAffinity { .. } = applied.change {
            match control.apply(&applied.inverse) {
                Ok(_) => {}
                Err(ControlError::Unmovable { irq }) => {
                    unmovable.push(irq);
                    continue;
                }
                Err(why) => return Err(ApplyError::Failed(why)),
            }
        }
        movable.push(applied);
    }
    Ok((movable, unmovable))
}

/// An interrupt that belongs to another device than when it was changed.
///
/// Loading a driver again can reassign interrupt numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReassignedIrq {
    /// The interrupt number.
    pub irq: u32,
    /// Handlers at the time of the change.
    pub was: String,
    /// Current handlers.
    pub is: String,
}

/// Removes changes of reassigned interrupts from a receipt; returns the receipt and these
/// interrupts.
///
/// Keeps interrupts without a handler, such as those of an interface that is down.
pub fn without_reassigned(root: &dyn Sysfs, mut receipt: Receipt) -> (Receipt, Vec<ReassignedIrq>) {
    if receipt.handlers.is_empty() {
        return (receipt, Vec::new());
    }
    let now = interrupt_names(root);
    let mut reassigned = Vec::new();
    receipt.applied.retain(|applied| {
        let Change::IrqAffinity { irq, .. } = applied.inverse else { return true };
        let (Some(was), Some(is)) = (receipt.handlers.get(&irq), now.get(&irq)) else { return true };
        // Devices that share a line may have been added or removed.
        let same_handler = was.split(", ").any(|name| is.split(", ").any(|other| other == name));
        if !same_handler {
            reassigned.push(ReassignedIrq { irq, was: was.clone(), is: is.clone() });
        }
        same_handler
    });
    (receipt, reassigned)
}

/// Undoes the changes of a receipt in reverse order; returns those that could not be undone, and
/// reports pages that stayed.
///
/// Undoing twice does no harm: an inverse sets a value regardless of the current one.
pub fn undo(
    control: &dyn Control,
    machine: &str,
    receipt: Receipt,
) -> Result<(Vec<AppliedChange>, RelocationReport), ApplyError> {
    if receipt.machine != machine {
        return Err(ApplyError::OtherMachine { receipt: receipt.machine, machine: machine.to_owned() });
    }
    Ok(revert(control, receipt.applied))
}

fn revert(control: &dyn Control, mut applied: Vec<AppliedChange>) -> (Vec<AppliedChange>, RelocationReport) {
    applied.reverse();
    // The CPUs and nodes of a thread can be restored only within those that libvirt allows.
    applied.sort_by_key(|applied| !applied.inverse.is_of_libvirt());
    let mut report = RelocationReport::default();
    applied.retain(|applied| apply_one(control, &applied.inverse, &mut report).is_err());
    (applied, report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::CpuId;
    use numaio_machine::set::CpuSet;
    use numaio_machine::tree::Tree;
    use std::cell::{Cell, RefCell};

    /// A machine with one setting that rejects some values.
    #[derive(Default)]
    struct Setting {
        mode: Cell<u32>,
        rejected: Vec<u32>,
        writes: RefCell<Vec<u32>>,
    }

    impl Control for Setting {
        fn apply(&self, change: &Change) -> Result<Change, ControlError> {
            let Change::NumaBalancing { mode } = *change else { return Err(ControlError::Frozen) };
            self.writes.borrow_mut().push(mode);
            if self.rejected.contains(&mode) {
                return Err(ControlError::Refused { what: format!("mode {mode}"), why: "no".into() });
            }
            Ok(Change::NumaBalancing { mode: self.mode.replace(mode) })
        }
    }

    /// Changes to these modes in order.
    fn to(modes: &[u32]) -> Receipt {
        let change = |mode: &u32| Change::NumaBalancing { mode: *mode };
        let applied = modes.iter().map(|mode| AppliedChange { change: change(mode), inverse: change(&7) });
        Receipt::planned("a", None, 0, applied.collect())
    }

    fn apply(machine: &Setting, receipt: Receipt) -> Result<Receipt, ApplyError> {
        super::apply(machine, receipt, &mut |_| Ok(()))
    }

    #[test]
    fn undoes_changes_in_reverse_order() {
        let machine = Setting { mode: Cell::new(7), ..Setting::default() };
        let receipt = apply(&machine, to(&[1, 2])).expect("applied");
        assert_eq!(machine.mode.get(), 2);
        assert!(undo(&machine, "a", receipt).expect("the same machine").0.is_empty());
        assert_eq!((machine.mode.get(), machine.writes.take()), (7, vec![1, 2, 1, 7]));
    }

    #[test]
    fn rolls_back_a_partially_applied_plan() {
        let machine = Setting { mode: Cell::new(7), rejected: vec![3], ..Setting::default() };
        let error = apply(&machine, to(&[1, 2, 3, 4])).expect_err("3 is rejected");
        assert!(matches!(error, ApplyError::Failed(_)), "{error}");
        assert_eq!(machine.mode.get(), 7);
    }

    #[test]
    fn returns_changes_that_cannot_be_rolled_back() {
        let machine = Setting { mode: Cell::new(7), rejected: vec![3, 7], ..Setting::default() };
        match apply(&machine, to(&[1, 3])).expect_err("3 is rejected") {
            ApplyError::PartiallyApplied { left, .. } => assert_eq!(left.len(), 1),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn removes_reassigned_interrupts_from_receipt() {
        let at = |irq| Change::IrqAffinity { irq, cpus: CpuSet::one(CpuId(0)) };
        let applied = (36..=40).map(|irq| AppliedChange { change: at(irq), inverse: at(irq) }).collect();
        let mut receipt = Receipt::planned("a", None, 0, applied);
        let names = ["virtio1-input.0", "virtio1-output.0", "eth0, usb1", "eth1-rx-0"];
        receipt.handlers = (36..).zip(names.map(String::from)).collect();
        let mut tree = Tree::new();
        tree.file(
            "/proc/interrupts",
            "    CPU0\n36:  1  PCI-MSIX-0000:00:02.0  1-edge      virtio1-input.0\n\
             37:  1  PCI-MSIX-0000:00:02.0  2-edge      nvme7q0\n\
             38:  1  IO-APIC  5-fasteoi   usb1, usb2\n\
             39:  1  PCI-MSIX-0000:00:03.0  1-edge\n\
             40:  1  PCI-MSIX-0000:00:03.0  2-edge      it\n",
        );
        let (left, reassigned) = without_reassigned(&tree, receipt.clone());
        let changes: Vec<Change> = left.applied.into_iter().map(|applied| applied.change).collect();
        assert_eq!(
            changes,
            [36, 38, 39, 40].map(at),
            "keeps interrupts without a current or recorded handler"
        );
        let it = ReassignedIrq { irq: 37, was: "virtio1-output.0".into(), is: "nvme7q0".into() };
        assert_eq!(reassigned, [it]);
        receipt.handlers.clear();
        assert_eq!(
            without_reassigned(&tree, receipt.clone()),
            (receipt, Vec::new()),
            "a receipt without recorded handlers"
        );
    }

    /// A machine whose process ends after some changes.
    struct EndingProcess(Cell<u32>);

    impl Control for EndingProcess {
        fn apply(&self, change: &Change) -> Result<Change, ControlError> {
            match self.0.get() {
                0 => Err(ControlError::Ended { what: change.to_string() }),
                left => {
                    self.0.set(left - 1);
                    Ok(change.clone())
                }
            }
        }
    }

    #[test]
    fn nothing_is_left_of_a_process_that_ends_between_changes() {
        let error = super::apply(&EndingProcess(Cell::new(2)), to(&[1, 2, 3]), &mut |_| Ok(()));
        let error = error.expect_err("the third change fails");
        assert!(matches!(error, ApplyError::Failed(ControlError::Ended { .. })), "{error}");
        assert!(undo(&EndingProcess(Cell::new(0)), "a", to(&[1])).expect("the same machine").0.is_empty());
    }

    #[test]
    fn rejects_receipt_of_another_machine() {
        let machine = Setting::default();
        let receipt = apply(&machine, to(&[1])).expect("applied");
        assert!(matches!(undo(&machine, "b", receipt), Err(ApplyError::OtherMachine { .. })));
        assert_eq!(machine.mode.get(), 1);
    }
}
