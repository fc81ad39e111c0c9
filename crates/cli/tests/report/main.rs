//! Reports in every format, as other programs read them.

mod browser;
mod csv_lines;
mod documents;
mod formats;
mod hostile_names;
mod html;
mod markdown;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod tex;
mod told;
