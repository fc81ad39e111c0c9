//! `numaio copy --shard` as tasks of a real Slurm cluster, with four nodes on this host.

use crate::shards::{assert_complete, assert_equal_trees, make_tree};
use crate::support::slurm_cluster::Cluster;
use crate::support::{skipped, Home};

#[test]
fn tasks_of_slurm_copy_one_tree_and_finish_completes_it() {
    let home = Home::new();
    let cluster = match Cluster::start(4) {
        Ok(cluster) => cluster,
        Err(why) => return skipped(format!("Slurm: {why}")),
    };
    make_tree(&home);
    let tasks = ["-N", "4", "-n", "4", env!("CARGO_BIN_EXE_numaio"), "copy", "-a", "--shard", "src/", "dst"];
    let mut summaries: Vec<String> = cluster
        .run(&home, "srun", &tasks)
        .ok()
        .lines()
        .map(|line| line.split(':').next().unwrap_or_default().to_owned())
        .collect();
    summaries.sort();
    assert_eq!(summaries, ["shard 1/4", "shard 2/4", "shard 3/4", "shard 4/4"]);
    home.file("dst/extra", "");
    assert_complete(&home.run(&["copy", "-av", "--finish", "--delete", "src/", "dst"]).ok());
    assert_equal_trees(&home, "src", "dst");
}
