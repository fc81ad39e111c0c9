//! Parser of `/proc/PID/stat` and `/proc/PID/task/TID/stat`
//! (Documentation/filesystems/proc.rst, table 1-4).

use crate::ids::CpuId;

/// The used fields of a `stat` file of a process or thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Name, which can contain blanks and parentheses.
    pub name: String,
    /// State as one letter: `R` running, `S` sleeping, `Z` ended but not reaped.
    pub state: char,
    /// Parent process id.
    pub parent: u32,
    /// User and system time in clock ticks.
    pub ticks: u64,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// CPU on which it runs or last ran.
    pub cpu: CpuId,
    /// Flags of the kernel (`PF_*` of `include/linux/sched.h`).
    pub flags: u64,
    /// Scheduling policy (sched(7)): 0 for ordinary threads.
    pub policy: u64,
}

/// Flag of threads of the kernel (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Policies with a real-time priority or deadline: `SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`.
const REAL_TIME: [u64; 3] = [1, 2, 6];

impl Stat {
    /// Returns whether it belongs to the kernel.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    /// Returns whether it ended, also if it was not reaped yet.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Returns whether it is scheduled by a real-time priority or a deadline.
    pub fn is_real_time(&self) -> bool {
        REAL_TIME.contains(&self.policy)
    }
}

/// Parses a `stat` file; `None` if the format is unknown.
pub fn parse_stat(text: &str) -> Option<Stat> {
    // The name extends from the first to the last parenthesis, because it can contain parentheses.
    let (_, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first of these is field 3, the state.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(4)?).ok()?,
        ticks: number(14)?.saturating_add(number(15)?),
        start_time: number(22)?,
        cpu: CpuId(u32::try_from(number(39)?).ok()?),
        flags: number(9).unwrap_or(0),
        policy: number(41).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "4242 (a) (b c)) S 17 4242 4242 0 -1 4194560 1300 0 0 0 250 50 0 0 20 0 3 0 9000 1 2 \
                        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 11 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn parses_fields_after_any_name() {
        let stat = parse_stat(LINE).expect("a stat file");
        let (name, cpu) = ("a) (b c)".to_owned(), CpuId(11));
        let wanted = Stat {
            name,
            state: 'S',
            parent: 17,
            ticks: 300,
            start_time: 9000,
            cpu,
            flags: 4_194_560,
            policy: 0,
        };
        assert_eq!(stat, wanted);
        assert!(!stat.is_kernel_thread() && !stat.is_real_time());
        let kernel =
            "3 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                      0 17 0 50 1 0 0 0";
        let kernel = parse_stat(kernel).expect("a stat file");
        assert!(kernel.is_kernel_thread() && kernel.is_real_time());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parse_never_panics(text in ".*", cut in 0..LINE.len()) {
            let _ = parse_stat(&text);
            let _ = parse_stat(&LINE[..cut]);
            let _ = parse_stat(&format!("1 ({text}) {text}"));
        }
    }
}
