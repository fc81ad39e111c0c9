//! File operations of a port below opened directories.
//!
//! Every name is resolved below its root without following symbolic links (openat2(2):
//! `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS`; component by component on older kernels). The last
//! component is never followed either. Only a source that copies the targets of links follows them
//! (`followed_links`).
//!
//! [`Base`] opens [`Roots`]. `operations` executes operations below them: each kind has a file, and
//! `data` reads and writes the content of files.

mod acl;
mod attributes;
mod backup;
mod base;
mod clone;
mod create;
mod data;
mod data_runs;
mod directory_reader;
mod directory_time;
mod extents;
mod fault;
mod file_handle;
mod file_stat;
mod filesystem;
mod flush;
mod followed_links;
#[cfg(test)]
mod fuse;
mod hard_link;
mod identity;
mod journal;
mod kept_attributes;
mod list;
mod marker;
mod name_matching;
mod operations;
mod owner;
mod path;
mod permissions;
mod proc;
mod remove;
mod remove_source;
mod roots;
mod stat;
mod sync;
mod temporary_file;
#[cfg(test)]
mod tests;
mod write_abilities;
mod xattr_buffer;
mod xattrs;

pub use base::{Base, Directory, Rights};
pub(crate) use data::{Block, Request, Started};
pub(crate) use fault::no_buffer;
pub use file_handle::identity_of;
pub use flush::flush;
pub use journal::OtherShards;
pub use marker::Marker;
pub use name_matching::NewFiles;
pub use proc::{has_proc, is_process_private};
pub use roots::{umask, DirectIo, Roots};
pub use temporary_file::temporary_name;
pub use write_abilities::WriteAbilities;
