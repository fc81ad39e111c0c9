//! Places in the words of other programs: what a user sees, and whether the program takes it.

use crate::support::{device, expect, CommandOutput, Home, Limited};
use numaio_schema::{PlacementPlan, TaskPlacement};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// The paper's machine: eight tasks over the best class, and one program over all of it.
const EIGHT: &[&str] = &["--spread", "--tasks", "8"];
const WIDE: &[&str] = &["--spread"];

/// Places on the paper's machine.
fn place(home: &Home, form: &str, more: &[&str]) -> String {
    let near = ["place", "--machine", "amd-dl585-g7", "--near", "nvme0n1", "--direction", "read"];
    home.run(&[&near, more, &["--format", form]].concat()).ok()
}

/// Places on this machine, for programs that are really run: the text, and the tasks of the same plan.
fn place_here(home: &Home, test: &str, form: &str, more: &[&str]) -> Option<(String, Vec<TaskPlacement>)> {
    let device = device(home);
    if device.is_empty() {
        return skip(test, "this machine has no device that moves data");
    }
    let near = |form: &str| home.run(&[&["place", "--near", &device, "--format", form], more].concat());
    let plan = near("json");
    if plan.err.contains("cores are needed") {
        return skip(test, plan.err.trim());
    }
    let plan = PlacementPlan::from_json(&plan.ok()).expect("a plan");
    Some((near(form).ok(), plan.tasks))
}

/// Counts a test that cannot run.
fn skip<T>(test: &str, why: &str) -> Option<T> {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    None
}

/// The first of these programs that is installed.
fn installed(test: &str, programs: &[&'static str]) -> Option<&'static str> {
    let found = programs.iter().find(|program| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file())
    });
    found.copied().or_else(|| skip(test, &format!("no {} is installed", programs.join(" and no "))))
}

fn run(command: &mut Command) -> CommandOutput {
    CommandOutput::of(command.limited_output().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Runs a line as a shell would.
fn shell(home: &Home, line: &str) -> CommandOutput {
    run(&mut home.command("sh", &["-c", line]))
}

/// What is no comment.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn every_form_is_as_expected() {
    let home = Home::new();
    for form in
        ["numactl", "systemd", "slurm", "docker", "kubernetes", "libvirt", "openmp", "mpi", "fio", "text"]
    {
        let (eight, wide) = (place(&home, form, EIGHT), place(&home, form, WIDE));
        expect(&format!("place-{form}.txt"), &format!("{eight}\n{wide}"));
    }
    home.run(&["place", "--near", "x", "--format", "lsf"]).failed(2, &["lsf", "kubernetes"]);
}

#[test]
fn numactl_puts_programs_there() {
    let test = "numactl_puts_programs_there";
    let home = Home::new();
    let Some(numactl) = installed(test, &["numactl"]) else { return };
    if !run(&mut home.command(numactl, &["--hardware"])).out.contains("node 0") {
        return skip(test, "this kernel has no NUMA").unwrap_or_default();
    }
    for more in [&["--tasks", "2"][..], &["--tasks", "2", "--strict"], &[]] {
        let Some((text, tasks)) = place_here(&home, test, "numactl", more) else { return };
        for (line, task) in text.lines().zip(&tasks) {
            let shown = shell(&home, &format!("{line} numactl --show")).ok();
            let policy = if more.contains(&"--strict") { "bind" } else { "preferred" };
            assert!(shown.contains(&format!("policy: {policy}")), "{line}: {shown}");
            let cpus = task.cpus.iter().fold("physcpubind:".to_owned(), |list, cpu| format!("{list} {cpu}"));
            assert!(shown.lines().any(|line| line.trim_end() == cpus), "{cpus}: {shown}");
        }
        assert_eq!(text.lines().count(), tasks.len());
    }
}

/// What systemd has to say of a service with drop-ins; nothing if all is well.
fn verified(home: &Home, drop_ins: &[(String, String)]) -> String {
    let units = home.0.join("units");
    fs::create_dir_all(&units).expect("a folder");
    let service = "[Service]\nExecStart=/bin/true\nCPUAffinity=0\nNUMAPolicy=bind\nNUMAMask=0\n";
    let mut said = String::new();
    for (path, drop_in) in drop_ins {
        let path = units.join(path);
        let folder = path.parent().expect("a folder");
        fs::create_dir_all(folder).expect("a folder");
        fs::write(&path, drop_in).expect("a drop-in");
        let unit = folder.with_extension("");
        let template = unit.to_string_lossy().split_once('@').map(|(name, _)| format!("{name}@.service"));
        fs::write(template.as_deref().map_or(unit.as_path(), Path::new), service).expect("a unit");
        let mut verify = home.command("systemd-analyze", &["verify", "--man=no"]);
        let here = format!("{}:", units.display());
        let shown = run(verify.arg(&unit).env("SYSTEMD_UNIT_PATH", here).env("SYSTEMD_LOG_LEVEL", "info"));
        // Complaints name the file.
        said.extend(shown.err.lines().filter(|line| line.contains("numaio.conf")));
        said += if shown.code == Some(0) { "" } else { "failed\n" };
    }
    said
}

/// Each section with the name of its file, without the folder.
fn drop_ins(text: &str) -> Vec<(String, String)> {
    let sections = text.split("\n\n").skip(1).map(|section| {
        let name = section.lines().next().and_then(|line| line.split("/etc/systemd/system/").nth(1));
        (name.expect("the name of a file").to_owned(), section.to_owned() + "\n")
    });
    sections.collect()
}

#[test]
fn systemd_takes_the_drop_ins() {
    let home = Home::new();
    if installed("systemd_takes_the_drop_ins", &["systemd-analyze"]).is_none() {
        return;
    }
    for (more, number) in [(EIGHT, 8), (WIDE, 1), (&["--tasks", "2", "--strict"], 2)] {
        let found = drop_ins(&place(&home, "systemd", more));
        assert_eq!(found.len(), number);
        assert_eq!(verified(&home, &found), "", "{found:?}");
    }
    // It does read them.
    let (name, drop_in) = drop_ins(&place(&home, "systemd", WIDE)).remove(0);
    for (from, to) in
        [("=local", "=nearby"), ("CPUAffinity=4", "CPUAffinity=x4"), ("NUMAMask=", "NUMAMasks=")]
    {
        let wrong = drop_in.replace(from, to);
        assert_ne!(verified(&home, &[(name.clone(), wrong)]), "", "{from}");
    }
}

/// Parses a script and its srun as sbatch and srun do, which then find no cluster.
fn slurm_takes(home: &Home, script: &str) -> Result<(), String> {
    let name = home.file("script", script);
    let configuration =
        "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\nMessageTimeout=1\nTaskPlugin=task/affinity\n\
                         NodeName=localhost CPUs=2\nPartitionName=all Nodes=localhost Default=YES\n";
    let configuration = home.file("slurm.conf", configuration);
    let srun = lines(script).into_iter().find_map(|line| line.strip_prefix("exec srun ")).unwrap_or_default();
    let srun = format!("set true; srun --test-only {srun}");
    for line in [format!("sbatch --test-only {name} true"), srun] {
        let said = run(home.command("sh", &["-c", &line]).env("SLURM_CONF", &configuration));
        let no_cluster = |line: &str| line.contains("Unable to contact slurm controller");
        if said.err.is_empty() || !said.err.lines().all(no_cluster) {
            return Err(format!("{line}: {}{}", said.out, said.err));
        }
    }
    Ok(())
}

#[test]
fn slurm_takes_the_script() {
    let test = "slurm_takes_the_script";
    let home = Home::new();
    if installed(test, &["sbatch"]).and(installed(test, &["srun"])).is_none() {
        return;
    }
    for more in [EIGHT, WIDE, &["--tasks", "2", "--cores", "2", "--strict"], &["--tasks", "3", "--strict"]] {
        assert_eq!(slurm_takes(&home, &place(&home, "slurm", more)), Ok(()), "{more:?}");
    }
    let script = place(&home, "slurm", EIGHT);
    for (from, to) in [("map_cpu", "mop_cpu"), ("prefer,", "prefers,"), ("--exclusive", "--excluding")] {
        assert!(slurm_takes(&home, &script.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn docker_takes_the_options() {
    let home = Home::new();
    let Some(docker) = installed("docker_takes_the_options", &["docker"]) else { return };
    // No daemon, so that options are read and nothing runs.
    let told = |line: &str| {
        let line = format!("{line} no-image");
        run(home.command("sh", &["-c", &line]).env("DOCKER_HOST", "unix:///nonexistent")).err
    };
    if !told(&format!("{docker} run")).contains("daemon") {
        return skip("docker_takes_the_options", "this docker does not look for a daemon")
            .unwrap_or_default();
    }
    for more in [EIGHT, WIDE, &["--tasks", "2", "--strict"]] {
        for line in lines(&place(&home, "docker", more)) {
            assert!(told(line).contains("daemon"), "{line}: {}", told(line));
        }
    }
    assert!(told("docker run --cpuset-nodes=7").contains("unknown flag"));
}

#[test]
fn kubernetes_takes_the_pod() {
    let home = Home::new();
    let Some(kubectl) = installed("kubernetes_takes_the_pod", &["kubectl"]) else { return };
    for (more, cpus) in [(EIGHT, &["1"; 8][..]), (WIDE, &["8"])] {
        let file = home.file("pod.yaml", &place(&home, "kubernetes", more));
        let set = ["set", "image", "--local", "-f", &file, "*=busybox", "-o", "json"];
        let pod: serde_json::Value =
            serde_json::from_str(&run(&mut home.command(kubectl, &set)).ok()).expect("JSON");
        let containers = pod["spec"]["containers"].as_array().expect("containers");
        let found = containers.iter().map(|container| {
            // CPUs of its own take requests that equal limits.
            assert_eq!(container["resources"]["requests"], container["resources"]["limits"]);
            container["resources"]["limits"]["cpu"].as_str().expect("a number of CPUs")
        });
        assert_eq!(found.collect::<Vec<_>>(), cpus);
    }
}

/// What libvirt's schema has to say of a machine with these elements.
fn domain(home: &Home, elements: &str) -> CommandOutput {
    let xml = format!(
        "<domain type='kvm'><name>a</name><memory unit='GiB'>4</memory><os><type>hvm</type></os>{elements}</domain>"
    );
    let file = home.file("domain.xml", &xml);
    run(&mut home.command("virt-xml-validate", &[&file, "domain"]))
}

#[test]
fn libvirt_takes_the_elements() {
    let test = "libvirt_takes_the_elements";
    let home = Home::new();
    if installed(test, &["virt-xml-validate"]).and(installed(test, &["xmllint"])).is_none() {
        return;
    }
    if domain(&home, "").code != Some(0) {
        return skip(test, "no schema of domains is installed").unwrap_or_default();
    }
    for (more, number) in [(EIGHT, 8), (WIDE, 1), (&["--spread", "--strict"], 1)] {
        let text = place(&home, "libvirt", more);
        let domains: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(domains.len(), number + 1);
        for elements in domains {
            let said = domain(&home, elements);
            assert_eq!(said.code, Some(0), "{elements}{}{}", said.out, said.err);
        }
    }
    let wide = place(&home, "libvirt", WIDE);
    for (from, to) in [("preferred", "wanted"), ("vcpupin", "cpupin"), ("cellid='1'", "cell='1'")] {
        assert_ne!(domain(&home, &wide.replace(from, to)).code, Some(0), "{to}");
    }
}

#[test]
fn openmp_has_these_places() {
    let test = "openmp_has_these_places";
    let home = Home::new();
    let Some((text, tasks)) = place_here(&home, test, "openmp", &[]) else { return };
    let source = home.file(
        "places.c",
        "#include <omp.h>\n#include <stdio.h>\nint main(void) {\n  for (int i = 0; i < omp_get_num_places(); i++) {\n    \
         int ids[omp_get_place_num_procs(i)];\n    omp_get_place_proc_ids(i, ids);\n    printf(\"%d \", ids[0]);\n  }\n  \
         printf(\"%d %d\", omp_get_max_threads(), omp_get_proc_bind());\n}\n",
    );
    let program = home.path("places");
    if !home
        .command("cc", &["-fopenmp", "-o", &program, &source])
        .limited_output()
        .is_ok_and(|made| made.status.success())
    {
        return skip(test, "no C compiler with OpenMP").unwrap_or_default();
    }
    let places: String = tasks[0].cpus.iter().map(|cpu| format!("{cpu} ")).collect();
    let close = 3; // omp_proc_bind_close
    let said = shell(&home, &format!("{} {program}", lines(&text)[0]));
    assert_eq!(said.ok(), format!("{places}{} {close}", tasks[0].cpus.len()));
}

/// Runs what a comment of the rankfile says, and gives the CPUs of each rank, sorted.
fn ranks(home: &Home, text: &str, of: &str, starter: &str) -> Vec<String> {
    let file = home.file("rankfile", text);
    let command = text.lines().find_map(|line| line.strip_prefix(&format!("# {of}: "))).expect("a command");
    let (_, options) = command.split_once(' ').expect("options");
    let options = options.replace("FILE", &file);
    let line =
        format!("{starter} {}", options.replace("COMMAND", "grep Cpus_allowed_list /proc/self/status"));
    let mut command = home.command("timeout", &["60", "sh", "-c", &line]);
    // Its own safeguard, which a test in a container has no need of.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let said = run(&mut command).ok();
    let mut found: Vec<String> = said
        .lines()
        .filter_map(|line| line.strip_prefix("Cpus_allowed_list:\t").map(str::to_owned))
        .collect();
    found.sort();
    found
}

#[test]
fn mpi_binds_the_ranks() {
    let home = Home::new();
    let flavours = [("Open MPI", "mpirun.openmpi"), ("MPICH", "mpiexec.hydra")];
    for (of, program) in flavours {
        let Some(starter) = installed("mpi_binds_the_ranks", &[program]) else { continue };
        for more in [&["--tasks", "2"][..], &[]] {
            let Some((text, tasks)) = place_here(&home, "mpi_binds_the_ranks", "mpi", more) else { return };
            let mut wanted: Vec<String> = tasks.iter().map(|task| task.cpus.to_string()).collect();
            wanted.sort();
            assert_eq!(ranks(&home, &text, of, starter), wanted, "{of}: {text}");
        }
    }
}

#[test]
fn fio_takes_the_jobs() {
    let test = "fio_takes_the_jobs";
    let home = Home::new();
    let Some(fio) = installed(test, &["fio"]) else { return };
    let parse = |text: &str| run(&mut home.command(fio, &["--parse-only", &home.file("job.fio", text)]));
    for more in [EIGHT, WIDE, &["--tasks", "2", "--strict"]] {
        let said = parse(&place(&home, "fio", more));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{}", said.out);
    }
    let wrong = place(&home, "fio", WIDE).replace("cpus_allowed=", "cpus_wanted=");
    assert_ne!(parse(&wrong).code, Some(0));
    // Values are only read when jobs run.
    for more in [&["--tasks", "2"][..], &["--tasks", "2", "--strict"], &[]] {
        let Some((text, tasks)) = place_here(&home, test, "fio", more) else { return };
        let file = home.file("here.fio", &text);
        let said =
            run(&mut home.command(fio, &["--ioengine=null", "--size=1M", "--output-format=json", &file]))
                .ok();
        let found: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let jobs = found["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), tasks.len());
        for (job, task) in jobs.iter().zip(&tasks) {
            assert_eq!(job["error"], 0);
            assert_eq!(job["job options"]["cpus_allowed"], task.cpus.to_string());
        }
    }
}
