//! `numaio copy` to a file system that does not tell names apart which differ in case alone, as those of other systems.

mod support;

use std::fs;
use support::{Home, Said};

/// Mounts exFAT at `to`, and runs a script.
const EXFAT: &str = "
truncate -s 64M image && mkfs.exfat image && mkdir to && device=$(losetup --find --show image) || exit 99
trap 'umount to; losetup --detach $device' EXIT
mount.exfat-fuse $device to || exit 99
eval \"$0\"
";

/// What a script says with exFAT at `to`; none where it cannot be mounted.
fn on_exfat(home: &Home, script: &str) -> Option<Said> {
    let mut command = home.command("unshare", &["-m", "sh", "-c", EXFAT, script]);
    let output = command.env("NUMAIO", env!("CARGO_BIN_EXE_numaio")).output().ok()?;
    let said = Said::of(output);
    (said.code != Some(99) && !said.err.contains("unshare: ")).then_some(said)
}

#[test]
fn of_names_that_are_one_there_the_second_is_told_and_nothing_is_lost() {
    let home = Home::new();
    for folder in ["from/Dir", "from/dir", "same/Dir"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    for (name, content) in [
        ("from/FILE", "f"),
        ("from/file", "file"),
        ("from/Dir/x", "x"),
        ("from/dir/y", "y"),
        ("same/Dir/x", "x"),
    ] {
        home.file(name, content);
    }
    let script = "
        $NUMAIO copy -r --delete from/ to/a; echo code $?
        (cd to/a && find . -type f | sort && cat FILE && echo)
        $NUMAIO copy -nr --delete from/ to/a >rehearsal; echo code $?
        mkdir -p to/b/dIR && touch to/b/dIR/X to/b/old
        $NUMAIO copy -r --delete same/ to/b >last; echo code $?
        (cd to/b && find . -type f && cat Dir/x)
    ";
    let Some(said) = on_exfat(&home, script) else {
        println!("skipped: exFAT, as it needs mkfs.exfat, mount.exfat-fuse, losetup and root");
        return;
    };
    let told: Vec<&str> = said.out.lines().skip_while(|line| !line.contains("moved")).skip(1).collect();
    let [code, x, y, file, content, rehearsal, last, kept, of_it] = told[..] else { panic!("{}", said.out) };
    assert_eq!((code, x, y), ("code 3", "./Dir/x", "./Dir/y"));
    // Which of them is the first depends on the order of inodes.
    assert!(file.eq_ignore_ascii_case("./file") && ["f", "file"].contains(&content), "{}", said.out);
    assert_eq!(rehearsal, "code 3");
    assert!(last == "code 0" && kept.eq_ignore_ascii_case("./dir/x") && of_it == "x", "{}", said.out);
    assert_eq!(said.err.matches("differs in case alone").count(), 4, "{}", said.err);
}
