//! The order in which `numaio copy` reads files of a real ext4 on a loop device, which is set to be
//! rotational or not.
use crate::image::{run_tool, Image};
use crate::support::Home;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of files: fewer than fit in one batch.
const FILES: usize = 150;

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Sets whether the device is rotational; false if that fails.
fn set_rotational(image: &Image, rotational: bool) -> bool {
    let name = image.device.trim_start_matches("/dev/");
    let file = format!("/sys/block/{name}/queue/rotational");
    let wanted = if rotational { "1" } else { "0" };
    fs::write(&file, wanted).is_ok() && fs::read_to_string(&file).is_ok_and(|text| text.trim() == wanted)
}

/// Creates files with consecutive inodes, whose data is written in another order.
fn scattered(folder: &Path) {
    fs::create_dir(folder).expect("a folder");
    let path = |index: usize| folder.join(index.to_string());
    (0..FILES).for_each(|index| drop(fs::File::create(path(index)).expect("a file")));
    // 61 is coprime to the number of files, so each is written once.
    for index in (0..FILES).map(|index| index * 61 % FILES) {
        let mut file = fs::File::options().write(true).open(path(index)).expect("a file");
        file.write_all(&vec![index as u8; 8_192]).expect("written");
        file.sync_all().expect("durable");
    }
}

/// Physical block of the first extent of a file, from filefrag(8) of e2fsprogs.
fn first_block(path: &Path) -> Option<u64> {
    let output = run_tool("filefrag", &["-v", path.to_str()?])?;
    // `   0:        0..       1:      33280..     33281:      2:             last,eof`
    let line = output.lines().find(|line| line.trim_start().starts_with("0:"))?;
    line.split(':').nth(2)?.trim().split("..").next()?.parse().ok()
}

/// Names in the order in which they were read; one thread reads and one writes.
fn copied_in_order(home: &Home, order: &str, to: &str) -> Vec<String> {
    let args = ["copy", "-r", "--json", "--threads", "1", "--order", order, "mount/files/", to];
    let output = home.run(&args).ok();
    let events = output.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let copied = events.filter(|event| event["action"] == "copied");
    copied.map(|event| event["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn rotational_disk_is_read_by_block_and_other_by_inode() {
    let home = Home::new();
    let Some(image) = Image::new(&home) else {
        return skipped("an ext4 on a loop device: needs mkfs.ext4, losetup and root");
    };
    let folder = image.at.join("files");
    scattered(&folder);
    let keys = |key: &dyn Fn(&Path) -> u64, names: &[String]| -> Vec<u64> {
        names.iter().map(|name| key(&folder.join(name))).collect()
    };
    let Some(_) = first_block(&folder.join("0")) else {
        return skipped("no filefrag to locate the data of files");
    };
    if !set_rotational(&image, true) {
        return skipped("a loop device that cannot be made rotational");
    }
    let block = |path: &Path| first_block(path).expect("a block");
    let inode = |path: &Path| fs::metadata(path).expect("a file").ino();
    let names = copied_in_order(&home, "auto", "one");
    assert_eq!(names.len(), FILES);
    let blocks = keys(&block, &names);
    assert!(blocks.is_sorted(), "{blocks:?}");
    assert!(
        !keys(&inode, &names).is_sorted(),
        "inodes have the same order as blocks, so the test proves nothing"
    );
    if !set_rotational(&image, false) {
        return skipped("a loop device that cannot be made non-rotational");
    }
    let names = copied_in_order(&home, "auto", "two");
    let inodes = keys(&inode, &names);
    assert!(names.len() == FILES && inodes.is_sorted(), "{inodes:?}");
    // The option has precedence over the kind of the disk.
    let names = copied_in_order(&home, "physical", "three");
    let blocks = keys(&block, &names);
    assert!(names.len() == FILES && blocks.is_sorted(), "{blocks:?}");
    let names = copied_in_order(&home, "none", "four");
    let (blocks, inodes) = (keys(&block, &names), keys(&inode, &names));
    assert!(names.len() == FILES && !blocks.is_sorted() && !inodes.is_sorted(), "{names:?}");
}
