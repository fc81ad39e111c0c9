//! Options that select what is copied, compared with rsync.

use crate::support::{skipped, CommandOutput, Home, Limited};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Writes an ssh that runs the command here, and returns its path.
fn local_ssh(home: &Home) -> String {
    let script = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec sh -c \"$*\"\n";
    let ssh = home.file("ssh", script);
    fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).expect("a mode");
    ssh
}

/// Runs a script in a mount namespace, in the home. `$numaio` is the program, with an ssh that runs
/// commands here. `None` without the right to mount.
fn with_mounts(home: &Home, script: &str) -> Option<CommandOutput> {
    let ssh = local_ssh(home);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).current_dir(&home.0);
    command.env("HOME", &home.0).env("numaio", env!("CARGO_BIN_EXE_numaio")).env("NUMAIO_SSH", ssh);
    let output = CommandOutput::of(command.limited_output().ok()?);
    if output.code == Some(99) || output.err.starts_with("unshare:") {
        skipped(format_args!("a mount namespace: {}", output.err));
        return None;
    }
    Some(output)
}

#[test]
fn one_file_system_copies_mount_points_as_empty_directories() {
    let home = Home::new();
    for folder in ["src/a/mounted", "src/b", "rsync", "numaio", "remote", "back/a/mounted"] {
        fs::create_dir_all(home.0.join(folder)).expect("a folder");
    }
    home.file("src/b/f", "f");
    home.file("back/a/mounted/kept", "kept");
    home.file("back/a/extra", "extra");
    let script = "mount -t tmpfs none src/a/mounted || exit 99
echo inside > src/a/mounted/inside
for to in numaio remote rsync; do
    case $to in
        rsync) command -v rsync > rsync-found || { cp -r numaio rsync; continue; }; rsync -rx src/ rsync;;
        remote) $numaio copy -rqx --remote-numaio $numaio src/ host:remote;;
        numaio) $numaio copy -rqx src/ numaio;;
    esac
    (cd $to && find . | sort | tr '\\n' ' ')
    echo
done
$numaio copy -rqx --delete src/ back || exit
find back | sort | tr '\\n' ' '; echo
$numaio copy -rqx src/a/mounted/ inside || exit
ls inside";
    let Some(output) = with_mounts(&home, script) else { return };
    let tree = ". ./a ./a/mounted ./b ./b/f ";
    let back = "back back/a back/a/mounted back/a/mounted/kept back/b back/b/f ";
    assert_eq!(output.ok(), format!("{tree}\n{tree}\n{tree}\n{back}\ninside\n"));
}

/// The reply of an older numaio does not list the options that it knows.
#[test]
fn refuses_an_option_that_an_older_peer_would_ignore() {
    let home = Home::new();
    fs::create_dir(home.0.join("src")).expect("a folder");
    home.file("src/f", "f");
    let ssh = local_ssh(&home);
    // Only the first line is text.
    let rewrite = "| { IFS= read -r reply; echo \"$reply\" | sed 's/\"knows\":/\"knew\":/'; exec cat; }\n";
    let script = fs::read_to_string(&ssh).expect("a script");
    fs::write(&ssh, script.replace("exec ", "").trim_end().to_owned() + rewrite).expect("a script");
    let numaio = env!("CARGO_BIN_EXE_numaio");
    let copy = |args: &[&str]| {
        let args = [&["copy", "--remote-numaio", numaio, "-r"], args].concat();
        CommandOutput::of(home.numaio(&args).env("NUMAIO_SSH", &ssh).limited_output().expect("numaio"))
    };
    let words = ["the numaio on host is older and does not know --one-file-system", "install this version"];
    copy(&["-x", "host:src/", "back"]).failed(1, &words);
    copy(&["-x", "--delete", "src/", "host:to"]).failed(1, &words);
    assert!(!home.0.join("back/f").exists() && !home.0.join("to/f").exists());
    copy(&["host:src/", "back"]).ok();
    // Without --delete, only the source needs to know it.
    copy(&["-x", "src/", "host:to"]).ok();
    assert!(home.0.join("back/f").exists() && home.0.join("to/f").exists());
}
