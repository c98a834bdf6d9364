//! Maxima over windows of two by two that do not overlap, and their gradient: each error goes to the first of its window's elements that
//! none exceeds, by masks, without a branch. Bytes go by pairs, which are lanes of 16 bits.

use super::path::{KernelPath, on_features};
use super::products::DIRECT;
use super::threads;

/// Planes, and the windows of two by two that lie side by side in each from its first row and column on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGeometry {
    /// Planes.
    pub planes: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Columns of a plane.
    pub width: usize,
    /// Rows of windows.
    pub rows: usize,
    /// Columns of windows.
    pub columns: usize,
}

/// What a pool takes, and what of it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooled {
    /// Signed bytes.
    I8,
    /// Unsigned bytes, of which errors are signed.
    U8,
    /// FP32.
    F32,
}

/// `y`, the largest of each window of bytes.
///
/// # Panics
/// When an operand does not have the size of the shape.
pub(super) fn max_pool_bytes(
    path: KernelPath,
    g: &PoolGeometry,
    signed: bool,
    x: &[u8],
    y: &mut [u8],
) {
    g.check(x.len(), y.len());
    if y.is_empty() {
        return;
    }
    threads::fill(y, g.rows * g.columns, DIRECT * x.len(), &|first, y| {
        if signed {
            on_features!(
                path,
                maxima::<Signed>(g: &PoolGeometry, x: &[u8], first: usize, y: &mut [u8])
            );
        } else {
            on_features!(
                path,
                maxima::<Unsigned>(g: &PoolGeometry, x: &[u8], first: usize, y: &mut [u8])
            );
        }
    });
}

/// `dx` of bytes `x`, from the errors `dy` of their windows.
///
/// # Panics
/// When an operand does not have the size of the shape.
pub(super) fn max_pool_gradient_bytes(
    path: KernelPath,
    g: &PoolGeometry,
    signed: bool,
    x: &[u8],
    dy: &[i8],
    dx: &mut [u8],
) {
    g.check(x.len(), dy.len());
    assert_eq!(dx.len(), x.len(), "planes");
    if dx.is_empty() {
        return;
    }
    threads::fill(dx, g.height * g.width, DIRECT * x.len(), &|first, dx| {
        if signed {
            on_features!(
                path,
                gradient_bytes::<Signed>(
                    g: &PoolGeometry,
                    x: &[u8],
                    dy: &[i8],
                    first: usize,
                    dx: &mut [u8],
                )
            );
        } else {
            on_features!(
                path,
                gradient_bytes::<Unsigned>(
                    g: &PoolGeometry,
                    x: &[u8],
                    dy: &[i8],
                    first: usize,
                    dx: &mut [u8],
                )
            );
        }
    });
}

/// `y`, the largest of each window of floats; what does not compare never wins.
///
/// # Panics
/// When an operand does not have the size of the shape.
pub(super) fn max_pool_f32(path: KernelPath, g: &PoolGeometry, x: &[f32], y: &mut [f32]) {
    g.check(x.len(), y.len());
    if y.is_empty() {
        return;
    }
    threads::fill(y, g.rows * g.columns, DIRECT * x.len(), &|first, y| {
        on_features!(path, maxima_f32(g: &PoolGeometry, x: &[f32], first: usize, y: &mut [f32]));
    });
}

/// `dx` of floats `x`, from the errors `dy` of their windows.
///
/// # Panics
/// When an operand does not have the size of the shape.
pub(super) fn max_pool_gradient_f32(
    path: KernelPath,
    g: &PoolGeometry,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    g.check(x.len(), dy.len());
    assert_eq!(dx.len(), x.len(), "planes");
    if dx.is_empty() {
        return;
    }
    threads::fill(dx, g.height * g.width, DIRECT * x.len(), &|first, dx| {
        on_features!(
            path,
            gradient_f32(g: &PoolGeometry, x: &[f32], dy: &[f32], first: usize, dx: &mut [f32])
        );
    });
}

impl PoolGeometry {
    /// Panics unless operands have so many elements.
    fn check(&self, elements: usize, windows: usize) {
        assert!(2 * self.rows <= self.height && 2 * self.columns <= self.width, "windows");
        assert_eq!(elements, self.planes * self.height * self.width, "planes");
        assert_eq!(windows, self.planes * self.rows * self.columns, "windows of planes");
    }

    /// The rows above and below of a row of windows, of the plane of that number.
    #[inline(always)]
    fn pairs<'x, T>(&self, x: &'x [T], plane: usize, row: usize) -> [&'x [[T; 2]]; 2] {
        [0, 1].map(|half| {
            let at = (plane * self.height + 2 * row + half) * self.width;
            x[at..][..2 * self.columns].as_chunks::<2>().0
        })
    }
}

/// How a byte is a number of 16 bits.
trait Bytes {
    /// Of the lower and the upper byte of a pair.
    fn both(pair: [u8; 2]) -> [i16; 2];
}

struct Signed;
struct Unsigned;

impl Bytes for Signed {
    #[inline(always)]
    fn both(pair: [u8; 2]) -> [i16; 2] {
        let pair = i16::from_le_bytes(pair);
        [pair << 8 >> 8, pair >> 8]
    }
}

impl Bytes for Unsigned {
    #[inline(always)]
    fn both(pair: [u8; 2]) -> [i16; 2] {
        let pair = u16::from_le_bytes(pair);
        [(pair & 0xff) as i16, (pair >> 8) as i16]
    }
}

#[inline(always)]
fn maxima<B: Bytes>(g: &PoolGeometry, x: &[u8], first: usize, y: &mut [u8]) {
    for (line, y) in y.chunks_exact_mut(g.columns).enumerate() {
        let [above, below] = g.pairs(x, first + line / g.rows, line % g.rows);
        for ((y, &above), &below) in y.iter_mut().zip(above).zip(below) {
            let ([a, b], [c, d]) = (B::both(above), B::both(below));
            *y = a.max(b).max(c.max(d)) as u8;
        }
    }
}

#[inline(always)]
fn maxima_f32(g: &PoolGeometry, x: &[f32], first: usize, y: &mut [f32]) {
    for (line, y) in y.chunks_exact_mut(g.columns).enumerate() {
        let [above, below] = g.pairs(x, first + line / g.rows, line % g.rows);
        for ((y, &[a, b]), &[c, d]) in y.iter_mut().zip(above).zip(below) {
            let larger = |most: f32, tap: f32| if tap > most { tap } else { most };
            *y = larger(larger(larger(larger(f32::NEG_INFINITY, a), b), c), d);
        }
    }
}

/// The planes of `dx` from number `first` on, row of windows by row of windows; `line` gets the elements above and below, the errors, and
/// the results above and below.
#[inline(always)]
fn gradient<T, D, R: Copy>(
    g: &PoolGeometry,
    x: &[T],
    dy: &[D],
    first: usize,
    none: R,
    dx: &mut [R],
    line: impl Fn([&[[T; 2]]; 2], &[D], [&mut [[R; 2]]; 2]),
) {
    for (plane, dx) in (first..).zip(dx.chunks_exact_mut(g.height * g.width)) {
        for (row, dx) in dx.chunks_mut(2 * g.width).enumerate() {
            if row >= g.rows {
                dx.fill(none);
                continue;
            }
            let (above, below) = dx.split_at_mut(g.width);
            for dx in [&mut *above, &mut *below] {
                dx[2 * g.columns..].fill(none);
            }
            let dy = &dy[(plane * g.rows + row) * g.columns..][..g.columns];
            let [above, below] =
                [above, below].map(|dx| dx[..2 * g.columns].as_chunks_mut::<2>().0);
            line(g.pairs(x, plane, row), dy, [above, below]);
        }
    }
}

#[inline(always)]
fn gradient_bytes<B: Bytes>(g: &PoolGeometry, x: &[u8], dy: &[i8], first: usize, dx: &mut [u8]) {
    gradient(g, x, dy, first, 0, dx, line_of_bytes::<B>);
}

/// By pieces of a fixed length, which need neither checks nor what is left of a vector loop: rows are short.
#[inline(always)]
fn line_of_bytes<B: Bytes>(x: [&[[u8; 2]]; 2], dy: &[i8], [above, below]: [&mut [[u8; 2]]; 2]) {
    #[inline(always)]
    fn by<B: Bytes, const N: usize>(
        at: usize,
        x: [&[[u8; 2]]; 2],
        dy: &[i8],
        above: &mut [[u8; 2]],
        below: &mut [[u8; 2]],
    ) -> usize {
        let whole = (dy.len() - at) / N * N;
        for at in (at..at + whole).step_by(N) {
            let [upper, lower] = x.map(|x| {
                let piece: [[u8; 2]; N] = x[at..][..N].try_into().expect("so many pairs");
                piece
            });
            let errors: [i8; N] = dy[at..][..N].try_into().expect("so many errors");
            let mut results = [[[0; 2]; N]; 2];
            for i in 0..N {
                let [above, below] = window::<B>(upper[i], lower[i], errors[i]);
                results[0][i] = above;
                results[1][i] = below;
            }
            above[at..][..N].copy_from_slice(&results[0]);
            below[at..][..N].copy_from_slice(&results[1]);
        }
        at + whole
    }
    if dy.len() < 4 {
        by::<B, 1>(0, x, dy, above, below);
        return;
    }
    let at = by::<B, 32>(0, x, dy, above, below);
    let at = by::<B, 16>(at, x, dy, above, below);
    let at = by::<B, 8>(at, x, dy, above, below);
    let at = by::<B, 4>(at, x, dy, above, below);
    by::<B, 1>(at, x, dy, above, below);
}

/// The errors of a window's elements.
#[inline(always)]
fn window<B: Bytes>(above: [u8; 2], below: [u8; 2], error: i8) -> [[u8; 2]; 2] {
    let ([a, b], [c, d]) = (B::both(above), B::both(below));
    let most = a.max(b).max(c.max(d));
    // Masks of those that none exceeds, and none ahead of them equals.
    let mask = |is: bool| -i16::from(is);
    let first = mask(a == most);
    let second = mask(b == most) & !first;
    let third = mask(c == most) & !(first | second);
    let fourth = !(first | second | third);
    let error = i16::from(error.max(-127)) & 0xff;
    let pair = |low: i16, high: i16| (low & error | (high & error) << 8).to_le_bytes();
    [pair(first, second), pair(third, fourth)]
}

#[inline(always)]
fn gradient_f32(g: &PoolGeometry, x: &[f32], dy: &[f32], first: usize, dx: &mut [f32]) {
    gradient(g, x, dy, first, 0.0, dx, line_of_floats);
}

#[inline(always)]
fn line_of_floats(x: [&[[f32; 2]]; 2], dy: &[f32], [above, below]: [&mut [[f32; 2]]; 2]) {
    let x = x[0].iter().zip(x[1]);
    let dx = above.iter_mut().zip(below);
    for ((&error, (&[a, b], &[c, d])), (above, below)) in dy.iter().zip(x).zip(dx) {
        let most = if a > f32::NEG_INFINITY { a } else { f32::NEG_INFINITY };
        let second = b > most;
        let most = if second { b } else { most };
        let third = c > most;
        let most = if third { c } else { most };
        let fourth = d > most;
        // It is added to 0, of which -0 becomes 0.
        let to = |winner: bool| if winner { 0.0 + error } else { 0.0 };
        *above = [to(!(second | third | fourth)), to(second & !third & !fourth)];
        *below = [to(third & !fourth), to(fourth)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each window by itself.
    fn expected(g: &PoolGeometry, x: &[f32], dy: &[f32]) -> Vec<f32> {
        let mut dx = vec![0.0; x.len()];
        for (window, &error) in dy.iter().enumerate() {
            let (plane, at) = (window / (g.rows * g.columns), window % (g.rows * g.columns));
            let first = (plane * g.height + at / g.columns * 2) * g.width + at % g.columns * 2;
            let taps = [first, first + 1, first + g.width, first + g.width + 1];
            let (mut most, mut winner) = (f32::NEG_INFINITY, first);
            for tap in taps {
                if x[tap] > most {
                    (most, winner) = (x[tap], tap);
                }
            }
            dx[winner] += error;
        }
        dx
    }

    /// The largest of each window; what does not compare never wins.
    fn maxima_of(g: &PoolGeometry, x: &[f32]) -> Vec<f32> {
        let window = |window: usize| {
            let (plane, at) = (window / (g.rows * g.columns), window % (g.rows * g.columns));
            let first = (plane * g.height + at / g.columns * 2) * g.width + at % g.columns * 2;
            let taps = [first, first + 1, first + g.width, first + g.width + 1].map(|at| x[at]);
            taps.into_iter()
                .fold(f32::NEG_INFINITY, |most, tap| if tap > most { tap } else { most })
        };
        (0..g.planes * g.rows * g.columns).map(window).collect()
    }

    #[test]
    fn errors_go_to_the_first_of_the_largest() {
        let mut state = 7u32;
        let mut below = |limit: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % limit
        };
        for (height, width) in [(2, 2), (3, 5), (4, 33), (7, 64), (6, 131), (1, 4), (5, 1)] {
            let (rows, columns) = (height / 2, width / 2);
            let g = PoolGeometry { planes: 3, height, width, rows, columns };
            let bytes: Vec<u8> = (0..3 * height * width).map(|_| 253 + below(3) as u8).collect();
            let x: Vec<u8> =
                bytes.iter().map(|&b| if below(2) == 0 { b } else { below(256) as u8 }).collect();
            let dy: Vec<i8> = (0..3 * rows * columns).map(|_| below(256) as u8 as i8).collect();
            let wide = |values: &mut dyn Iterator<Item = f32>| values.collect::<Vec<f32>>();
            let errors = wide(&mut dy.iter().map(|&e| e.max(-127).into()));
            let unsigned = wide(&mut x.iter().map(|&x| x.into()));
            let signed = wide(&mut x.iter().map(|&x| (x as i8).into()));
            let special = [f32::NAN, f32::NEG_INFINITY, -0.0, 0.0, f32::INFINITY, 1.0e-40];
            let floats: Vec<f32> = signed
                .iter()
                .map(|&x| if below(3) == 0 { special[below(6) as usize] } else { x })
                .collect();
            for path in KernelPath::ALL.into_iter().filter(|path| path.is_available()) {
                for (signed, wide_x) in [(false, &unsigned), (true, &signed)] {
                    let mut dx = vec![1; x.len()];
                    max_pool_gradient_bytes(path, &g, signed, &x, &dy, &mut dx);
                    let found = wide(&mut dx.iter().map(|&e| (e as i8).into()));
                    assert_eq!(found, expected(&g, wide_x, &errors), "{path:?} {g:?}");
                    let mut y = vec![1; dy.len()];
                    max_pool_bytes(path, &g, signed, &x, &mut y);
                    let number = |&y: &u8| if signed { f32::from(y as i8) } else { f32::from(y) };
                    assert_eq!(wide(&mut y.iter().map(number)), maxima_of(&g, wide_x));
                }
                let dy: Vec<f32> =
                    errors.iter().map(|&e| if e == 3.0 { -0.0 } else { e }).collect();
                let mut dx = vec![1.0f32; x.len()];
                max_pool_gradient_f32(path, &g, &floats, &dy, &mut dx);
                let bits =
                    |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
                assert_eq!(bits(&dx), bits(&expected(&g, &floats, &dy)), "{path:?} {g:?}");
                let mut y = vec![1.0; dy.len()];
                max_pool_f32(path, &g, &floats, &mut y);
                assert_eq!(bits(&y), bits(&maxima_of(&g, &floats)), "{path:?} {g:?}");
            }
        }
    }
}
