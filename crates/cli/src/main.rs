//! The `numaio` program; everything is in the library.

use std::process::ExitCode;

/// musl's allocator maps and unmaps memory for small allocations, and its lock serializes threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    numaio_cli::main()
}
