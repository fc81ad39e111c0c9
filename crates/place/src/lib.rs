//! Carry out changes on a machine, and undo them.
//!
//! What to change is decided elsewhere. Here it is done wholly or not at all, and remembered in a
//! [`Receipt`] by which it is taken back, after a crash too.

pub mod irq;
mod status;
mod verify;

pub use status::status;
pub use verify::PlacementWatch;

use numaio_machine::control::{Change, Control, ControlError};
use numaio_machine::devices::interrupt_names;
use numaio_machine::sysfs::Sysfs;
use numaio_schema::{AppliedChange, Receipt};

/// Why changes were not carried out, or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A change failed; those before it were taken back.
    #[error("{0}")]
    Failed(ControlError),
    /// A change failed, and so did taking back what was applied before it: this is still in force.
    #[error("{why}, and taking back what was done before it failed: {left:?} is still in force")]
    PartiallyApplied {
        /// Why the change failed.
        why: String,
        /// What is still in force.
        left: Vec<AppliedChange>,
    },
    /// The receipt could not be kept: nothing was changed, or it was taken back.
    #[error("the receipt cannot be kept, so that nothing is changed: {0}")]
    ReceiptNotSaved(String),
    /// The receipt is another machine's.
    #[error("the receipt is of machine {receipt}, and this is machine {machine}")]
    OtherMachine {
        /// Fingerprint in the receipt.
        receipt: String,
        /// Fingerprint of this machine.
        machine: String,
    },
}

/// Carries out the changes of a receipt in order.
///
/// The receipt is kept by `keep` before the first change, with the inverses that are foreseen, and after each
/// one: whatever ends this process, what was kept last leads back. If a change fails, or cannot be kept, those
/// before it are taken back, last first; what could not be taken back is kept.
pub fn apply(
    control: &dyn Control,
    mut receipt: Receipt,
    keep: &mut dyn FnMut(&Receipt) -> Result<(), String>,
) -> Result<Receipt, ApplyError> {
    receipt.underway = Some(0);
    keep(&receipt).map_err(ApplyError::ReceiptNotSaved)?;
    for index in 0..receipt.applied.len() {
        let made = control.apply(&receipt.applied[index].change).map_err(ApplyError::Failed);
        let kept = made.and_then(|inverse| {
            receipt.applied[index].inverse = inverse;
            receipt.underway = Some(index + 1).filter(|made| *made < receipt.applied.len());
            keep(&receipt)
                .map_err(ApplyError::ReceiptNotSaved)
                .inspect_err(|_| receipt.underway = Some(index + 1))
        });
        if let Err(why) = kept {
            let made = receipt.underway.unwrap_or(0);
            receipt.applied.truncate(made);
            return Err(roll_back(control, receipt, why, keep));
        }
    }
    Ok(receipt)
}

/// Takes back what was made before something failed.
fn roll_back(
    control: &dyn Control,
    mut receipt: Receipt,
    why: ApplyError,
    keep: &mut dyn FnMut(&Receipt) -> Result<(), String>,
) -> ApplyError {
    let left = revert(control, std::mem::take(&mut receipt.applied));
    if left.is_empty() {
        return why;
    }
    // `revert` gives them last first.
    receipt.applied = left.iter().rev().cloned().collect();
    receipt.underway = Some(left.len());
    // If this fails, what was kept before still leads back: it holds more than is needed.
    let _ = keep(&receipt);
    ApplyError::PartiallyApplied { why: why.to_string(), left }
}

/// Tries which interrupts cannot be moved, by writing where they may go already, and takes their changes out;
/// gives their numbers. Nothing is changed by that.
///
/// # Errors
/// If the kernel refuses for another reason, as want of rights.
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

/// An interrupt that belongs to another device than when it was changed: numbers are given anew when a driver is loaded again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReassignedIrq {
    /// Its number.
    pub irq: u32,
    /// Handlers then.
    pub was: String,
    /// Handlers now.
    pub is: String,
}

/// Takes out of a receipt what it tells of interrupts that are another device's by now; gives these. One without a handler now, as of an
/// interface that is down, stays in.
pub fn without_reassigned(root: &dyn Sysfs, mut receipt: Receipt) -> (Receipt, Vec<ReassignedIrq>) {
    if receipt.handlers.is_empty() {
        return (receipt, Vec::new());
    }
    let now = interrupt_names(root);
    let mut foreign = Vec::new();
    receipt.applied.retain(|applied| {
        let Change::IrqAffinity { irq, .. } = applied.inverse else { return true };
        let (Some(was), Some(is)) = (receipt.handlers.get(&irq), now.get(&irq)) else { return true };
        // On a line that several devices share, others may have come or gone.
        let is_its = was.split(", ").any(|name| is.split(", ").any(|other| other == name));
        if !is_its {
            foreign.push(ReassignedIrq { irq, was: was.clone(), is: is.clone() });
        }
        is_its
    });
    (receipt, foreign)
}

/// Takes back what a receipt says, last first; what could not be taken back is returned.
///
/// Taking back twice does no harm: an inverse sets a value, whatever it was before.
pub fn undo(
    control: &dyn Control,
    machine: &str,
    receipt: Receipt,
) -> Result<Vec<AppliedChange>, ApplyError> {
    if receipt.machine != machine {
        return Err(ApplyError::OtherMachine { receipt: receipt.machine, machine: machine.to_owned() });
    }
    Ok(revert(control, receipt.applied))
}

fn revert(control: &dyn Control, applied: Vec<AppliedChange>) -> Vec<AppliedChange> {
    applied.into_iter().rev().filter(|applied| control.apply(&applied.inverse).is_err()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::CpuId;
    use numaio_machine::set::CpuSet;
    use numaio_machine::tree::Tree;
    use std::cell::{Cell, RefCell};

    /// A machine with one setting that refuses the values it is told to refuse.
    #[derive(Default)]
    struct Setting {
        mode: Cell<u32>,
        refused: Vec<u32>,
        seen: RefCell<Vec<u32>>,
    }

    impl Control for Setting {
        fn apply(&self, change: &Change) -> Result<Change, ControlError> {
            let Change::NumaBalancing { mode } = *change else { return Err(ControlError::Frozen) };
            self.seen.borrow_mut().push(mode);
            if self.refused.contains(&mode) {
                return Err(ControlError::Refused { what: format!("mode {mode}"), why: "no".into() });
            }
            Ok(Change::NumaBalancing { mode: self.mode.replace(mode) })
        }
    }

    /// Changes to these modes, one after the other.
    fn to(modes: &[u32]) -> Receipt {
        let change = |mode: &u32| Change::NumaBalancing { mode: *mode };
        let applied = modes.iter().map(|mode| AppliedChange { change: change(mode), inverse: change(&7) });
        Receipt::planned("a", None, 0, applied.collect())
    }

    fn apply(machine: &Setting, receipt: Receipt) -> Result<Receipt, ApplyError> {
        super::apply(machine, receipt, &mut |_| Ok(()))
    }

    #[test]
    fn what_is_applied_is_undone_last_first() {
        let machine = Setting { mode: Cell::new(7), ..Setting::default() };
        let receipt = apply(&machine, to(&[1, 2])).expect("applied");
        assert_eq!(machine.mode.get(), 2);
        assert!(undo(&machine, "a", receipt).expect("the same machine").is_empty());
        assert_eq!((machine.mode.get(), machine.seen.take()), (7, vec![1, 2, 1, 7]));
    }

    #[test]
    fn a_half_applied_plan_is_rolled_back() {
        let machine = Setting { mode: Cell::new(7), refused: vec![3], ..Setting::default() };
        let error = apply(&machine, to(&[1, 2, 3, 4])).expect_err("3 is refused");
        assert!(matches!(error, ApplyError::Failed(_)), "{error}");
        assert_eq!(machine.mode.get(), 7);
    }

    #[test]
    fn what_cannot_be_rolled_back_is_named() {
        let machine = Setting { mode: Cell::new(7), refused: vec![3, 7], ..Setting::default() };
        match apply(&machine, to(&[1, 3])).expect_err("3 is refused") {
            ApplyError::PartiallyApplied { left, .. } => assert_eq!(left.len(), 1),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn interrupts_that_are_another_devices_by_now_are_left_out() {
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
        let (left, foreign) = without_reassigned(&tree, receipt.clone());
        let changes: Vec<Change> = left.applied.into_iter().map(|applied| applied.change).collect();
        assert_eq!(
            changes,
            [36, 38, 39, 40].map(at),
            "one without a handler, and one that was not kept, stay"
        );
        let it = ReassignedIrq { irq: 37, was: "virtio1-output.0".into(), is: "nvme7q0".into() };
        assert_eq!(foreign, [it]);
        receipt.handlers.clear();
        assert_eq!(
            without_reassigned(&tree, receipt.clone()),
            (receipt, Vec::new()),
            "one of before they were kept"
        );
    }

    #[test]
    fn another_machines_receipt_is_refused() {
        let machine = Setting::default();
        let receipt = apply(&machine, to(&[1])).expect("applied");
        assert!(matches!(undo(&machine, "b", receipt), Err(ApplyError::OtherMachine { .. })));
        assert_eq!(machine.mode.get(), 1);
    }
}
