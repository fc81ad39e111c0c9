//! The `numaio` command, which the library beside it is.

use std::process::ExitCode;

/// musl's own maps and unmaps memory for much that is small, and keeps threads waiting for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    numaio_cli::main()
}
