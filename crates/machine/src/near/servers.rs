//! Servers of network file systems, from mount options and sources.

use super::handle::split_port;
use super::mounts::Mount;
use super::walk::{ResolveContext, Walk};
use crate::sysfs::SysfsExt;
use std::collections::BTreeSet;

/// Maximum number of servers to follow per file system.
const MAX_SERVERS: usize = 64;

/// Servers of a network file system.
pub(super) struct Servers {
    /// Names or addresses.
    pub names: Vec<String>,
    /// Whether they have the data; otherwise they only name the servers of the data.
    pub hold_data: bool,
}

/// Returns the servers of a mount, outside of a resolution.
pub(crate) fn of_mount(context: ResolveContext<'_>, mount: &Mount) -> Vec<String> {
    of(&Walk::new(context), mount).names
}

/// Returns the servers of a network file system; empty for other or unknown file systems.
pub(super) fn of(walk: &Walk, mount: &Mount) -> Servers {
    let source = mount.source.as_str();
    let option = |names: &[&str]| names.iter().find_map(|name| mount.option(name)).map(str::to_owned);
    let one = |option: Option<String>| option.or_else(|| before_path(source).map(str::to_owned));
    let (servers, hold_data): (Vec<String>, bool) = match mount.kind.as_str() {
        // nfs(5): mountinfo contains the resolved address.
        "nfs" | "nfs4" => (one(option(&["addr"])).into_iter().collect(), true),
        "cifs" | "smb3" | "smbfs" => {
            let share = source.trim_start_matches('/').split(['/', '\\']).next().map(str::to_owned);
            (option(&["addr", "ip"]).or(share).into_iter().collect(), true)
        }
        "ceph" => (ceph(mount), false),
        "lustre" => lustre(walk, source),
        "fuse.sshfs" => (one(None).into_iter().collect(), true),
        "glusterfs" | "fuse.glusterfs" => (one(None).into_iter().collect(), false),
        "9p" if mount.option("trans") == Some("tcp") => (vec![source.to_owned()], true),
        // tcp://server:3334/name
        "pvfs2" | "orangefs" => (source.split('/').nth(2).map(str::to_owned).into_iter().collect(), false),
        _ => (Vec::new(), true),
    };
    let mut names: Vec<String> = servers.iter().map(|server| without_port(server)).collect();
    names.retain(|server| !server.is_empty());
    names.truncate(MAX_SERVERS);
    Servers { names, hold_data }
}

/// Returns the host before `:/path`, without the user that sshfs puts before `@`.
fn before_path(source: &str) -> Option<&str> {
    let end = source.find(":/").or_else(|| source.rfind(':').filter(|_| !source.starts_with('/')))?;
    let server = &source[..end];
    Some(server.rsplit_once('@').map_or(server, |(_, server)| server))
}

/// Returns the monitors of Ceph (mount.ceph(8)), from the option or the source.
///
/// The kernel lists the data servers only in debugfs.
fn ceph(mount: &Mount) -> Vec<String> {
    let in_source = || before_path(&mount.source).filter(|source| !source.contains('=')).unwrap_or_default();
    let monitors = mount.option("mon_addr").unwrap_or_else(in_source);
    monitors.split(['/', ',']).filter(|monitor| !monitor.is_empty()).map(str::to_owned).collect()
}

/// Returns the servers of Lustre's data from the object storage clients (`ost_conn_uuid`, a network
/// id such as `10.0.0.5@o2ib`), or else the management servers from the source; and whether they
/// have the data.
fn lustre(walk: &Walk, source: &str) -> (Vec<String>, bool) {
    const CLIENTS: &str = "/sys/fs/lustre/osc";
    let (nids, name) = source.split_once(":/").unwrap_or((source, ""));
    let name = name.split('/').next().unwrap_or_default();
    let of_this = |client: &String| !name.is_empty() && client.starts_with(&format!("{name}-OST"));
    let clients = walk.root().names(CLIENTS).into_iter().filter(of_this);
    let nid = |client: String| walk.text(&format!("{CLIENTS}/{client}/ost_conn_uuid"));
    let data: BTreeSet<String> = clients.filter_map(nid).collect();
    let address = |nid: &str| nid.split('@').next().unwrap_or_default().to_owned();
    match data.is_empty() {
        true => (nids.split([':', ',']).map(address).collect(), false),
        false => (data.iter().map(|nid| address(nid)).collect(), true),
    }
}

fn without_port(server: &str) -> String {
    split_port(server).map_or(server, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locate::{DeviceNumber, LocateAnswers};
    use crate::near::ResolveContext;
    use crate::topology::Topology;
    use crate::tree::Tree;

    fn servers(tree: &Tree, kind: &str, source: &str, options: &str) -> Vec<String> {
        let [kind, source, options] = [kind, source, options].map(str::to_owned);
        let on = DeviceNumber { major: 0, minor: 50 };
        let mount = Mount { id: 1, on, root: "/".into(), place: "/m".into(), kind, source, options };
        let (locate, topology) = (LocateAnswers::default(), Topology::default());
        of(&Walk::new(ResolveContext { root: tree, locate: &locate, topology: &topology }), &mount).names
    }

    #[test]
    fn finds_servers_of_each_file_system() {
        for (kind, source, options, wanted) in [
            ("nfs4", "store1:/home", "rw,addr=10.0.0.9,clientaddr=10.0.0.2", &["10.0.0.9"][..]),
            ("nfs", "store1:/home", "rw", &["store1"]),
            ("nfs4", "[fd00::9]:/home", "rw", &["fd00::9"]),
            ("cifs", "//store1/share", "rw,addr=10.0.0.9", &["10.0.0.9"]),
            ("cifs", "//store1/share", "rw", &["store1"]),
            ("ceph", "10.0.0.1:6789,10.0.0.2:6789:/", "rw,name=admin", &["10.0.0.1", "10.0.0.2"]),
            ("ceph", "[fd00::1]:6789:/", "", &["fd00::1"]),
            ("ceph", "admin@1-2.fs=/", "mon_addr=10.0.0.1:3300/10.0.0.2:3300", &["10.0.0.1", "10.0.0.2"]),
            ("ceph", "admin@1-2.fs=/", "", &[]),
            (
                "lustre",
                "10.0.0.1@o2ib,10.0.0.2@tcp:10.0.0.3@o2ib:/scratch",
                "",
                &["10.0.0.1", "10.0.0.2", "10.0.0.3"],
            ),
            ("fuse.sshfs", "me@store1:/home", "", &["store1"]),
            ("fuse.sshfs", "me@store1:", "", &["store1"]),
            ("fuse.glusterfs", "store1:/vol", "", &["store1"]),
            ("9p", "10.0.0.9", "trans=tcp", &["10.0.0.9"]),
            ("9p", "share", "trans=virtio", &[]),
            ("orangefs", "tcp://store1:3334/fs", "", &["store1"]),
            ("ext4", "/dev/sda1", "", &[]),
        ] {
            assert_eq!(servers(&Tree::new(), kind, source, options), wanted, "{kind} {source} {options}");
        }
    }

    #[test]
    fn finds_data_servers_of_lustre() {
        let mut tree = Tree::new();
        for (client, nid) in [
            ("scratch-OST0000-osc-ffff", "10.0.1.5@o2ib\n"),
            ("scratch-OST0001-osc-ffff", "10.0.1.6@o2ib\n"),
            ("home-OST0000-osc-ffff", "10.0.2.1@tcp\n"),
        ] {
            tree.file(&format!("/sys/fs/lustre/osc/{client}/ost_conn_uuid"), nid);
        }
        assert_eq!(servers(&tree, "lustre", "10.0.0.1@o2ib:/scratch/sub", ""), ["10.0.1.5", "10.0.1.6"]);
    }
}
