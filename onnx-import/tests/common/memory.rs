//! How much memory tests of damaged files may take.

/// Checks that this process never took as many KiB, where the system tells.
pub(crate) fn stays_below(limit: u64) {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("peak memory");
    let peak: u64 = peak.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    assert!(peak < limit, "{peak} KiB");
}
