//! Integration tests of a source and a sink over simulated disks, without processes or sockets.

mod acls;
mod attributes;
mod cancelled_writes;
mod holes;
mod hostile_peers;
mod leftover_partials;
mod memory_use;
mod names;
mod rate_limit;
mod read_order;
mod requested_entries;
mod rsync_filters;
mod shards;
mod sides;
mod storage_devices;
