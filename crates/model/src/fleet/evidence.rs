//! The figures by which a host is reported, and the differences in structure that explain them.

use super::discovery::adjusted;
use super::facts::NAMES;
use super::group_figures::GroupFigures;
use numaio_machine::ids::NodeId;
use numaio_schema::{
    ComparedWith, FactDeviation, FactKind, FigureDeviation, FigureKey, FigureScope, FleetData, FleetHost,
    HostCheck, SummaryDeviation,
};

/// Most figures that are listed for a host or a difference in structure.
const MOST_FIGURES: usize = 12;

/// The deviations of one host.
#[derive(Debug, Default)]
pub(super) struct Deviations {
    pub summaries: Vec<SummaryDeviation>,
    pub figures: Vec<FigureDeviation>,
}

/// Returns the significant deviations of a host, most significant first; at least one.
///
/// `level` is the false discovery rate among the hypotheses of the host.
pub(super) fn evidence(
    data: &FleetData,
    group: &GroupFigures,
    host: usize,
    column: usize,
    level: f64,
    better: bool,
) -> Deviations {
    let mut found = Deviations::default();
    let mut hypotheses = 0;
    for (against, comparison, at) in group.comparisons(column) {
        let [worse, good] = comparison.assess(at);
        let assessment = if better { good } else { worse };
        hypotheses += assessment.compared + assessment.summaries.len();
        for (scope, figures, deviation, p) in assessment.summaries {
            let scope = scope.map_or(FigureScope::Host, |scope| comparison.scopes()[scope].of.clone());
            let (figures, deviation) = (figures as u32, deviation.exp() - 1.0);
            found.summaries.push(SummaryDeviation { scope, against, figures, deviation, p });
        }
        for (row, score, p) in assessment.figures {
            let cell = group.cell(row, column);
            let figure = &data.figures[group.figures[cell] as usize];
            debug_assert_eq!(figure.host as usize, host);
            let key = &data.keys[group.keys[row] as usize];
            let ratio = if key.more_is_better { score.deviation } else { -score.deviation }.exp();
            let compared = match against {
                ComparedWith::Group => comparison.expected(row, at).map_or(0, |(_, compared)| compared),
                ComparedWith::Past => group.past.get(cell).copied().unwrap_or(0).into(),
            };
            found.figures.push(FigureDeviation {
                key: key.clone(),
                against,
                value: figure.value,
                interval: figure.interval,
                measured_at: figure.measured_at,
                expected: figure.value / ratio,
                compared: compared as u32,
                deviation: ratio - 1.0,
                p,
            });
        }
    }
    found.select(hypotheses, level);
    found
}

impl Deviations {
    /// Returns whether nothing deviates.
    pub fn is_empty(&self) -> bool {
        self.summaries.is_empty() && self.figures.is_empty()
    }

    /// Keeps the deviations that Benjamini and Hochberg's procedure selects, at least the first.
    fn select(&mut self, hypotheses: usize, level: f64) {
        self.summaries.sort_by(|a, b| a.p.total_cmp(&b.p));
        self.figures.sort_by(|a, b| a.p.total_cmp(&b.p).then(a.key.cmp(&b.key)));
        let of_summaries = self.summaries.iter().map(|summary| summary.p);
        let mut p: Vec<f64> = of_summaries.chain(self.figures.iter().map(|figure| figure.p)).collect();
        let least = p.iter().copied().fold(1.0, f64::min);
        p.resize(p.len().max(hypotheses), 1.0);
        let adjusted = adjusted(&p);
        let most = p.iter().zip(&adjusted).filter(|(_, adjusted)| **adjusted <= level).map(|(p, _)| *p);
        let most = most.fold(least, f64::max);
        self.summaries.retain(|summary| summary.p <= most);
        self.figures.retain(|figure| figure.p <= most);
    }

    /// Describes the host: figures that a difference in structure explains are listed under it, and
    /// classes of nodes that differ are reported if figures of their view deviate.
    pub fn explained(
        mut self,
        host: &FleetHost,
        mut facts: Vec<FactDeviation>,
        classes: Vec<FactDeviation>,
    ) -> HostCheck {
        facts.sort_by(|a, b| a.fact.cmp(&b.fact));
        for fact in &mut facts {
            let explains = Explains::of(fact, host);
            let (explained, rest) = self.figures.into_iter().partition(|figure| explains.figure(&figure.key));
            self.figures = rest;
            (fact.explains, fact.explains_more) = shortened(explained);
            self.summaries.retain(|summary| !explains.scope(&summary.scope));
        }
        let mut seen: Vec<FactDeviation> = classes;
        seen.retain(|fact| self.figures.iter().any(|figure| is_of_view(&fact.fact.name, &figure.key)));
        seen.extend(facts);
        seen.sort_by_key(|fact| fact.fact.kind == FactKind::Setting);
        let (figures, more_figures) = shortened(self.figures);
        HostCheck {
            host: host.name.clone(),
            group: String::new(),
            p: None,
            facts: seen,
            summaries: self.summaries,
            figures,
            more_figures,
            better_figures: 0,
        }
    }
}

fn shortened(mut figures: Vec<FigureDeviation>) -> (Vec<FigureDeviation>, u32) {
    let more = figures.len().saturating_sub(MOST_FIGURES);
    figures.truncate(MOST_FIGURES);
    (figures, more as u32)
}

/// Returns whether the name of a fact about classes is of the view that has a figure.
fn is_of_view(name: &str, key: &FigureKey) -> bool {
    let target = name.rsplit_once(" of node ").and_then(|(_, node)| node.parse().ok()).map(NodeId);
    name.contains(&*key.quantity) && target.is_some() && (key.from == target || key.to == target)
}

/// The figures that a difference in structure explains.
enum Explains {
    /// All: the nodes are not those of like hosts.
    All,
    /// Those from or to a node.
    Node(NodeId),
    /// Those of a device with one of these names.
    Device(Vec<String>),
    Nothing,
}

impl Explains {
    fn of(fact: &FactDeviation, host: &FleetHost) -> Self {
        const OF_ALL: [&str; 5] = ["nodes", "packages", "nodes per package", "distances", "cpus"];
        let (kind, name) = (fact.fact.kind, fact.fact.name.as_str());
        if kind == FactKind::Setting {
            return Self::Nothing;
        }
        if OF_ALL.contains(&name) {
            return Self::All;
        }
        let node = name.strip_prefix("node ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        if let Some(node) = node {
            return Self::Node(NodeId(node));
        }
        // `device 15b3:1017 #1 link` belongs to the device whose names `device 15b3:1017 #1 names`
        // has.
        let names = name.rsplit_once(' ').filter(|_| name.starts_with("device ")).and_then(|(device, _)| {
            let names = format!("{device}{NAMES}");
            host.facts.iter().find(|fact| fact.name == names)
        });
        match names {
            Some(names) => Self::Device(names.value.split(' ').map(str::to_owned).collect()),
            None => Self::Nothing,
        }
    }

    fn figure(&self, key: &FigureKey) -> bool {
        match self {
            Self::All => true,
            Self::Node(node) => key.from == Some(*node) || key.to == Some(*node),
            Self::Device(names) => names.contains(&key.device),
            Self::Nothing => false,
        }
    }

    fn scope(&self, scope: &FigureScope) -> bool {
        match (self, scope) {
            (Self::All, _) => true,
            (Self::Node(node), FigureScope::Node { node: other }) => node == other,
            (Self::Device(names), FigureScope::Device { device }) => names.contains(device),
            _ => false,
        }
    }
}
