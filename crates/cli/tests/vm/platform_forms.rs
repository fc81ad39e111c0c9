//! Command lines and configurations of other platforms, checked by QEMU itself and by their own
//! schemas.

use crate::support::{skipped, CommandOutput, Home, Limited};
use crate::variants::{self, PlanVariant};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

const QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// Runs the program of its arguments after those of taskset or numactl: the CPUs and nodes of the
/// recorded host do not exist here.
const PREFIX: &str = "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n  case $1 in\n    -*|[0-9]*) shift ;;\n    *) exec \"$@\" ;;\n  esac\ndone\n";

/// Starts QEMU without running the guest, and ends it through its monitor.
const START: &str = "#!/bin/sh
printf '%s\\n' '{\"execute\":\"qmp_capabilities\"}' '{\"execute\":\"query-cpus-fast\"}' '{\"execute\":\"query-iothreads\"}' \
'{\"execute\":\"query-pci\"}' \
'{\"execute\":\"qom-get\",\"arguments\":{\"path\":\"/machine/peripheral/function\",\"property\":\"parent_bus\"}}' \
'{\"execute\":\"quit\"}' |
    exec /usr/bin/qemu-system-x86_64 \"$@\" -S -nodefaults -display none -serial none -monitor none -qmp stdio
";

/// Replaces what this host may lack: KVM, nodes, huge pages, and the function of the network card.
fn portable(command: &str) -> String {
    let command = command.replace("accel=kvm", "accel=tcg").replace("-cpu host", "-cpu max");
    let command = command.replace("vfio-pci,host=0000:3b:02.1", "virtio-rng-pci,id=function");
    let words = command.split(',').filter(|word| !word.starts_with("hugetlb"));
    let words = words.map(|word| if word.starts_with("host-nodes=") { "host-nodes=0" } else { word });
    words.collect::<Vec<&str>>().join(",")
}

/// Returns the replies of the monitor to the commands of `START`.
fn replies(output: &str) -> Vec<Value> {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line.get("return").cloned()).collect()
}

/// Returns the devices of a guest, each with the number of its bus.
fn devices(pci: &Value) -> BTreeSet<(i64, String)> {
    let buses = pci.as_array().into_iter().flatten();
    let devices = buses.flat_map(|bus| bus["devices"].as_array().into_iter().flatten());
    let name = |device: &Value| device["qdev_id"].as_str().unwrap_or_default().to_owned();
    devices.map(|device| (device["bus"].as_i64().unwrap_or(-1), name(device))).collect()
}

#[test]
fn qemu_starts_from_written_commands() {
    let test = "qemu_starts_from_written_commands";
    if !std::path::Path::new(QEMU).exists() {
        return skipped(format!("{test}: {QEMU} is not installed"));
    }
    let home = Home::new();
    home.script("taskset", PREFIX);
    home.script("numactl", PREFIX);
    home.script("qemu-system-x86_64", START);
    let topology = variants::topology(&home);
    for PlanVariant { name, plan } in variants::plans(&home) {
        if plan.requests[0].huge_page_bytes == Some(1 << 30) {
            // It differs from 2 MiB by a number that is replaced here.
            continue;
        }
        let written = numaio_report::guest_qemu(&plan, &topology);
        let file = home.file("start.sh", &portable(&written));
        let mut command = home.command("sh", &[&file]);
        let path = format!("{}:{}", home.0.display(), std::env::var("PATH").unwrap_or_default());
        let output = CommandOutput::of(command.env("PATH", path).limited_output().expect("sh"));
        assert_eq!(output.code, Some(0), "{name}: {}\n{written}", output.err);
        assert_eq!(output.err.trim(), "", "{name}\n{written}");
        let replies = replies(&output.out);
        let cells = plan.guests[0].cells.len();
        assert_eq!(replies[1].as_array().map(Vec::len), Some(cells * 2), "{name}: {replies:?}");
        let nodes = replies[1].as_array().into_iter().flatten().map(|cpu| cpu["props"]["node-id"].as_u64());
        let nodes: BTreeSet<Option<u64>> = nodes.collect();
        assert_eq!(nodes.len(), cells, "{name}: vCPUs on each guest node: {nodes:?}");
        assert_eq!(
            replies[2].as_array().map(Vec::len),
            Some(plan.requests[0].io_threads as usize),
            "{name}: {replies:?}"
        );
        let devices = devices(&replies[3]);
        let has = |bus: i64, id: &str| devices.contains(&(bus, id.to_owned()));
        assert_eq!(has(128, "port0") && has(136, "port1"), cells == 2, "{name}: {devices:?}");
        if plan.guests[0].function.is_some() {
            let bus = replies[4].as_str().unwrap_or_default();
            let wanted = if cells == 2 { "/port1" } else { "/pcie.0" };
            assert!(bus.ends_with(wanted), "{name}: {bus}");
        }
    }
}

#[test]
fn qemu_has_the_options_of_huge_pages() {
    let test = "qemu_has_the_options_of_huge_pages";
    let args = ["-machine", "none", "-object", "memory-backend-memfd,help"];
    let Ok(output) = Command::new(QEMU).args(args).limited_output() else {
        return skipped(format!("{test}: {QEMU} is not installed"));
    };
    let known = CommandOutput::of(output).out;
    let home = Home::new();
    let topology = variants::topology(&home);
    for PlanVariant { name, plan } in variants::plans(&home) {
        if plan.requests[0].huge_page_bytes.is_none() {
            continue;
        }
        let text = numaio_report::guest_qemu(&plan, &topology);
        let objects: Vec<&str> = text.lines().filter(|line| line.contains("memory-backend-memfd")).collect();
        assert_eq!(objects.len(), plan.guests[0].cells.len(), "{name}");
        for option in objects.iter().flat_map(|object| object.split(',').skip(1)) {
            let key = option.split('=').next().unwrap_or_default();
            assert!(key == "id" || known.contains(&format!("  {key}=<")), "{name}: {option}\n{known}");
        }
    }
}

/// Checks a value against a definition of an OpenAPI document, in which unknown fields are errors.
fn check(definitions: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/definitions/");
        return check(definitions, &definitions[name], value, at);
    }
    let is_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some(other) => return Err(format!("{at}: unexpected type {other}")),
        // Kubernetes writes quantities and metadata without a type.
        None => true,
    };
    if !is_type {
        return Err(format!("{at}: expected {}, found {value}", schema["type"]));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        value.get(name).ok_or_else(|| format!("{at}: {name} is missing"))?;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(definitions, &schema["items"], item, &format!("{at}[{index}]"))?;
    }
    for (key, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(known), _) => check(definitions, known, field, &at)?,
            (None, Some(any)) => check(definitions, any, field, &at)?,
            (None, None) => return Err(format!("{at}: unknown field")),
        }
    }
    Ok(())
}

/// Variable with the path of KubeVirt's `api/openapi-spec/swagger.json`, which is too large to
/// ship.
const KUBEVIRT: &str = "NUMAIO_KUBEVIRT_OPENAPI";

#[test]
fn kubevirt_knows_every_field() {
    let test = "kubevirt_knows_every_field";
    let Some(path) = std::env::var_os(KUBEVIRT) else {
        return skipped(format!("{test}: {KUBEVIRT} names no OpenAPI document of KubeVirt"));
    };
    let text = std::fs::read_to_string(&path).expect("an OpenAPI document");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let definitions = &document["definitions"];
    let schema = &definitions["v1.VirtualMachineInstance"];
    assert!(schema.is_object(), "{KUBEVIRT} has no VirtualMachineInstance");
    let home = Home::new();
    let topology = variants::topology(&home);
    let mut unknown = None;
    for PlanVariant { name, plan } in variants::plans(&home) {
        let file = home.file("guest.yaml", &numaio_report::guest_kubevirt(&plan, &topology));
        let args = ["annotate", "--local", "-f", &file, "-o", "json", "checked=true"];
        let Ok(output) = home.command("kubectl", &args).limited_output() else {
            return skipped(format!("{test}: kubectl is not installed"));
        };
        let mut value: Value = serde_json::from_str(&CommandOutput::of(output).ok()).expect("JSON");
        if let Err(error) = check(definitions, schema, &value, "guest") {
            panic!("{name}: {error}");
        }
        value["spec"]["domain"]["cpu"]["pinning"] = Value::Bool(true);
        unknown = check(definitions, schema, &value, "guest").err();
    }
    assert_eq!(unknown.as_deref(), Some("guest.spec.domain.cpu.pinning: unknown field"));
}

/// Keys of qm.conf(5) with the values that Proxmox VE accepts there.
fn is_proxmox_line(line: &str) -> bool {
    let Some((key, value)) = line.split_once(": ") else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = |text: &str| {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        is_number(low) && is_number(high)
    };
    let is_list = |text: &str, separator: char| text.split(separator).all(is_range);
    match key {
        "name" => value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
        "machine" => value == "q35",
        "cpu" => value == "host",
        "sockets" | "cores" | "memory" | "balloon" => is_number(value),
        "affinity" => is_list(value, ','),
        "numa" => value == "1",
        "hugepages" => ["2", "1024"].contains(&value),
        "hostpci0" => value == "0000:3b:02.1,pcie=1",
        _ => {
            let number = key.strip_prefix("numa").and_then(|number| number.parse::<u32>().ok());
            number.is_some_and(|number| number < 8)
                && value.split(',').all(|pair| match pair.split_once('=') {
                    Some(("cpus" | "hostnodes", list)) => is_list(list, ';'),
                    Some(("memory", megabytes)) => is_number(megabytes),
                    Some(("policy", policy)) => policy == "bind",
                    _ => false,
                })
        }
    }
}

#[test]
fn proxmox_lines_have_documented_keys_and_consistent_sizes() {
    let home = Home::new();
    let topology = variants::topology(&home);
    for PlanVariant { name, plan } in variants::plans(&home) {
        let text = numaio_report::guest_proxmox(&plan, &topology);
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        for line in &lines {
            assert!(is_proxmox_line(line), "{name}: {line}");
        }
        let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let number = |key: &str| value(key).and_then(|text| text.parse::<usize>().ok()).expect("a number");
        assert_eq!(number("sockets") * number("cores"), plan.guests[0].vcpus().len(), "{name}");
        // Proxmox VE rejects a guest whose nodes do not add up to its memory.
        let memory = |line: &&&str| line.starts_with("numa") && line.contains("memory=");
        let parts = lines
            .iter()
            .filter(memory)
            .filter_map(|line| line.split("memory=").nth(1)?.split(',').next()?.parse::<usize>().ok());
        assert_eq!(parts.sum::<usize>(), number("memory"), "{name}");
    }
}

/// Extra specifications of a flavor that Nova knows (docs.openstack.org/nova, "Extra Specs"), with
/// their values.
fn is_extra_specification(property: &str) -> bool {
    let Some((key, value)) = property.split_once('=') else { return false };
    let is_number = |text: &str| text.parse::<u64>().is_ok_and(|number| number > 0);
    match key {
        "hw:cpu_policy" => ["dedicated", "shared", "mixed"].contains(&value),
        "hw:cpu_thread_policy" => ["prefer", "isolate", "require"].contains(&value),
        "hw:emulator_threads_policy" => ["isolate", "share"].contains(&value),
        "hw:pci_numa_affinity_policy" => ["required", "preferred", "legacy", "socket"].contains(&value),
        "hw:mem_page_size" => ["small", "large", "any"].contains(&value) || is_number(value),
        "hw:cpu_sockets" | "hw:cpu_cores" | "hw:cpu_threads" | "hw:numa_nodes" => is_number(value),
        _ => {
            let id = |prefix: &str| key.strip_prefix(prefix).is_some_and(|id| id.parse::<u32>().is_ok());
            (id("hw:numa_mem.") && is_number(value))
                || (id("hw:numa_cpus.") && numaio_machine::set::CpuSet::parse_list(value).is_ok())
        }
    }
}

#[test]
fn openstack_flavors_have_known_extra_specifications() {
    let home = Home::new();
    let topology = variants::topology(&home);
    for PlanVariant { name, plan } in variants::plans(&home) {
        let text = numaio_report::guest_openstack(&plan, &topology);
        let properties: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("--property "))
            .map(|line| line.trim_end_matches(['\\', ' ']))
            .collect();
        assert!(properties.len() >= 8, "{name}: {text}");
        for property in &properties {
            assert!(is_extra_specification(property), "{name}: {property}");
        }
        let memory = properties.iter().filter(|property| property.starts_with("hw:numa_mem."));
        let memory = memory.filter_map(|property| property.split_once('=')?.1.parse::<u64>().ok());
        assert!(text.contains(&format!("--ram {} ", memory.sum::<u64>())), "{name}: {text}");
    }
}
