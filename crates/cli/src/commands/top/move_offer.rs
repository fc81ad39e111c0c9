//! The move that `numaio balance` would make of a program: its question, and the move itself.

use super::balance_advisor::ConfirmedMove;
use super::view::{Dialog, OfferedMove, ViewAction};
use crate::commands::program_moves::{
    group_programs, lock, original_affinities, BalanceConfig, Knowledge, MovedTogether, Observer,
    ProgramMover,
};
use crate::failure::Failure;
use crate::options::Common;
use crate::receipts;
use numaio_machine::discover::discover_quick;
use numaio_machine::topology::Topology;
use numaio_machine::units::BandwidthUnit;
use numaio_model::top::move_commands;
use numaio_report::{balance_reason_text, moved_text};
use numaio_schema::TopProgram;

/// Returns the question whether to move a program as `numaio balance` would. If only nearness is
/// known, the box lists commands instead.
///
/// # Errors
/// The reason why the program stays, as text.
pub fn question(topology: &Topology, program: &TopProgram, unit: BandwidthUnit) -> Result<Dialog, String> {
    let name = format!("{} ({})", program.name, program.pid);
    let known = program.balance.as_ref().filter(|balance| !balance.is_unmodeled());
    let Some(balance) = known else { return commands(topology, program, &name, unit) };
    let reason = balance_reason_text(&balance.reason, unit);
    let Some(to) = balance.to else {
        return Err(format!("numaio balance would not move {name}: {reason}"));
    };
    let lines = vec![
        format!("Move {name} with its memory to node {to}?"),
        format!("It {reason}."),
        "numaio saves a receipt first; u reverts the move.".to_owned(),
    ];
    let offered = OfferedMove { pid: program.pid, start_time: program.start_time, to };
    Ok(Dialog { title: "Move".to_owned(), lines, confirms: Some(ViewAction::Move(offered)) })
}

/// Returns a box with the commands that move a program near its device.
fn commands(
    topology: &Topology,
    program: &TopProgram,
    name: &str,
    unit: BandwidthUnit,
) -> Result<Dialog, String> {
    let found = move_commands(topology, program).map_err(|why| format!("cannot move {name}: {why}"))?;
    let mut lines = Vec::new();
    if let Some(balance) = &program.balance {
        lines.push(format!("Only nearness is known: {}.", balance_reason_text(&balance.reason, unit)));
    }
    lines.push(format!("These commands move {name} near its device:"));
    lines.extend(found.commands.iter().map(|command| format!("  $ {command}")));
    lines.push("These revert it:".to_owned());
    lines.extend(found.undo.iter().map(|command| format!("  $ {command}")));
    Ok(Dialog { title: "Move".to_owned(), lines, confirms: None })
}

/// Moves a program as `numaio balance` does, with the lock of balancers; returns a message.
///
/// # Errors
/// Nothing was moved: another balancer is running, the program has ended, or permission is missing.
pub fn perform(offered: OfferedMove) -> Result<(ConfirmedMove, String), Failure> {
    let common = Common::silent();
    let kernel = receipts::live_kernel(&common)?;
    let _lock = lock()?;
    let topology = discover_quick(&kernel);
    let config = BalanceConfig::default();
    // A confirmed move needs no prediction, and therefore no models.
    let knowledge = Knowledge {
        topology: &topology,
        models: &[],
        records: &[],
        config: &config,
        override_policies: false,
        together: MovedTogether::Process,
        devices: Vec::new(),
    };
    let originals = original_affinities(&kernel, &receipts::all(&common, &kernel)?);
    let observation = Observer::new(&kernel, &topology, true).observe(&[offered.pid]);
    let id = format!("pid:{}:{}", offered.pid, offered.start_time);
    let groups = group_programs(&knowledge, &observation);
    let group = groups.iter().find(|group| group.id == id);
    let group = group.ok_or_else(|| Failure::new(format!("process {} has ended", offered.pid)))?;
    let mut mover = ProgramMover { common: &common, kernel: &kernel, knowledge: &knowledge, originals };
    let moved = mover.move_group(&observation, group, offered.to, None)?;
    Ok((ConfirmedMove { pid: offered.pid, bytes: moved.moved_bytes }, moved_text(&moved)))
}
