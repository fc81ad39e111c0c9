//! Network cards of a simulated machine: each is slower than every path, all together are not.

use numaio_machine::devices::Device;
use numaio_machine::discover::discover;
use numaio_machine::ids::NodeId;
use numaio_machine::set::{CpuSet, NodeSet};
use numaio_machine::workload::Direction;
use numaio_measure::{campaign, Options, Setting};
use numaio_model::{
    choose_placement, first_difference, fit, BandwidthEvidence, ClassOptions, RankingSources, TargetDevice,
};
use numaio_schema::{BandwidthDifference, MachineSource, PlacementRequest};
use numaio_sim::{shapes, Simulated};

#[test]
fn one_card_has_no_preferred_node_and_four_lose_a_quarter_remotely() {
    let machine = Simulated::new(shapes::epyc()).expect("a machine");
    let topology = discover(&machine.tree());
    let setting = Setting {
        root: &machine,
        probe: &machine,
        load: None,
        topology: &topology,
        source: MachineSource::Simulated,
        now: 7,
        stop: &|| false,
    };
    let options = Options { targets: NodeSet::one(NodeId(0)), least_visits: 6, ..Options::default() };
    let record = campaign::run(&setting, &options, &mut |_| {}).expect("copies");
    let model = fit(record, &topology, ClassOptions::default());
    let near = TargetDevice {
        handle: "eth0".into(),
        chain: Vec::new(),
        device: "eth0".into(),
        node: Some(NodeId(0)),
        irq_cpus: CpuSet::new(),
        bytes_per_s: None,
        has_unknown_share: false,
    };
    let models = [&model];
    let chosen = choose_placement(
        &topology,
        std::slice::from_ref(&near),
        RankingSources { models: &models, ..RankingSources::default() },
        &PlacementRequest::default(),
    );
    let chosen = chosen.expect("a placement");
    let alone = &chosen.targets[0].expected;
    assert!(alone.iter().all(|of| of.difference == BandwidthDifference::None), "{:?}", chosen.reasons);
    assert!(alone[0].clause().contains("every node can saturate it"), "{}", alone[0].clause());

    let four: Vec<TargetDevice> = ["eth0", "eth1", "eth2", "eth3"]
        .map(|name| TargetDevice { handle: name.into(), device: name.into(), ..near.clone() })
        .to_vec();
    let sources = RankingSources { models: &models, ..RankingSources::default() };
    let together = choose_placement(&topology, &four, sources, &PlacementRequest::default());
    let together = together.expect("a placement");
    for of in together.targets.iter().flat_map(|target| &target.expected) {
        assert_eq!((of.difference, of.beside.len()), (BandwidthDifference::Some, 3), "{}", of.clause());
    }

    let cards: Vec<&Device> =
        topology.devices.iter().filter(|device| device.name().starts_with("eth")).collect();
    let evidence = BandwidthEvidence { topology: &topology, models: &models, records: &[] };
    for direction in [Direction::Write, Direction::Read] {
        let first = first_difference(evidence, &cards, direction).expect("all four exceed the path");
        assert_eq!((first.devices.len(), first.count, first.slowest), (4, 4, NodeId(1)), "{first:?}");
        assert!((first.loss - 0.24).abs() < 0.005, "{first:?}");
    }
}
