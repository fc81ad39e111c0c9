//! A server on its own thread, and workloads for it.

use numaio_linux::io::tcp::{serve_session, ConnectionError, ControlStreams, Peer};
use numaio_linux::Kernel;
use numaio_machine::ids::NodeId;
use numaio_machine::probe::IoOutcome;
use numaio_machine::set::CpuSet;
use numaio_machine::workload::{Direction, IoPath, IoWorkload, Sampling, StreamGroup, TcpPath};
use numaio_mover_linux::port::net::Secret;
use numaio_transfer::bench_connections::{connect, PendingSession, RunListener};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time limit for steps that take milliseconds.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A server of one session on its own thread, stopped when dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub token: Secret,
    pub stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Result<(), ConnectionError>>>>,
}

impl TestServer {
    pub fn start() -> Self {
        let pending = PendingSession::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let (address, token) = (pending.address(), pending.token().parse().expect("a token"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let serve = move || {
            let kernel = Kernel::new().expect("a kernel");
            let stop = || stopping.load(Ordering::Relaxed);
            let client = pending.accept(&stop).expect("a connection")?;
            let control = ControlStreams::over(client).expect("a control channel");
            Some(serve_session(control, &RunListener(address), &kernel, &stop))
        };
        Self { address, token, stop, thread: Some(thread::spawn(serve)) }
    }

    pub fn connect(&self) -> Peer {
        connect("127.0.0.1", self.address.port(), &self.token).expect("a session")
    }

    /// Returns the name of the session.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Opens a connection without authentication.
    pub fn raw(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).expect("a connection");
        socket.set_read_timeout(Some(LIMIT)).expect("a limit");
        socket
    }

    /// Waits for the end of the session and returns its error.
    pub fn finish(mut self) -> Result<(), ConnectionError> {
        self.thread.take().expect("a thread").join().expect("no panic").expect("a session")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Returns CPUs and a memory node that this process may use.
pub fn placement() -> (CpuSet, NodeId) {
    let topology = numaio_machine::discover::discover(&Kernel::new().expect("a kernel"));
    let node = topology.memory_nodes().first().expect("a node with memory");
    let cpus = topology.nodes.iter().map(|node| topology.usable_cpus(node.id));
    (cpus.fold(CpuSet::new(), |all, cpus| all.union(&cpus)), node)
}

pub fn workload(peer: &str, groups: &[(u32, Direction)]) -> IoWorkload {
    let (cpus, memory) = placement();
    let group = |(streams, direction): &(u32, Direction)| StreamGroup {
        cpus: cpus.clone(),
        memory,
        streams: *streams,
        direction: *direction,
        device: 0,
    };
    IoWorkload {
        path: IoPath::Tcp(TcpPath {
            peer: peer.to_owned(),
            peer_placement: None,
            congestion: None,
            rail: None,
        }),
        others: Vec::new(),
        groups: groups.iter().map(group).collect(),
        block_bytes: 64 << 10,
        depth: 1,
        sampling: Sampling::Window { milliseconds: 100, slices: 5 },
        max_bytes: None,
    }
}

pub fn kernel_with_peer(server: &TestServer) -> Kernel {
    let kernel = Kernel::new().expect("a kernel");
    kernel.add_peer(server.connect());
    kernel
}

pub fn moved(outcome: &IoOutcome, group: usize) -> u64 {
    outcome.groups[group].samples.iter().map(|sample| sample.bytes).sum()
}
