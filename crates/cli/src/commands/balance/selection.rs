//! Selection of the processes to observe.

use super::args::BalanceArgs;
use crate::failure::Failure;
use numaio_machine::process;
use numaio_machine::programs::{control_group, is_in_group, unit_of};
use numaio_machine::sysfs::Sysfs;
use std::collections::BTreeMap;

/// Rounds for which the control group of a process is remembered.
const REMEMBER_ROUNDS: u64 = 15;

/// Selects the processes of each round.
pub struct Selection<'a> {
    args: &'a BalanceArgs,
    /// Whether each known process is selected, and the round of the check.
    known: BTreeMap<u32, (bool, u64)>,
    round: u64,
}

impl<'a> Selection<'a> {
    /// Creates the selection of the arguments.
    ///
    /// # Errors
    /// A named process does not exist, or no process is in a named control group or service.
    pub fn new(args: &'a BalanceArgs, root: &dyn Sysfs) -> Result<Self, Failure> {
        let missing = args.pids.iter().find(|pid| process::start_time(root, **pid).is_none());
        match missing {
            Some(pid) => {
                Err(Failure::new(format!("process {pid} not found")).hint("ps -e lists all processes"))
            }
            None => {
                has_members(args, root)?;
                Ok(Self { args, known: BTreeMap::new(), round: 0 })
            }
        }
    }

    /// Returns whether single processes are named.
    pub fn is_named(&self) -> bool {
        !self.args.pids.is_empty()
    }

    /// Returns the selected processes, without numaio itself.
    pub fn pids(&mut self, root: &dyn Sysfs) -> Vec<u32> {
        self.round += 1;
        let own = std::process::id();
        if self.is_named() {
            return self.args.pids.clone();
        }
        let all = process::pids(root).into_iter().filter(|pid| *pid != own);
        if self.args.all {
            return all.collect();
        }
        let selected: Vec<u32> = all.filter(|pid| self.is_selected(root, *pid)).collect();
        let round = self.round;
        self.known.retain(|_, (_, checked)| *checked + REMEMBER_ROUNDS >= round);
        selected
    }

    fn is_selected(&mut self, root: &dyn Sysfs, pid: u32) -> bool {
        match self.known.get(&pid) {
            Some((is_selected, checked)) if self.round - checked < REMEMBER_ROUNDS => *is_selected,
            _ => {
                let group = control_group(root, pid);
                let is_selected = group.as_deref().is_some_and(|group| {
                    let of_unit = |unit: &String| unit_of(group) == Some(unit.as_str());
                    self.args.cgroups.iter().any(|path| is_in_group(group, path))
                        || self.args.units.iter().any(of_unit)
                });
                self.known.insert(pid, (is_selected, self.round));
                is_selected
            }
        }
    }
}

/// Requires a process in each named control group and service: a misspelt name selects nothing.
fn has_members(args: &BalanceArgs, root: &dyn Sysfs) -> Result<(), Failure> {
    if args.cgroups.is_empty() && args.units.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> =
        process::pids(root).into_iter().filter_map(|pid| control_group(root, pid)).collect();
    let has = |test: &dyn Fn(&str) -> bool| groups.iter().any(|group| test(group));
    if let Some(path) = args.cgroups.iter().find(|path| !has(&|group| is_in_group(group, path))) {
        return Err(Failure::usage(format!("no process is in control group '{path}'"))
            .hint("systemd-cgls lists control groups and their processes"));
    }
    if let Some(unit) = args.units.iter().find(|unit| !has(&|group| unit_of(group) == Some(unit.as_str()))) {
        return Err(Failure::usage(format!("service '{unit}' has no process"))
            .hint("systemctl list-units --state=running lists running services"));
    }
    Ok(())
}
