//! Places as options of `docker run` (docs.docker.com, "Resource constraints"); Podman takes the same.

use super::comment;
use super::memory::{Said, Speaker, NUMACTL_IN_CONTAINER};
use numaio_schema::PlacementPlan;

/// Containers have a cpuset, which binds; a policy is the program's own affair.
const DOCKER: Speaker =
    Speaker { name: "docker", binds: true, prefers: false, interleaves: false, remedy: NUMACTL_IN_CONTAINER };

/// One line for each task: `docker run OPTIONS`, to be followed by an image.
pub fn docker(plan: &PlacementPlan) -> String {
    let (said, notes) = DOCKER.say_all(plan);
    let mut text = comment::hashed(&comment::lines(plan, notes));
    for (task, said) in plan.tasks.iter().zip(said) {
        text += &format!("docker run --cpuset-cpus={}", task.cpus);
        if let Said::Bind(nodes) = said {
            text += &format!(" --cpuset-mems={nodes}");
        }
        text.push('\n');
    }
    text
}
