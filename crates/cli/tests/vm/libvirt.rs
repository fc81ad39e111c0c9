//! Tests with guests of a real libvirt, which runs QEMU without KVM.

use crate::libvirt_daemon::{ControlGroups, LibvirtDaemon};
use crate::running::{located_device, PINNING};
use crate::support::{skipped, Home};
use crate::variants::{self, DomainVariant};
use numaio_machine::guests::ThreadRole;
use numaio_machine::process;
use numaio_machine::set::CpuSet;
use numaio_schema::{GuestPlacement, GuestPlan, GuestStatus, GuestsDocument};
use std::sync::PoisonError;

/// A guest without a disk, whose memory is allocated at the start.
const DOMAIN: &str = "<domain type='qemu'>
  <name>web</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <iothreads>1</iothreads>
  <memoryBacking><allocation mode='immediate'/></memoryBacking>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <memballoon model='none'/>
  </devices>
</domain>
";

fn shown(libvirt: &LibvirtDaemon) -> GuestStatus {
    let output = libvirt.numaio(&["vm", "show", "web", "--json"]);
    let document = GuestsDocument::from_json(&output.out).unwrap_or_else(|_| panic!("{}", output.err));
    document.guests.into_iter().next().expect("a guest")
}

/// Reads the CPUs of all threads of a guest from the kernel, in the order of roles.
fn allowed(guest: &GuestStatus) -> Vec<(ThreadRole, Option<CpuSet>)> {
    let root = numaio_linux::Root::live().expect("a root");
    let of = |tid| process::allowed_cpus(&root, guest.pid, tid);
    guest.threads.iter().map(|thread| (thread.role.clone(), of(thread.tid))).collect()
}

/// Returns the CPUs of a role in a placement.
fn planned(placement: &GuestPlacement, role: &ThreadRole) -> CpuSet {
    match role {
        ThreadRole::Vcpu { number } => placement.vcpus()[*number as usize].cpus.clone(),
        _ => placement.service_cpus.clone(),
    }
}

/// Returns libvirt's pins of the vCPU, the I/O thread and the emulator.
fn libvirt_pins(libvirt: &LibvirtDaemon) -> [Vec<(String, String)>; 3] {
    ["vcpupin", "iothreadinfo", "emulatorpin"].map(|command| libvirt.pins(command, "web"))
}

fn plan(libvirt: &LibvirtDaemon, guest: &str, device: &str) -> Option<GuestPlacement> {
    let output = libvirt.numaio(&["vm", "place", guest, "--near", device, "--json"]);
    let plan = GuestPlan::from_json(&output.out).ok();
    if plan.is_none() {
        skipped(format!("no placement of a guest here: {}", output.err.trim()));
    }
    plan?.guests.into_iter().next()
}

/// Applies a placement, compares libvirt's view and the kernel's with it, and undoes it.
fn apply_and_undo(libvirt: &LibvirtDaemon, device: &str) -> Option<()> {
    let guest = shown(libvirt);
    assert!(guest.configuration.libvirt && guest.configuration.accelerator.as_deref() == Some("tcg"));
    let roles: Vec<&ThreadRole> = guest.threads.iter().map(|thread| &thread.role).collect();
    let io = ThreadRole::Io { io_thread: "iothread1".into() };
    assert_eq!(roles[..2], [&ThreadRole::Vcpu { number: 0 }, &io], "{roles:?}");
    assert!(roles[2..].iter().all(|role| **role == ThreadRole::Emulator) && roles.len() > 3, "{roles:?}");
    let placement = plan(libvirt, "web", device)?;
    let (threads_before, pins_before) = (allowed(&guest), libvirt_pins(libvirt));
    let applied = libvirt.numaio(&["vm", "apply", "web", "--near", device]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let made = format!("made {} changes", guest.threads.len());
    assert!(applied.err.contains(&made), "one for each thread: {}", applied.err);
    for (role, cpus) in allowed(&guest) {
        assert_eq!(cpus, Some(planned(&placement, &role)), "{role}");
    }
    let (vcpu, service) = (placement.vcpus()[0].cpus.to_string(), placement.service_cpus.to_string());
    let row = |name: &str, cpus: &str| vec![(name.to_owned(), cpus.to_owned())];
    assert_eq!(libvirt_pins(libvirt), [row("0", &vcpu), row("1", &service), row("*", &service)]);
    libvirt.numaio(&["undo"]).ok();
    assert_eq!((allowed(&guest), libvirt_pins(libvirt)), (threads_before, pins_before));
    Some(())
}

/// Starts the guest again from the configuration that numaio writes, and compares it with the plan.
fn restart_from_written_domain(libvirt: &LibvirtDaemon, home: &Home, device: &str) -> Option<()> {
    libvirt.virsh(&["destroy", "web"]).ok();
    libvirt.numaio(&["vm", "apply", "web", "--near", device]).failed(2, &["guest 'web' not found"]);
    let file = home.file("web.xml", &libvirt.virsh(&["dumpxml", "--inactive", "web"]).ok());
    let placement = plan(libvirt, &file, device)?;
    let placed = libvirt.numaio(&["vm", "place", &file, "--near", device, "--format", "libvirt"]).ok();
    let stored = libvirt.define("web", &placed);
    let node = placement.cells[0].node;
    for part in [
        format!("<vcpupin vcpu='0' cpuset='{}'/>", placement.vcpus()[0].cpus),
        format!("<emulatorpin cpuset='{}'/>", placement.service_cpus),
        format!("<iothreadpin iothread='1' cpuset='{}'/>", placement.service_cpus),
        format!("<memory mode='strict' nodeset='{node}'/>"),
        "<allocation mode='immediate'/>".to_owned(),
    ] {
        assert!(stored.contains(&part), "{part} is not in:\n{stored}");
    }
    libvirt.virsh(&["start", "web"]).ok();
    let guest = shown(libvirt);
    for thread in guest.threads.iter().filter(|thread| thread.role.is_vcpu() || thread.tid == guest.pid) {
        assert_eq!(thread.allowed, Some(planned(&placement, &thread.role)), "{}", thread.role);
    }
    // Threads that started before libvirt pinned the main thread may be elsewhere.
    let applied = libvirt.numaio(&["vm", "apply", "web", "--near", device]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    for (role, cpus) in allowed(&guest) {
        assert_eq!(cpus, Some(planned(&placement, &role)), "{role}: {}", applied.err);
    }
    let region = &guest.memory.as_ref().expect("root").regions[0];
    assert_eq!((region.bytes, region.policy.as_str()), (64 << 20, &*format!("bind:{node}")));
    assert_eq!(libvirt.pins("numatune", "web")[1].1, node.to_string());
    Some(())
}

fn moves_a_guest_of_libvirt(test: &str, groups: ControlGroups) {
    let _pinning = PINNING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let Some(device) = located_device(&home) else {
        return skipped(format!("{test}: no device with a node"));
    };
    let Some(libvirt) = LibvirtDaemon::start(test, &home, groups) else { return };
    libvirt.define("web", DOMAIN);
    let started = libvirt.virsh(&["start", "web"]);
    if started.code != Some(0) {
        return skipped(format!("{test}: libvirt cannot start a guest: {}", started.err.trim()));
    }
    if apply_and_undo(&libvirt, &device).is_some() {
        restart_from_written_domain(&libvirt, &home, &device);
    }
}

#[test]
fn pins_threads_one_by_one_without_control_groups() {
    moves_a_guest_of_libvirt("pins_threads_one_by_one_without_control_groups", ControlGroups::None);
}

#[test]
fn pins_threads_in_control_groups() {
    moves_a_guest_of_libvirt("pins_threads_in_control_groups", ControlGroups::Cpuset);
}

/// Every part of a domain that numaio writes, as libvirt stores it: libvirt drops what it does not
/// understand.
#[test]
fn libvirt_keeps_every_part_of_written_domains() {
    let test = "libvirt_keeps_every_part_of_written_domains";
    let home = Home::new();
    let Some(libvirt) = LibvirtDaemon::start(test, &home, ControlGroups::None) else { return };
    for DomainVariant { name, text, architecture } in variants::domains(&home) {
        if architecture != "x86_64" {
            continue;
        }
        let stored = libvirt.define(variants::GUEST, &text);
        for line in variants::placement_lines(&text) {
            assert!(stored.contains(line), "{name}: {line} is not in:\n{stored}\nwritten:\n{text}");
        }
        libvirt.virsh(&["undefine", variants::GUEST]).ok();
    }
}

#[test]
fn unreachable_libvirt_changes_nothing() {
    let test = "unreachable_libvirt_changes_nothing";
    let _pinning = PINNING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let Some(device) = located_device(&home) else {
        return skipped(format!("{test}: no device with a node"));
    };
    let Some(libvirt) = LibvirtDaemon::start(test, &home, ControlGroups::None) else { return };
    libvirt.define("web", DOMAIN);
    libvirt.virsh(&["start", "--paused", "web"]).ok();
    if plan(&libvirt, "web", &device).is_none() {
        return;
    }
    let before = allowed(&shown(&libvirt));
    // Without the daemon's address, virsh finds no such domain.
    let mut command = home.numaio(&["vm", "apply", "web", "--near", &device]);
    let output = command.env("LIBVIRT_DEFAULT_URI", "test:///default");
    let output = crate::support::Limited::limited_output(output).expect("numaio");
    crate::support::CommandOutput::of(output).failed(1, &["libvirt domain 'web'", "failed to get domain"]);
    assert_eq!(allowed(&shown(&libvirt)), before);
}
