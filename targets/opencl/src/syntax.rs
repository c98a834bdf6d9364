//! OpenCL C as the printer of loop kernels sees it.

use trainc_c::syntax::{Pointer, Syntax};

/// OpenCL C 1.2. A buffer comes as memory of the device and an offset in bytes: OpenCL 1.2 has no other way to pass a part
/// of a buffer that may begin anywhere.
pub(crate) struct OpenClC;

/// Words of OpenCL C that C does not have, and what the helpers define.
const RESERVED: &[&str] = &[
    "bool",
    "char",
    "uchar",
    "ushort",
    "uint",
    "ulong",
    "half",
    "quad",
    "complex",
    "imaginary",
    "kernel",
    "global",
    "local",
    "constant",
    "private",
    "generic",
    "pipe",
    "uniform",
    "read_only",
    "write_only",
    "read_write",
    "event_t",
    "sampler_t",
    "size_t",
    "ptrdiff_t",
    "intptr_t",
    "uintptr_t",
    "image1d_t",
    "image2d_t",
    "image3d_t",
    "vec_step",
    "get_global_id",
    "clz",
    "as_int",
    "as_uint",
    "as_float",
    "rint",
    "floor",
    "ceil",
    "sqrt",
    "popcount",
];

/// Parameters of a pointer.
fn parameters(name: &str, written: bool) -> String {
    let constant = if written { "" } else { "const " };
    format!("__global {constant}uchar *{name}_memory, uint {name}_offset")
}

impl Syntax for OpenClC {
    fn reserved(&self) -> &'static [&'static str] {
        RESERVED
    }

    fn head(&self, name: &str, pointers: &[Pointer]) -> String {
        let own = pointers.iter().filter(|p| p.scratch.is_none());
        let mut all: Vec<String> = own.map(|p| parameters(&p.name, p.written)).collect();
        if pointers.iter().any(|p| p.scratch.is_some()) {
            all.push(parameters("scratch", true));
        }
        format!("__kernel void {name}({})", all.join(", "))
    }

    fn start(&self, pointers: &[Pointer]) -> Vec<String> {
        let line = |p: &Pointer| {
            let constant = if p.written { "" } else { "const " };
            let (element, name) = (p.element, &p.name);
            let base = if p.scratch.is_some() { "scratch" } else { name };
            let more = match p.scratch {
                None | Some(0) => String::new(),
                Some(offset) => format!(" + {offset}"),
            };
            format!(
                "__global {constant}{element} *const {name} = \
                 (__global {constant}{element} *)({base}_memory + {base}_offset{more});"
            )
        };
        pointers.iter().map(line).collect()
    }

    fn quotient(&self, a: &str, b: &str) -> String {
        format!("trainc_divide({a}, {b})")
    }

    fn item(&self, depth: usize, rounds: &[i32]) -> String {
        let inner = rounds.len() - 1 - depth;
        if inner < 2 || rounds.len() <= 3 {
            return format!("(int32_t)get_global_id({inner})");
        }
        // The outer loops share the last dimension.
        let shared = &rounds[..rounds.len() - 2];
        let below: i64 = shared[depth + 1..].iter().map(|&n| i64::from(n)).product();
        let divided = if below > 1 { format!(" / {below}") } else { String::new() };
        let modulo = if depth > 0 { format!(" % {}", shared[depth]) } else { String::new() };
        format!("(int32_t)(get_global_id(2){divided}{modulo})")
    }
}

/// Work items in the three dimensions of a range.
pub(crate) fn items(rounds: &[i32]) -> [i64; 3] {
    let mut items = [1i64; 3];
    for (inner, &n) in rounds.iter().rev().enumerate() {
        items[inner.min(2)] *= i64::from(n);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_loop_is_the_first_dimension() {
        let all = |rounds: &[i32]| -> Vec<String> {
            (0..rounds.len()).map(|depth| OpenClC.item(depth, rounds)).collect()
        };
        let id = |n: usize| format!("(int32_t)get_global_id({n})");
        assert_eq!(all(&[5]), [id(0)]);
        assert_eq!(all(&[5, 6, 7]), [id(2), id(1), id(0)]);
        assert_eq!(items(&[5, 6, 7]), [7, 6, 5]);
        let shared = |text: &str| format!("(int32_t)(get_global_id(2){text})");
        let expected = [shared(" / 12"), shared(" / 4 % 3"), shared(" % 4"), id(1), id(0)];
        assert_eq!(all(&[2, 3, 4, 6, 7]), expected);
        assert_eq!(items(&[2, 3, 4, 6, 7]), [7, 6, 24]);
    }
}
