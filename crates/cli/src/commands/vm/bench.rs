//! `numaio vm bench`: network bandwidth of a running guest by the nodes of its vCPUs and memory.
//!
//! Each placement is made with a receipt, verified, and undone before the next one. A killed run
//! leaves at most one receipt for `numaio undo`.

use super::apply::{self, is_memory_in_place};
use super::guest_numaio::{self, GuestNumaio};
use super::observe::{self, Host};
use super::requests;
use crate::commands::bench::net::{sizes, Sizes};
use crate::commands::placement;
use crate::failure::{Failure, INTERRUPTED};
use crate::machine::Machine;
use crate::options::{count, port, seconds, Common, Directions};
use crate::output::{self, json};
use crate::receipts;
use clap::{Args, ValueEnum};
use numaio_linux::{interrupt, Kernel};
use numaio_machine::devices::DeviceKind;
use numaio_machine::guests::{Guest, ThreadRole};
use numaio_machine::near::Handle;
use numaio_machine::workload::Direction;
use numaio_model::{extreme_nodes, BandwidthSubject, ExtremeNodes, RankingSources};
use numaio_place::{check_guest, guest_memory_changes, guest_thread_changes};
use numaio_schema::{
    GuestBench, GuestPlacement, GuestSituation, IoCell, IoRecord, Model, PinnedVcpu, PlacedCell,
    GUEST_BENCH_SCHEMA,
};
use numaio_transfer::ssh;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `numaio vm bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Name or process ID of a running guest
    #[arg(value_name = "NAME|PID")]
    pub guest: String,
    /// The other host, as the guest names it
    #[arg(long, value_name = "HOST")]
    pub peer: String,
    /// Port of numaio bench net --serve on the other host; without it, the guest starts numaio
    /// there by ssh
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub port: Option<u16>,
    /// The guest, as for ssh; default: its name
    #[arg(long, value_name = "HOST")]
    pub ssh: Option<String>,
    /// Command that starts numaio in the guest, with words separated by blanks; with --port:
    /// 'env NUMAIO_TOKEN=... numaio'
    #[arg(long, value_name = "COMMAND", default_value = "numaio", value_parser = ssh::remote_command)]
    pub remote_numaio: String,
    /// Copy this numaio to ~/.cache/numaio of a guest without numaio
    #[arg(long)]
    pub bootstrap: bool,
    /// The device of this host that carries the guest's traffic; default: the network card that it
    /// uses
    #[arg(long, value_name = "HANDLE")]
    pub near: Option<Handle>,
    /// Message sizes, as of numaio bench net
    #[arg(long, value_name = "SIZE,...", default_value = "1024,5120,16384,51200,1024000", value_parser = sizes)]
    pub sizes: Sizes,
    /// Number of streams
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub streams: u32,
    /// Direction, named from the guest's device: a device write sends
    #[arg(long, value_name = "DIRECTION", default_value = "both")]
    pub direction: Directions,
    /// Measure every placement this many times, in turn
    #[arg(long, value_name = "N", default_value = "3", value_parser = count)]
    pub rounds: u32,
    /// Time limit of each measurement in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub seconds: f64,
    /// Show the placements without measuring
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the result to FILE as JSON
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs `numaio vm bench`.
pub fn run(common: &Common, args: &BenchArgs) -> Result<ExitCode, Failure> {
    let kernel = receipts::live_kernel(common)?;
    let machine = Machine::pick(common)?;
    let host = Host::read(common, &machine)?;
    let guest = observe::select(&machine, &args.guest)?;
    apply::require_named_vcpus(&guest)?;
    let (device, nodes) = nodes(&host, &guest, args.near.as_ref())?;
    let mut bench = GuestBench {
        schema: GUEST_BENCH_SCHEMA.to_owned(),
        numaio: env!("CARGO_PKG_VERSION").to_owned(),
        machine: host.topology.identity.clone(),
        measured_at: machine.time(),
        guest: guest.name(),
        peer: args.peer.clone(),
        device,
        situations: situations(&nodes),
        local: nodes.local,
        remote: nodes.remote,
        basis: nodes.basis,
    };
    if !args.dry_run {
        measure(common, &kernel, &host, &guest, args, &mut bench)?;
    }
    if let Some(path) = &args.output {
        output::write(path, &json(&bench)?)?;
    }
    let text = if args.json {
        json(&bench)?
    } else {
        numaio_report::guest_bench_text(&bench, &output::style(common))
    };
    output::print(&text)?;
    Ok(if interrupt::interrupted() { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Returns the device that carries the guest's traffic, and the nodes to compare.
fn nodes(host: &Host, guest: &Guest, near: Option<&Handle>) -> Result<(String, ExtremeNodes), Failure> {
    let (device, node) = match near {
        Some(handle) => {
            let found = placement::devices_of(host.machine, &host.topology, handle)?;
            let first = found.into_iter().next();
            first.map(|device| (device.device, device.node)).ok_or_else(|| no_device(guest))?
        }
        None => {
            let devices = host.devices(guest);
            let found = devices.iter().filter_map(|used| host.topology.devices.get(used.index?));
            let mut cards = found.filter(|device| device.kind == DeviceKind::Network);
            cards.next().map(|card| (card.name(), card.locality.node)).ok_or_else(|| no_device(guest))?
        }
    };
    let node = node.ok_or_else(|| {
        Failure::new(format!("the node of '{device}' is unknown"))
            .hint("numaio topology shows the nodes of devices; name another one by --near")
    })?;
    let models: Vec<&Model> = host.models.iter().collect();
    let records: Vec<&IoRecord> = host.io.iter().collect();
    let sources = RankingSources { models: &models, records: &records, ..RankingSources::default() };
    let found = host.topology.devices.iter().find(|found| found.has_name(&device));
    let subject = BandwidthSubject::new(&device, Some(node), found);
    let nodes = extreme_nodes(&host.topology, subject, sources).ok_or_else(|| {
        Failure::new("this host has one usable node: there are no placements to compare")
            .hint("numaio topology shows the nodes")
    })?;
    Ok((device, nodes))
}

fn no_device(guest: &Guest) -> Failure {
    Failure::usage(format!("guest '{}' uses no network card that numaio recognizes", guest.name()))
        .hint("name the device that carries its traffic: --near eth0")
}

/// The placements of the paper's table, in its order.
fn situations(nodes: &ExtremeNodes) -> Vec<GuestSituation> {
    let pairs = [
        (nodes.local, nodes.local),
        (nodes.local, nodes.remote),
        (nodes.remote, nodes.local),
        (nodes.remote, nodes.remote),
    ];
    let empty = |(vcpus, memory)| GuestSituation { vcpus, memory, cells: Vec::new(), failure: None };
    pairs.into_iter().map(empty).collect()
}

/// Measures all placements in turn.
fn measure(
    common: &Common,
    kernel: &Kernel,
    host: &Host,
    guest: &Guest,
    args: &BenchArgs,
    bench: &mut GuestBench,
) -> Result<(), Failure> {
    // From here on Ctrl-C ends a measurement, after which the guest returns to its nodes.
    interrupt::install().map_err(|error| Failure::new(format!("cannot handle Ctrl-C: {error}")))?;
    if let Some(path) = &args.output {
        output::check(path)?;
    }
    let address = args.ssh.clone().unwrap_or_else(|| guest.name());
    let command = match args.bootstrap {
        true => guest_numaio::bootstrap(common, &address, &args.remote_numaio)?,
        false => args.remote_numaio.clone(),
    };
    let numaio = GuestNumaio { kernel, host: address, command };
    // A guest out of reach is not moved in vain.
    numaio.check()?;
    let net = net_arguments(args);
    let mut place = |situation: &GuestSituation| Placed::make(common, kernel, host, guest, situation);
    let mut run = || numaio.bench(&net, args.seconds).map(|record| rates(&record));
    measure_in_turn(&mut bench.situations, args.rounds, &mut place, &mut run)
}

/// Arguments of `numaio bench net` in the guest.
fn net_arguments(args: &BenchArgs) -> Vec<String> {
    let sizes: Vec<String> = args.sizes.0.iter().map(u64::to_string).collect();
    let direction = args.direction.to_possible_value();
    let direction = direction.as_ref().map_or("both", |value| value.get_name());
    let mut net = vec![
        // All nodes of the guest are on one node of the host.
        "--cpu-nodes=0".to_owned(),
        format!("--peer={}", args.peer),
        format!("--sizes={}", sizes.join(",")),
        format!("--streams={}", args.streams),
        format!("--direction={direction}"),
        format!("--seconds={}", args.seconds),
    ];
    net.extend(args.port.map(|port| format!("--port={port}")));
    net
}

/// A guest in one of the placements, which ends by [`GuestInPlace::leave`].
trait GuestInPlace {
    /// Moves the guest back.
    fn leave(self) -> Result<(), Failure>;
}

/// The outcome of a placement.
enum Placing<P> {
    /// The guest is there.
    Reached(P),
    /// It cannot be moved there; it was moved back.
    Refused(String),
}

/// Places the guest, measures and moves it back, for each situation in each round. The first
/// situation of a round differs, so that slow changes of the network meet all of them.
///
/// # Errors
/// The guest cannot be measured at all, or cannot be moved back.
fn measure_in_turn<P: GuestInPlace>(
    situations: &mut [GuestSituation],
    rounds: u32,
    place: &mut dyn FnMut(&GuestSituation) -> Result<Placing<P>, Failure>,
    run: &mut dyn FnMut() -> Result<Vec<Rate>, Failure>,
) -> Result<(), Failure> {
    let count = situations.len();
    for round in 0..rounds as usize {
        for situation in (0..count).map(|index| (index + round) % count) {
            let situation = &mut situations[situation];
            if situation.failure.is_some() || interrupt::interrupted() {
                continue;
            }
            match place(situation)? {
                Placing::Reached(placed) => {
                    let rates = run();
                    placed.leave()?;
                    // What was measured until then is shown.
                    if interrupt::interrupted() {
                        return Ok(());
                    }
                    rates?.into_iter().for_each(|(kind, rate)| situation.add(kind, rate));
                }
                Placing::Refused(why) => situation.failure = Some(why),
            }
        }
    }
    Ok(())
}

/// Direction, bytes of a message and number of streams, with the bandwidth in bytes per second.
type Rate = ((Direction, u64, u32), f64);

/// Returns the bandwidths of a record.
fn rates(record: &IoRecord) -> Vec<Rate> {
    let rate = |cell: &IoCell| {
        let streams = cell.groups.iter().map(|group| group.streams).sum();
        let direction = cell.groups.first()?.direction;
        Some(((direction, cell.block_bytes, streams), cell.bytes_per_s.median()?))
    };
    record.cells.iter().filter_map(rate).collect()
}

/// A guest that was moved, with the receipt.
struct Placed<'a> {
    common: &'a Common,
    kernel: &'a Kernel,
    receipt: Option<String>,
}

impl GuestInPlace for Placed<'_> {
    fn leave(self) -> Result<(), Failure> {
        self.receipt.map_or(Ok(()), |id| receipts::undo_by_id(self.common, self.kernel, &id))
    }
}

impl<'a> Placed<'a> {
    /// Moves a guest to a situation, and verifies where it is.
    fn make(
        common: &'a Common,
        kernel: &'a Kernel,
        host: &Host,
        guest: &Guest,
        situation: &GuestSituation,
    ) -> Result<Placing<Self>, Failure> {
        let describe = || apply::describe_again(host, guest.pid, guest.start_time, &guest.name());
        let placement = placement(host, guest, situation)?;
        // Undoing takes the lock again.
        let lock = receipts::lock(common);
        let status = describe()?;
        let mut changes =
            guest_thread_changes(&status, &placement).map_err(|error| apply::change_failure(&error))?;
        match guest_memory_changes(kernel, &status, &placement) {
            Ok(moves) => changes.extend(moves),
            Err(why) => return Ok(Placing::Refused(format!("its memory cannot be moved: {why}"))),
        }
        let receipt = match changes.is_empty() {
            true => None,
            false => Some(apply::make_changes(common, kernel, host, changes)?.0),
        };
        drop(lock);
        let placed = Self { common, kernel, receipt };
        match describe().map(|after| check_guest(&after, &placement)) {
            Ok(check) if check.threads == check.all_threads && is_memory_in_place(&check) => {
                Ok(Placing::Reached(placed))
            }
            elsewhere => {
                placed.leave()?;
                elsewhere.map(|check| Placing::Refused(apply::check_text(&check)))
            }
        }
    }
}

/// Returns the placement of a situation: all threads may use all CPUs of a node.
fn placement(host: &Host, guest: &Guest, situation: &GuestSituation) -> Result<GuestPlacement, Failure> {
    let request = requests::of_running(guest)?;
    let cpus = host.topology.usable_cpus(situation.vcpus);
    let number = |role: &ThreadRole| match role {
        ThreadRole::Vcpu { number } => Some(*number),
        _ => None,
    };
    let mut numbers: Vec<u32> = guest.threads.iter().filter_map(|thread| number(&thread.role)).collect();
    if numbers.is_empty() {
        numbers = (0..request.vcpus).collect();
    }
    let vcpus = numbers.into_iter().map(|vcpu| PinnedVcpu { vcpu, cpus: cpus.clone() }).collect();
    Ok(GuestPlacement {
        name: guest.name(),
        cells: vec![PlacedCell { node: situation.memory, vcpus, memory_bytes: request.memory_bytes }],
        service_cpus: cpus,
        shares_cpus: true,
        demands: Vec::new(),
        function: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::ids::NodeId;
    use std::cell::RefCell;

    const NODES: ExtremeNodes =
        ExtremeNodes { local: NodeId(7), remote: NodeId(2), basis: numaio_schema::Basis::Topology };

    struct Fake<'a>(&'a RefCell<Vec<String>>);

    impl GuestInPlace for Fake<'_> {
        fn leave(self) -> Result<(), Failure> {
            self.0.borrow_mut().push("left".to_owned());
            Ok(())
        }
    }

    /// Runs two rounds; memory cannot be moved to the remote node if `pinned`, and the measurement
    /// with this number fails.
    fn run(pinned: bool, failing: usize) -> (Vec<String>, Vec<GuestSituation>, Result<(), Failure>) {
        let log = RefCell::new(Vec::new());
        let mut situations = situations(&NODES);
        let mut place = |situation: &GuestSituation| {
            log.borrow_mut().push(format!("{}/{}", situation.vcpus, situation.memory));
            Ok(match pinned && situation.memory == NODES.remote {
                true => Placing::Refused("pinned".to_owned()),
                false => Placing::Reached(Fake(&log)),
            })
        };
        let mut runs = 0;
        let mut measure = || {
            runs += 1;
            match runs == failing {
                true => Err(Failure::new("no answer")),
                false => Ok(vec![((Direction::Write, 1024, 1), runs as f64)]),
            }
        };
        let result = measure_in_turn(&mut situations, 2, &mut place, &mut measure);
        (log.into_inner(), situations, result)
    }

    #[test]
    fn every_placement_is_measured_and_left_in_each_round() {
        let (log, situations, result) = run(false, 0);
        assert!(result.is_ok());
        let first = ["7/7", "left", "7/2", "left", "2/7", "left", "2/2", "left"];
        let second = ["7/2", "left", "2/7", "left", "2/2", "left", "7/7", "left"];
        assert_eq!(log, [first, second].concat());
        let rates: Vec<&[f64]> = situations.iter().map(|it| it.cells[0].bytes_per_s.as_slice()).collect();
        assert_eq!(rates, [[1.0, 8.0], [2.0, 5.0], [3.0, 6.0], [4.0, 7.0]]);
    }

    #[test]
    fn refused_placements_have_a_reason_and_are_not_tried_again() {
        let (log, situations, result) = run(true, 0);
        assert!(result.is_ok());
        assert_eq!(log.iter().filter(|line| *line == "7/2").count(), 1);
        assert_eq!(situations[1].failure.as_deref(), Some("pinned"));
        assert_eq!((situations[1].cells.len(), situations[0].cells[0].bytes_per_s.len()), (0, 2));
    }

    #[test]
    fn a_failed_measurement_ends_the_run_after_the_guest_returned() {
        let (log, _, result) = run(false, 2);
        assert_eq!(result.expect_err("an error").message, "no answer");
        assert_eq!(log, ["7/7", "left", "7/2", "left"]);
    }
}
