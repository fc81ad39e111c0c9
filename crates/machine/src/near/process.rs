//! Resolution of a process's open files, devices and connections.

use super::host::locate_failed;
use super::walk::{Position, Resource, Walk};
use super::{file, sockets};
use crate::locate::{DeviceNumber, LocateExt, OpenFile, OpenedFacts, PathFacts, PathKind};
use crate::sockets::socket_inode;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Maximum number of open files to examine.
const MAX_FILES: usize = 1 << 16;
/// Maximum number of files and peers to follow.
const MAX_PLACES: usize = 256;

/// Location of an open file: device files by their own number, others by their file system.
type Place = (DeviceNumber, Option<DeviceNumber>, Option<u64>);

/// Open files and connections of a process, each location and peer once.
#[derive(Default)]
struct Open<'f> {
    places: BTreeMap<Place, (&'f OpenFile, &'f PathFacts, usize)>,
    peers: BTreeMap<IpAddr, usize>,
    /// Number of pipes, event queues and similar.
    others: usize,
}

/// Follows a process.
pub(super) fn follow(walk: &mut Walk, at: Position, pid: u32) {
    let subject = format!("process {pid}");
    let opened = match walk.ground.locate.opened(pid) {
        Ok(opened) => opened,
        Err(error) => return locate_failed(walk, at, &subject, &error),
    };
    let Open { places, peers, mut others } = sort(&opened, &peers_of(walk, pid, &opened));
    let mountinfo = format!("/proc/{pid}/mountinfo");
    let all = places.values().map(|(_, _, count)| count).chain(peers.values()).sum::<usize>().max(1);
    let part = |count: usize| at.part(count as f64 / all as f64);
    for (open, facts, count) in places.into_values().take(MAX_PLACES) {
        let checkpoint = walk.checkpoint();
        let value = if count > 1 { format!("and {} more on it", count - 1) } else { String::new() };
        let source = format!("/proc/{pid}/fd/{}", open.fd);
        let at = walk.step(part(count), &open.target, &source, &value);
        file::follow_facts(walk, at, &open.target, facts, &mountinfo);
        others += if walk.keep_if_reached(&checkpoint) { 0 } else { count };
    }
    let connected = !peers.is_empty();
    for (peer, count) in peers.into_iter().take(MAX_PLACES) {
        let checkpoint = walk.checkpoint();
        walk.follow(
            part(count),
            Resource::Address(peer),
            &format!("/proc/{pid}/net"),
            &format!("{count} connections"),
        );
        others += if walk.keep_if_reached(&checkpoint) { 0 } else { count };
    }
    report_rest(walk, at, &subject, others, connected && opened.same_network == Some(false));
}

fn report_rest(walk: &mut Walk, at: Position, subject: &str, others: usize, other_network: bool) {
    if walk.found_nothing() {
        let what = format!("None of its {others} open files and connections uses a device.");
        walk.dead_end(at, "near-nothing-open", subject, &what, "Name the files that it will open.");
    } else if others > 0 {
        let what = format!(
            "{others} of its open files and connections use no device: pipes, terminals, memory, itself."
        );
        walk.note(at, "near-others-open", subject, &what, "");
    }
    if other_network {
        let what =
            "It is in another network namespace; its connections were resolved with this namespace's routes.";
        walk.note(at, "near-other-namespace", subject, what, "Name its network interface on the host.");
    }
}

/// Returns inodes of connected sockets with their peers; none if it has no socket.
fn peers_of<'a>(walk: &Walk<'a>, pid: u32, opened: &OpenedFacts) -> Cow<'a, HashMap<u64, IpAddr>> {
    if !opened.files.iter().any(|file| socket_inode(&file.target).is_some()) {
        return Cow::default();
    }
    match walk.own_connections.filter(|_| opened.same_network == Some(true)) {
        Some(own) => Cow::Borrowed(own.peers(walk.root())),
        None => Cow::Owned(sockets::peers(walk.root(), &format!("/proc/{pid}/net"))),
    }
}

fn sort<'f>(opened: &'f OpenedFacts, peers: &HashMap<u64, IpAddr>) -> Open<'f> {
    let mut open = Open::default();
    for file in opened.files.iter().take(MAX_FILES) {
        let peer = socket_inode(&file.target).and_then(|inode| peers.get(&inode));
        match (peer, &file.facts) {
            (Some(peer), _) => *open.peers.entry(*peer).or_default() += 1,
            (None, Some(facts)) if file.target.starts_with('/') && facts.kind != PathKind::Other => {
                let place = match facts.rdev {
                    Some(number) => (number, Some(number), None),
                    None => (facts.dev, None, facts.mount),
                };
                open.places.entry(place).or_insert((file, facts, 0)).2 += 1;
            }
            _ => open.others += 1,
        }
    }
    open
}
