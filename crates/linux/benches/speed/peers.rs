//! Programs of others, and how they are run.

use super::place::Place;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Passes that likwid-bench makes in each round; some tenths of a second.
const LIKWID_PASSES: u32 = 16;

/// A folder for compiled programs, gone with this value.
pub struct Workshop(PathBuf);

impl Workshop {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("numaio-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Compiles one of the programs beside this file for this CPU; gives its path, or why it cannot.
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

impl Drop for Workshop {
    fn drop(&mut self) {
        // A folder of /tmp that stays does no harm.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Runs a program of OpenMP's with one thread on each CPU; gives the number it prints.
pub fn openmp(program: &Path, place: &Place, arguments: &[&str]) -> Result<f64, String> {
    let cpus: Vec<String> = place.cpus.iter().map(|cpu| format!("{{{cpu}}}")).collect();
    let mut command = Command::new(program);
    command.args(arguments).env("OMP_NUM_THREADS", cpus.len().to_string());
    command.env("OMP_PLACES", cpus.join(",")).env("OMP_PROC_BIND", "true");
    number(&output_of(&mut command)?)
}

/// The number a program printed.
pub fn number(said: &str) -> Result<f64, String> {
    said.trim().parse().map_err(|_| format!("it said {:?}", said.lines().next().unwrap_or("nothing")))
}

/// Runs a test of likwid-bench on arrays of the place's size; bytes per second as it counts them: each read and
/// each write.
pub fn likwid(place: &Place, test: &str, arrays: usize) -> Result<f64, String> {
    // Size of all arrays of all threads together.
    let workgroup = format!("M{}:{}kB:{}", place.node, arrays * place.array_bytes / 1000, place.cpus.len());
    let passes = LIKWID_PASSES.to_string();
    let said = output_of(Command::new("likwid-bench").args(["-t", test, "-w", &workgroup, "-i", &passes]))?;
    let figure = said.lines().find_map(|line| line.strip_prefix("MByte/s:")?.trim().parse::<f64>().ok());
    Ok(figure.ok_or_else(|| said.lines().last().unwrap_or("it said nothing").to_owned())? * 1e6)
}

/// Variants of a test of likwid-bench that this CPU can run, by the ends of their names.
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

/// What a program says if it succeeds; else why it does not.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "not installed".to_owned(),
        _ => error.to_string(),
    })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // Some say on stdout why they do not run.
    let first = why.lines().chain(said.lines()).next();
    Err(first.map_or_else(|| output.status.to_string(), str::to_owned))
}
