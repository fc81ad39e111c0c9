//! Names below the roots, and how they are resolved.

mod beneath;
mod link_scope;
mod resolved_name;
mod resolver;
mod short_names;

pub use beneath::find_below;
#[cfg(test)]
pub use beneath::walk_below;
pub use link_scope::{reopen, LinkScope};
pub use resolved_name::ResolvedName;
pub use resolver::Resolver;
pub use short_names::reject_short_name;
