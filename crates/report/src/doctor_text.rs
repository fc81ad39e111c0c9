//! Formats a diagnosis: the causes of lost I/O bandwidth.

use crate::style::{Detail, TextStyle};
use crate::text_page::TextPage;
use crate::{phrases, subjects, verdict};
use numaio_machine::workload::Direction;
use numaio_schema::{Cost, DiagnosedFinding, Diagnosis, Loss};

/// Formats the findings, most costly first, each with its evidence, its cost and its fix.
pub fn doctor_text(diagnosis: &Diagnosis, detail: Detail, style: &TextStyle) -> String {
    let mut page = TextPage::new(style);
    let of = match diagnosis.devices.as_slice() {
        [] => phrases::machine_name(&diagnosis.machine),
        devices => format!("{} of {}", devices.join(", "), phrases::machine_name(&diagnosis.machine)),
    };
    let groups = group_findings(&diagnosis.findings);
    page.paragraph(
        0,
        2,
        &format!(
            "I/O bandwidth check of {of}: {}",
            verdict::counts(groups.iter().map(|group| group[0].finding.severity))
        ),
    );
    if let Some(verdict) = &diagnosis.verdict {
        page.paragraph(0, 2, verdict);
    }
    for group in groups {
        match detail {
            Detail::Complete | Detail::Screen => {
                page.blank();
                write(&mut page, &group);
            }
            Detail::Brief => headline(&mut page, &group),
        }
    }
    if !diagnosis.not_checked.is_empty() && detail != Detail::Brief {
        page.heading("Not checked");
        diagnosis.not_checked.iter().for_each(|unseen| page.paragraph(2, 2, unseen));
    }
    page.into_text()
}

/// Groups findings that differ only in their subject, in the order of first occurrence.
fn group_findings(findings: &[DiagnosedFinding]) -> Vec<Vec<&DiagnosedFinding>> {
    let mut groups: Vec<Vec<&DiagnosedFinding>> = Vec::new();
    for found in findings {
        let same = |group: &&mut Vec<&DiagnosedFinding>| {
            let first = group[0];
            let key = |it: &DiagnosedFinding| {
                (it.finding.severity, it.finding.rule.clone(), it.finding.message.clone())
            };
            let same_cost = match (&first.cost, &found.cost) {
                // The ways to measure differ by the subject alone.
                (Cost::Unknown { .. }, Cost::Unknown { .. }) => true,
                (a, b) => a == b,
            };
            key(first) == key(found) && same_cost
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    groups
}

/// The number of commands shown for a group.
const MOST_COMMANDS: usize = 4;
/// The number of evidence texts shown for a group; each can fill several lines.
const MOST_EVIDENCE: usize = 1;
/// Commands that accept several devices.
const OF_DEVICES: [&str; 2] = ["numaio irq apply ", "numaio irq undo "];

/// Writes a finding in one line.
fn headline(page: &mut TextPage, group: &[&DiagnosedFinding]) {
    let finding = &group[0].finding;
    let subjects = subjects::joined(group.iter().map(|found| &found.finding.subject));
    page.finding(0, finding.severity, &format!("{subjects}: {} [{}]", finding.message, finding.rule));
}

fn write(page: &mut TextPage, group: &[&DiagnosedFinding]) {
    let first = group[0];
    headline(page, group);
    lines(
        page,
        MOST_EVIDENCE,
        |page, text| page.paragraph(2, 4, &format!("evidence: {text}")),
        group.iter().map(|found| found.finding.evidence.clone()).collect(),
    );
    page.paragraph(2, 2, &format!("cost: {}", cost(&first.cost)));
    page.paragraph(2, 2, &format!("fix: {}", first.finding.remedy));
    lines(
        page,
        MOST_COMMANDS,
        |page, text| page.verbatim(2, &format!("$ {text}")),
        of_devices(group.iter().flat_map(|found| &found.fix.commands)),
    );
    lines(
        page,
        MOST_COMMANDS,
        |page, text| page.verbatim(2, &format!("undo: $ {text}")),
        of_devices(group.iter().flat_map(|found| &found.fix.undo)),
    );
}

/// Joins commands that accept several devices: `numaio irq apply eth0 eth1`.
fn of_devices<'a>(commands: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for command in commands {
        // A name after `--` keeps a command of its own.
        let device = |prefix: &&'static str| Some((*prefix, command.strip_prefix(prefix)?));
        let of_device = OF_DEVICES.iter().find_map(device).filter(|(_, name)| !name.starts_with('-'));
        let same = of_device.and_then(|(prefix, name)| {
            let earlier = joined.iter_mut().find(|it| it.starts_with(prefix) && !it.contains(" -- "))?;
            Some((earlier, name))
        });
        match same {
            Some((earlier, name)) => earlier.push_str(&format!(" {name}")),
            None => joined.push(command.clone()),
        }
    }
    joined
}

/// Writes each distinct text once, up to `most`, and the number of texts left out.
fn lines(page: &mut TextPage, most: usize, write: impl Fn(&mut TextPage, &str), texts: Vec<String>) {
    let mut once: Vec<String> = Vec::new();
    for text in texts.into_iter().filter(|text| !text.trim().is_empty()) {
        if !once.contains(&text) {
            once.push(text);
        }
    }
    let more = once.len().saturating_sub(most);
    // A note that one line is left out would take as much space as the line.
    let shown = if more > 1 { most } else { once.len() };
    once.iter().take(shown).for_each(|text| write(page, text));
    if more > 1 {
        page.paragraph(4, 2, &format!("and {more} more (--json shows all)"));
    }
}

/// Formats a cost: `45 % of device read of devices on node 7, according to the copy model`.
pub(crate) fn cost(cost: &Cost) -> String {
    let is_negligible = cost.is_negligible();
    match cost {
        Cost::Nothing => "none by itself".to_owned(),
        Cost::Unknown { measure: find_out } => format!("unknown: {find_out}"),
        Cost::Known { target, losses, basis } => {
            let losses: Vec<String> = match is_negligible {
                true => vec!["no loss of bandwidth expected".to_owned()],
                false => losses.iter().map(loss).collect(),
            };
            let of = target.map(|node| format!(" of devices on node {node}")).unwrap_or_default();
            format!("{}{of}, according to {basis}", losses.join(", "))
        }
    }
}

fn loss(loss: &Loss) -> String {
    let of = match loss.direction {
        Some(Direction::Write) => " of device write",
        Some(Direction::Read) => " of device read",
        None => " of both directions",
    };
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let (least, most) = (percent(loss.low), percent(loss.high));
    match least == most {
        true => format!("{most} %{of}"),
        false if least == "0" => format!("at most {most} %{of}"),
        false => format!("{least} to {most} %{of}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::checkup::Fix;
    use numaio_machine::findings::{Finding, Severity};
    use numaio_machine::topology::Identity;
    use numaio_schema::MachineSource;

    #[test]
    fn commands_that_accept_several_devices_are_joined() {
        let commands =
            ["numaio irq apply eth0", "numaio irq apply -- -x", "numaio irq apply eth1", "echo 1 > /a"];
        let joined = of_devices(commands.map(str::to_owned).iter());
        assert_eq!(joined, ["numaio irq apply eth0 eth1", "numaio irq apply -- -x", "echo 1 > /a"]);
    }

    #[test]
    fn long_commands_stay_on_one_line() {
        let command = format!("echo 4096 > /{} /{}", "long/".repeat(30), "x".repeat(90));
        let fix = Fix { commands: vec![command.clone()], undo: vec![format!("{command}\u{1b}[2J")] };
        let [rule, subject, what, evidence, remedy] =
            ["rule", "node 0", "The link is slow.", "file", "Reseat the card."].map(str::to_owned);
        let finding = Finding { severity: Severity::Warning, rule, subject, message: what, evidence, remedy };
        let diagnosis = Diagnosis {
            schema: String::new(),
            numaio: String::new(),
            machine: Identity::default(),
            source: MachineSource::Live,
            observed_at: None,
            devices: Vec::new(),
            verdict: None,
            findings: vec![DiagnosedFinding { finding, cost: Cost::Nothing, fix }],
            not_checked: Vec::new(),
        };
        let text =
            doctor_text(&diagnosis, Detail::Complete, &TextStyle { width: 80, ..TextStyle::default() });
        assert!(text.contains(&format!("\n  $ {command}\n")), "{text}");
        assert!(text.contains(&format!("\n  undo: $ {command}\u{fffd}[2J\n")), "{text}");
    }
}
