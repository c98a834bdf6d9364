//! A pool of threads that shares the parts of a product.
//!
//! Every output is computed by one thread in the same order whatever the number of threads, so
//! that results do not depend on it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::parts::{MOST_PARTS, Parts};

/// Multiplications below which a product is not worth waking a thread for.
const WORTH: usize = 4 << 20;

/// What [`set_threads`] asked for; 0 while it has not.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Sets how many threads the kernels use from now on, at least 1.
///
/// Without it the number is that of the environment variable `TRAINC_THREADS`, or else that of
/// the cores which the process may use. Results do not depend on it.
pub fn set_threads(threads: usize) {
    ASKED.store(threads.max(1), Ordering::Relaxed);
}

/// How many threads the kernels use.
#[must_use]
pub fn threads() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    match ASKED.load(Ordering::Relaxed) {
        0 => *DEFAULT.get_or_init(|| {
            let asked = std::env::var("TRAINC_THREADS").ok();
            let asked = asked.and_then(|value| value.parse().ok()).filter(|&count| count > 0);
            asked.unwrap_or_else(|| {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            })
        }),
        asked => asked,
    }
}

/// Into how many parts to split a product of so many multiplications that has `units` separable
/// pieces.
pub(crate) fn parts(multiplications: usize, units: usize) -> usize {
    if multiplications < WORTH { 1 } else { threads().min(units).clamp(1, MOST_PARTS) }
}

/// Piece `index` of `count` even pieces of `0..units`, cut at multiples of `grain`.
pub(crate) fn piece(
    units: usize,
    grain: usize,
    count: usize,
    index: usize,
) -> std::ops::Range<usize> {
    let grains = units.div_ceil(grain);
    let cut = |index: usize| (grains * index / count * grain).min(units);
    cut(index)..cut(index + 1)
}

/// Lets `task` fill `out` in as many pieces as there are threads, each of whole runs of `grain` elements, given the number of its
/// first run; in one piece where so many `multiplications`, or what takes as long, are not worth more.
pub(crate) fn fill<T: Send>(
    out: &mut [T],
    grain: usize,
    multiplications: usize,
    task: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let (length, grain) = (out.len(), grain.max(1));
    let runs = length.div_ceil(grain);
    let count = parts(multiplications, runs);
    if count == 1 {
        return task(0, out);
    }
    let pieces = Parts::new(out, |index| (piece(runs, 1, count, index).start * grain).min(length));
    run(count, &|index| task(piece(runs, 1, count, index).start, pieces.take(index)));
}

/// A call in progress.
#[derive(Clone, Copy)]
struct Job {
    task: *const (dyn Fn(usize) + Sync),
    count: usize,
}

// SAFETY: the pointee is `Sync`, and `run` keeps it alive until every thread is done with it.
unsafe impl Send for Job {}

#[derive(Default)]
struct State {
    job: Option<Job>,
    /// Tasks that have been taken.
    taken: usize,
    /// Tasks that have ended.
    ended: usize,
    /// What the first task that panicked threw.
    panic: Option<Box<dyn std::any::Any + Send>>,
    workers: usize,
}

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    /// Work has come.
    work: Condvar,
    /// The last task has ended.
    done: Condvar,
    /// Held by the one call that uses the pool.
    turn: Mutex<()>,
    /// Calls so far; changes under `state`'s lock alone.
    calls: AtomicUsize,
    /// [`State::ended`], to be looked at without the lock.
    ended: AtomicUsize,
}

/// How long a thread looks for what comes next before it sleeps: passes follow each other at once, and waking takes as long as a short one.
const PATIENCE: Duration = Duration::from_micros(50);

/// Waits for `is_over`, a while only.
fn look_for(is_over: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_over() && start.elapsed() < PATIENCE {
        (0..16).for_each(|_| std::hint::spin_loop());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Takes and runs tasks until none is left.
    fn drain<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while let Some(job) = state.job.filter(|job| state.taken < job.count) {
            let index = state.taken;
            state.taken += 1;
            drop(state);
            // SAFETY: this task has been taken and not ended, so that `run` has not returned.
            let task = unsafe { &*job.task };
            let outcome = catch_unwind(AssertUnwindSafe(|| task(index)));
            state = lock(&self.state);
            if let Err(panic) = outcome {
                state.panic.get_or_insert(panic);
            }
            state.ended += 1;
            self.ended.store(state.ended, Ordering::Release);
            if state.ended == job.count {
                self.done.notify_all();
            }
        }
        state
    }

    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            state = self.drain(state);
            let calls = self.calls.load(Ordering::Relaxed);
            drop(state);
            let is_called = || self.calls.load(Ordering::Acquire) != calls;
            look_for(is_called);
            state = lock(&self.state);
            if !is_called() {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Calls `task(0)`, .., `task(count - 1)`, on several threads where `count` is over 1, and returns
/// when all have returned. A panic of a task is passed on.
pub(crate) fn run(count: usize, task: &(dyn Fn(usize) + Sync)) {
    static POOL: OnceLock<Pool> = OnceLock::new();
    if count <= 1 {
        (0..count).for_each(task);
        return;
    }
    let pool = POOL.get_or_init(Pool::default);
    let Ok(_turn) = pool.turn.try_lock() else {
        // Another thread is computing; so does this one, alone.
        (0..count).for_each(task);
        return;
    };
    let mut state = lock(&pool.state);
    while state.workers + 1 < count {
        let name = format!("trainc-kernels-{}", state.workers);
        if std::thread::Builder::new().name(name).spawn(|| POOL.wait().work()).is_err() {
            break;
        }
        state.workers += 1;
    }
    // SAFETY: only the lifetime changes. The pointer is used for tasks that have been taken, and
    // this function returns after all `count` tasks have ended and the job is gone.
    let task = unsafe {
        std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(
            &raw const *task,
        )
    };
    state.job = Some(Job { task, count });
    state.taken = 0;
    state.ended = 0;
    pool.ended.store(0, Ordering::Relaxed);
    pool.calls.fetch_add(1, Ordering::Release);
    pool.work.notify_all();
    state = pool.drain(state);
    if state.ended < count {
        drop(state);
        look_for(|| pool.ended.load(Ordering::Acquire) == count);
        state = lock(&pool.state);
    }
    while state.ended < count {
        state = pool.done.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    state.job = None;
    let panic = state.panic.take();
    drop(state);
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Calls `task` with a scratch of `bytes` that belongs to this thread and is kept for later calls; `task` may ask for another.
pub(crate) fn with_scratch<T>(bytes: usize, task: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static UNUSED: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }
    let mut scratch = UNUSED.with_borrow_mut(Vec::pop).unwrap_or_default();
    if scratch.len() < bytes {
        scratch.resize(bytes, 0);
    }
    let result = task(&mut scratch[..bytes]);
    UNUSED.with_borrow_mut(|unused| unused.push(scratch));
    result
}
