//! Tests of `numaio report` in every format, with the programs that read it.

mod browser;
mod csv_lines;
mod documents;
mod fleet;
mod formats;
#[path = "../fleet/host_reports.rs"]
mod host_reports;
mod hostile_names;
mod html;
mod markdown;
mod report_documents;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod tex;
