//! Lists the targets, or writes the seeds of every target: `seeds [DIRECTORY]`.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        numaio_fuzz::TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let directory = Path::new(&directory);
    for (name, _) in numaio_fuzz::TARGETS {
        fs::create_dir_all(directory.join(name))?;
        for (index, seed) in numaio_fuzz::seeds(name).into_iter().enumerate() {
            fs::write(directory.join(name).join(format!("seed-{index}")), seed)?;
        }
    }
    Ok(())
}
