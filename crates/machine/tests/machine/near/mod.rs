//! Resolution of handles on in-memory machines.

mod block;
mod file;
mod machine;
mod net;
mod process;
mod random;
mod stacks;
