//! Formats placements as options of `docker run` (docs.docker.com, "Resource constraints"); Podman
//! accepts the same.

use super::comment;
use super::memory::{PolicySupport, ToolPolicy, NUMACTL_IN_CONTAINER};
use numaio_schema::PlacementPlan;

/// A container has a cpuset, which binds memory; other policies are up to the program.
const DOCKER: PolicySupport = PolicySupport {
    name: "docker",
    binds: true,
    prefers: false,
    interleaves: false,
    remedy: NUMACTL_IN_CONTAINER,
};

/// Formats one line for each task: `docker run OPTIONS`; append an image.
pub fn docker(plan: &PlacementPlan) -> String {
    let (policies, notes) = DOCKER.translate_all(plan);
    let mut text = comment::hashed(&comment::lines(plan, notes));
    for (task, policies) in plan.tasks.iter().zip(policies) {
        text += &format!("docker run --cpuset-cpus={}", task.cpus);
        if let ToolPolicy::Bind(nodes) = policies {
            text += &format!(" --cpuset-mems={nodes}");
        }
        text.push('\n');
    }
    text
}
