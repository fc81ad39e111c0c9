//! Plans of guests on a host.

use super::observe::Host;
use super::requests::{self, Requested, Targets};
use crate::failure::Failure;
use numaio_machine::guests::Guest;
use numaio_model::{plan_guests, GuestPlanError, GuestPlanInputs, RankingSources};
use numaio_schema::{GuestPlan, IoRecord, Model, GUEST_PLAN_SCHEMA};

/// How guests are placed.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlacingOptions {
    /// Whether virtual CPUs get hardware threads, not cores.
    pub hardware_threads: bool,
    /// Whether guests get virtual functions.
    pub functions: bool,
}

/// Plans the requested guests beside those that are running.
pub fn plan(
    host: &Host,
    guests: &[Guest],
    requested: &Requested,
    targets: &Targets,
    options: PlacingOptions,
) -> Result<GuestPlan, Failure> {
    let models: Vec<&Model> = host.models.iter().collect();
    let records: Vec<&IoRecord> = host.io.iter().collect();
    let inputs = GuestPlanInputs {
        topology: &host.topology,
        sources: RankingSources { models: &models, records: &records, ..RankingSources::default() },
        requests: &requested.requests,
        targets: &targets.devices,
        occupied: &requests::occupied(&host.topology, guests, &requested.running),
        released: &requested.released,
        hardware_threads: options.hardware_threads,
        functions: options.functions,
    };
    let planned = plan_guests(&inputs).map_err(failure)?;
    Ok(GuestPlan {
        schema: GUEST_PLAN_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: host.machine.time(),
        machine: host.topology.identity.clone(),
        source: host.machine.source(),
        requests: requested.requests.clone(),
        nodes: planned.nodes,
        devices: planned.devices,
        guests: planned.guests,
        value: planned.value,
        bound: planned.bound,
        proof: planned.proof,
        examined: planned.examined,
        baselines: planned.baselines,
        notes: planned.notes,
    })
}

fn failure(error: GuestPlanError) -> Failure {
    let failure = Failure::new(&error);
    match error {
        GuestPlanError::NoGuest
        | GuestPlanError::TooManyGuests(_)
        | GuestPlanError::SameName(_)
        | GuestPlanError::Empty { .. } => Failure::usage(&error),
        GuestPlanError::TooLarge { .. } | GuestPlanError::DoNotFit { .. } => failure.hint(
            "request less, stop other guests, reserve huge pages on the node, or pin to hardware threads \
             with --hyper-threads",
        ),
        GuestPlanError::NoFunction { .. } => failure.hint(
            "numaio topology shows the virtual functions; --create-vfs N enables them if none are enabled",
        ),
        GuestPlanError::UnknownDevice { .. } => failure,
    }
}
