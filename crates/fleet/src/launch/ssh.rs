//! Hosts that ssh reaches.

use super::host_report::host_arguments;
use numaio_linux::ssh_command::{command_words, joined, program, unattended_command};
use numaio_schema::FleetRun;
use std::ffi::OsString;
use std::process::Command;

/// Returns the command that measures on a host and returns the report on stdout.
///
/// The program is `ssh`, or that of `NUMAIO_SSH`.
pub fn command(run: &FleetRun, host: &str) -> Command {
    let words = command_words(&run.remote_numaio);
    let line = joined(words.chain(host_arguments(run, host).into_iter().map(OsString::from)));
    unattended_command(program(), host, &line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::run_directory::tests::run_of;

    #[test]
    fn host_is_never_an_option_and_the_command_is_quoted() {
        let mut run = run_of(&["n1"]);
        run.command = vec!["bench".into(), "disk".into(), "--file".into(), "/a b;x".into()];
        run.remote_numaio = "sudo numaio".into();
        let command = command(&run, "n1");
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert!(args.windows(2).any(|pair| pair == ["--", "n1"]), "{args:?}");
        assert!(args.contains(&"BatchMode=yes".to_owned()) && args.contains(&"ConnectTimeout=15".to_owned()));
        let line = args.last().expect("a line");
        assert!(
            line.starts_with("'sudo' 'numaio' 'fleet' 'host-report' '--run' 'r1' '--host' 'n1'"),
            "{line}"
        );
        assert!(line.ends_with("'--' 'bench' 'disk' '--file' '/a b;x'"), "{line}");
    }
}
