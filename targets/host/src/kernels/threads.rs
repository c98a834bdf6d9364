//! A pool of threads that shares the parts of a product.
//!
//! Every output is computed by one thread in the same order whatever the number of threads, so
//! that results do not depend on it.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::parts::{MOST_PARTS, Parts};

/// Multiplications below which a product is not worth sharing with a thread that looks for work: they take several times as long as telling it.
const WORTH: usize = 1 << 20;

/// Multiplications below which it is not worth waking one that sleeps.
const WORTH_WAKING: usize = 4 << 20;

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

thread_local! {
    /// Whether this thread runs one of several tasks, so that there is no other thread to share it with.
    static IS_SHARE: Cell<bool> = const { Cell::new(false) };
}

/// Into how many parts to split a product of so many multiplications that has `units` separable
/// pieces.
pub(crate) fn parts(multiplications: usize, units: usize) -> usize {
    if multiplications < WORTH || multiplications < WORTH_WAKING && !are_looking() {
        return 1;
    }
    if IS_SHARE.get() {
        return 1;
    }
    threads().min(units).clamp(1, MOST_PARTS)
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

/// Most tasks of a call that threads share; those of a call of more run one after the other.
const MOST_TASKS: usize = u16::MAX as usize;

/// What tasks a call has left, in one word that threads compare and exchange: whoever takes a task knows that it is of the call whose
/// task it then reads.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ticket {
    /// Number of the call.
    call: u32,
    /// Its tasks.
    count: u16,
    /// The next one to be taken.
    next: u16,
}

impl Ticket {
    const fn of(word: u64) -> Self {
        Self { call: (word >> 32) as u32, count: (word >> 16) as u16, next: word as u16 }
    }

    const fn word(self) -> u64 {
        (self.call as u64) << 32 | (self.count as u64) << 16 | self.next as u64
    }
}

/// What all threads look at, on lines of its own, so that who writes something else does not take it along.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

/// What a call tells the workers.
#[derive(Default)]
struct Call {
    /// A [`Ticket`].
    ticket: AtomicU64,
    task: Task,
}

#[derive(Default)]
struct Pool {
    /// The call in progress.
    call: Apart<Call>,
    /// Its tasks that have ended.
    ended: Apart<AtomicUsize>,
    /// Workers.
    workers: AtomicUsize,
    /// Those that sleep, or are about to.
    asleep: AtomicUsize,
    /// Whether the caller sleeps, or is about to.
    caller_asleep: AtomicBool,
    /// Held around going to sleep and waking alone.
    sleep: Mutex<()>,
    /// Work has come.
    work: Condvar,
    /// The last task has ended.
    done: Condvar,
    /// Whether a task of the call in progress panicked, and what the first one threw.
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    /// Held by the one call that uses the pool.
    turn: Mutex<()>,
}

/// The task of a call.
struct Task(UnsafeCell<*const (dyn Fn(usize) + Sync)>);

// SAFETY: written by the caller alone while no task is left to be taken or has yet to end, read by those who have taken one. The pointee
// is `Sync`, and `run` keeps it alive until all have ended.
unsafe impl Sync for Task {}
// SAFETY: likewise.
unsafe impl Send for Task {}

impl Default for Task {
    fn default() -> Self {
        const NONE: &(dyn Fn(usize) + Sync) = &|_| ();
        Self(UnsafeCell::new(&raw const *NONE))
    }
}

/// How long a thread looks for what comes next before it sleeps: passes follow each other at once, and waking takes as long as a short one.
const PATIENCE: Duration = Duration::from_micros(50);

/// Looks between two of which the clock is asked.
const LOOKS: usize = 64;

/// Waits for `is_over`, a while only.
fn look_for(is_over: impl Fn() -> bool) {
    let mut start = None;
    loop {
        for _ in 0..LOOKS {
            if is_over() {
                return;
            }
            std::hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Takes and runs tasks until none is left, and gives the number of the call that has none.
    fn drain(&self) -> u32 {
        let mut word = self.call.0.ticket.load(Ordering::Acquire);
        loop {
            let ticket = Ticket::of(word);
            if ticket.next == ticket.count {
                return ticket.call;
            }
            let rest = Ticket { next: ticket.next + 1, ..ticket };
            let taken = self.call.0.ticket.compare_exchange(
                word,
                rest.word(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => self.perform(ticket.next.into(), ticket.count.into()),
                Err(now) => {
                    word = now;
                    continue;
                }
            }
            word = self.call.0.ticket.load(Ordering::Acquire);
        }
    }

    /// Runs a task that this thread has taken.
    fn perform(&self, index: usize, count: usize) {
        // SAFETY: this task has been taken and not ended, so that `run` has not returned, and nobody writes.
        let task = unsafe { &**self.call.0.task.0.get() };
        let outer = IS_SHARE.replace(true);
        let result = catch_unwind(AssertUnwindSafe(|| task(index)));
        IS_SHARE.set(outer);
        if let Err(panic) = result {
            // Of several panics the first is the caller's; another is forgotten, for what drops it may panic again.
            let mut first = lock(&self.panic);
            match *first {
                None => *first = Some(panic),
                Some(_) => std::mem::forget(panic),
            }
            drop(first);
            self.panicked.store(true, Ordering::Relaxed);
        }
        // Whichever of this and of the caller's word that it sleeps comes first, the other sees it.
        let ended = self.ended.0.fetch_add(1, Ordering::SeqCst) + 1;
        if ended == count && self.caller_asleep.load(Ordering::SeqCst) {
            let _asleep = lock(&self.sleep);
            self.done.notify_all();
        }
    }

    fn work(&self) {
        loop {
            let call = self.drain();
            let is_called = |order| Ticket::of(self.call.0.ticket.load(order)).call != call;
            look_for(|| is_called(Ordering::Relaxed));
            if is_called(Ordering::Relaxed) {
                continue;
            }
            let mut asleep = lock(&self.sleep);
            self.asleep.fetch_add(1, Ordering::SeqCst);
            while !is_called(Ordering::SeqCst) {
                asleep = self.work.wait(asleep).unwrap_or_else(PoisonError::into_inner);
            }
            self.asleep.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits until so many tasks have ended.
    fn wait(&self, count: usize) {
        let is_over = |order| self.ended.0.load(order) == count;
        look_for(|| is_over(Ordering::Acquire));
        if is_over(Ordering::Acquire) {
            return;
        }
        let mut asleep = lock(&self.sleep);
        self.caller_asleep.store(true, Ordering::SeqCst);
        while !is_over(Ordering::SeqCst) {
            asleep = self.done.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_asleep.store(false, Ordering::SeqCst);
    }
}

static POOL: OnceLock<Pool> = OnceLock::new();

/// Whether there are workers, none of which sleeps.
fn are_looking() -> bool {
    POOL.get().is_some_and(|pool| {
        pool.workers.load(Ordering::Relaxed) > 0 && pool.asleep.load(Ordering::Relaxed) == 0
    })
}

/// Calls `task(0)`, .., `task(count - 1)`, on several threads where `count` is over 1, and returns
/// when all have returned. A panic of a task is passed on.
pub(crate) fn run(count: usize, task: &(dyn Fn(usize) + Sync)) {
    if count <= 1 || count > MOST_TASKS {
        (0..count).for_each(task);
        return;
    }
    let pool = POOL.get_or_init(Pool::default);
    let Ok(turn) = pool.turn.try_lock() else {
        // Another thread is computing; so does this one, alone.
        (0..count).for_each(task);
        return;
    };
    while pool.workers.load(Ordering::Relaxed) + 1 < count {
        let workers = pool.workers.load(Ordering::Relaxed);
        let name = format!("trainc-kernels-{workers}");
        if std::thread::Builder::new().name(name).spawn(|| POOL.wait().work()).is_err() {
            break;
        }
        pool.workers.store(workers + 1, Ordering::Relaxed);
    }
    // SAFETY: only the lifetime changes. The pointer is used for tasks that have been taken, and
    // this function returns after all `count` tasks have ended.
    let task = unsafe {
        std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(
            &raw const *task,
        )
    };
    // SAFETY: this thread alone calls, and all tasks of the last call have ended.
    unsafe { *pool.call.0.task.0.get() = task };
    pool.ended.0.store(0, Ordering::Relaxed);
    let last = Ticket::of(pool.call.0.ticket.load(Ordering::Relaxed));
    // The first task is this thread's, so that what follows finds it where this has left it.
    let ticket = Ticket { call: last.call.wrapping_add(1), count: count as u16, next: 1 };
    pool.call.0.ticket.store(ticket.word(), Ordering::SeqCst);
    if pool.asleep.load(Ordering::SeqCst) > 0 {
        let _asleep = lock(&pool.sleep);
        pool.work.notify_all();
    }
    pool.perform(0, count);
    pool.drain();
    pool.wait(count);
    if pool.panicked.swap(false, Ordering::Relaxed) {
        let panic = lock(&pool.panic).take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
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
