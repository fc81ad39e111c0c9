//! Traffic of programs over TCP: byte counts of sockets, their programs, and their interfaces.

use numaio_linux::socket_diag::{interface_addresses, socket_inodes, tcp_sockets};
use numaio_linux::Kernel;
use numaio_machine::locate::LocateExt;
use numaio_machine::near::{resolve, Handle, ResolveContext, Resolved};
use numaio_machine::programs::ObservedProgram;
use numaio_machine::sockets::{LocalAddresses, SocketPath, SocketRate, SocketWatch, TrafficRates};
use numaio_machine::topology::Topology;
use numaio_schema::UnknownTraffic;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// Time after which addresses, interfaces, routes and holders of sockets are read again.
const REFRESH: Duration = Duration::from_secs(30);

/// Least rate of a socket whose program is searched, in bytes per second.
const SEARCHED: f64 = 10e3;

/// Rate of its sockets from which a program is active, as for storage.
const ACTIVE: f64 = 1e6;

/// Maximum number of routes to remember, for addresses that are on no interface.
const MAX_ROUTES: usize = 256;

/// Rates of a program's sockets by index of the network device.
pub type NetworkRates = BTreeMap<usize, TrafficRates>;

/// Programs that have a socket open, by its inode.
type Holders = HashMap<u64, Vec<u32>>;

/// Devices with their shares.
type Shares = Vec<(usize, f64)>;

/// Observes the TCP sockets of this network namespace.
#[derive(Default)]
pub struct NetworkObserver {
    watch: SocketWatch,
    /// Sockets that moved data in this round; the reason if they are unknown.
    sockets: Option<Result<Vec<SocketRate>, UnknownTraffic>>,
    /// Why the kernel lists no sockets, as text.
    missing: Option<String>,
    addresses: Option<(LocalAddresses, Duration)>,
    interfaces: BTreeMap<String, (Shares, Duration)>,
    routes: BTreeMap<IpAddr, (Shares, Duration)>,
    /// Inodes of sockets by process id and start time, with the time of their read.
    held: BTreeMap<(u32, u64), (BTreeSet<u64>, Duration)>,
    /// Sockets without a known program by cookie, with the time of the search.
    unowned: BTreeMap<u64, Duration>,
    /// Rates of programs in this round.
    rates: BTreeMap<u32, NetworkRates>,
}

impl NetworkObserver {
    /// Lists the sockets; `at` is the time since any fixed moment.
    pub fn list(&mut self, at: Duration) {
        let dump = tcp_sockets();
        self.missing = dump.as_ref().err().map(ToString::to_string);
        self.sockets = Some(match dump {
            Ok(dump) => self.watch.observe(&dump, at).ok_or(UnknownTraffic::FirstObservation),
            Err(_) => Err(UnknownTraffic::NoSocketList),
        });
    }

    /// Returns why the kernel lists no sockets, as text; `None` if it does, or was not asked.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Returns the programs whose sockets moved much data in the last round.
    pub fn active(&self) -> BTreeSet<u32> {
        let total = |rates: &NetworkRates| rates.values().map(|rates| rates.total()).sum::<f64>();
        self.rates.iter().filter(|(_, rates)| total(rates) >= ACTIVE).map(|(pid, _)| *pid).collect()
    }

    /// Assigns the listed sockets to programs and network devices. A socket that several programs
    /// have open counts evenly for each of them.
    pub fn assign(
        &mut self,
        kernel: &Kernel,
        topology: &Topology,
        programs: &[ObservedProgram],
        at: Duration,
    ) {
        self.rates.clear();
        let sockets = match &mut self.sockets {
            Some(Ok(sockets)) => std::mem::take(sockets),
            _ => return,
        };
        let running: BTreeSet<(u32, u64)> =
            programs.iter().map(|program| (program.sample.pid, program.sample.start_time)).collect();
        self.held.retain(|key, (_, read_at)| running.contains(key) && is_recent(*read_at, at));
        self.unowned.retain(|_, searched_at| is_recent(*searched_at, at));
        let holders = self.search(&sockets, programs, at);
        for socket in &sockets {
            let Some(pids) = holders.get(&socket.inode) else { continue };
            let devices = self.devices_of(kernel, topology, socket, at);
            for pid in pids {
                let rates = self.rates.entry(*pid).or_default();
                for (device, share) in &devices {
                    rates.entry(*device).or_default().add(socket.rates, share / pids.len() as f64);
                }
            }
        }
    }

    /// Returns the rates of a program by device.
    ///
    /// # Errors
    /// The reason why they are unknown.
    pub fn of(&self, pid: u32) -> Result<NetworkRates, UnknownTraffic> {
        match &self.sockets {
            None => Err(UnknownTraffic::FirstObservation),
            Some(Err(why)) => Err(*why),
            Some(Ok(_)) => Ok(self.rates.get(&pid).cloned().unwrap_or_default()),
        }
    }

    /// Returns the programs of each socket. Reads which sockets programs hold, if a socket that
    /// moves data has no known program. Only programs that use CPU time can move data.
    fn search(&mut self, sockets: &[SocketRate], programs: &[ObservedProgram], at: Duration) -> Holders {
        let holders = self.holders();
        let is_searched = |socket: &&SocketRate| {
            socket.rates.total() >= SEARCHED
                && !holders.contains_key(&socket.inode)
                && !self.unowned.contains_key(&socket.cookie)
        };
        let searched: Vec<&SocketRate> = sockets.iter().filter(is_searched).collect();
        if searched.is_empty() {
            return holders;
        }
        let uses_cpu = |program: &&ObservedProgram| {
            program.is_active || program.rates.as_ref().is_none_or(|rates| rates.cpus > 0.0)
        };
        for program in programs.iter().filter(uses_cpu) {
            let key = (program.sample.pid, program.sample.start_time);
            if let Ok(inodes) = socket_inodes(key.0) {
                self.held.insert(key, (inodes, at));
            }
        }
        let holders = self.holders();
        let unowned = searched.into_iter().filter(|socket| !holders.contains_key(&socket.inode));
        self.unowned.extend(unowned.map(|socket| (socket.cookie, at)));
        holders
    }

    /// Returns the known programs of each socket.
    fn holders(&self) -> Holders {
        let mut holders = Holders::new();
        for ((pid, _), (inodes, _)) in &self.held {
            for inode in inodes {
                holders.entry(*inode).or_default().push(*pid);
            }
        }
        holders
    }

    /// Returns the devices of a socket's interface; none if it is unknown or has none.
    fn devices_of(
        &mut self,
        kernel: &Kernel,
        topology: &Topology,
        socket: &SocketRate,
        at: Duration,
    ) -> Shares {
        let context = ResolveContext { root: kernel, locate: kernel, topology };
        let addresses = match &self.addresses {
            Some((addresses, read_at)) if is_recent(*read_at, at) => addresses,
            _ => {
                let found = LocalAddresses::new(kernel, interface_addresses().unwrap_or_default());
                &self.addresses.insert((found, at)).0
            }
        };
        match addresses.path_of(socket) {
            SocketPath::Interface(name) => {
                let name = name.to_owned();
                self.interface(context, &name, at)
            }
            SocketPath::Route(peer) => self.route(kernel, context, peer, at),
            SocketPath::Loopback | SocketPath::Unknown => Shares::new(),
        }
    }

    fn interface(&mut self, context: ResolveContext<'_>, name: &str, at: Duration) -> Shares {
        match self.interfaces.get(name) {
            Some((shares, read_at)) if is_recent(*read_at, at) => shares.clone(),
            _ => {
                let shares = shares_of(&resolve(context, &Handle::Name(name.to_owned())));
                self.interfaces.insert(name.to_owned(), (shares.clone(), at));
                shares
            }
        }
    }

    fn route(&mut self, kernel: &Kernel, context: ResolveContext<'_>, peer: IpAddr, at: Duration) -> Shares {
        self.routes.retain(|_, (_, read_at)| is_recent(*read_at, at));
        if let Some((shares, _)) = self.routes.get(&peer) {
            return shares.clone();
        }
        if self.routes.len() >= MAX_ROUTES {
            return Shares::new();
        }
        let routes = kernel.routes(peer).unwrap_or_default();
        let sum: f64 = routes.iter().map(|route| f64::from(route.weight)).sum();
        let mut shares = Shares::new();
        for route in &routes {
            let part = f64::from(route.weight) / sum;
            let below = self.interface(context, &route.interface, at);
            shares.extend(below.into_iter().map(|(device, share)| (device, share * part)));
        }
        self.routes.insert(peer, (shares.clone(), at));
        shares
    }
}

fn is_recent(read_at: Duration, at: Duration) -> bool {
    at.saturating_sub(read_at) < REFRESH
}

fn shares_of(found: &Resolved) -> Shares {
    found.estimated_parts().into_iter().collect()
}
