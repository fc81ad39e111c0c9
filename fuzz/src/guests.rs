//! Command lines, memory maps, monitors and domains of guests: their users choose all of it.

use numaio_machine::guests::{
    parse_command_line, parse_regions, parse_threads, role, DomainSummary, Hypervisor,
};

/// Returns the seeds: a command line of each hypervisor, and a domain.
pub fn seeds() -> Vec<Vec<u8>> {
    let qemu = "qemu-system-x86_64\0-name\0guest=a,debug-threads=on\0-numa\0node,nodeid=0,cpus=0-3,memdev=m\0-object\0\
        {\"qom-type\":\"memory-backend-ram\",\"id\":\"m\",\"size\":4096}\0-device\0vfio-pci,host=0000:3b:00.0";
    let cloud = "cloud-hypervisor\0--numa\0guest_numa_id=0,cpus=[0-1],memory_zones=[m]\0--net\0tap=tap0";
    let domain = "<domain><name>a</name><memory unit='GiB'>1</memory><vcpu>2</vcpu></domain>";
    [qemu, cloud, domain].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Parses the input as each of these texts.
pub fn guests(input: &[u8]) {
    if let Some(found) = parse_command_line(input, Some("kvm")) {
        assert!(found.cells.iter().all(|cell| cell.vcpus.len() <= 4096), "{found:?}");
    }
    drop(parse_command_line(input, None));
    let text = String::from_utf8_lossy(input);
    let (maps, numa_maps) = text.split_once('\0').unwrap_or((&text, &text));
    drop(parse_regions(numa_maps, maps));
    drop(parse_threads(&text));
    for hypervisor in [Hypervisor::Qemu, Hypervisor::CloudHypervisor, Hypervisor::Firecracker] {
        drop(role(hypervisor, &text));
    }
    if let Ok(domain) = DomainSummary::parse(&text) {
        assert!(!domain.vcpu_ids.is_empty() && domain.memory_bytes > 0, "{domain:?}");
    }
}
