//! Carry out changes on a machine, and undo them.
//!
//! What to change is decided elsewhere. Here it is done wholly or not at all, and remembered in a
//! [`Receipt`] by which it is taken back, after a crash too.

mod status;
mod verify;

pub use status::status;
pub use verify::Watch;

use numaio_machine::control::{Change, Control, ControlError};
use numaio_schema::{Applied, Receipt, RECEIPT_SCHEMA};

/// Why changes were not carried out, or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A change failed; those before it were taken back.
    #[error("{0}")]
    Failed(ControlError),
    /// A change failed, and so did taking back what was applied before it: this is still in force.
    #[error("{why}, and taking back what was done before it failed: {left:?} is still in force")]
    HalfDone {
        /// Why the change failed.
        why: ControlError,
        /// What is still in force.
        left: Vec<Applied>,
    },
    /// The receipt is another machine's.
    #[error("the receipt is of machine {receipt}, and this is machine {machine}")]
    OtherMachine {
        /// Fingerprint in the receipt.
        receipt: String,
        /// Fingerprint of this machine.
        machine: String,
    },
}

/// Applies changes in order. If one fails, those before it are taken back, last first.
pub fn apply(control: &dyn Control, machine: &str, changes: &[Change]) -> Result<Receipt, PlaceError> {
    let mut applied: Vec<Applied> = Vec::new();
    for change in changes {
        match control.apply(change) {
            Ok(inverse) => applied.push(Applied { change: change.clone(), inverse }),
            Err(why) => {
                let left = take_back(control, applied);
                return Err(match left.is_empty() {
                    true => PlaceError::Failed(why),
                    false => PlaceError::HalfDone { why, left },
                });
            }
        }
    }
    Ok(Receipt { schema: RECEIPT_SCHEMA.to_owned(), machine: machine.to_owned(), applied })
}

/// Takes back what a receipt says, last first; what could not be taken back is returned.
///
/// Taking back twice does no harm: an inverse sets a value, whatever it was before.
pub fn undo(control: &dyn Control, machine: &str, receipt: Receipt) -> Result<Vec<Applied>, PlaceError> {
    if receipt.machine != machine {
        return Err(PlaceError::OtherMachine { receipt: receipt.machine, machine: machine.to_owned() });
    }
    Ok(take_back(control, receipt.applied))
}

fn take_back(control: &dyn Control, applied: Vec<Applied>) -> Vec<Applied> {
    applied.into_iter().rev().filter(|applied| control.apply(&applied.inverse).is_err()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn to(modes: &[u32]) -> Vec<Change> {
        modes.iter().map(|mode| Change::NumaBalancing { mode: *mode }).collect()
    }

    #[test]
    fn what_is_applied_is_undone_last_first() {
        let machine = Setting { mode: Cell::new(7), ..Setting::default() };
        let receipt = apply(&machine, "a", &to(&[1, 2])).expect("applied");
        assert_eq!(machine.mode.get(), 2);
        assert!(undo(&machine, "a", receipt).expect("the same machine").is_empty());
        assert_eq!((machine.mode.get(), machine.seen.take()), (7, vec![1, 2, 1, 7]));
    }

    #[test]
    fn a_half_applied_plan_is_rolled_back() {
        let machine = Setting { mode: Cell::new(7), refused: vec![3], ..Setting::default() };
        let error = apply(&machine, "a", &to(&[1, 2, 3, 4])).expect_err("3 is refused");
        assert!(matches!(error, PlaceError::Failed(_)), "{error}");
        assert_eq!(machine.mode.get(), 7);
    }

    #[test]
    fn what_cannot_be_rolled_back_is_named() {
        let machine = Setting { mode: Cell::new(7), refused: vec![3, 7], ..Setting::default() };
        match apply(&machine, "a", &to(&[1, 3])).expect_err("3 is refused") {
            PlaceError::HalfDone { left, .. } => assert_eq!(left.len(), 1),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn another_machines_receipt_is_refused() {
        let machine = Setting::default();
        let receipt = apply(&machine, "a", &to(&[1])).expect("applied");
        assert!(matches!(undo(&machine, "b", receipt), Err(PlaceError::OtherMachine { .. })));
        assert_eq!(machine.mode.get(), 1);
    }
}
