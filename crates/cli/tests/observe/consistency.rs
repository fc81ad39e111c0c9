//! Commands agree: what one advises, another does, by the same facts.

use crate::doctor::{irqs_of, modified_tape};
use crate::support::Home;
use numaio_machine::set::CpuSet;
use numaio_machine::tree::Tree;
use numaio_schema::{Cost, DiagnosedFinding, Diagnosis, IrqDocument, PlacementPlan};
use std::collections::{BTreeMap, BTreeSet};

/// Moves the interrupts of eth0 to node 4.
fn foreign_interrupts(files: &mut Tree) {
    for irq in irqs_of(files, "eth0") {
        files.file(&format!("/proc/irq/{irq}/smp_affinity_list"), "8-9\n");
        files.file(&format!("/proc/irq/{irq}/effective_affinity_list"), "8\n");
    }
}

fn findings(home: &Home, machine: &str) -> Vec<DiagnosedFinding> {
    let output = home.run(&["doctor", "--json", "--machine", machine]);
    Diagnosis::from_json(&output.out).unwrap_or_else(|_| panic!("{machine}: {}", output.err)).findings
}

fn of_rule<'f>(findings: &'f [DiagnosedFinding], rule: &str) -> &'f DiagnosedFinding {
    findings
        .iter()
        .find(|found| found.finding.rule == rule)
        .unwrap_or_else(|| panic!("no {rule}: {findings:?}"))
}

fn planned_cpus(home: &Home, machine: &str, device: &str) -> CpuSet {
    let output = home.run(&["irq", "plan", device, "--json", "--machine", machine]);
    let document: IrqDocument =
        serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{}", output.err));
    let text = serde_json::to_string(&document.plan).expect("a plan");
    let lists = text.split("\"cpus\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    lists.filter_map(|list| CpuSet::parse_list(list).ok()).fold(CpuSet::new(), |all, set| all.union(&set))
}

fn placed_cpus(home: &Home, machine: &str, device: &str) -> CpuSet {
    let output = home.run(&["place", "--near", device, "--json", "--machine", machine]);
    let plan = PlacementPlan::from_json(&output.out).unwrap_or_else(|_| panic!("{}", output.err));
    plan.tasks.iter().fold(CpuSet::new(), |all, task| all.union(&task.cpus))
}

#[test]
fn isolated_cpus_are_avoided_by_every_command() {
    let home = Home::new();
    let isolated = CpuSet::parse_list("14").expect("a list");
    let tape = modified_tape(&home, |files| {
        foreign_interrupts(files);
        files.file("/sys/devices/system/cpu/isolated", "14\n");
    });
    let all =
        [("irq plan", planned_cpus(&home, &tape, "eth0")), ("place", placed_cpus(&home, &tape, "eth0"))];
    for (command, cpus) in all {
        assert!(!cpus.is_empty() && cpus.intersection(&isolated).is_empty(), "{command}: CPUs {cpus}");
    }
    let text = home.run(&["topology", "--machine", &tape]).out;
    assert!(text.contains("Isolated CPUs: 14"), "{text}");
}

/// The fix of a finding is a change that `irq plan` plans too.
#[test]
fn fixes_of_interrupts_are_planned_changes() {
    let home = Home::new();
    let tape = modified_tape(&home, foreign_interrupts);
    let findings = findings(&home, &tape);
    let found = of_rule(&findings, "irq-foreign-node");
    assert!(found.fix.commands.iter().any(|command| command == "numaio irq apply eth0"), "{found:?}");
    assert!(!planned_cpus(&home, &tape, "eth0").is_empty());
}

/// Options of each command by its help.
struct Help<'h> {
    home: &'h Home,
    known: BTreeMap<String, Option<BTreeSet<String>>>,
}

impl Help<'_> {
    /// Returns the options of a command; `None` if there is no such command.
    fn options(&mut self, command: &[&str]) -> Option<&BTreeSet<String>> {
        let home = self.home;
        let ask = || {
            let output = home.run(&[command, &["--help"]].concat());
            let words = output.out.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            let options = words.filter(|word| word.starts_with("--")).map(str::to_owned).collect();
            (output.code == Some(0)).then_some(options)
        };
        self.known.entry(command.join(" ")).or_insert_with(ask).as_ref()
    }
}

/// Returns the commands of numaio in a text, as words without punctuation.
fn commands(text: &str) -> Vec<Vec<String>> {
    let after = text.split("numaio ").skip(1);
    let words = |rest: &str| -> Vec<String> {
        let sentence = rest.split([',', ';', '(', ')', '`', ':']).next().unwrap_or_default();
        sentence.split_whitespace().map(|word| word.trim_end_matches('.').to_owned()).collect()
    };
    after.map(words).filter(|words| !words.is_empty()).collect()
}

/// Every command in a remedy, fix or way to measure exists, with its options.
#[test]
fn advised_commands_exist_with_their_options() {
    let home = Home::new();
    let mut help = Help { home: &home, known: BTreeMap::new() };
    let changed = modified_tape(&home, |files| {
        foreign_interrupts(files);
        for (file, content) in [
            ("/proc/sys/vm/zone_reclaim_mode", "1\n"),
            ("/proc/sys/kernel/numa_balancing", "3\n"),
            ("/sys/fs/resctrl/schemata", "MB:0=10\n"),
            ("/sys/devices/system/node/node7/numastat", "numa_hit 750000\nnuma_foreign 250000\n"),
            ("/sys/devices/system/node/node5/cpulist", "\n"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node0", "1\n"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node5", "1\n"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/auto", "false\n"),
        ] {
            files.file(file, content);
        }
    });
    let mut seen = 0;
    for machine in ["amd-dl585-g7", "amd-2p", "intel-r820", &changed] {
        for DiagnosedFinding { finding, cost, fix } in findings(&home, machine) {
            let find_out = match &cost {
                Cost::Unknown { measure: find_out } => find_out.as_str(),
                _ => "",
            };
            let fixes = fix.commands.iter().chain(&fix.undo).map(String::as_str);
            for words in fixes.chain([finding.remedy.as_str(), find_out]).flat_map(commands) {
                let is_name = |word: &&String| word.bytes().all(|byte| byte.is_ascii_lowercase());
                let names: Vec<&str> = words.iter().take_while(is_name).take(2).map(String::as_str).collect();
                let command = match names.as_slice() {
                    [first, second] if help.options(&[first, second]).is_some() => vec![*first, *second],
                    names => names[..names.len().min(1)].to_vec(),
                };
                let options = help.options(&command).unwrap_or_else(|| panic!("{command:?} in {finding:?}"));
                let given = words.iter().filter(|word| word.starts_with("--"));
                for option in given {
                    let option = option.split('=').next().unwrap_or_default();
                    assert!(options.contains(option), "{command:?} has no {option}: {finding:?}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 5, "{seen} options were checked");
}
