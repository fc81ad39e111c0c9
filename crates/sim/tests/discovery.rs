//! Discovery of a rendered machine returns its description; parsers and renderer are independent.

use numaio_machine::devices::{DeviceKind, LocalitySource};
use numaio_machine::discover::discover;
use numaio_machine::sysfs::Sysfs;
use numaio_machine::tape::{Recording, Replay, Tape, TapeHeader, TAPE_SCHEMA};
use numaio_machine::topology::Topology;
use numaio_sim::spec::DeviceSpec;
use numaio_sim::{render, shapes, Spec};

fn metadata(name: &str) -> (Spec, Topology) {
    let spec = shapes::named(name).expect(name);
    let topology = discover(&render(&spec));
    (spec, topology)
}

#[test]
fn discovers_nodes_and_cpus_as_described() {
    for name in shapes::NAMES {
        let (spec, topology) = metadata(name);
        assert_eq!(topology.identity.hostname, spec.name);
        assert_eq!(topology.identity.architecture, spec.architecture);
        assert_eq!(topology.offline_nodes, spec.offline_nodes);
        assert_eq!(topology.nodes.len(), spec.nodes.len(), "{name}");
        for (metadata, node) in topology.nodes.iter().zip(&spec.nodes) {
            assert_eq!((metadata.id, &metadata.cpus), (node.id, &node.cpus.difference(&spec.offline_cpus)));
            let memory = metadata.memory.map(|memory| (memory.total_bytes, memory.free_bytes));
            assert_eq!(memory, (node.memory_bytes > 0).then_some((node.memory_bytes, node.free_bytes)));
            assert_eq!((&metadata.access, &metadata.huge_pages), (&node.access, &node.huge_pages));
            assert_eq!(metadata.memory_side_caches, node.memory_side_caches);
            let kind = Some(node.memory_kind.as_str()).filter(|kind| *kind != "DRAM");
            assert_eq!(
                metadata.memory_kind.as_deref().filter(|kind| *kind != "DRAM"),
                kind,
                "{name} {}",
                node.id
            );
        }
        assert_eq!(topology.distances.as_ref().expect("distances").rows, spec.distances);
        assert_eq!(topology.confinement.cpus, spec.online_cpus());
        for core in spec.nodes.iter().flat_map(|node| node.cores()) {
            let threads = core.difference(&spec.offline_cpus);
            for cpu in threads.iter() {
                assert_eq!(topology.cpu(cpu).expect("a CPU").siblings, threads, "{name} {cpu}");
            }
        }
    }
}

/// Returns the devices with a driver, which discovery lists.
fn bound(spec: &Spec) -> impl Iterator<Item = &DeviceSpec> {
    spec.devices.iter().filter(|device| device.driver.is_some())
}

#[test]
fn discovers_devices_as_described() {
    for name in shapes::NAMES {
        let (spec, topology) = metadata(name);
        for device in bound(&spec) {
            let metadata = topology.devices.iter().find(|metadata| metadata.pci == Some(device.pci));
            let metadata = metadata.unwrap_or_else(|| panic!("{name}: {} is not seen", device.pci));
            assert_eq!(metadata.ids, Some(device.ids));
            assert_eq!(metadata.driver, device.driver);
            assert!(device.names.iter().all(|name| metadata.names.contains(name)), "{:?}", metadata.names);
            assert_eq!(metadata.sriov, device.sriov);
            assert_eq!(metadata.upstream.first().copied(), device.under);
            assert_eq!(metadata.port_bits_per_s, device.port_bits_per_s);
            if device.kind != DeviceKind::Bridge {
                assert_eq!(metadata.irqs.len(), device.irqs as usize, "{name} {}", device.pci);
            }
            if let Some(link) = device.link {
                assert_eq!(metadata.link, Some(link));
            }
            if device.node.is_some() {
                assert_eq!(metadata.locality.node, device.node);
            }
        }
    }
}

#[test]
fn missing_device_node_is_inherited_from_the_bridge() {
    let (_, topology) = metadata("sparse");
    let device = |name: &str| topology.devices.iter().find(|device| device.has_name(name)).expect(name);
    let drive = &device("nvme0n1").locality;
    assert_eq!((drive.node.map(|node| node.0), drive.source), (Some(5), LocalitySource::ParentBridge));
    let lost = &device("card0").locality;
    assert_eq!((lost.node, lost.source), (None, LocalitySource::Unknown));
}

/// A recording yields the same topology.
#[test]
fn recording_of_a_simulated_machine_yields_the_same_topology() {
    for name in shapes::NAMES.into_iter().filter(|name| *name != "large") {
        let spec = shapes::named(name).expect(name);
        let (numaio, note) = ("0".to_owned(), String::new());
        let header = TapeHeader { tape: TAPE_SCHEMA.into(), numaio, name: name.into(), note, recorded_at: 0 };
        let recording = Recording::new(render(&spec), header);
        let topology = discover(&recording);
        let text = recording.tape().to_text();
        let replay = Replay::new(Tape::parse(&text).expect("a tape"));
        assert_eq!(discover(&replay), topology, "{name}");
        assert!(replay.resolve("/proc/self").is_ok_and(|place| place == "/proc/4242"));
    }
}
