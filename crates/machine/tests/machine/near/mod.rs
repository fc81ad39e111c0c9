//! Handles resolved on machines in memory, whose files are as Linux shows them.

mod block;
mod file;
mod machine;
mod net;
mod process;
mod random;
