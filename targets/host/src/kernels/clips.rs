//! Bytes within bounds that their exponent moves: a clip, and errors where a clip's operand lay strictly inside.

use super::numbers::scaled_bound;
use super::path::{active_path, on_features};
use super::products::DIRECT;
use super::threads;

/// Elements that are read before their results are written.
const BLOCK: usize = 1024;

/// The smallest and the largest byte of a clip to real bounds, of bytes with that exponent; see the IR's `clip`.
pub(super) fn clip_bounds([low, high]: [f32; 2], exponent: i32) -> [i8; 2] {
    let (low, high) = (scaled_bound(low, exponent), scaled_bound(high, exponent));
    [ceil(low), floor(high)].map(|bound| bound.clamp(-128, 127) as i8)
}

/// The smallest and the largest byte strictly inside real bounds, in the wrong order where there is none; see the IR's `clip_gradient`.
pub(super) fn inner_bounds([low, high]: [f32; 2], exponent: i32) -> [i8; 2] {
    let (low, high) = (scaled_bound(low, exponent), scaled_bound(high, exponent));
    let (least, most) = (floor(low).saturating_add(1), ceil(high).saturating_sub(1));
    if least > most || least > 127 || most < -128 {
        return [127, -128];
    }
    [least.max(-128) as i8, most.min(127) as i8]
}

fn floor(x: f32) -> i32 {
    let whole = x as i32;
    if whole as f32 > x { whole.saturating_sub(1) } else { whole }
}

fn ceil(x: f32) -> i32 {
    let whole = x as i32;
    if (whole as f32) < x { whole.saturating_add(1) } else { whole }
}

/// `max(low, min(high, x))`.
///
/// # Safety
/// `x` and `out` are valid for `count` bytes, nothing else writes them; they are the same or apart.
pub(super) unsafe fn clip(bounds: [i8; 2], x: *const i8, out: *mut i8, count: usize) {
    let task = |x: &[i8], _: &[i8], out: &mut [i8]| {
        on_features!(active_path(), clipped(bounds: [i8; 2], x: &[i8], out: &mut [i8]));
    };
    // SAFETY: promised by the caller.
    unsafe { blocks(x, x, out, count, &task) }
}

/// `dy` where `x` lies within bounds, else 0.
///
/// # Safety
/// `x`, `dy` and `out` are valid for `count` bytes, nothing else writes them; each of the first two is `out` or apart from it.
pub(super) unsafe fn gate(
    bounds: [i8; 2],
    x: *const i8,
    dy: *const i8,
    out: *mut i8,
    count: usize,
) {
    let task = |x: &[i8], dy: &[i8], out: &mut [i8]| {
        on_features!(
            active_path(),
            gated(bounds: [i8; 2], x: &[i8], dy: &[i8], out: &mut [i8])
        );
    };
    // SAFETY: promised by the caller.
    unsafe { blocks(x, dy, out, count, &task) }
}

#[inline(always)]
fn clipped([low, high]: [i8; 2], x: &[i8], out: &mut [i8]) {
    // The upper bound counts where the lower one is above it.
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = x.max(low).min(high));
}

#[inline(always)]
fn gated([low, high]: [i8; 2], x: &[i8], dy: &[i8], out: &mut [i8]) {
    for ((out, &x), &dy) in out.iter_mut().zip(x).zip(dy) {
        *out = if (low <= x) & (x <= high) { dy } else { 0 };
    }
}

/// What is done with runs of two operands, and where its results go.
type Task<'a> = dyn Fn(&[i8], &[i8], &mut [i8]) + Sync + 'a;

/// Calls `task` with copies of operands, so that results may lie in their place.
///
/// # Safety
/// As of [`gate`].
unsafe fn blocks(a: *const i8, b: *const i8, out: *mut i8, count: usize, task: &Task<'_>) {
    /// Addresses of which each thread takes its own part.
    struct Addresses(*const i8, *const i8, *mut i8);
    // SAFETY: parts are apart from each other.
    unsafe impl Sync for Addresses {}
    let addresses = &Addresses(a, b, out);
    let blocks = count.div_ceil(BLOCK);
    let parts = threads::parts(DIRECT * count, blocks);
    threads::run(parts, &|index| {
        let Addresses(a, b, out) = *addresses;
        for block in threads::piece(blocks, 1, parts, index) {
            let at = block * BLOCK;
            let count = BLOCK.min(count - at);
            let mut copies = [[0i8; BLOCK]; 3];
            let [x, y, results] = &mut copies;
            // SAFETY: the part lies within what the caller promises; operands are read before the result in their place is written.
            unsafe {
                core::ptr::copy_nonoverlapping(a.add(at), x.as_mut_ptr(), count);
                core::ptr::copy_nonoverlapping(b.add(at), y.as_mut_ptr(), count);
                task(&x[..count], &y[..count], &mut results[..count]);
                core::ptr::copy_nonoverlapping(results.as_ptr(), out.add(at), count);
            }
        }
    });
}
