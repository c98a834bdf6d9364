//! Largest of windows of two rows by two columns that do not overlap, and their errors, of planes narrower than two vectors: rows of all
//! planes two by two (`support/trainc_neon_pool.h`), in place of loops whose vectors their rows do not fill.

use trainc_c::text::Text;
use trainc_c::{CKernel, Emitted};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::program::Kernel;
use trainc_ir::types::{Element, Scale};

use crate::products::parts::{PARTS, Parts, own};

/// Columns of windows that a vector has.
const COLUMNS: usize = 16;
/// Fewer pairs of rows are left to loops: the last ones are made element by element.
const LEAST: usize = 16;
/// Elements of the operand that are worth a part of their own.
const PART: usize = 1 << 14;
/// Instructions of a pair of rows: of results, and of errors.
const PAIR: [u64; 2] = [11, 29];
/// Instructions of a window of the last pairs, and of a call.
const WINDOW: [u64; 2] = [14, 40];
const CALL: u64 = 50;

/// A pool, or its error.
#[derive(Debug)]
pub(crate) struct Pool {
    errors: bool,
    /// Pairs of rows of all planes, and windows of each.
    pairs: usize,
    columns: usize,
}

impl Pool {
    /// The name for readers.
    pub(crate) const NAME: &str = "pairs of rows";

    /// The pool that a kernel is; `None` if it is something else, or has few rows or rows that fill vectors.
    pub(crate) fn of(signature: &Signature<'_>) -> Option<Pool> {
        let x = *signature.inputs.first()?;
        let (errors, plain) = match signature.ops() {
            [Op::MaxPool2d(p)] => (false, (p.kernel, p.strides, p.pads, p.dilations)),
            [Op::MaxPool2dGradient(p)] => (true, (p.kernel, p.strides, p.pads, p.dilations)),
            _ => return None,
        };
        let &[images, channels, height, width] = x.shape.dims() else { return None };
        let fits = plain == ([2, 2], [2, 2], [0; 4], [1, 1])
            && (x.element, x.scale) == (Element::I8, Scale::Exponent)
            && height.is_multiple_of(2)
            && width.is_multiple_of(2)
            && (2..2 * COLUMNS).contains(&width);
        let pairs = images * channels * height / 2;
        let counts = (LEAST..1 << 24).contains(&pairs);
        (fits && counts).then_some(Pool { errors, pairs, columns: width / 2 })
    }

    /// How many parts of pairs may run at a time.
    fn parts(&self) -> usize {
        (4 * self.columns * self.pairs / PART).clamp(1, PARTS)
    }
}

impl Implementation for Pool {
    fn name(&self) -> &'static str {
        Pool::NAME
    }

    fn cost(&self) -> Cost {
        let of = usize::from(self.errors);
        // As the header's `trainc_whole_pairs`.
        let results = COLUMNS.div_ceil(self.columns);
        let behind = results.max((2 * COLUMNS + 2 * self.columns).div_ceil(4 * self.columns)) - 1;
        let last = self.parts() * behind;
        let windows = (last * self.columns) as u64;
        Cost::new(CALL + PAIR[of] * self.pairs.saturating_sub(last) as u64 + WINDOW[of] * windows)
    }

    fn scratch_bytes(&self) -> usize {
        0
    }
}

impl CKernel for Pool {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        let Pool { errors, pairs, columns } = *self;
        let [window, all] = [4 * columns, self.parts()];
        let mut parts = Parts::new(name);
        let mut out = Text::default();
        let (parameters, exponent) = match errors {
            false => ("", "x0_exponent"),
            true => (", const int8_t *x1, const int32_t *x1_exponent", "x1_exponent"),
        };
        out.long(format!(
            "static void {name}(const int8_t *x0, const int32_t *x0_exponent{parameters}, int8_t *y0, int32_t *y0_exponent)"
        ));
        out.open("{");
        if errors {
            out.line("(void)x0_exponent;");
        }
        out.line(format!("y0_exponent[0] = {exponent}[0];"));
        let call = |first: &str, count: &str| match errors {
            false => {
                format!(
                    "trainc_pool_pairs(x0{}, {count}, {columns}, y0{});",
                    at(first, window),
                    at(first, columns)
                )
            }
            true => format!(
                "trainc_pool_errors(x0{}, x1{}, {count}, {columns}, y0{});",
                at(first, window),
                at(first, columns),
                at(first, window)
            ),
        };
        if all == 1 {
            out.long(call("", &pairs.to_string()));
        } else {
            let mut taken = vec![own("const int8_t *", "x0")];
            taken.extend(errors.then(|| own("const int8_t *", "x1")));
            taken.push(own("int8_t *", "y0"));
            parts.run(&mut out, all, &taken, |out| {
                out.line(format!("const int32_t first = begin * {pairs} / {all};"));
                out.line(format!("const int32_t count = end * {pairs} / {all} - first;"));
                out.long(call("first", "count"));
            });
        }
        out.close();
        Ok(Emitted::from(parts.finish() + &out.finish()))
    }
}

/// What is added to a pointer for so many elements of each pair before.
fn at(first: &str, each: usize) -> String {
    if first.is_empty() { String::new() } else { format!(" + {first} * {each}") }
}
