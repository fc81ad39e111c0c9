//! The name that ssh goes to for a host, as its configuration may have another one for it.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long ssh may take to tell of its configuration.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// ssh, asked for the name that it goes to by its configuration (ssh(1), -G).
pub struct HostnameLookup(Option<Child>);

impl HostnameLookup {
    pub fn start(ssh: &OsStr, host: &str) -> Self {
        let mut command = crate::ssh::base_command(ssh);
        command.args(["-G", "--", host]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // What stands in place of ssh may not know of -G; then there is only what the other side says.
        Self(command.spawn().ok())
    }

    /// The name, if it is told soon.
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
        // A configuration is shorter than what a pipe holds, so the program could end without being listened to.
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
    fn what_ssh_says_of_its_configuration_is_understood() {
        assert_eq!(hostname("user me\nhostname h.example\nport 22\n").as_deref(), Some("h.example"));
        assert_eq!(hostname("hostnamex y\n"), None);
    }
}
