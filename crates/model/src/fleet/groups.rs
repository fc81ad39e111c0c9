//! Groups of like hosts, and the facts in which a host differs from its group.
//!
//! Hosts of equal hardware facts are a hardware group. Of its structures, those of at least
//! [`VARIANT_HOSTS`] hosts and more than [`VARIANT_SHARE`] of the group are legitimate variants,
//! such as half of the hosts with more memory, and each is a group. Any other structure deviates
//! from the variant that it differs least from. The share keeps a fault that many hosts of a large
//! fleet have in common from being a variant.

use super::facts::{CLASSES, FINDING, GUEST_CPUS, NAMES};
use numaio_schema::{Fact, FactDeviation, FactKind, FleetData, FleetGroup};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Minimum number of hosts of a variant.
const VARIANT_HOSTS: usize = 3;
/// Share of a hardware group that a structure variant exceeds.
const VARIANT_SHARE: f64 = 0.1;
/// Share of a group whose hosts have the expected classes of nodes; with less, classes are
/// unstable.
const CLASSES_SHARE: f64 = 0.8;
/// Hardware facts of a product; hosts that differ in others may be incomplete hosts of it.
const PRODUCT: [&str; 4] = ["architecture", "product", "cpu model", GUEST_CPUS];

/// Hosts in groups, with the facts in which each differs from its group.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    /// The groups, largest first.
    pub groups: Vec<Group>,
    /// Differences in structure, hardware and settings, by host.
    pub deviations: Vec<Vec<FactDeviation>>,
    /// Differences in classes of nodes, by host.
    pub classes: Vec<Vec<FactDeviation>>,
    /// Facts without a majority.
    pub undecided: Vec<String>,
}

/// A group of like hosts.
#[derive(Debug)]
pub(super) struct Group {
    pub name: String,
    /// The facts that its hosts should have, by kind and name.
    pub facts: Vec<Fact>,
    /// Indices of its hosts, ascending.
    pub hosts: Vec<usize>,
}

/// Returns the groups of like hosts, largest first, each with the facts that its hosts should have.
pub fn groups(data: &FleetData) -> Vec<FleetGroup> {
    Grouping::of(data).groups.iter().map(|group| group.document(data)).collect()
}

impl Group {
    /// Describes the group, without limits of a check.
    pub fn document(&self, data: &FleetData) -> FleetGroup {
        let mut hosts: Vec<String> = self.hosts.iter().map(|&host| data.hosts[host].name.clone()).collect();
        hosts.sort();
        FleetGroup {
            name: self.name.clone(),
            facts: self.facts.clone(),
            hosts,
            detectable: None,
            moved: None,
        }
    }
}

/// Facts of some kinds, in the order of the host's facts.
type Signature<'a> = Vec<&'a Fact>;

/// A signature, and the hosts that have it.
struct Variant<'a> {
    facts: Signature<'a>,
    hosts: Vec<usize>,
}

impl Grouping {
    /// Groups the hosts of a fleet.
    pub fn of(data: &FleetData) -> Self {
        let all: Vec<usize> = (0..data.hosts.len()).collect();
        let mut grouping = Self {
            deviations: vec![Vec::new(); all.len()],
            classes: vec![Vec::new(); all.len()],
            ..Self::default()
        };
        let products = variants(data, &all, |fact| PRODUCT.contains(&fact.name.as_str()));
        let mut hardware: Vec<(Signature, Vec<usize>)> = products
            .into_iter()
            .flat_map(|product| {
                let variants = variants(data, &product.hosts, |fact| fact.kind == FactKind::Hardware);
                join_incomplete(variants)
            })
            .collect();
        hardware.sort_by_key(|(_, hosts)| (Reverse(hosts.len()), hosts[0]));
        for (number, (facts, hosts)) in hardware.into_iter().enumerate() {
            grouping.add_hardware(data, number + 1, &facts, &hosts);
        }
        for group in &grouping.groups {
            let deviations = &mut grouping.deviations;
            differing_structure(data, group, deviations);
            differing_settings(data, group, deviations);
            differing_classes(data, group, &mut grouping.classes);
        }
        grouping
    }

    /// Adds the structure variants of hosts of like hardware as groups.
    fn add_hardware(&mut self, data: &FleetData, number: usize, hardware: &[&Fact], hosts: &[usize]) {
        let variants = variants(data, hosts, is_structure);
        let is_legitimate = |variant: &Variant| {
            variant.hosts.len() >= VARIANT_HOSTS
                && variant.hosts.len() as f64 > VARIANT_SHARE * hosts.len() as f64
        };
        let (mut legitimate, rare): (Vec<Variant>, Vec<Variant>) =
            variants.into_iter().partition(is_legitimate);
        legitimate.sort_by_key(|variant| (Reverse(variant.hosts.len()), variant.hosts[0]));
        let name = |index: usize| match index {
            0 => number.to_string(),
            index => format!("{number}{}", char::from(b'a' + index.min(25) as u8)),
        };
        if legitimate.is_empty() {
            let facts = self.majority(data, &name(0), hosts);
            let hosts = hosts.to_vec();
            self.groups.push(Group { name: name(0), facts: owned(hardware, &facts), hosts });
            return;
        }
        for variant in rare {
            let nearest = legitimate
                .iter_mut()
                .min_by_key(|other| (differences(&variant.facts, &other.facts), Reverse(other.hosts.len())));
            if let Some(nearest) = nearest {
                nearest.hosts.extend(variant.hosts);
            }
        }
        for (index, mut variant) in legitimate.into_iter().enumerate() {
            variant.hosts.sort_unstable();
            let facts = owned(hardware, &variant.facts);
            self.groups.push(Group { name: name(index), facts, hosts: variant.hosts });
        }
    }

    /// Returns the structure facts that more than half of the hosts share, and reports the others.
    fn majority<'a>(&mut self, data: &'a FleetData, group: &str, hosts: &[usize]) -> Signature<'a> {
        let mut counts: BTreeMap<&str, BTreeMap<&str, (usize, &Fact)>> = BTreeMap::new();
        for fact in hosts.iter().flat_map(|&host| &data.hosts[host].facts).filter(|fact| is_structure(fact)) {
            counts.entry(&fact.name).or_default().entry(&fact.value).or_insert((0, fact)).0 += 1;
        }
        let mut facts = Vec::new();
        for (name, values) in counts {
            let most = values.values().max_by_key(|(count, _)| *count).copied();
            match most.filter(|(count, _)| 2 * count > hosts.len()) {
                Some((_, fact)) => facts.push(fact),
                None if hosts.len() > 1 => {
                    let values: Vec<String> =
                        values.iter().map(|(value, (count, _))| format!("'{value}' ({count})")).collect();
                    let shown = values[..values.len().min(4)].join(", ");
                    self.undecided.push(format!(
                        "group {group}: no value of '{name}' has a majority of {} hosts: {shown}",
                        hosts.len()
                    ));
                }
                None => {}
            }
        }
        facts
    }
}

/// Returns whether a fact is part of the structure that decides the group.
fn is_structure(fact: &Fact) -> bool {
    fact.kind == FactKind::Structure && !fact.name.starts_with(CLASSES)
}

fn owned(hardware: &[&Fact], structure: &[&Fact]) -> Vec<Fact> {
    hardware.iter().chain(structure).map(|fact| (*fact).clone()).collect()
}

/// Divides hosts by the facts that `counts`, in the order of first occurrence.
fn variants<'a>(data: &'a FleetData, hosts: &[usize], counts: impl Fn(&Fact) -> bool) -> Vec<Variant<'a>> {
    let mut index: HashMap<Signature, usize> = HashMap::new();
    let mut variants: Vec<Variant> = Vec::new();
    for &host in hosts {
        let facts: Signature = data.hosts[host].facts.iter().filter(|fact| counts(fact)).collect();
        let at = *index.entry(facts.clone()).or_insert_with(|| {
            variants.push(Variant { facts, hosts: Vec::new() });
            variants.len() - 1
        });
        variants[at].hosts.push(host);
    }
    variants
}

/// Joins hardware of too few hosts for a group with the most similar one of the same product that
/// has at least four times as many: a host with a failed device or CPU stays among like hosts.
fn join_incomplete(mut variants: Vec<Variant<'_>>) -> Vec<(Signature<'_>, Vec<usize>)> {
    variants.sort_by_key(|variant| (Reverse(variant.hosts.len()), variant.hosts[0]));
    let mut joined: Vec<(Signature, Vec<usize>)> = Vec::new();
    for variant in variants {
        let few = variant.hosts.len();
        let nearest = joined
            .iter_mut()
            .filter(|(_, hosts)| few < VARIANT_HOSTS && hosts.len() >= VARIANT_HOSTS.max(4 * few))
            .min_by_key(|(facts, _)| differences(&variant.facts, facts));
        match nearest {
            Some((_, hosts)) => hosts.extend(variant.hosts),
            None => joined.push((variant.facts, variant.hosts)),
        }
    }
    joined.iter_mut().for_each(|(_, hosts)| hosts.sort_unstable());
    joined
}

/// Returns the number of facts in which two signatures differ.
fn differences(facts: &[&Fact], others: &[&Fact]) -> usize {
    let values: HashMap<&str, &str> = others.iter().map(|fact| (&*fact.name, &*fact.value)).collect();
    let same = facts.iter().filter(|fact| values.get(&*fact.name) == Some(&&*fact.value)).count();
    let shared = facts.iter().filter(|fact| values.contains_key(&*fact.name)).count();
    facts.len() + others.len() - shared - same
}

/// Values of a fact, each with the number of hosts.
type Counts<'a> = HashMap<&'a str, HashMap<&'a str, u32>>;

/// Counts the values of the facts of a group that `counts`.
fn values<'a>(data: &'a FleetData, group: &Group, counts: impl Fn(&Fact) -> bool) -> Counts<'a> {
    let mut values: Counts = HashMap::new();
    for fact in group.hosts.iter().flat_map(|&host| &data.hosts[host].facts).filter(|fact| counts(fact)) {
        *values.entry(&fact.name).or_default().entry(&fact.value).or_default() += 1;
    }
    values
}

/// Returns the value that most hosts have, with their number; the first of equals.
fn most_common<'a>(values: &HashMap<&'a str, u32>) -> Option<(&'a str, u32)> {
    values
        .iter()
        .map(|(value, count)| (*value, *count))
        .max_by_key(|(value, count)| (*count, Reverse(*value)))
}

fn differing_structure(data: &FleetData, group: &Group, deviations: &mut [Vec<FactDeviation>]) {
    let counts = |fact: &Fact| fact.kind == FactKind::Hardware || is_structure(fact);
    let values = values(data, group, counts);
    let with = |name: &str, value: &str| match value {
        "" => {
            let with: u32 = values.get(name).map_or(0, |values| values.values().sum());
            group.hosts.len() as u32 - with
        }
        value => values.get(name).and_then(|values| values.get(value)).copied().unwrap_or(0),
    };
    let expected: HashMap<&str, &Fact> = group.facts.iter().map(|fact| (&*fact.name, fact)).collect();
    for &host in &group.hosts {
        let own: HashMap<&str, &Fact> = data.hosts[host]
            .facts
            .iter()
            .filter(|fact| counts(fact))
            .map(|fact| (&*fact.name, fact))
            .collect();
        let absent = group.facts.iter().filter(|fact| !own.contains_key(&*fact.name));
        let absent = absent.map(|fact| Fact { value: String::new(), ..fact.clone() });
        let present = data.hosts[host].facts.iter().filter(|fact| counts(fact)).cloned();
        for fact in present.chain(absent) {
            let should = expected.get(&*fact.name).map_or("", |fact| &fact.value);
            // Without a majority nothing is expected.
            let undecided = should.is_empty() && 2 * with(&fact.name, "") as usize <= group.hosts.len();
            if fact.value != should && !undecided {
                let (like_expected, like_host) = (with(&fact.name, should), with(&fact.name, &fact.value));
                deviations[host].push(deviation(fact, should, like_expected, like_host));
            }
        }
    }
}

fn deviation(fact: Fact, expected: &str, like_expected: u32, like_host: u32) -> FactDeviation {
    let expected = expected.to_owned();
    FactDeviation {
        fact,
        expected,
        hosts_with_expected: like_expected,
        hosts_with_value: like_host,
        explains: Vec::new(),
        explains_more: 0,
    }
}

/// Finds settings of few hosts where most hosts of the group agree on another one. A host without a
/// fact is not compared, because its documents may lack it, except that it lacks a finding.
fn differing_settings(data: &FleetData, group: &Group, deviations: &mut [Vec<FactDeviation>]) {
    let counts = |fact: &Fact| fact.kind == FactKind::Setting && !fact.name.ends_with(NAMES);
    let mut values = values(data, group, counts);
    let known = |host: &&usize| data.hosts[**host].facts.iter().any(|fact| fact.kind == FactKind::Setting);
    let known = group.hosts.iter().filter(known).count() as u32;
    for (_, values) in values.iter_mut().filter(|(name, _)| name.starts_with(FINDING)) {
        let with: u32 = values.values().sum();
        values.insert("", known.saturating_sub(with));
    }
    for &host in &group.hosts {
        for fact in data.hosts[host].facts.iter().filter(|fact| counts(fact)) {
            let of_fact = &values[&*fact.name];
            let Some((expected, like_expected)) = most_common(of_fact) else { continue };
            let all: u32 = of_fact.values().sum();
            let like_host = of_fact[&*fact.value];
            let is_rare = (like_host as usize) < VARIANT_HOSTS
                || f64::from(like_host) <= VARIANT_SHARE * f64::from(all);
            if expected != fact.value && is_rare && 2 * like_expected > all {
                deviations[host].push(deviation(fact.clone(), expected, like_expected, like_host));
            }
        }
    }
}

/// Finds classes of nodes that differ from those of nearly all hosts.
fn differing_classes(data: &FleetData, group: &Group, deviations: &mut [Vec<FactDeviation>]) {
    let counts = |fact: &Fact| fact.name.starts_with(CLASSES);
    let values = values(data, group, counts);
    for &host in &group.hosts {
        for fact in data.hosts[host].facts.iter().filter(|fact| counts(fact)) {
            let of_fact = &values[&*fact.name];
            let all: u32 = of_fact.values().sum();
            let Some((expected, like_expected)) = most_common(of_fact) else { continue };
            let is_stable = f64::from(like_expected) >= CLASSES_SHARE * f64::from(all);
            if expected != fact.value && is_stable && like_expected as usize >= VARIANT_HOSTS {
                let like_host = of_fact[&*fact.value];
                deviations[host].push(deviation(fact.clone(), expected, like_expected, like_host));
            }
        }
    }
}
