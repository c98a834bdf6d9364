//! Times of launches: what generated code calls after each, where a program was compiled to be timed.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use trainc_ir::harness::launch_count;
use trainc_ir::program::Program;

/// What a call took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LaunchTimes {
    /// All of it.
    pub call: Duration,
    /// Each launch by its number, as hooks count them; zero for those that did not run.
    pub launches: Vec<Duration>,
}

/// A stopwatch whose address generated code holds.
pub(crate) struct LaunchTimer(Mutex<Running>);

struct Running {
    began: Instant,
    last: Instant,
    times: LaunchTimes,
}

impl LaunchTimer {
    /// For entries of up to as many launches as a program's longest.
    pub(crate) fn new(program: &Program) -> LaunchTimer {
        let most = program.entries.iter().map(|entry| launch_count(&entry.steps)).max();
        let launches = vec![Duration::ZERO; most.unwrap_or(0)];
        let now = Instant::now();
        let times = LaunchTimes { call: Duration::ZERO, launches };
        LaunchTimer(Mutex::new(Running { began: now, last: now, times }))
    }

    fn with<T>(&self, what: impl FnOnce(&mut Running) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// A call begins.
    pub(crate) fn begin(&self) {
        self.with(|running| {
            running.times.launches.fill(Duration::ZERO);
            running.began = Instant::now();
            running.last = running.began;
        });
    }

    /// A launch has ended.
    fn lap(&self, launch: usize) {
        let now = Instant::now();
        self.with(|running| {
            let took = now - running.last;
            if let Some(time) = running.times.launches.get_mut(launch) {
                *time += took;
            }
            running.last = now;
        });
    }

    /// The call has ended.
    pub(crate) fn end(&self) {
        self.with(|running| running.times.call = running.began.elapsed());
    }

    /// What the last call took.
    pub(crate) fn times(&self) -> LaunchTimes {
        self.with(|running| running.times.clone())
    }
}

/// A launch has ended; generated code calls this.
///
/// # Safety
/// `timer` is the address of a live [`LaunchTimer`].
#[allow(unsafe_code, reason = "an address in generated code")]
pub(crate) unsafe extern "C" fn launched(timer: *const LaunchTimer, launch: u64) {
    // SAFETY: the caller's promise.
    unsafe { &*timer }.lap(launch as usize);
}
