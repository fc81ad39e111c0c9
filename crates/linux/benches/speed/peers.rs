//! External programs and their invocation.

use super::setup::BenchSetup;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Passes of likwid-bench per round; some tenths of a second.
const LIKWID_PASSES: u32 = 16;

/// A temporary directory for compiled programs, deleted when dropped.
pub struct CompileDir(PathBuf);

impl CompileDir {
    /// Creates the directory.
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("numaio-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Compiles one of the programs in `peers/` for this CPU; returns its path, or an error
    /// message.
    pub fn compile(&self, source: &str, options: &[&str]) -> Result<PathBuf, String> {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/speed/peers").join(source);
        let to = self.0.join(format!("{source}.out"));
        let compiler = if source.ends_with(".cpp") { "g++" } else { "gcc" };
        let paths = [from.to_string_lossy(), to.to_string_lossy()];
        let mut arguments = vec!["-O3", "-march=native", "-fopenmp"];
        arguments.extend(options);
        arguments.extend(["-o", &paths[1], &paths[0]]);
        output_of(Command::new(compiler).args(&arguments))?;
        Ok(to)
    }
}

impl Drop for CompileDir {
    fn drop(&mut self) {
        // A leftover directory in /tmp is harmless.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Runs an OpenMP program with one thread per CPU and returns the number it prints.
pub fn openmp(program: &Path, setup: &BenchSetup, arguments: &[&str]) -> Result<f64, String> {
    let cpus: Vec<String> = setup.cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
    let mut command = Command::new(program);
    command.args(arguments).env("OMP_NUM_THREADS", cpus.len().to_string());
    command.env("OMP_PLACES", cpus.join(",")).env("OMP_PROC_BIND", "true");
    number(&output_of(&mut command)?)
}

/// Parses the number that a program printed.
pub fn number(output: &str) -> Result<f64, String> {
    output.trim().parse().map_err(|_| format!("unexpected output {:?}", output.lines().next().unwrap_or("")))
}

/// Runs a test of likwid-bench on arrays of the setup's size; returns bytes per second as it counts
/// them: each read and each write.
pub fn likwid(setup: &BenchSetup, test: &str, arrays: usize) -> Result<f64, String> {
    // Size of all arrays of all threads together.
    let workgroup = format!("M{}:{}kB:{}", setup.node, arrays * setup.array_bytes / 1000, setup.cpus.len());
    let passes = LIKWID_PASSES.to_string();
    let output = output_of(Command::new("likwid-bench").args(["-t", test, "-w", &workgroup, "-i", &passes]))?;
    let figure = output.lines().find_map(|line| line.strip_prefix("MByte/s:")?.trim().parse::<f64>().ok());
    Ok(figure.ok_or_else(|| output.lines().last().unwrap_or("no output").to_owned())? * 1e6)
}

/// Returns the suffixes of a likwid-bench test's variants that this CPU supports.
pub fn likwid_variants() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let avx = is_x86_feature_detected!("avx").then_some(["_avx", "_mem_avx"]);
        let avx512 = is_x86_feature_detected!("avx512f").then_some(["_avx512", "_mem_avx512"]);
        std::iter::once("").chain(avx.into_iter().flatten()).chain(avx512.into_iter().flatten()).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    vec![""]
}

/// Returns the output of a program, or why it failed.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let result = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "not installed".to_owned(),
        _ => error.to_string(),
    })?;
    let output = String::from_utf8_lossy(&result.stdout).into_owned();
    if result.status.success() {
        return Ok(output);
    }
    let why = String::from_utf8_lossy(&result.stderr).trim().to_owned();
    // Some programs print the reason of a failure to stdout.
    let first = why.lines().chain(output.lines()).next();
    Err(first.map_or_else(|| result.status.to_string(), str::to_owned))
}
