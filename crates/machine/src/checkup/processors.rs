//! Frequencies of processors (`Documentation/admin-guide/pm/cpufreq.rst`).

use super::symptom::{of_machine, Fix, Symptom};
use crate::conditions::{policies, Conditions};
use crate::finding::{Finding, Severity};
use crate::sysfs::{Sysfs, SysfsExt};

const FIND_OUT: &str =
    "core frequency limits copies and small requests: measure before and after with numaio model \
                        and numaio bench";

pub(super) fn symptoms(root: &dyn Sysfs, conditions: &Conditions) -> Vec<Symptom> {
    let policies = policies(root);
    [governor(root, conditions, &policies), capped(root, &policies), turbo(root, conditions)]
        .into_iter()
        .flatten()
        .collect()
}

/// Reports governors other than `performance`, which raise the frequency with a delay.
fn governor(root: &dyn Sysfs, conditions: &Conditions, policies: &[String]) -> Option<Symptom> {
    let others: Vec<&str> =
        conditions.governors.iter().map(String::as_str).filter(|name| *name != "performance").collect();
    let first = *others.first()?;
    let shows =
        |policy: &&String| root.optional(&format!("{policy}/scaling_governor")).as_deref() == Some(first);
    let policy = policies.iter().find(shows)?;
    let fixed_low = others.contains(&"powersave") && is_plain(root, policies);
    let set = |governor: &str| format!("cpupower frequency-set -g {governor}");
    let fix = Fix {
        commands: vec![set("performance")],
        // With several governors, the previous governor of each CPU is unknown.
        undo: if conditions.governors.len() == 1 { vec![set(first)] } else { Vec::new() },
    };
    let (severity, what) = match fixed_low {
        true => {
            (Severity::Warning, "The governor powersave keeps CPUs at their lowest frequency.".to_owned())
        }
        false => (
            Severity::Note,
            format!(
                "The frequency governor is {}: cores raise their frequency only after load arrives.",
                others.join(", ")
            ),
        ),
    };
    Some(of_machine(
        Finding::new(
            severity,
            "cpu-governor",
            "machine",
            what,
            format!("{policy}/scaling_governor: {first}"),
            "Use the governor performance while serving or measuring I/O.",
        ),
        FIND_OUT,
        fix,
    ))
}

/// Returns whether the governors are generic, where `powersave` is the lowest frequency; the
/// drivers intel_pstate and amd-pstate-epp adapt the frequency instead.
fn is_plain(root: &dyn Sysfs, policies: &[String]) -> bool {
    let driver = policies.first().and_then(|policy| root.optional(&format!("{policy}/scaling_driver")));
    driver.is_some_and(|driver| {
        !matches!(driver.as_str(), "intel_pstate" | "amd-pstate-epp" | "amd_pstate_epp")
    })
}

/// Reports a frequency limit below the CPU's maximum.
fn capped(root: &dyn Sysfs, policies: &[String]) -> Option<Symptom> {
    let of = |policy: &str, name: &str| root.value::<u64>(&format!("{policy}/{name}")).ok();
    let cap = |policy: &String| {
        let (now, best) = (of(policy, "scaling_max_freq")?, of(policy, "cpuinfo_max_freq")?);
        (now < best).then_some((policy.clone(), now, best))
    };
    let capped: Vec<(String, u64, u64)> = policies.iter().filter_map(cap).collect();
    let (policy, now, best) = capped.iter().min_by_key(|(_, now, _)| *now)?;
    let set = |khz: u64| format!("cpupower frequency-set -u {khz}");
    let alike = capped.len() == policies.len() && capped.iter().all(|one| (one.1, one.2) == (*now, *best));
    Some(of_machine(
        Finding::new(
            Severity::Warning,
            "cpu-frequency-capped",
            "machine",
            format!("CPUs are limited to {} MHz of at most {} MHz.", now / 1000, best / 1000),
            format!("{policy}/scaling_max_freq: {now}, cpuinfo_max_freq: {best}"),
            "Raise the limit.",
        ),
        FIND_OUT,
        Fix { commands: vec![set(*best)], undo: if alike { vec![set(*now)] } else { Vec::new() } },
    ))
}

fn turbo(root: &dyn Sysfs, conditions: &Conditions) -> Option<Symptom> {
    (conditions.turbo == Some(false)).then_some(())?;
    let switches = [
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", 1, 0),
        ("/sys/devices/system/cpu/cpufreq/boost", 0, 1),
    ];
    let (file, now, wanted) = switches.into_iter().find(|(file, ..)| root.exists(file))?;
    Some(of_machine(
        Finding::new(
            Severity::Note,
            "turbo-off",
            "machine",
            "Turbo frequencies are off.",
            format!("{file}: {now}"),
            "Enable them unless constant frequencies are required, as for measurements.",
        ),
        FIND_OUT,
        Fix::one(format!("echo {wanted} > {file}"), format!("echo {now} > {file}")),
    ))
}
