//! Transfers of programs on the daemon's host: `numaio copy` submits them over a Unix socket.
//!
//! The daemon only lends capacity. A program moves files itself, with the rights of its user, and
//! continues without the daemon if that ends.

use super::capacity_queue::CapacityQueue;
use super::config::LocalUsers;
use super::local_connections::{LocalConnection, LocalConnections};
use super::log::{LimitedLog, Log};
use super::subordinate_ids::counted_id;
use crate::capacity::messages::{CapacityReply, CapacityRequest, LocalTransfer, MAX_REQUEST_BYTES};
use crate::json_lines::{receive, send};
use numaio_broker::HostOrder;
use numaio_linux::process::{socket_peer, user, SocketPeer};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, Builder};
use std::time::Duration;

/// How long a program may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a program may be silent, which reports its progress every second. A stopped one must
/// not keep a disk.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// How long a reply may wait for a program that does not read.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after an error of accept(2), for example too many open files.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves the programs of this host in a thread, until the process exits.
///
/// # Errors
/// The socket cannot be created.
pub fn serve(
    (log, refusals): (&Log, &LimitedLog),
    local: &LocalUsers,
    queue: &Arc<CapacityQueue>,
) -> io::Result<()> {
    let path = &local.socket.value;
    let listener = bind(path)?;
    log.info(&format!("lending capacity to local programs at {}", path.display()));
    let server = Arc::new(LocalServer {
        log: log.clone(),
        refusals: refusals.clone(),
        queue: queue.clone(),
        local: local.clone(),
        connections: Arc::default(),
    });
    let run = move || loop {
        match listener.accept() {
            Ok((socket, _)) => server.receive(socket),
            Err(error) => {
                server.refusals.error(&format!("cannot accept local programs: {error}"));
                thread::sleep(ACCEPT_ERROR_PAUSE);
            }
        }
    };
    Builder::new().name("local".to_owned()).spawn(run).map(drop)
}

/// Listens at a path, in place of the socket of a daemon that was killed.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    // The kernel reports the user of each program.
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Returns whether a path is a socket at which nothing listens.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Removes the socket of a daemon that ends.
pub fn close(path: &Path) {
    // Another daemon may have replaced it, or its directory was removed.
    let _ = fs::remove_file(path);
}

struct LocalServer {
    log: Log,
    refusals: LimitedLog,
    queue: Arc<CapacityQueue>,
    local: LocalUsers,
    connections: Arc<LocalConnections>,
}

impl LocalServer {
    fn receive(self: &Arc<Self>, socket: UnixStream) {
        let Ok(peer) = socket_peer(&socket) else { return };
        // A program that is not served continues without the daemon.
        let counted = counted_id(peer.user);
        let connection = match self.connections.admit(counted, socket) {
            Ok(connection) => connection,
            Err(why) => return self.refusals.warning(&format!("local user {}: {why}", peer.user)),
        };
        let server = self.clone();
        let serve = move || {
            if let Err(error) = server.serve((peer, counted), &connection) {
                let SocketPeer { user, process } = peer;
                server.log.debug(&format!("process {process} of local user {user}: {error}"));
            }
        };
        if let Err(error) = Builder::new().name("local".to_owned()).spawn(serve) {
            self.refusals.error(&format!("cannot start a thread: {error}"));
        }
    }

    /// Serves a program until its end. Limits are those of the `counted` user id.
    fn serve(&self, (peer, counted): (SocketPeer, u32), connection: &LocalConnection) -> io::Result<()> {
        let socket = &*connection.socket;
        socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let request = receive(socket, MAX_REQUEST_BYTES, Some(REQUEST_TIMEOUT))?;
        connection.request_received();
        match request {
            None => Ok(()),
            Some(CapacityRequest::List) => {
                // Only root and the daemon's user see the transfers of others.
                let sees_all = peer.user == 0 || peer.user == user();
                let user = user_name(counted);
                let transfers = self.queue.transfers((!sees_all).then_some(&*user));
                send(socket, &CapacityReply::Transfers(transfers))
            }
            Some(CapacityRequest::Submit(transfer)) => {
                let (user, what) = (user_name(counted), format!("process {}", peer.process));
                match self.queue.enter_local(&transfer, (user, what), self.local.limits()) {
                    Ok(place) => {
                        if let Some(order) = self.order_of(&transfer) {
                            send(socket, &order)?;
                        }
                        place.exchange(socket, Some(SILENCE_LIMIT))
                    }
                    Err(why) => send(socket, &CapacityReply::Refused(why)),
                }
            }
            Some(_) => Err(io::Error::other("unexpected first message")),
        }
    }

    /// Returns the reply about the order of hosts, if the other host may have a daemon.
    fn order_of(&self, transfer: &LocalTransfer) -> Option<CapacityReply> {
        let is_first = match self.queue.order(transfer.peer.as_deref()) {
            HostOrder::Only => return None,
            order => order == HostOrder::First,
        };
        Some(CapacityReply::Order { host: self.queue.host().to_owned(), is_first })
    }
}

/// Returns the name of a local user in the queue, which cannot be that of a user with a key.
fn user_name(user: u32) -> String {
    format!("uid:{user}")
}

#[cfg(test)]
mod tests {
    use super::super::device_capacity::{DeviceCapacity, DirectionCapacity};
    use super::*;
    use crate::capacity::link::CapacityLink;
    use crate::capacity::local_broker::{self, SubmittedTransfer};
    use crate::daemon::config::{Config, Located};
    use crate::daemon::local_connections::MAX_CONNECTIONS_PER_USER;
    use numaio_schema::{CapacityState, LentCapacity, TransferDirection};
    use std::io::Write;
    use std::path::PathBuf;

    struct Served {
        directory: PathBuf,
        queue: Arc<CapacityQueue>,
    }

    impl Drop for Served {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }

    impl Served {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("numaio-local-{name}-{}", std::process::id()));
            fs::create_dir_all(&directory).expect("a directory");
            let direction = DirectionCapacity { bandwidth: Some(1_000), is_configured: true, threads: 2 };
            let device = DeviceCapacity {
                name: "sda".to_owned(),
                read: direction.clone(),
                write: direction,
                transfers: Some(2),
                file_systems: vec![7],
                ..DeviceCapacity::default()
            };
            let config = Config::parse_recoverable("").0;
            let served =
                Self { directory, queue: CapacityQueue::new(vec![device], &config.limits, String::new()) };
            served.queue.run_in_background().expect("a thread");
            let socket = Located { value: served.socket(), line: 1 };
            let local = LocalUsers { socket, transfers: 3, priority: 5 };
            let log = Log::new(Arc::new(|_: &str| {}), true);
            serve((&log, &LimitedLog::new(&log)), &local, &served.queue).expect("a socket");
            served
        }

        fn socket(&self) -> PathBuf {
            self.directory.join("broker")
        }

        fn submit(&self) -> SubmittedTransfer {
            let transfer = LocalTransfer {
                is_far_side: false,
                file_systems: vec![(7, TransferDirection::Read)],
                network: None,
                rate_limit: None,
                peer: None,
            };
            SubmittedTransfer::submit(&self.socket(), &transfer).expect("a broker")
        }

        fn borrow(&self) -> CapacityLink {
            let mut submitted = self.submit();
            let lent = next(&mut submitted);
            submitted.begin(lent).expect("a link")
        }
    }

    fn next(submitted: &mut SubmittedTransfer) -> LentCapacity {
        loop {
            let reply = submitted.next(Duration::from_secs(5)).expect("a broker");
            if let Some(CapacityReply::Lent(lent)) = reply {
                return lent;
            }
        }
    }

    fn rate(link: &CapacityLink) -> Option<u64> {
        link.current().bytes_per_second()
    }

    #[test]
    fn programs_share_a_device_and_wait_for_it() {
        let served = Served::new("share");
        let first = served.borrow();
        assert_eq!(rate(&first), Some(1_000));
        let second = served.borrow();
        while rate(&first) != Some(500) {
            thread::yield_now();
        }
        let mut waiting = served.submit();
        let place = next(&mut waiting);
        assert_eq!((place.position, &*place.reason), (Some(1), "sda serves 2 at once"));
        assert_eq!(local_broker::list(&served.socket()).expect("a list").len(), 3);
        drop(second);
        let mut lent = next(&mut waiting);
        while lent.state == CapacityState::Waiting {
            lent = next(&mut waiting);
        }
        assert_eq!(rate(&waiting.begin(lent).expect("a link")), Some(500));
    }

    #[test]
    fn hostile_programs_are_limited_and_others_are_served() {
        let served = Served::new("hostile");
        let connect = || UnixStream::connect(served.socket()).expect("a connection");
        let mut hostile: Vec<UnixStream> = Vec::new();
        for text in ["garbage\n", "{\"Progress\":1}\n", "\"List", "\n", "[[[[[[[[["] {
            let mut socket = connect();
            socket.write_all(text.as_bytes()).expect("sent");
            hostile.push(socket);
        }
        let mut long = connect();
        // The daemon closes the connection meanwhile.
        drop(long.write_all(&vec![b'x'; 10 * MAX_REQUEST_BYTES]));
        let link = served.borrow();
        assert_eq!(rate(&link), Some(1_000));
        // More connections than a user may have are closed; the first ones stay.
        hostile.extend((0..2 * MAX_CONNECTIONS_PER_USER).map(|_| connect()));
        assert!(local_broker::list(&served.socket()).is_err());
        hostile.clear();
        while local_broker::list(&served.socket()).is_err() {
            thread::yield_now();
        }
        assert_eq!(served.queue.transfers(None).len(), 1);
    }

    #[test]
    fn socket_of_a_killed_daemon_is_replaced_and_that_of_a_running_one_is_not() {
        let served = Served::new("bind");
        let error = bind(&served.socket()).expect_err("a daemon listens");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let abandoned = served.directory.join("abandoned");
        drop(UnixListener::bind(&abandoned).expect("a socket"));
        drop(bind(&abandoned).expect("replaced"));
        let file = served.directory.join("file");
        fs::write(&file, "precious").expect("written");
        assert!(bind(&file).is_err());
        assert_eq!(fs::read(&file).expect("it is there"), b"precious");
    }
}
