//! What is typed for `numaio copy`, much of it as for rsync.

use crate::support::{Home, Limited, Said};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};

fn copy(home: &Home, args: &[&str]) -> Said {
    home.run(&[&["copy"], args].concat())
}

/// Copies to and from other hosts, all of which are this one.
fn copy_far(home: &Home, args: &[&str]) -> Said {
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$*\"\n";
    let ssh = home.file("ssh", script);
    fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).expect("a mode");
    let args = [&["copy", "--remote-numaio", env!("CARGO_BIN_EXE_numaio")], args].concat();
    copy_by(home, &ssh, &args)
}

/// Copies by what stands in place of ssh.
fn copy_by(home: &Home, ssh: &str, args: &[&str]) -> Said {
    Said::of(home.numaio(args).env("NUMAIO_SSH", ssh).limited_output().expect("numaio"))
}

/// A home with a directory `s` that holds a file.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("s")).expect("a folder");
    home.file("s/f", "content");
    home
}

#[test]
fn a_letter_for_readable_figures_moves_files() {
    let home = home();
    copy(&home, &["-avhP", "s/", "d"]).ok();
    assert_eq!(fs::read_to_string(home.0.join("d/f")).expect("a file"), "content");
    copy(&home, &["-h", "s/f", "g"]).ok();
    assert!(home.0.join("g").exists());
    copy(&home, &["--human-readable", "s/f", "i"]).ok();
    // Nothing is left for it to move: no help, which would be a success.
    copy(&home, &["-avhP"]).failed(2, &["<PATH>"]);
    copy(&home, &["-ah"]).failed(2, &["<PATH>"]);
    let short = copy(&home, &["-h"]).ok();
    let long = copy(&home, &["s/", "d", "--help"]).ok();
    assert!(short.contains("--archive") && long.contains("--archive") && short.len() < long.len());
    assert!(!long.contains("--human-readable"));
}

#[test]
fn who_leaves_out_the_letter_for_directories_is_told_of_it() {
    let home = home();
    copy(&home, &["s", "d"]).failed(3, &["is a directory: use -r or -a to copy it"]);
}

#[test]
fn help_says_how_hosts_daemons_and_slashes_are_written() {
    let home = home();
    home.run(&["generate", "man", "man"]).ok();
    let page = fs::read_to_string(home.0.join("man/numaio-copy.1")).expect("a man page");
    let page = page.replace("\\-", "-").replace('\n', " ");
    let long = copy(&home, &["--help"]).ok().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["USER@HOST:PATH", "numaio://HOST/ROOT/PATH", "SRC/ with a slash means"] {
        assert!(long.contains(part) && page.contains(part), "{part}: {long}");
    }
    assert!(copy(&home, &["-h"]).ok().contains("HOST:PATH by ssh"));
}

#[test]
fn directories_above_the_last_one_are_not_made() {
    let home = home();
    let words = ["new/deep/x: directory 'new/deep' does not exist, and only the last one is created"];
    for args in [&["-r", "s"][..], &["s/f"], &["-rn", "s"], &["-n", "s/f"]] {
        copy(&home, &[args, &["new/deep/x"]].concat()).failed(1, &[words[0], "mkdir -p"]);
        copy_far(&home, &[args, &["host:new/deep/x"]].concat()).failed(1, &[words[0], "mkdir -p"]);
    }
    assert!(!home.0.join("new").exists());
    // With a slash, too, it is a file.
    for args in [&["-r", "s", "s/f/"][..], &["-n", "s/f", "s/f//"]] {
        copy(&home, args).failed(1, &["'s/f' is not a directory", "name a directory"]);
    }
    copy(&home, &["-r", "s", "s/f/x"]).failed(1, &["s/f: Not a directory"]);
    copy(&home, &["-rn", "s", "new"]).ok();
    copy(&home, &["-r", "s", "new/"]).ok();
    assert!(home.0.join("new/s/f").exists());
}

#[test]
fn wildcards_on_another_host_are_names_and_rules_stand_for_them() {
    let home = home();
    home.file("s/a.csv", "1");
    let words = ["wildcards in remote names are not expanded", "--include='*.csv'"];
    copy_far(&home, &["host:s/*.csv", "."]).failed(3, &words);
    copy_far(&home, &["-r", "host:?/x", "host:s", "d"]).failed(1, &words);
    let said = copy(&home, &["s/*.csv", "."]);
    assert!(said.code == Some(3) && !said.err.contains(words[0]), "{}", said.err);
    copy_far(&home, &["-r", "--include=*.csv", "--exclude=*", "host:s/", "."]).ok();
    assert!(home.0.join("a.csv").exists() && !home.0.join("f").exists());
    home.file("s/[x]", "a name");
    let said = copy_far(&home, &["host:s/[x]", "."]);
    assert!(!said.err.contains(words[0]), "{}", said.err);
    said.ok();
}

#[test]
fn the_way_to_another_host_may_have_options() {
    let home = home();
    copy_far(&home, &["s/f", "host:first"]).ok();
    symlink(env!("CARGO_BIN_EXE_numaio"), home.0.join("own")).expect("a link");
    let ssh = format!("{} -p  2222", home.path("ssh"));
    copy_by(&home, &ssh, &["copy", "--remote-numaio", "~/own", "s/f", "host:second"]).ok();
    assert!(home.0.join("second").exists());
    copy_by(&home, "no-ssh -p 22", &["copy", "s/f", "host:third"])
        .failed(1, &["cannot start no-ssh:", "NUMAIO_SSH names a program"]);
}
