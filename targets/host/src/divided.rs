//! A loop kernel as sections that run one after another, those with much work on all threads: each thread takes a range of the
//! rounds of a loop whose rounds are independent. Ranges depend on the number of threads, results do not.

use trainc_ir::loops::{LoopKernel, Role, Stmt};
use trainc_loops::{Between, Interval, Intervals, Phase, collapsed, phases, ranged};

use crate::kernels::{piece, run, threads};

/// Statements that take as long as it takes to wake a thread, several times over.
pub const WORTH: i64 = 1 << 16;

/// Rounds from which on a loop is divided rather than one in it.
const MANY: i32 = 16;

/// Rounds of which a range starts at a multiple where there are plenty, so that vectors are full.
const GRAIN: usize = 64;

/// What runs as one function.
#[derive(Debug)]
pub struct Section {
    /// Its loops. If it is divided, its last buffer is two words: the first round of a range and that after its last.
    pub kernel: LoopKernel,
    /// Rounds that threads share.
    pub rounds: Option<i32>,
}

/// The sections of a kernel; itself alone where no part of it runs at least `worth` statements. All share their buffers, but
/// for ranges.
pub fn sections(kernel: &LoopKernel, worth: i64) -> Vec<Section> {
    divided(kernel, worth).unwrap_or_else(|| vec![Section { kernel: kernel.clone(), rounds: None }])
}

fn divided(kernel: &LoopKernel, worth: i64) -> Option<Vec<Section>> {
    let kernel = collapsed(kernel);
    if work(&kernel.body, &Intervals::of_any_kernel(&kernel)) < worth {
        return None;
    }
    // A kernel that is not well formed is no more divided than one without independent rounds.
    let phases = phases(&kernel, Between::Alone, &|_| true).ok()?;
    let sections: Vec<Section> = phases.into_iter().map(|phase| section(phase, worth)).collect();
    sections.iter().any(|section| section.rounds.is_some()).then_some(sections)
}

fn section(phase: Phase, worth: i64) -> Section {
    let Phase { kernel, rounds } = phase;
    let much = work(&kernel.body, &Intervals::of_any_kernel(&kernel)) >= worth;
    let first = rounds.iter().position(|&rounds| rounds >= MANY);
    let most = (0..rounds.len()).max_by_key(|&depth| rounds[depth]);
    match first.or(most).filter(|_| much) {
        Some(depth) => {
            let rounds = rounds[depth];
            Section { kernel: ranged(kernel, depth, rounds, Role::Scratch), rounds: Some(rounds) }
        }
        None => Section { kernel, rounds: None },
    }
}

/// Statements that a block runs, at most.
fn work(block: &[Stmt], intervals: &Intervals<'_>) -> i64 {
    let of = |statement: &Stmt| match statement {
        Stmt::Assign(..) | Stmt::Store(..) => 1,
        Stmt::If { then, otherwise, .. } => {
            work(then, intervals).max(work(otherwise, intervals)).saturating_add(1)
        }
        Stmt::For { start, end, body, .. } => {
            let (low, high): (Interval, Interval) = (intervals.get(start), intervals.get(end));
            let rounds = (high.1 - low.0).clamp(0, 1 << 40) as i64;
            work(body, intervals).saturating_mul(rounds)
        }
    };
    block.iter().map(of).fold(0, i64::saturating_add)
}

/// Generated code of a divided section: gets the addresses of its buffers, and of a range.
type Ranged = unsafe extern "C" fn(arguments: *const *mut u8, range: *const i32);

/// Runs a divided section on all threads; generated code calls this.
///
/// # Safety
/// `section` is generated code that suits `arguments`, which stay valid.
#[allow(unsafe_code, reason = "calling generated code")]
pub(crate) unsafe extern "C" fn divide(section: Ranged, arguments: *const *mut u8, rounds: i64) {
    /// Shared by all threads, which write different parts of what they point to.
    struct Arguments(*const *mut u8);
    // SAFETY: rounds of different ranges write different elements, and none reads what another writes.
    unsafe impl Sync for Arguments {}
    let arguments = &Arguments(arguments);
    let rounds = rounds as usize;
    let grain = if rounds >= GRAIN * GRAIN { GRAIN } else { 1 };
    let count = threads().min(rounds.div_ceil(grain)).max(1);
    run(count, &|index| {
        let rounds = piece(rounds, grain, count, index);
        let range = [rounds.start as i32, rounds.end as i32];
        // SAFETY: promised by the caller.
        unsafe { section(arguments.0, range.as_ptr()) }
    });
}
