//! Places as options of `docker run` (docs.docker.com, "Resource constraints"); Podman takes the same.

use super::comment;
use super::memory::{Said, Speaker, NUMACTL};
use numaio_schema::PlacementPlan;

/// Containers have a cpuset, which binds; a policy is the program's own affair.
const DOCKER: Speaker =
    Speaker { name: "docker", binds: true, prefers: false, interleaves: false, remedy: NUMACTL };

/// One line for each task: `docker run OPTIONS`, to be followed by an image.
pub fn docker(plan: &PlacementPlan) -> String {
    let (said, notes) = DOCKER.say_all(plan);
    let mut lines = comment::lines(plan, notes);
    if said.iter().zip(&plan.tasks).any(|(said, task)| *said != Said::Bind(task.memory.nodes.clone())) {
        lines.push("numactl in a container needs docker run --cap-add=SYS_NICE".to_owned());
    }
    let mut text = comment::hashed(&lines);
    for (task, said) in plan.tasks.iter().zip(said) {
        text += &format!("docker run --cpuset-cpus={}", task.cpus);
        if let Said::Bind(nodes) = said {
            text += &format!(" --cpuset-mems={nodes}");
        }
        text.push('\n');
    }
    text
}
