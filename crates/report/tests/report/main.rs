//! Integration tests of the report crate, in a single binary.

mod bundle;
mod common;
mod comparison;
mod hostile_names;
mod html_layout;
mod hwloc;
mod io;
mod matrices;
mod placement_forms;
mod svg;
mod text_pages;
