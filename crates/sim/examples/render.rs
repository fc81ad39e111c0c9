//! Writes a simulated machine's files to a directory, for `numaio --sysroot DIR`: `cargo run -p
//! numaio-sim --example render -- large DIR`, or with the path of a description in JSON; with
//! `spec` as the directory, the description itself is given out.

use std::error::Error;
use std::io::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shape, place] = arguments.as_slice() else {
        return Err(format!(
            "usage: render SHAPE|SPEC.json DIR|spec; shapes are {:?}",
            numaio_sim::shapes::NAMES
        )
        .into());
    };
    let spec = match numaio_sim::shapes::named(shape) {
        Some(spec) => spec,
        None => numaio_sim::Spec::from_json(&std::fs::read_to_string(shape)?)?,
    };
    if place == "spec" {
        writeln!(std::io::stdout(), "{}", spec.to_json())?;
    } else {
        numaio_sim::write_tree(&numaio_sim::render(&spec), Path::new(place))?;
    }
    Ok(())
}
