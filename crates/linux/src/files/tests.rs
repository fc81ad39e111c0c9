use super::Roots;
use numaio_machine::conformance;
use numaio_machine::port::BLOCK;
use std::fs;

#[test]
fn this_kernel_does_to_files_what_a_port_does() {
    let folder = std::env::temp_dir().join(format!("numaio-files-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    let roots = Roots::open(&[&folder]).expect("a root");
    conformance::files(conformance::Files {
        run: &mut |operation| roots.run(operation, || vec![0; BLOCK]),
        buffer: &|bytes| bytes.to_vec(),
    });
    fs::remove_dir_all(&folder).expect("a folder of ours");
}
