//! Arguments of `numaio copy`, many of which are those of rsync.

use crate::support::{CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::symlink;

fn copy(home: &Home, args: &[&str]) -> CommandOutput {
    home.run(&[&["copy"], args].concat())
}

/// Copies to and from other hosts; every host name leads to this machine.
fn copy_remote(home: &Home, args: &[&str]) -> CommandOutput {
    home.copy_by_local_ssh(args)
}

/// Copies with this program in place of ssh.
fn copy_with_ssh(home: &Home, ssh: &str, args: &[&str]) -> CommandOutput {
    CommandOutput::of(home.numaio(args).env("NUMAIO_SSH", ssh).limited_output().expect("numaio"))
}

/// A home with a directory `s` that contains a file.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.0.join("s")).expect("a folder");
    home.file("s/f", "content");
    home
}

#[test]
fn options_of_scp_and_units_of_rsync_are_explained() {
    let home = Home::new();
    home.file("f", "f");
    let port = ["-P is --partial --progress, and file '2222' does not exist", "NUMAIO_SSH='ssh -p 2222'"];
    home.run(&["copy", "-P", "2222", "f", "host:g"]).failed(2, &port);
    home.run(&["copy", "-P2222", "f", "host:g"]).failed(2, &["NUMAIO_SSH='ssh -p 2222'"]);
    home.run(&["copy", "-l", "800", "f", "g"]).failed(2, &["file '800' does not exist", "--bwlimit"]);
    home.run(&["copy", "f", "[::1:x"]).failed(2, &["is not [ADDRESS]:PATH", "hint: write [fd00::1]:PATH"]);
    // A file with such a name is copied.
    home.file("2222", "f");
    fs::create_dir(home.0.join("to")).expect("a folder");
    home.run(&["copy", "-P", "2222", "f", "to"]).ok();
    let warned = home.run(&["copy", "--bwlimit=500", "f", "g"]);
    assert!(warned.err.contains("--bwlimit 500 is 500 bytes per second") && warned.err.contains("500K"));
    warned.ok();
    let silent = home.run(&["copy", "--bwlimit=500K", "f", "h"]);
    assert_eq!((silent.code, silent.err.as_str()), (Some(0), ""));
}

#[test]
fn accepts_h_for_human_readable() {
    let home = home();
    copy(&home, &["-avhP", "s/", "d"]).ok();
    assert_eq!(fs::read_to_string(home.0.join("d/f")).expect("a file"), "content");
    copy(&home, &["-h", "s/f", "g"]).ok();
    assert!(home.0.join("g").exists());
    copy(&home, &["--human-readable", "s/f", "i"]).ok();
    // Without paths, -h among other letters is an error, not a request for help.
    copy(&home, &["-avhP"]).failed(2, &["<PATH>"]);
    copy(&home, &["-ah"]).failed(2, &["<PATH>"]);
    let short = copy(&home, &["-h"]).ok();
    let long = copy(&home, &["s/", "d", "--help"]).ok();
    assert!(short.contains("--archive") && long.contains("--archive") && short.len() < long.len());
    assert!(!long.contains("--human-readable"));
}

#[test]
fn hints_at_recursive_option_for_a_directory() {
    let home = home();
    copy(&home, &["s", "d"]).failed(3, &["is a directory: use -r or -a to copy it"]);
}

#[test]
fn help_explains_host_daemon_and_slash_syntax() {
    let home = home();
    home.run(&["generate", "man", "--dir", "man"]).ok();
    let page = fs::read_to_string(home.0.join("man/numaio-copy.1")).expect("a man page");
    let page = page.replace("\\-", "-").replace('\n', " ");
    let long = copy(&home, &["--help"]).ok().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["USER@HOST:PATH", "numaio://HOST/ROOT/PATH", "SRC/ with a slash means"] {
        assert!(long.contains(part) && page.contains(part), "{part}: {long}");
    }
    assert!(copy(&home, &["-h"]).ok().contains("HOST:PATH by ssh"));
}

#[test]
fn creates_only_the_last_directory_of_the_destination() {
    let home = home();
    let words = ["new/deep/x: directory 'new/deep' does not exist, and only the last one is created"];
    for args in [&["-r", "s"][..], &["s/f"], &["-rn", "s"], &["-n", "s/f"]] {
        copy(&home, &[args, &["new/deep/x"]].concat()).failed(1, &[words[0], "--mkpath"]);
        copy_remote(&home, &[args, &["host:new/deep/x"]].concat()).failed(1, &[words[0], "--mkpath"]);
    }
    assert!(!home.0.join("new").exists());
    // With a trailing slash, too, a file is not a directory.
    for args in [&["-r", "s", "s/f/"][..], &["-n", "s/f", "s/f//"]] {
        copy(&home, args).failed(1, &["'s/f' is not a directory", "name a directory"]);
    }
    copy(&home, &["-r", "s", "s/f/x"]).failed(1, &["s/f: Not a directory"]);
    copy(&home, &["-rn", "s", "new"]).ok();
    copy(&home, &["-r", "s", "new/"]).ok();
    assert!(home.0.join("new/s/f").exists());
}

#[test]
fn creates_the_parents_of_the_destination_on_request() {
    let home = home();
    let content = |at: &str| fs::read_to_string(home.0.join(at)).ok();
    for to in ["new/deep/x", "host:new/deep/x"] {
        for args in [&["-rn", "s/"][..], &["-n", "s/f"], &["-r", "--existing", "s/"]] {
            copy_remote(&home, &[args, &["--mkpath", to]].concat()).ok();
            assert!(!home.0.join("new").exists(), "{args:?}");
        }
        for (args, file) in [(&["-r", "s/"][..], "new/deep/x/f"), (&["s/f"], "new/deep/x")] {
            copy_remote(&home, &[args, &["--mkpath", to]].concat()).ok();
            assert_eq!(content(file).as_deref(), Some("content"), "{args:?}");
            fs::remove_dir_all(home.0.join("new")).expect("removed");
        }
    }
    copy(&home, &["-r", "--mkpath", "s", "s/f/x/y"]).failed(1, &["s/f/x: Not a directory"]);
    symlink("nothing", home.0.join("dangling")).expect("a link");
    copy(&home, &["-r", "--mkpath", "s", "dangling/x/y"]).failed(1, &["dangling: File exists"]);
}

#[test]
fn does_not_expand_wildcards_on_another_host() {
    let home = home();
    home.file("s/a.csv", "1");
    let words = ["wildcards in remote names are not expanded", "--include='*.csv'"];
    copy_remote(&home, &["host:s/*.csv", "."]).failed(3, &words);
    copy_remote(&home, &["-r", "host:?/x", "host:s", "d"]).failed(1, &words);
    let output = copy(&home, &["s/*.csv", "."]);
    assert!(output.code == Some(3) && !output.err.contains(words[0]), "{}", output.err);
    copy_remote(&home, &["-r", "--include=*.csv", "--exclude=*", "host:s/", "."]).ok();
    assert!(home.0.join("a.csv").exists() && !home.0.join("f").exists());
    home.file("s/[x]", "a name");
    let output = copy_remote(&home, &["host:s/[x]", "."]);
    assert!(!output.err.contains(words[0]), "{}", output.err);
    output.ok();
}

#[test]
fn ssh_command_may_contain_options() {
    let home = home();
    copy_remote(&home, &["s/f", "host:first"]).ok();
    symlink(env!("CARGO_BIN_EXE_numaio"), home.0.join("own")).expect("a link");
    let ssh = format!("{} -p  2222", home.path("ssh"));
    copy_with_ssh(&home, &ssh, &["copy", "--remote-numaio", "~/own", "s/f", "host:second"]).ok();
    assert!(home.0.join("second").exists());
    copy_with_ssh(&home, "no-ssh -p 22", &["copy", "s/f", "host:third"])
        .failed(1, &["cannot start no-ssh:", "NUMAIO_SSH names a program"]);
}
