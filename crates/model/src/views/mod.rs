//! Views of a target: the values of every node by one method, in a common form.

mod documents;
mod firmware;
mod io;
mod measured;
mod mmio;
mod ping;
mod view;

pub use documents::{document_views, DocumentViews};
pub use firmware::{hmat_views, slit_views};
pub use io::io_views;
pub use measured::{copy_views, counter_views, latency_views, stream_views, sweep_views};
pub use mmio::mmio_views;
pub use ping::ping_views;
pub(crate) use view::{compare_nodes, point, times_better};
pub use view::{completed, derived, ViewSubject};

use numaio_machine::ids::NodeId;
use numaio_schema::View;
use view::range;

/// Error of checking a view from a file; each names the field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ViewMismatch {
    /// The view is of another machine.
    #[error("field `machine`: expected machine {wanted}, got {found}")]
    OtherMachine {
        /// Fingerprint in the view.
        found: String,
        /// Expected fingerprint.
        wanted: String,
    },
    /// The view has another target.
    #[error("field `target`: expected target {wanted}, got {found}")]
    OtherTarget {
        /// Target in the view.
        found: NodeId,
        /// Expected target.
        wanted: NodeId,
    },
    /// A field has an invalid value.
    #[error("field `{field}`: {why}")]
    Field {
        /// Path of the field, as in `nodes[3].value`.
        field: String,
        /// The problem.
        why: &'static str,
    },
}

/// Maximum number of nodes in Linux.
const MAX_NODES: usize = 1024;

/// Checks that a view, from any tool, is comparable with others of the subject.
///
/// # Errors
/// [`ViewMismatch`] for the first invalid field.
pub fn check(view: &View, subject: &ViewSubject) -> Result<(), ViewMismatch> {
    if view.machine != subject.machine {
        let [found, wanted] = [view.machine.as_str(), subject.machine].map(str::to_owned);
        return Err(ViewMismatch::OtherMachine { found, wanted });
    }
    if view.target != subject.target {
        return Err(ViewMismatch::OtherTarget { found: view.target, wanted: subject.target });
    }
    let wrong = |field: String, why| Err(ViewMismatch::Field { field, why });
    if view.name.is_empty() {
        return wrong("name".to_owned(), "expected a name");
    }
    if !(0.0..1.0).contains(&view.level) {
        return wrong("level".to_owned(), "expected a number from 0 to less than 1");
    }
    if view.nodes.is_empty() {
        return wrong("nodes".to_owned(), "expected at least one value");
    }
    if view.nodes.len() > MAX_NODES {
        return wrong("nodes".to_owned(), "expected at most 1024 values");
    }
    for (index, value) in view.nodes.iter().enumerate() {
        if !(1e-30..1e30).contains(&value.value) {
            return wrong(format!("nodes[{index}].value"), "expected a number above 0");
        }
        let (low, high) = range(value);
        if !(low <= value.value && value.value <= high && high.is_finite()) {
            return wrong(format!("nodes[{index}].interval"), "expected an interval that contains the value");
        }
        if view.nodes[..index].iter().any(|other| other.node == value.node) {
            return wrong(format!("nodes[{index}].node"), "duplicate node");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
