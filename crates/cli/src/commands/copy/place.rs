//! Where the threads and buffers of a side are: near the storage that its files are on.

use super::order::Order;
use crate::failure::Failure;
use numaio_linux::files::Roots;
use numaio_linux::port::{Crew, Pool, Setting};
use numaio_linux::{Kernel, Root};
use numaio_machine::ids::NodeId;
use numaio_machine::near::{resolve, Ground, Handle};
use numaio_machine::see::see;
use numaio_machine::set::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Buffers of a side, of a block each: 64 MiB.
const BUFFERS: usize = 64;

/// What a side of a transfer runs on.
#[derive(Debug)]
pub struct Site {
    pub roots: Roots,
    pub threads: usize,
    cpus: Option<CpuSet>,
    pool: Arc<Pool>,
}

impl Site {
    pub fn new(roots: &[PathBuf], order: &Order) -> Result<Self, Failure> {
        let paths: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
        let roots = Roots::open(&paths).map_err(|(path, error)| Failure::file(&path, error))?;
        let available = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let threads = order.threads.map_or(available, |threads| threads as usize);
        let near = order.near.then(|| paths.first()).flatten().and_then(|path| near(path));
        let (node, cpus) = near.unzip();
        let bound = node.and_then(|node| {
            let root = Root::live().ok()?;
            Pool::on(&root, None, node, BUFFERS).ok()
        });
        Ok(Self { roots, threads, cpus, pool: bound.unwrap_or_else(|| Pool::new(BUFFERS)) })
    }

    pub fn setting(self) -> Setting {
        let crew = Crew { threads: self.threads, cpus: self.cpus, pool: self.pool.clone() };
        Setting { roots: self.roots, crews: vec![crew], pool: self.pool }
    }
}

/// The node of the device that a path is on, and the CPUs there that we may use. None on a machine that has one node
/// with memory, where there is no choice.
fn near(path: &Path) -> Option<(NodeId, CpuSet)> {
    let kernel = Kernel::new().ok()?;
    let topology = see(&kernel);
    if topology.memory_nodes().len() < 2 {
        return None;
    }
    let path = fs::canonicalize(path).ok()?.into_os_string().into_string().ok()?;
    let ground = Ground { root: &kernel, locate: &kernel, topology: &topology };
    let found = resolve(ground, &Handle::Path(path));
    let most = found.nodes.iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
    let cpus = topology.usable_cpus(most.node);
    (!cpus.is_empty() && topology.memory_nodes().contains(most.node)).then_some((most.node, cpus))
}
