//! Facts about paths, hosts and processes from the kernel and the name resolver.

mod route;
pub mod rtnetlink;

use crate::ethtool;
use numaio_machine::locate::{
    DeviceNumber, Locate, LocateAnswer, LocateError, LocateQuery, OpenFile, OpenedFacts, PathFacts, PathKind,
};
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, CWD};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

/// Maximum number of open files reported per process.
const MAX_OPEN_FILES: usize = 1 << 16;

/// Answers of the running kernel and of the name resolver of this machine.
pub struct LiveLocate;

impl Locate for LiveLocate {
    fn locate(&self, question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
        locate(question)
    }
}

/// Answers a question about this machine.
pub fn locate(question: &LocateQuery) -> Result<LocateAnswer, LocateError> {
    let failed = |error: io::Error| error_of(question, &error);
    match question {
        LocateQuery::Path { path } => path_facts(path).map(LocateAnswer::Path).map_err(failed),
        LocateQuery::Addresses { host } => addresses(host).map(LocateAnswer::Addresses).map_err(failed),
        LocateQuery::Routes { destination: to } => {
            route::routes(*to).map(LocateAnswer::Routes).map_err(|errno| match errno {
                Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::INVAL => {
                    LocateError::NoRoute(*to)
                }
                errno => failed(errno.into()),
            })
        }
        LocateQuery::ReceiveTable { interface } => {
            let table = ethtool::receive_table(interface).map_err(|errno| failed(errno.into()))?;
            Ok(LocateAnswer::ReceiveTable(table))
        }
        LocateQuery::Opened { pid } => opened(*pid).map(LocateAnswer::Opened).map_err(failed),
    }
}

fn error_of(question: &LocateQuery, error: &io::Error) -> LocateError {
    let what = match question {
        LocateQuery::Opened { pid } => format!("process {pid}"),
        question => question.to_string(),
    };
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => LocateError::Absent(what),
        io::ErrorKind::PermissionDenied => LocateError::Denied(what),
        _ => LocateError::Failed { query: what, reason: error.to_string() },
    }
}

fn path_facts(path: &str) -> io::Result<PathFacts> {
    let canonical = fs::canonicalize(path)?;
    facts(&canonical, canonical.to_string_lossy().into_owned())
}

/// Returns facts about a path, reported under `name`.
fn facts(path: &Path, name: String) -> io::Result<PathFacts> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    // Cached attributes suffice: an unreachable network file server must not block this.
    let state = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted)?;
    let kind = match FileType::from_raw_mode(state.stx_mode.into()) {
        FileType::RegularFile => PathKind::File,
        FileType::Directory => PathKind::Directory,
        FileType::BlockDevice => PathKind::Block,
        FileType::CharacterDevice => PathKind::Character,
        _ => PathKind::Other,
    };
    let is_device = matches!(kind, PathKind::Block | PathKind::Character);
    Ok(PathFacts {
        canonical: name,
        kind,
        dev: DeviceNumber { major: state.stx_dev_major, minor: state.stx_dev_minor },
        rdev: is_device.then_some(DeviceNumber { major: state.stx_rdev_major, minor: state.stx_rdev_minor }),
        mount: mount_of(&state),
    })
}

/// Returns the mount ID (Linux 5.8 and later).
fn mount_of(state: &Statx) -> Option<u64> {
    (state.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(state.stx_mnt_id)
}

/// Resolves a host (getaddrinfo(3), sorted by RFC 6724), without duplicates.
fn addresses(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses = Vec::new();
    for found in (host, 0).to_socket_addrs()? {
        if !addresses.contains(&found.ip()) {
            addresses.push(found.ip());
        }
    }
    if addresses.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(addresses)
}

/// Returns the open files of a process, without those closed in between. Without permission to
/// trace the process, the kernel may list its descriptors but deny their targets: that is an error.
fn opened(pid: u32) -> io::Result<OpenedFacts> {
    let folder = format!("/proc/{pid}/fd");
    let names = fs::read_dir(&folder)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).take(MAX_OPEN_FILES).collect();
    numbers.sort_unstable();
    let file = |fd: u32| {
        let link = format!("{folder}/{fd}");
        let target = match fs::read_link(&link) {
            Ok(target) => target.to_string_lossy().into_owned(),
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => return Err(why),
            Err(_) => return Ok(None),
        };
        let canonical = target.trim_end_matches(" (deleted)").to_owned();
        let facts = target.starts_with('/').then(|| facts(Path::new(&link), canonical).ok()).flatten();
        Ok(Some(OpenFile { fd, target, facts }))
    };
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let same_network = network("self").zip(network(&pid.to_string())).map(|(ours, its)| ours == its);
    let files = numbers.into_iter().filter_map(|fd| file(fd).transpose()).collect::<io::Result<_>>()?;
    Ok(OpenedFacts { files, same_network })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaio_machine::conformance;
    use numaio_machine::locate::LocateExt;
    use std::fs::File;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn implementation_passes_the_conformance_test() {
        conformance::locate(&LiveLocate);
    }

    #[test]
    fn mount_id_matches_mountinfo() {
        let Some(mount) = LiveLocate.path("/proc").expect("a folder").mount else { return };
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let line = mounts.lines().find(|line| line.starts_with(&format!("{mount} "))).expect("the mount");
        assert!(line.contains(" /proc "), "{line}");
    }

    #[test]
    fn lists_open_files_of_this_process() {
        let path = std::env::temp_dir().join(format!("numaio-open-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let opened = LiveLocate.opened(std::process::id()).expect("this process");
        let is_it = |open: &&OpenFile| open.target == path.to_string_lossy();
        let found = opened.files.iter().find(is_it).expect("the file");
        let facts = found.facts.as_ref().expect("its facts");
        assert_eq!(
            (facts.kind, facts.dev),
            (PathKind::File, LiveLocate.path("/tmp").map_or(facts.dev, |_| facts.dev))
        );
        let sockets = opened.files.iter().filter(|open| open.target.starts_with("socket:[")).count();
        assert!(sockets >= 2, "{:?}", opened.files);
        assert_eq!(opened.same_network, Some(true));
        drop((file, stream));
        drop(fs::remove_file(path));
    }

    #[test]
    fn missing_paths_and_hosts_are_errors() {
        let absent = |error| matches!(error, LocateError::Absent(_));
        assert!(absent(LiveLocate.path("/proc/version/x").expect_err("below a file")));
        assert!(absent(LiveLocate.path("").expect_err("no path")));
        assert!(LiveLocate.path("/x\0").is_err());
        assert!(LiveLocate.addresses("no such host").is_err());
        assert!(LiveLocate.addresses("").is_err());
    }
}
