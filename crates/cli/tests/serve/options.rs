//! Options of copies to and from a daemon.

use crate::client::open;
use crate::support::content;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn creates_parents_below_the_root_only() {
    let (daemon, user) = open("");
    let copy = |to: &str| user.copy(&["-r", "--mkpath", "src/", &daemon.url(to)]);
    copy("data/new/deep/x").ok();
    assert_eq!(fs::read(daemon.home.0.join("data/new/deep/x/small")).ok(), Some(content(99, 1)));
    symlink(daemon.home.0.join("outside"), daemon.home.0.join("data/out")).expect("a link");
    copy("data/out/new/x").failed(1, &[]);
    copy("data/../outside/new/x").failed(1, &[]);
    assert_eq!(fs::read_dir(daemon.home.0.join("outside")).expect("a folder").count(), 0);
}

#[test]
fn removes_excluded_files_in_both_directions() {
    let (daemon, user) = open("");
    let (root, back) = (daemon.home.0.join("data"), user.home.0.join("back"));
    fs::create_dir(&back).expect("a folder");
    let excluded = [root.join("x.tmp"), back.join("x.tmp")];
    excluded.iter().for_each(|file| fs::write(file, "old").expect("a file"));
    let copy = |option: &str, from: &str, to: &str| {
        user.copy(&["-r", option, "--exclude", "*.tmp", from, to]).ok();
    };
    copy("--delete", "src/", &daemon.url("data"));
    copy("--delete", &daemon.url("data"), "back");
    assert!(excluded.iter().all(|file| file.exists()));
    copy("--delete-excluded", &daemon.url("data"), "back");
    copy("--delete-excluded", "src/", &daemon.url("data"));
    assert!(!excluded.iter().any(|file| file.exists()));
    assert!(back.join("small").exists() && root.join("small").exists());
}
