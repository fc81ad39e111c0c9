//! Compresses the recorded machines that the program includes: 2.4 MB of text become 0.2 MB.

use flate2::{write::GzEncoder, Compression};
use std::io::{Error, Write};
use std::path::{Path, PathBuf};

/// The machines by name.
const MACHINES: [&str; 3] = ["amd-dl585-g7", "intel-r820", "amd-2p"];

fn main() -> Result<(), Error> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or_else(|| Error::other("no OUT_DIR"))?);
    for name in MACHINES {
        let tape = Path::new("../../machines").join(format!("{name}.tape"));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&std::fs::read(&tape)?)?;
        std::fs::write(out.join(format!("{name}.tape.gz")), gzip.finish()?)?;
        // Cargo reads it from the output.
        writeln!(std::io::stdout(), "cargo:rerun-if-changed={}", tape.display())?;
    }
    Ok(())
}
