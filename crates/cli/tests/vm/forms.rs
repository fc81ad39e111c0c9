//! Configurations for recorded hosts, and whether libvirt's schema accepts them.

use crate::support::{skipped, CommandOutput, Home, Limited};
use crate::variants::{self, DomainVariant};
use numaio_schema::{GuestPlan, GuestPlanProof};
use std::process::Command;

const HOST: [&str; 4] = ["--machine", "amd-dl585-g7", "--near", "eth0"];

fn place(home: &Home, more: &[&str]) -> CommandOutput {
    home.run(&[&["vm", "place"], &HOST[..], more].concat())
}

/// Validates a domain by libvirt's schema; returns false if it is not installed.
fn validate(home: &Home, name: &str, text: &str) -> bool {
    let file = home.file(name, text);
    let Ok(output) = Command::new("virt-xml-validate").args([&file, "domain"]).limited_output() else {
        skipped("virt-xml-validate is not installed");
        return false;
    };
    let output = CommandOutput::of(output);
    if output.err.contains("schema") && output.err.contains("not found") {
        skipped(output.err.trim());
        return false;
    }
    assert_eq!(output.code, Some(0), "{}{}\n{text}", output.out, output.err);
    true
}

#[test]
fn domains_match_the_schema_of_libvirt() {
    let home = Home::new();
    for (name, more) in [
        ("one.xml", &["--vcpus", "2", "--memory", "128M"][..]),
        ("two.xml", &["--vcpus", "4", "--memory", "384M", "--io-threads", "2"]),
        ("threads.xml", &["--vcpus", "2", "--memory", "128M", "--hyper-threads", "--name", "a&b<c>"]),
    ] {
        let text = place(&home, &[more, &["--format", "libvirt"]].concat()).ok();
        if !validate(&home, name, &text) {
            return;
        }
    }
    for DomainVariant { name, text, .. } in variants::domains(&home) {
        assert!(validate(&home, "variant.xml", &text), "{name}");
    }
}

#[test]
fn existing_domain_is_edited_and_stays_valid() {
    let home = Home::new();
    let domain = "<domain type='qemu'>\n  <name>db</name>\n  <uuid>c7a5fdbd-cdaf-9455-926a-d65c16db1809</uuid>\n  \
        <memory unit='MiB'>384</memory>\n  <vcpu>4</vcpu>\n  <os><type arch='x86_64' machine='q35'>hvm</type></os>\n  \
        <clock offset='utc'/>\n  <devices>\n    <emulator>/usr/bin/qemu-system-x86_64</emulator>\n  </devices>\n</domain>\n";
    let file = home.file("db.xml", domain);
    let text = place(&home, &[&file, "--format", "libvirt"]).ok();
    for part in ["<uuid>c7a5fdbd", "<clock offset='utc'/>", "<cell id='1'", "<emulatorpin"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(!text.contains("pcie-expander-bus"), "no function is passed through:\n{text}");
    validate(&home, "edited.xml", &text);
    // An element of a newer libvirt is kept.
    let newer = domain.replace("<clock", "<quantum bits='9'/><clock");
    let file = home.file("newer.xml", &newer);
    assert!(place(&home, &[&file, "--format", "libvirt"]).ok().contains("<quantum bits='9'/>"));
    let broken = home.file("broken.xml", "<domain><name>x</name>");
    place(&home, &[&broken]).failed(1, &["broken.xml", "invalid XML", "virsh dumpxml"]);
    let other = home.file("other.xml", "<network/>");
    place(&home, &[&other]).failed(1, &["expected the element <domain>"]);
}

#[test]
fn guests_are_packed_on_the_best_nodes() {
    let home = Home::new();
    let file = home.file(
        "guests.toml",
        "[[guest]]\nname = \"a\"\nvcpus = 2\nmemory = \"128M\"\ndevice = [{ near = \"eth0\", bandwidth = \"1GB\" }]\n\
         [[guest]]\nname = \"b\"\nvcpus = 2\nmemory = \"128M\"\ndevice = [{ near = \"nvme0n1\" }]\n",
    );
    let args = ["vm", "plan", &file, "--machine", "amd-dl585-g7"];
    let text = home.run(&args).ok();
    for part in ["Placement of 2 guests", "all local", "Proven optimal"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    let plan = GuestPlan::from_json(&home.run(&[&args[..], &["--json"]].concat()).ok()).expect("a plan");
    assert_eq!((plan.proof, plan.guests.len()), (GuestPlanProof::Optimal, 2));
    let nodes: Vec<u32> =
        plan.guests.iter().flat_map(|guest| guest.cells.iter().map(|cell| cell.node.0)).collect();
    assert!(nodes.contains(&7) && nodes.iter().all(|node| ![2, 3, 4].contains(node)), "{nodes:?}");
    for form in ["qemu", "kubevirt", "openstack", "proxmox", "libvirt"] {
        let text = home.run(&[&args[..], &["--format", form]].concat()).ok();
        assert!(text.contains('a') && !text.contains("{}:"), "{form}: {text}");
    }
}

#[test]
fn invalid_requests_name_the_value_and_the_remedy() {
    let home = Home::new();
    place(&home, &[]).failed(2, &["--vcpus and --memory"]);
    place(&home, &["--vcpus", "0", "--memory", "1G"]).failed(2, &["--vcpus", "from 1 to 4096"]);
    place(&home, &["--vcpus", "400", "--memory", "1G"])
        .failed(1, &["does not fit", "16 of 400", "nodes 0-7"]);
    place(&home, &["--vcpus", "1", "--memory", "64M", "--huge-pages", "3M"])
        .failed(2, &["--huge-pages", "2M or 1G"]);
    place(&home, &["--vcpus", "1", "--memory", "64M", "--vf", "auto"])
        .failed(1, &["no virtual function", "eth0"]);
    place(&home, &["web"]).failed(2, &["no running guests"]);
    let file = home.file("bad.toml", "[[guest]]\nname = \"a\"\nvcpus = 1\nmemory = \"x\"\n");
    home.run(&["vm", "plan", &file, "--machine", "amd-dl585-g7"])
        .failed(1, &["bad.toml", "line 4", "invalid size"]);
    let unknown = home.file("unknown.toml", "[[guest]]\nname = \"a\"\ncpus = 1\n");
    home.run(&["vm", "plan", &unknown, "--machine", "amd-dl585-g7"]).failed(1, &["unknown field", "cpus"]);
}
