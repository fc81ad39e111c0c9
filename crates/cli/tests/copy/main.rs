//! `numaio copy` and `numaio jobs`, run as a user runs them.

mod attributes;
mod backups;
mod coarse_times;
mod compression;
mod concurrent;
mod data_connections;
mod delete;
mod dry_run;
mod existing_destination;
mod faults;
mod foreign_filesystems;
mod full_storage;
mod hard_links;
mod host_to_host;
mod hostile_source;
mod hung_storage;
mod image;
mod itemize;
mod jobs;
mod local_trees;
mod odd_files;
mod options;
mod read_order;
mod remove_source;
mod rsync_arguments;
mod same_directory;
mod selection;
mod silent_peer;
mod slow_copy;
mod snapshots;
mod sshd;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod trees;
mod unprivileged;
