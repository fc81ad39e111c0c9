//! The script of a job on one node.

use crate::launch::host_report::command_time_limit;
use crate::launch::run_directory::{RunDirectory, RUN_FILE};
use numaio_linux::ssh_command::{command_words, joined, quoted};
use numaio_schema::FleetRun;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Exit status of a job whose node does not have the directory of the run (`EX_OSFILE` of
/// sysexits.h).
pub const NO_RUN_DIRECTORY: u8 = 72;

/// Returns the script of the tasks of a job array. Slurm sets the name of the node.
pub fn script(run: &FleetRun, directory: &RunDirectory) -> Vec<u8> {
    let path = directory.path();
    let mut script = b"#!/bin/sh\nrun=".to_vec();
    script.extend(quoted(path.as_os_str()).as_bytes());
    script.extend(format!("\n[ -r \"$run/{RUN_FILE}\" ] || {{\n").as_bytes());
    script.extend(b"    echo \"numaio: $SLURMD_NODENAME does not have the directory '$run'\" >&2\n");
    script.extend(format!("    exit {NO_RUN_DIRECTORY}\n}}\nexec ").as_bytes());
    script.extend(joined(command_words(&run.remote_numaio)).as_bytes());
    script.extend(b" fleet host-report --run ");
    script.extend(quoted(run.id.as_ref()).as_bytes());
    script.extend(b" --host \"$SLURMD_NODENAME\" --output \"$run/hosts/$SLURMD_NODENAME.json\"");
    script.extend(format!(" --time-limit {}", command_time_limit(run)).as_bytes());
    let rest = run.machine_options.iter().map(String::as_str).chain(["--"]);
    let rest = rest.chain(run.command.iter().map(String::as_str)).map(OsString::from);
    script.push(b' ');
    script.extend(joined(rest).as_bytes());
    script.push(b'\n');
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::run_directory::tests::{run_of, Scratch};

    #[test]
    fn shell_accepts_the_script_and_quotes_names() {
        let scratch = Scratch::new();
        let mut run = run_of(&[]);
        run.command = vec!["model".into(), "it's $HOME".into()];
        run.remote_numaio = "printf %s\\n".into();
        let directory = RunDirectory::create(&scratch.0.join("a 'b"), &run).expect("a run");
        let run_script = || {
            let mut shell = std::process::Command::new("sh");
            shell.arg("-c").arg(std::str::from_utf8(&script(&run, &directory)).expect("text"));
            shell.env("SLURMD_NODENAME", "n1").output().expect("a shell")
        };
        let printed = String::from_utf8(run_script().stdout).expect("text");
        let words: Vec<&str> = printed.lines().collect();
        let output = format!("{}/hosts/n1.json", directory.path().display());
        assert_eq!(
            words,
            [
                "fleet",
                "host-report",
                "--run",
                "r1",
                "--host",
                "n1",
                "--output",
                &output,
                "--time-limit",
                "54",
                "--",
                "model",
                "it's $HOME"
            ]
        );
        std::fs::remove_file(directory.path().join(RUN_FILE)).expect("removed");
        let output = run_script();
        assert_eq!(output.status.code(), Some(i32::from(NO_RUN_DIRECTORY)));
        assert!(String::from_utf8_lossy(&output.stderr).contains("n1 does not have the directory"));
    }
}
