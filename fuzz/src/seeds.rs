//! Prints the names of all targets, or writes what a fuzzer begins with into a directory: `seeds DIRECTORY`.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        numaio_fuzz::TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let directory = Path::new(&directory);
    let said = ["sink", "source", "stream"].into_iter().zip(numaio_fuzz::conversation());
    for (name, seed) in said.chain([("packed", numaio_fuzz::packed_seed())]) {
        fs::create_dir_all(directory.join(name))?;
        fs::write(directory.join(name).join("seed"), seed)?;
    }
    Ok(())
}
