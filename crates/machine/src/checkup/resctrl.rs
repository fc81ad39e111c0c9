//! Limits of caches and memory bandwidth (`Documentation/filesystems/resctrl.rst`).

use super::symptom::{Effect, Fix, Symptom};
use crate::finding::{Finding, Severity};
use crate::sysfs::{Sysfs, SysfsExt};

const ROOT: &str = "/sys/fs/resctrl";

/// Directories below the root that are not groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_groups", "mon_data"];

/// Maximum number of groups to read.
const MAX_GROUPS: usize = 256;

pub(super) fn symptoms(root: &dyn Sysfs) -> Vec<Symptom> {
    if !root.exists(&format!("{ROOT}/schemata")) {
        return Vec::new();
    }
    let is_group = |name: &String| {
        !NO_GROUPS.contains(&name.as_str()) && root.exists(&format!("{ROOT}/{name}/schemata"))
    };
    let groups = root.names(ROOT).into_iter().filter(is_group).take(MAX_GROUPS);
    let groups: Vec<String> = std::iter::once(String::new()).chain(groups).collect();
    let limits = groups.iter().flat_map(|group| limits(root, group));
    limits.chain(io_allocation(root)).collect()
}

/// Reports limits of a group; those of the default group hold for all other programs.
fn limits(root: &dyn Sysfs, group: &str) -> Vec<Symptom> {
    let directory = if group.is_empty() { ROOT.to_owned() } else { format!("{ROOT}/{group}") };
    let text = root.optional(&format!("{directory}/schemata")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    let found = lines.filter_map(|(resource, domains)| {
        let limit = limit_of(root, resource.trim(), domains)?;
        let (name, severity) = match group {
            "" => ("the default group".to_owned(), Severity::Warning),
            group => (format!("group {group}"), Severity::Note),
        };
        Some(symptom(
            Finding::new(
                severity,
                "resctrl-limit",
                if group.is_empty() { "machine" } else { group },
                format!("resctrl limits {limit} of {name}, to which programs that move data can belong."),
                format!("{directory}/schemata: {}:{}", resource.trim(), domains.trim()),
                "Keep programs near devices in a group without a limit (write their PIDs to its tasks file).",
            ),
            "compare numaio model in both groups",
        ))
    });
    found.collect()
}

/// Describes a limit below the complete resource; `None` without one.
fn limit_of(root: &dyn Sysfs, resource: &str, domains: &str) -> Option<String> {
    let values = || {
        domains.split(';').filter_map(|domain| domain.trim().split_once('=').map(|(_, value)| value.trim()))
    };
    if resource == "MB" {
        // In percent, or in MB/s where the software controller is mounted.
        let least = values().filter_map(|value| value.parse::<u64>().ok()).min()?;
        return (least < 100).then(|| format!("memory bandwidth to {least} %"));
    }
    let cache = resource.strip_suffix("CODE").or(resource.strip_suffix("DATA")).unwrap_or(resource);
    if !cache.starts_with('L') {
        return None;
    }
    let mask = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let all = mask(&root.optional(&format!("{ROOT}/info/{resource}/cbm_mask"))?)?;
    let least = values().filter_map(mask).map(u64::count_ones).min()?;
    (least < all.count_ones()).then(|| format!("the {cache} cache to {least} of {} ways", all.count_ones()))
}

/// Reports the allocation of cache ways to I/O (`io_alloc` of Linux 6.19): without it, I/O shares
/// ways with programs, or bypasses the cache.
fn io_allocation(root: &dyn Sysfs) -> Option<Symptom> {
    let file = format!("{ROOT}/info/L3/io_alloc");
    let state = root.optional(&file)?;
    let masks = root.optional(&format!("{ROOT}/info/L3/io_alloc_cbm")).unwrap_or_default();
    let (what, remedy, fix) = match state.as_str() {
        "enabled" => (
            format!("I/O devices place data in L3 ways of their own: {masks}."),
            "Give them enough ways for the data in flight, and no ways that programs need.",
            Fix::none(),
        ),
        "disabled" => (
            "The processor can give I/O devices L3 ways of their own, but this is off.".to_owned(),
            "Turn it on if devices write faster than memory takes the data.",
            Fix::one(format!("echo 1 > {file}"), format!("echo 0 > {file}")),
        ),
        _ => return None,
    };
    let finding =
        Finding::new(Severity::Note, "resctrl-io-alloc", "machine", what, format!("{file}: {state}"), remedy);
    Some(Symptom { fix, ..symptom(finding, "measure the device before and after with numaio bench") })
}

fn symptom(finding: Finding, find_out: &str) -> Symptom {
    Symptom {
        finding,
        device: None,
        target: None,
        effect: Effect::Unquantified(find_out.to_owned()),
        fix: Fix::none(),
    }
}
