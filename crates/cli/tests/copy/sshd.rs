//! `numaio copy` through the system's ssh, to a private sshd on this machine.

use crate::support::{content, CommandOutput, Home, Limited};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NUMAIO: &str = env!("CARGO_BIN_EXE_numaio");
const SSHD: &str = "/usr/sbin/sshd";
/// Number of ports to try: another process may take a port before sshd binds it.
const TRIES: usize = 5;

fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// An sshd whose sessions have their own home, and the files that its client needs.
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
    /// None, after reporting why, if sshd cannot run here.
    fn start() -> Option<Self> {
        let home = Home::new();
        if !Path::new(SSHD).exists() || !has("ssh") || !has("ssh-keygen") {
            skipped("a private sshd: install openssh-server (Debian)");
            return None;
        }
        // The privilege separation directory of sshd; its service creates it on first start.
        let _ = fs::create_dir("/run/sshd");
        keys(&home);
        for _ in 0..TRIES {
            let (port, key_port) = (free_port(), free_port());
            files(&home, [port, key_port]);
            let mut command = home.command(SSHD, &["-D", "-e", "-f", &home.path("sshd_config")]);
            let mut sshd = command.stdout(Stdio::null()).stderr(log(&home)).spawn().expect("sshd");
            if listens(&mut sshd, port) {
                return Self { home, sshd }.checked();
            }
            let _ = sshd.kill();
            let _ = sshd.limited_status();
        }
        skipped(&format!("a private sshd: {}", fs::read_to_string(home.0.join("log")).unwrap_or_default()));
        None
    }

    /// Logs in once: the account may be locked, or the system may forbid such an sshd.
    fn checked(self) -> Option<Self> {
        let output =
            self.home.command(&self.home.path("ssh"), &["far", "true"]).limited_output().expect("ssh");
        if output.status.success() {
            return Some(self);
        }
        skipped(&format!("a private sshd: {}", String::from_utf8_lossy(&output.stderr).trim()));
        None
    }

    /// Authorizes the key of host `restricted` for a command of numaio only.
    fn restrict(&self, options: &str) {
        let key = |name: &str| fs::read_to_string(self.home.0.join(name)).expect("a key");
        let command = format!("{NUMAIO} copy --restrict {} {options}", self.home.path("inside"));
        let line = format!("restrict,command=\"{command}\" {}", key("restricted-key.pub"));
        fs::write(self.home.0.join("authorized"), key("user-key.pub") + &line).expect("a file");
    }

    fn copy(&self, args: &[&str]) -> CommandOutput {
        let mut command = self.home.numaio(&[&["copy"], args].concat());
        CommandOutput::of(
            command.env("NUMAIO_SSH", self.home.0.join("ssh")).limited_output().expect("numaio"),
        )
    }
}

fn has(program: &str) -> bool {
    Command::new(program).arg("-?").stdout(Stdio::null()).stderr(Stdio::null()).limited_status().is_ok()
}

fn log(home: &Home) -> fs::File {
    fs::File::options().create(true).append(true).open(home.0.join("log")).expect("a file")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Waits until sshd accepts connections; false if it exited.
fn listens(sshd: &mut Child, port: u16) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if sshd.try_wait().expect("a child").is_some() {
            return false;
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Keys of the host, of the user, and of a user with a forced command.
fn keys(home: &Home) {
    for key in ["host-key", "user-key", "restricted-key"] {
        let args = ["-q", "-t", "ed25519", "-N", "", "-f", &home.path(key)];
        assert!(home.command("ssh-keygen", &args).limited_status().expect("ssh-keygen").success());
    }
    fs::copy(home.0.join("user-key.pub"), home.0.join("authorized")).expect("a key");
}

/// Writes the configuration of client and server, the ssh wrapper and the session script.
/// Host `far` has a home with numaio on its PATH, and host `bare` one without. Sessions of host
/// `restricted` run the command in the file of authorized keys, see [`Server::restrict`].
fn files(home: &Home, [port, key_port]: [u16; 2]) {
    let at = home.0.display();
    let session = format!(
        "#!/bin/sh\nhost=${{NUMAIO_TEST_HOST:-far}}\nmkdir -p {at}/$host\ncd {at}/$host || exit 1\nexport HOME={at}/$host\n\
         [ $host = bare ] || PATH={}:$PATH\nexport NUMAIO_SSH={at}/ssh\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
        Path::new(NUMAIO).parent().expect("a folder").display()
    );
    let ssh = format!("#!/bin/sh\nexec ssh -F {at}/ssh_config \"$@\"\n");
    for (name, script) in [("session", session), ("ssh", ssh)] {
        home.script(name, &script);
    }
    home.file(
        "sshd_config",
        &format!(
            "Port {port}\nPort {key_port}\nListenAddress 127.0.0.1\nHostKey {at}/host-key\nAuthorizedKeysFile {at}/authorized\nPidFile none\n\
             UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             AcceptEnv NUMAIO_TEST_HOST\nMaxStartups 100\nLogLevel ERROR\n\
             Match LocalPort {port}\n  ForceCommand {at}/session\n"
        ),
    );
    let host_key = fs::read_to_string(home.0.join("host-key.pub")).expect("a key");
    home.file("known", &format!("[127.0.0.1]:{port} {host_key}[127.0.0.1]:{key_port} {host_key}"));
    let mut config = format!(
        "Host restricted\n  Port {key_port}\n  IdentityFile {at}/restricted-key\n  IdentitiesOnly yes\n"
    );
    for host in ["far", "near", "bare"] {
        config += &format!("Host {host}\n  SetEnv NUMAIO_TEST_HOST={host}\n");
    }
    config += &format!(
        "Host far near bare\n  Port {port}\n  IdentityFile {at}/user-key\n  IdentitiesOnly yes\n\
         Host *\n  HostName 127.0.0.1\n  BatchMode yes\n  \
         UserKnownHostsFile {at}/known\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
    );
    home.file("ssh_config", &config);
}

/// Files of several sizes, one with special characters in its name.
fn tree(folder: &Path) {
    fs::create_dir_all(folder.join("d/e")).expect("a folder");
    for (name, size) in [("a", 3), ("zero", 0), ("d/large", 5_000_000), ("d/e/it's a:b", 70_000)] {
        fs::write(folder.join(name), content(size, 1)).expect("a file");
    }
    std::os::unix::fs::symlink("a", folder.join("link")).expect("a link");
}

fn same(home: &Home, one: &str, other: &str) {
    let output =
        home.command("diff", &["-r", "--no-dereference", one, other]).limited_output().expect("diff");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn copies_both_ways_through_a_real_ssh() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    tree(&home.0.join("src"));
    let output = server.copy(&["-av", "src/", "far:there"]);
    // Data uses its own connections, to the address that `ssh -G` prints.
    assert!(!output.err.contains("data goes through ssh"), "{}", output.err);
    output.ok();
    same(home, "src", "far/there");
    server.copy(&["-a", "far:there/", "back"]).ok();
    same(home, "src", "back");
    for (options, name) in [(&["--tunnel"][..], "tunnelled"), (&["--data-security", "none"], "open")] {
        server.copy(&[options, &["-a", "src/", &format!("far:{name}")]].concat()).ok();
        same(home, "src", &format!("far/{name}"));
        server.copy(&[options, &["-a", &format!("far:{name}/"), &format!("{name}-back")]].concat()).ok();
        same(home, "src", &format!("{name}-back"));
    }
    let again = server.copy(&["-a", "src/", "far:there"]).ok();
    assert!(again.starts_with("0 moved, "), "{again}");
    // Names with characters that are special to a shell.
    server.copy(&["far:there/d/e/it's a:b", "./odd name;true"]).ok();
    assert_eq!(fs::metadata(home.0.join("odd name;true")).expect("a file").len(), 70_000);
}

#[test]
fn bootstraps_a_real_host_and_copies_between_two() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    tree(&home.0.join("src"));
    server.copy(&["-a", "src/", "bare:there"]).failed(1, &["no numaio answers on bare", "--bootstrap"]);
    server.copy(&["-a", "--bootstrap", "src/", "bare:there"]).ok();
    same(home, "src", "bare/there");
    assert_eq!(fs::read_dir(home.0.join("bare/.cache/numaio")).expect("a folder").count(), 1);
    server.copy(&["-a", "--bootstrap", "bare:there/", "back"]).ok();
    same(home, "src", "back");
    server.copy(&["-a", "src/", "far:there"]).ok();
    let output = server.copy(&["-a", "far:there/", "near:there"]).ok();
    assert!(output.contains(" moved, ") && !output.contains("failed"), "{output}");
    same(home, "src", "near/there");
}

#[test]
fn reports_ssh_failures_with_a_hint() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    tree(&home.0.join("src"));
    let key = home.0.join("known");
    let known = fs::read_to_string(&key).expect("a key");
    // The host key has changed.
    let other = fs::read_to_string(home.0.join("user-key.pub")).expect("a key");
    let host = known.split(' ').next().unwrap_or_default();
    fs::write(&key, format!("{host} {other}")).expect("a file");
    server.copy(&["-a", "src/", "far:there"]).failed(1, &["Host key verification failed", "/ssh far true"]);
    fs::write(&key, known).expect("a file");
    // No user key is authorized.
    fs::write(home.0.join("authorized"), "").expect("a file");
    server.copy(&["-a", "far:there/", "back"]).failed(1, &["Permission denied", "/ssh far true"]);
    assert!(!home.0.join("far/there").exists() && !home.0.join("back").exists());
}

#[test]
fn forced_command_confines_a_key_to_a_directory() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    tree(&home.0.join("src"));
    fs::create_dir(home.0.join("inside")).expect("a folder");
    home.file("outside", "secret");
    server.restrict("");
    for options in [&[][..], &["--tunnel"]] {
        let name = format!("to{}", options.len());
        server.copy(&[options, &["-a", "src/", &format!("restricted:{name}")]].concat()).ok();
        same(home, "src", &format!("inside/{name}"));
        // A leading slash means the directory.
        let back = format!("back{}", options.len());
        server.copy(&[options, &["-a", &format!("restricted:/{name}/"), &back]].concat()).ok();
        same(home, "src", &back);
    }
    server.copy(&["-a", "restricted:/", "all"]).ok();
    same(home, "inside", "all");
    // Neither `..` nor links leave the directory.
    std::os::unix::fs::symlink("../outside", home.0.join("inside/link")).expect("a link");
    for path in ["restricted:../outside", "restricted:link/"] {
        let output = server.copy(&["-r", path, "stolen"]);
        assert!(output.code == Some(1) || output.code == Some(3), "{path}: {}", output.err);
    }
    server.copy(&["src/a", "restricted:../outside"]).failed(1, &["restricted: "]);
    assert_eq!(fs::read(home.0.join("outside")).expect("a file"), b"secret");
    assert!(!home.0.join("stolen").is_file());
    // Any other command is rejected.
    let output = home.command(&home.path("ssh"), &["restricted", "cat", &home.path("outside")]);
    let output = CommandOutput::of({ output }.limited_output().expect("ssh"));
    assert_eq!((output.code, output.out.as_str()), (Some(1), ""));
    assert!(output.err.contains("this key only allows numaio copy, not 'cat "), "{}", output.err);
    server.copy(&["-r", "restricted:to0", "far:to"]).failed(1, &["this key only allows numaio copy, not "]);
}

#[test]
fn forced_command_allows_one_direction() {
    let Some(server) = Server::start() else { return };
    let home = &server.home;
    tree(&home.0.join("src"));
    tree(&home.0.join("inside"));
    server.restrict("--read-only");
    server.copy(&["-a", "restricted:", "back"]).ok();
    same(home, "inside", "back");
    let output = server.copy(&["-a", "src/", "restricted:new"]);
    output.failed(1, &["restricted: this key only allows numaio copy to read here"]);
    assert!(!home.0.join("inside/new").exists());
    server.restrict("--write-only");
    server.copy(&["-a", "src/", "restricted:new"]).ok();
    same(home, "src", "inside/new");
    let output = server.copy(&["-a", "restricted:a", "read"]);
    output.failed(1, &["restricted: this key only allows numaio copy to write here"]);
    assert!(!home.0.join("read").exists());
    // Without sshd there is no command to examine.
    home.run(&["copy", "--restrict", "inside"]).failed(1, &["SSH_ORIGINAL_COMMAND is not set", "hint: "]);
    home.run(&["copy", "--restrict", "inside", "a", "b"]).failed(2, &["cannot be used with"]);
    home.run(&["copy", "--read-only", "a", "b"]).failed(2, &["cannot be used with"]);
    home.run(&["copy", "--write-only"]).failed(2, &["--restrict <DIR>"]);
}
