//! Looks up the host name that ssh uses for a host according to its configuration.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long ssh may take to print its configuration.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running `ssh -G` (ssh(1)), which prints the configuration for a host.
pub struct HostnameLookup(Option<Child>);

impl HostnameLookup {
    /// Starts ssh for a host.
    pub fn start(ssh: &OsStr, host: &str) -> Self {
        let mut command = crate::ssh::base_command(ssh);
        command.args(["-G", "--", host]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A replacement for ssh may not support -G; then only the peer's own address is known.
        Self(command.spawn().ok())
    }

    /// Returns the host name, if ssh prints it in time.
    pub fn name(mut self) -> Option<String> {
        let child = self.0.as_mut()?;
        let began = Instant::now();
        while child.try_wait().ok()?.is_none() {
            if began.elapsed() > LOOKUP_TIMEOUT {
                return None;
            }
            thread::sleep(POLL_INTERVAL);
        }
        let mut text = String::new();
        // The configuration fits into the pipe's buffer, so that ssh can exit before it is read.
        child.stdout.take()?.take(64 << 10).read_to_string(&mut text).ok()?;
        hostname(&text)
    }
}

impl Drop for HostnameLookup {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn hostname(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("hostname ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_hostname_of_ssh_configuration() {
        assert_eq!(hostname("user me\nhostname h.example\nport 22\n").as_deref(), Some("h.example"));
        assert_eq!(hostname("hostnamex y\n"), None);
    }
}
