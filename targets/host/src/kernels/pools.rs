//! The gradient of maxima over windows of two by two that do not overlap: each error goes to the first of its window's elements that none
//! exceeds, by masks, without a branch.

use super::path::{KernelPath, active_path, on_features};
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

/// Element of what the pool takes.
trait Pooled: Copy + PartialOrd {
    /// Element of errors.
    type Error: Copy;
    /// What an element exceeds to be the largest so far; see the operation.
    const LEAST: Self;
    /// No error.
    const NONE: Self::Error;
    /// An error as an element has it.
    fn kept(error: Self::Error) -> Self::Error;
}

macro_rules! pooled_integers {
    ($($element:ty),*) => {
        $(impl Pooled for $element {
            type Error = i8;
            const LEAST: $element = <$element>::MIN;
            const NONE: i8 = 0;
            #[inline(always)]
            fn kept(error: i8) -> i8 {
                error.max(-127)
            }
        })*
    };
}

pooled_integers!(i8, u8);

impl Pooled for f32 {
    type Error = f32;
    const LEAST: f32 = f32::NEG_INFINITY;
    const NONE: f32 = 0.0;
    /// It is added to 0, of which -0 becomes 0.
    #[inline(always)]
    fn kept(error: f32) -> f32 {
        0.0 + error
    }
}

/// The planes of `dx` from number `first` on.
#[inline(always)]
fn gradient<T: Pooled>(
    g: &PoolGeometry,
    x: &[T],
    dy: &[T::Error],
    first: usize,
    dx: &mut [T::Error],
) {
    let plane = g.height * g.width;
    for (index, dx) in (first..).zip(dx.chunks_exact_mut(plane)) {
        let x = &x[index * plane..][..plane];
        let dy = &dy[index * g.rows * g.columns..];
        let rows = dx.chunks_mut(2 * g.width).zip(x.chunks(2 * g.width));
        for (row, (dx, x)) in rows.enumerate() {
            if row >= g.rows {
                dx.fill(T::NONE);
                continue;
            }
            let (above, below) = x.split_at(g.width);
            let (dx_above, dx_below) = dx.split_at_mut(g.width);
            for dx in [&mut *dx_above, &mut *dx_below] {
                dx[2 * g.columns..].fill(T::NONE);
            }
            let x = above.as_chunks::<2>().0.iter().zip(below.as_chunks::<2>().0);
            let dx_below = dx_below.as_chunks_mut::<2>().0;
            let dx = dx_above.as_chunks_mut::<2>().0.iter_mut().zip(dx_below);
            let dy = &dy[row * g.columns..][..g.columns];
            for ((&error, (&[a, b], &[c, d])), (above, below)) in dy.iter().zip(x).zip(dx) {
                let most = if a > T::LEAST { a } else { T::LEAST };
                let second = b > most;
                let most = if second { b } else { most };
                let third = c > most;
                let most = if third { c } else { most };
                let fourth = d > most;
                let error = T::kept(error);
                let to = |winner: bool| if winner { error } else { T::NONE };
                *above = [to(!(second | third | fourth)), to(second & !third & !fourth)];
                *below = [to(third & !fourth), to(fourth)];
            }
        }
    }
}

macro_rules! gradients {
    ($($name:ident, $on:ident, $element:ty, $error:ty);*) => {
        $(
            /// `dx` of the planes `x`, from the errors `dy` of their windows.
            ///
            /// # Panics
            /// When an operand does not have the size of the shape.
            pub fn $name(g: &PoolGeometry, x: &[$element], dy: &[$error], dx: &mut [$error]) {
                $on(active_path(), g, x, dy, dx);
            }

            #[doc = concat!("[`", stringify!($name), "`] on a given path.")]
            ///
            /// # Panics
            /// Likewise, and when the machine lacks the path.
            pub fn $on(path: KernelPath, g: &PoolGeometry, x: &[$element], dy: &[$error], dx: &mut [$error]) {
                assert!(2 * g.rows <= g.height && 2 * g.columns <= g.width, "windows");
                let plane = g.height * g.width;
                assert!(x.len() == g.planes * plane && dx.len() == x.len(), "planes");
                assert_eq!(dy.len(), g.planes * g.rows * g.columns, "errors");
                threads::fill(dx, plane, DIRECT * x.len(), &|first, dx| {
                    on_features!(
                        path,
                        gradient::<$element>(
                            g: &PoolGeometry,
                            x: &[$element],
                            dy: &[$error],
                            first: usize,
                            dx: &mut [$error],
                        )
                    );
                });
            }
        )*
    };
}

gradients!(
    max_pool_gradient_i8, max_pool_gradient_i8_on, i8, i8;
    max_pool_gradient_u8, max_pool_gradient_u8_on, u8, i8;
    max_pool_gradient_f32, max_pool_gradient_f32_on, f32, f32
);

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
                let codes: Vec<i8> = x.iter().map(|&x| x as i8).collect();
                let mut dx = vec![1; x.len()];
                max_pool_gradient_u8_on(path, &g, &x, &dy, &mut dx);
                assert_eq!(
                    wide(&mut dx.iter().map(|&e| e.into())),
                    expected(&g, &unsigned, &errors)
                );
                max_pool_gradient_i8_on(path, &g, &codes, &dy, &mut dx);
                assert_eq!(wide(&mut dx.iter().map(|&e| e.into())), expected(&g, &signed, &errors));
                let dy: Vec<f32> =
                    errors.iter().map(|&e| if e == 3.0 { -0.0 } else { e }).collect();
                let mut dx = vec![1.0f32; x.len()];
                max_pool_gradient_f32_on(path, &g, &floats, &dy, &mut dx);
                let bits =
                    |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
                assert_eq!(bits(&dx), bits(&expected(&g, &floats, &dy)), "{path:?} {g:?}");
            }
        }
    }
}
