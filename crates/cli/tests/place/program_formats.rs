//! Tests of the formats of `numaio place`: their text, and whether the programs accept it.

use crate::support::{device, expect, CommandOutput, Home, Limited};
use numaio_schema::{PlacementPlan, TaskPlacement};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Eight tasks over the best class, and one program over all of it.
const EIGHT: &[&str] = &["--spread", "--tasks", "8"];
const WIDE: &[&str] = &["--spread"];

/// Returns a placement on the machine of Li et al.
fn place(home: &Home, form: &str, more: &[&str]) -> String {
    let near = ["place", "--machine", "amd-dl585-g7", "--near", "nvme0n1", "--direction", "read"];
    home.run(&[&near, more, &["--format", form]].concat()).ok()
}

/// Returns a placement on this machine in a format, with the tasks of the same plan.
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

/// Reports a test that cannot run.
fn skip<T>(test: &str, why: &str) -> Option<T> {
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    None
}

/// Returns the first of these programs that is installed.
fn installed(test: &str, programs: &[&'static str]) -> Option<&'static str> {
    let found = programs.iter().find(|program| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file())
    });
    found.copied().or_else(|| skip(test, &format!("not installed: {}", programs.join(", "))))
}

fn run(command: &mut Command) -> CommandOutput {
    CommandOutput::of(command.limited_output().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Runs a line in a shell.
fn shell(home: &Home, line: &str) -> CommandOutput {
    run(&mut home.command("sh", &["-c", line]))
}

/// Returns the lines that are not comments.
fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn formats_match_the_expected_files() {
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
fn numactl_applies_the_options() {
    let test = "numactl_applies_the_options";
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

/// Returns systemd's complaints about a service with drop-ins.
fn verify_units(home: &Home, drop_ins: &[(String, String)]) -> String {
    let units = home.0.join("units");
    fs::create_dir_all(&units).expect("a folder");
    let service = "[Service]\nExecStart=/bin/true\nCPUAffinity=0\nNUMAPolicy=bind\nNUMAMask=0\n";
    let mut complaints = String::new();
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
        // Complaints about a drop-in name its file.
        complaints.extend(shown.err.lines().filter(|line| line.contains("numaio.conf")));
        complaints += if shown.code == Some(0) { "" } else { "failed\n" };
    }
    complaints
}

/// Returns the name of the file and the text of each section.
fn drop_ins(text: &str) -> Vec<(String, String)> {
    let sections = text.split("\n\n").skip(1).map(|section| {
        let name = section.lines().next().and_then(|line| line.split("/etc/systemd/system/").nth(1));
        (name.expect("the name of a file").to_owned(), section.to_owned() + "\n")
    });
    sections.collect()
}

#[test]
fn systemd_accepts_the_drop_ins() {
    let home = Home::new();
    if installed("systemd_accepts_the_drop_ins", &["systemd-analyze"]).is_none() {
        return;
    }
    for (more, number) in [(EIGHT, 8), (WIDE, 1), (&["--tasks", "2", "--strict"], 2)] {
        let found = drop_ins(&place(&home, "systemd", more));
        assert_eq!(found.len(), number);
        assert_eq!(verify_units(&home, &found), "", "{found:?}");
    }
    // Invalid drop-ins are detected.
    let (name, drop_in) = drop_ins(&place(&home, "systemd", WIDE)).remove(0);
    for (from, to) in
        [("=local", "=nearby"), ("CPUAffinity=4", "CPUAffinity=x4"), ("NUMAMask=", "NUMAMasks=")]
    {
        let wrong = drop_in.replace(from, to);
        assert_ne!(verify_units(&home, &[(name.clone(), wrong)]), "", "{from}");
    }
}

/// Parses a script and its srun line by sbatch and srun, which then report a missing cluster.
fn slurm_accepts(home: &Home, script: &str) -> Result<(), String> {
    let name = home.file("script", script);
    let configuration =
        "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\nMessageTimeout=1\nTaskPlugin=task/affinity\n\
                         NodeName=localhost CPUs=2\nPartitionName=all Nodes=localhost Default=YES\n";
    let configuration = home.file("slurm.conf", configuration);
    let srun = lines(script).into_iter().find_map(|line| line.strip_prefix("exec srun ")).unwrap_or_default();
    let srun = format!("set true; srun --test-only {srun}");
    for line in [format!("sbatch --test-only {name} true"), srun] {
        let output = run(home.command("sh", &["-c", &line]).env("SLURM_CONF", &configuration));
        let no_cluster = |line: &str| line.contains("Unable to contact slurm controller");
        if output.err.is_empty() || !output.err.lines().all(no_cluster) {
            return Err(format!("{line}: {}{}", output.out, output.err));
        }
    }
    Ok(())
}

#[test]
fn slurm_accepts_the_script() {
    let test = "slurm_accepts_the_script";
    let home = Home::new();
    if installed(test, &["sbatch"]).and(installed(test, &["srun"])).is_none() {
        return;
    }
    for more in [EIGHT, WIDE, &["--tasks", "2", "--cores", "2", "--strict"], &["--tasks", "3", "--strict"]] {
        assert_eq!(slurm_accepts(&home, &place(&home, "slurm", more)), Ok(()), "{more:?}");
    }
    let script = place(&home, "slurm", EIGHT);
    for (from, to) in [("map_cpu", "mop_cpu"), ("prefer,", "prefers,"), ("--exclusive", "--excluding")] {
        assert!(slurm_accepts(&home, &script.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn docker_accepts_the_options() {
    let home = Home::new();
    let Some(docker) = installed("docker_accepts_the_options", &["docker"]) else { return };
    // Without a daemon, docker parses the options and runs nothing.
    let errors = |line: &str| {
        let line = format!("{line} no-image");
        run(home.command("sh", &["-c", &line]).env("DOCKER_HOST", "unix:///nonexistent")).err
    };
    if !errors(&format!("{docker} run")).contains("daemon") {
        return skip("docker_accepts_the_options", "this docker does not connect to a daemon")
            .unwrap_or_default();
    }
    for more in [EIGHT, WIDE, &["--tasks", "2", "--strict"]] {
        for line in lines(&place(&home, "docker", more)) {
            assert!(errors(line).contains("daemon"), "{line}: {}", errors(line));
        }
    }
    assert!(errors("docker run --cpuset-nodes=7").contains("unknown flag"));
}

#[test]
fn kubernetes_accepts_the_pod() {
    let home = Home::new();
    let Some(kubectl) = installed("kubernetes_accepts_the_pod", &["kubectl"]) else { return };
    for (more, cpus) in [(EIGHT, &["1"; 8][..]), (WIDE, &["8"])] {
        let file = home.file("pod.yaml", &place(&home, "kubernetes", more));
        let set = ["set", "image", "--local", "-f", &file, "*=busybox", "-o", "json"];
        let pod: serde_json::Value =
            serde_json::from_str(&run(&mut home.command(kubectl, &set)).ok()).expect("JSON");
        let containers = pod["spec"]["containers"].as_array().expect("containers");
        let found = containers.iter().map(|container| {
            // Exclusive CPUs require that requests equal limits.
            assert_eq!(container["resources"]["requests"], container["resources"]["limits"]);
            container["resources"]["limits"]["cpu"].as_str().expect("a number of CPUs")
        });
        assert_eq!(found.collect::<Vec<_>>(), cpus);
    }
}

/// Validates a domain with these elements by libvirt's schema.
fn domain(home: &Home, elements: &str) -> CommandOutput {
    let xml = format!(
        "<domain type='kvm'><name>a</name><memory unit='GiB'>4</memory><os><type>hvm</type></os>{elements}</domain>"
    );
    let file = home.file("domain.xml", &xml);
    run(&mut home.command("virt-xml-validate", &[&file, "domain"]))
}

#[test]
fn libvirt_accepts_the_elements() {
    let test = "libvirt_accepts_the_elements";
    let home = Home::new();
    if installed(test, &["virt-xml-validate"]).and(installed(test, &["xmllint"])).is_none() {
        return;
    }
    if domain(&home, "").code != Some(0) {
        return skip(test, "the schema of domains is not installed").unwrap_or_default();
    }
    for (more, number) in [(EIGHT, 8), (WIDE, 1), (&["--spread", "--strict"], 1)] {
        let text = place(&home, "libvirt", more);
        let domains: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(domains.len(), number + 1);
        for elements in domains {
            let output = domain(&home, elements);
            assert_eq!(output.code, Some(0), "{elements}{}{}", output.out, output.err);
        }
    }
    let wide = place(&home, "libvirt", WIDE);
    for (from, to) in [("preferred", "wanted"), ("vcpupin", "cpupin"), ("cellid='1'", "cell='1'")] {
        assert_ne!(domain(&home, &wide.replace(from, to)).code, Some(0), "{to}");
    }
}

#[test]
fn openmp_uses_the_places() {
    let test = "openmp_uses_the_places";
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
        .is_ok_and(|compiler| compiler.status.success())
    {
        return skip(test, "no C compiler with OpenMP").unwrap_or_default();
    }
    let places: String = tasks[0].cpus.iter().map(|cpu| format!("{cpu} ")).collect();
    let close = 3; // omp_proc_bind_close
    let output = shell(&home, &format!("{} {program}", lines(&text)[0]));
    assert_eq!(output.ok(), format!("{places}{} {close}", tasks[0].cpus.len()));
}

/// Runs the command in a comment of the rankfile, and returns the sorted CPUs of the ranks.
fn ranks(home: &Home, text: &str, of: &str, starter: &str) -> Vec<String> {
    let file = home.file("rankfile", text);
    let command = text.lines().find_map(|line| line.strip_prefix(&format!("# {of}: "))).expect("a command");
    let (_, options) = command.split_once(' ').expect("options");
    let options = options.replace("FILE", &file);
    let line =
        format!("{starter} {}", options.replace("COMMAND", "grep Cpus_allowed_list /proc/self/status"));
    let mut command = home.command("timeout", &["60", "sh", "-c", &line]);
    // Open MPI refuses to run as root, which is safe in a container.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = run(&mut command).ok();
    let mut found: Vec<String> = output
        .lines()
        .filter_map(|line| line.strip_prefix("Cpus_allowed_list:\t").map(str::to_owned))
        .collect();
    found.sort();
    found
}

#[test]
fn mpi_binds_ranks_to_the_cpus() {
    let home = Home::new();
    let implementations = [("Open MPI", "mpirun.openmpi"), ("MPICH", "mpiexec.hydra")];
    for (of, program) in implementations {
        let Some(starter) = installed("mpi_binds_ranks_to_the_cpus", &[program]) else { continue };
        for more in [&["--tasks", "2"][..], &[]] {
            let Some((text, tasks)) = place_here(&home, "mpi_binds_ranks_to_the_cpus", "mpi", more) else {
                return;
            };
            let mut expected: Vec<String> = tasks.iter().map(|task| task.cpus.to_string()).collect();
            expected.sort();
            assert_eq!(ranks(&home, &text, of, starter), expected, "{of}: {text}");
        }
    }
}

#[test]
fn fio_accepts_the_jobs() {
    let test = "fio_accepts_the_jobs";
    let home = Home::new();
    let Some(fio) = installed(test, &["fio"]) else { return };
    let parse = |text: &str| run(&mut home.command(fio, &["--parse-only", &home.file("job.fio", text)]));
    for more in [EIGHT, WIDE, &["--tasks", "2", "--strict"]] {
        let output = parse(&place(&home, "fio", more));
        assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{}", output.out);
    }
    let wrong = place(&home, "fio", WIDE).replace("cpus_allowed=", "cpus_wanted=");
    assert_ne!(parse(&wrong).code, Some(0));
    // fio checks values only when jobs run.
    for more in [&["--tasks", "2"][..], &["--tasks", "2", "--strict"], &[]] {
        let Some((text, tasks)) = place_here(&home, test, "fio", more) else { return };
        let file = home.file("here.fio", &text);
        let output =
            run(&mut home.command(fio, &["--ioengine=null", "--size=1M", "--output-format=json", &file]))
                .ok();
        let found: serde_json::Value = serde_json::from_str(&output).expect("JSON");
        let jobs = found["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), tasks.len());
        for (job, task) in jobs.iter().zip(&tasks) {
            assert_eq!(job["error"], 0);
            assert_eq!(job["job options"]["cpus_allowed"], task.cpus.to_string());
        }
    }
}
