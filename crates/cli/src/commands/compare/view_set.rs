//! Views of one target, collected from documents.

use crate::documents;
use crate::failure::Failure;
use numaio_machine::ids::NodeId;
use numaio_machine::topology::Topology;
use numaio_model::ViewSubject;
use numaio_schema::{Document, View, Warning};
use std::path::Path;

/// Prefixes of view names, in the order of their columns. Other views follow.
const ORDER: [&str; 10] = [
    "slit",
    "hmat-",
    "latency-",
    "scheduling-factor-",
    "stream-",
    "sweep-",
    "copy-",
    "io-",
    "ping-",
    "mmio-",
];

/// Views of one target, with the provenance of their measurements.
#[derive(Debug)]
pub struct ViewSet<'a> {
    subject: ViewSubject<'a>,
    /// Level of views from files; their own without one.
    level: Option<f64>,
    /// Views in the order of insertion.
    views: Vec<View>,
    /// Doubtful and missing measurements.
    pub warnings: Vec<Warning>,
    /// Time of the newest measurement, in seconds since 1970.
    pub measured_at: u64,
}

/// Handling of a view whose name is already in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Ignore the new view, which is older.
    Drop,
    /// Add the new view, with the name of its file in its title.
    Keep,
    /// Replace the existing view.
    Replace,
}

impl<'a> ViewSet<'a> {
    /// Creates a set with the views that the firmware states, if the topology is available.
    pub fn new(subject: ViewSubject<'a>, topology: Option<&Topology>) -> Self {
        let stated = topology.into_iter().flat_map(|topology| {
            let slit = numaio_model::slit_views(topology, &subject);
            slit.into_iter().chain(numaio_model::hmat_views(topology, &subject))
        });
        let views = stated.collect();
        Self { subject, level: None, views, warnings: Vec::new(), measured_at: 0 }
    }

    /// Classifies views from files, too, with a level.
    pub fn with_level(self, level: Option<f64>) -> Self {
        Self { level, ..self }
    }

    /// Adds the views of the target in a document; returns false if it has none.
    ///
    /// `path` is the file of the document, or empty.
    ///
    /// # Errors
    /// [`Failure`]: a document of another machine, or an invalid view.
    pub fn add(&mut self, path: &Path, document: &Document, duplicates: Duplicates) -> Result<bool, Failure> {
        if document.origin().fingerprint != self.subject.machine {
            let expected = self.subject.machine;
            let found = documents::machine_name(document);
            return Err(Failure::file(
                path,
                format!("the document is of {found}, not of machine {expected}"),
            )
            .hint("all views must belong to one machine; choose it by --machine or --from"));
        }
        let subject = &self.subject;
        let views = match document {
            Document::View(view) => {
                numaio_model::check(view, subject).map_err(|error| Failure::file(path, error))?;
                vec![numaio_model::completed((**view).clone(), self.level)]
            }
            // Its views are copies of those of other documents.
            Document::Comparison(_) => Vec::new(),
            document => numaio_model::document_views(document).map_or_else(Vec::new, |it| it.of(subject)),
        };
        let has_views = !views.is_empty();
        let before = self.views.clone();
        for view in views {
            self.add_view(path, view, duplicates);
        }
        if self.views != before {
            self.add_provenance(document);
        }
        Ok(has_views)
    }

    /// Returns the target node.
    pub fn target(&self) -> NodeId {
        self.subject.target
    }

    fn add_view(&mut self, path: &Path, mut view: View, duplicates: Duplicates) {
        let known = self.views.iter().any(|other| other.name == view.name);
        match (duplicates, path.file_name()) {
            (Duplicates::Drop, _) if known => return,
            (Duplicates::Replace, _) => self.views.retain(|other| other.name != view.name),
            (Duplicates::Keep, Some(name)) if known => {
                view.title = format!("{}, {}", view.title, name.to_string_lossy());
            }
            _ => {}
        }
        self.views.push(view);
    }

    fn add_provenance(&mut self, document: &Document) {
        let Some(provenance) = document.origin().provenance else { return };
        let what = document.kind().title();
        self.measured_at = self.measured_at.max(provenance.measured_at);
        for warning in &provenance.warnings {
            self.warn(&warning.rule, format!("{what}: {}", warning.message));
        }
    }

    /// Adds a warning, unless the set has it already.
    pub fn warn(&mut self, rule: &str, what: String) {
        let warning = Warning { rule: rule.to_owned(), message: what };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Returns whether the name of a view starts with `prefix`.
    pub fn has_view(&self, prefix: &str) -> bool {
        self.views.iter().any(|view| view.name.starts_with(prefix))
    }

    /// Returns the views in the order of their columns.
    pub fn views(&self) -> Vec<View> {
        let column = |view: &View| ORDER.iter().position(|prefix| view.name.starts_with(prefix));
        let mut views = self.views.clone();
        views.sort_by_key(|view| column(view).unwrap_or(ORDER.len()));
        views
    }
}

/// Returns the targets of a copy model with their devices; targets with devices come first.
pub fn targets(document: &Document) -> Vec<(NodeId, Vec<String>)> {
    let Document::Model(model) = document else { return Vec::new() };
    let mut targets: Vec<(NodeId, Vec<String>)> =
        model.targets.iter().map(|target| (target.target, target.devices.clone())).collect();
    targets.sort_by_key(|(node, devices)| (devices.is_empty(), *node));
    targets
}
