//! Runs through a real sshd on this host.

use crate::support::{kill, skipped, until, CommandOutput, Home, Limited};
use crate::{only_run, read_report};
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const SSHD: &str = "/usr/sbin/sshd";
const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");

/// A private sshd to which every host name leads; ended on drop.
struct Server {
    home: Home,
    sshd: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.limited_status();
    }
}

impl Server {
    /// Starts sshd with new keys; reports why the test is skipped where it cannot.
    fn start() -> Option<Self> {
        let home = Home::new();
        for key in ["host-key", "user-key"] {
            let args = ["-q", "-t", "ed25519", "-N", "", "-f", &home.path(key)];
            let made = home.command("ssh-keygen", &args).limited_status();
            if !made.is_ok_and(|status| status.success()) || !fs::exists(SSHD).unwrap_or(false) {
                skipped("fleet over sshd: ssh or sshd is not installed");
                return None;
            }
        }
        // The privilege separation directory of sshd; its service creates it on first start.
        let _ = fs::create_dir("/run/sshd");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        configure(&home, port);
        let mut command = home.command(SSHD, &["-D", "-e", "-f", &home.path("sshd_config")]);
        let sshd = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sshd");
        let mut server = Self { home, sshd };
        let mut has_ended = false;
        while !has_ended && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            has_ended = server.sshd.try_wait().expect("a child").is_some();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // The account may be locked, or the system may forbid such an sshd.
        let login = server.home.command(&server.home.path("ssh"), &["h", "true"]).limited_output();
        let login = CommandOutput::of(login.expect("ssh"));
        if login.code != Some(0) {
            skipped(format!("fleet over sshd: {}", login.err.trim()));
            return None;
        }
        Some(server)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.numaio(&[&["fleet"], args].concat());
        command.env("NUMAIO_SSH", self.home.0.join("ssh"));
        command
    }
}

/// Writes the configuration of server and client. The server's shell prints a message first.
fn configure(home: &Home, port: u16) {
    let at = home.0.display();
    let session = "#!/bin/sh\necho Welcome\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n";
    home.script("session", session);
    home.script("ssh", &format!("#!/bin/sh\nexec ssh -F {at}/ssh_config \"$@\"\n"));
    fs::copy(home.0.join("user-key.pub"), home.0.join("authorized")).expect("a key");
    home.file(
        "sshd_config",
        &format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host-key\nAuthorizedKeysFile {at}/authorized\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nLogLevel ERROR\n\
             ForceCommand {at}/session\n"
        ),
    );
    let host_key = fs::read_to_string(home.0.join("host-key.pub")).expect("a key");
    home.file("known", &format!("[127.0.0.1]:{port} {host_key}"));
    home.file(
        "ssh_config",
        &format!(
            "Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {at}/user-key\n  IdentitiesOnly yes\n  \
             BatchMode yes\n  UserKnownHostsFile {at}/known\n  GlobalKnownHostsFile /dev/null\n  \
             StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        ),
    );
}

#[test]
fn reports_return_through_a_real_ssh() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    let (hosts, runs) = (home.file("hosts", "a\nb\n"), home.path("runs"));
    let args = ["run", "--on", "ssh", "--hosts", &hosts, "--shared", &runs, "--remote-numaio", NUMAIO];
    let args = [&args[..], &["--machine", "amd-2p", "--", "model", "--all"]].concat();
    let output = CommandOutput::of(server.command(&args).limited_output().expect("numaio")).ok();
    assert!(output.contains("2 hosts: 2 measured"), "{output}");
    let run = only_run(&home.0.join("runs"));
    for host in ["a", "b"] {
        let report = read_report(&run, host);
        assert_eq!((report.host.as_str(), report.documents.len()), (host, 1));
    }
}

#[test]
fn killed_launcher_ends_the_measurement_on_the_host() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    let (hosts, pid) = (home.file("hosts", "a\n"), home.path("pid"));
    let text = format!("#!/bin/sh\necho $$ >'{pid}.new'\nmv '{pid}.new' '{pid}'\nexec '{NUMAIO}' \"$@\"\n");
    let numaio = home.script("numaio", &text);
    let args = ["run", "--on", "ssh", "--hosts", &hosts, "--remote-numaio", &numaio];
    let args = [&args[..], &["--", "stream", "--time-limit", "600", "--precision", "0.0001%"]].concat();
    let mut command = server.command(&args);
    let mut launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("numaio");
    until(|| fs::exists(&pid).unwrap_or(false), || "numaio does not start on the host");
    kill("-KILL", launcher.id());
    launcher.limited_status().expect("a status");
    let pid = fs::read_to_string(&pid).expect("a number").trim().to_owned();
    let runs = || Command::new("kill").args(["-0", &pid]).stderr(Stdio::null()).limited_status();
    until(|| !runs().expect("kill").success(), || format!("process {pid} continues"));
}
