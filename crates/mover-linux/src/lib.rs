//! Linux implementation of the mover's [`Port`](numaio_mover::port::Port): files, io_uring, and
//! data streams with TLS.
//!
//! [`files`] performs operations below roots without following links, [`port::FilePort`] runs them
//! on threads and io_uring, and [`port::net`] connects and authenticates hosts. [`confine`]
//! restricts a process to its roots with Landlock, and [`accounts`] reads user and group names.

pub mod accounts;
pub mod confine;
pub mod files;
pub mod port;
#[cfg(test)]
mod test_support;
