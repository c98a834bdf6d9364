//! An estimate of a kernel's cycles: the operations of its loops, each by its price, times the rounds. Prices are those of scalar code; a
//! vector's operation takes half of one, for all of its lanes.

use std::collections::BTreeMap;

use trainc_ir::loops::{Binary, Expr, Local, LoopKernel, Node, Scalar, Stmt, Unary};
use trainc_ir::{Op, TensorType};

use crate::border_rounds::BorderRounds;

/// Calling a kernel.
const CALL: u64 = 50;
/// A round of a loop: counting and jumping.
const ROUND: u64 = 2;
/// An access to memory.
const MEMORY: u64 = 2;
/// A quotient, a remainder.
const DIVISION: u64 = 12;
/// A square root digit by digit.
const ROOT: u64 = 120;
/// Rounds of a loop whose count is known at run time only.
const UNKNOWN_ROUNDS: u64 = 8;

/// Cycles of an operation on these types by its generic loops.
pub fn cycles(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> u64 {
    loop_cycles(&op.lower(inputs, outputs))
}

/// What computes floats.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Floats {
    /// Instructions.
    #[default]
    Hardware,
    /// Functions of integers, where a core has no such instructions.
    Software,
}

/// Cycles of operations on floats.
struct Prices {
    arithmetic: u64,
    division: u64,
    root: u64,
    whole: u64,
    conversion: u64,
    comparison: u64,
}

/// Rounds of a loop without loops in it of which dividing pays.
const MANY: i32 = 4096;
/// Cycles of a loop's floats of which dividing pays a cluster of small cores, whose forks take some dozens.
const LONG: u64 = 512;

impl Floats {
    /// How many rounds a loop without loops in it must have for dividing to pay. Where functions compute its floats, few may
    /// take long; of integers, such a cluster's kernels of its own divide what is worth it.
    pub(crate) fn many(self, statement: &Stmt) -> i32 {
        let by = |floats| estimate_of(floats, &BTreeMap::new()).statement(statement);
        let long = || by(Floats::Software).saturating_sub(by(Floats::Hardware)) >= LONG;
        if self == Floats::Software && long() { 2 } else { MANY }
    }

    fn prices(self) -> Prices {
        match self {
            Floats::Hardware => Prices {
                arithmetic: 2,
                division: DIVISION,
                root: ROOT,
                whole: 6,
                conversion: 3,
                comparison: 1,
            },
            // Counted on RI5CY, with `trainc_xpulp_float.h`.
            Floats::Software => Prices {
                arithmetic: 48,
                division: 200,
                root: 400,
                whole: 60,
                conversion: 40,
                comparison: 20,
            },
        }
    }
}

/// Cycles of a loop kernel.
pub fn loop_cycles(kernel: &LoopKernel) -> u64 {
    loop_cycles_with(kernel, Floats::Hardware)
}

/// Cycles of a loop kernel whose floats something computes.
pub(crate) fn loop_cycles_with(kernel: &LoopKernel, floats: Floats) -> u64 {
    estimate(kernel, floats, &BTreeMap::new())
}

/// Cycles of a loop kernel of which some loops run as vectors: `lanes` has their variables, with the rounds that an operation does.
pub fn vector_cycles(kernel: &LoopKernel, lanes: &BTreeMap<Local, u64>) -> u64 {
    estimate(kernel, Floats::Hardware, lanes)
}

fn estimate(kernel: &LoopKernel, floats: Floats, lanes: &BTreeMap<Local, u64>) -> u64 {
    estimate_of(floats, lanes).block(&kernel.body).saturating_add(CALL)
}

/// An estimate of statements of which nothing is known yet.
fn estimate_of(floats: Floats, lanes: &BTreeMap<Local, u64>) -> Estimate<'_> {
    let (most, rounds) = (BTreeMap::new(), BorderRounds::default());
    Estimate { prices: floats.prices(), most, rounds, lanes, as_vectors: false }
}

/// What is known on the way through a kernel.
struct Estimate<'l> {
    prices: Prices,
    /// Of loops that run as vectors.
    lanes: &'l BTreeMap<Local, u64>,
    /// Whether in one of these.
    as_vectors: bool,
    /// The most that a local is, where a minimum with a number says so.
    most: BTreeMap<Local, i64>,
    rounds: BorderRounds,
}

impl Estimate<'_> {
    /// The most that a number is, as far as minima tell.
    fn most(&self, e: &Expr) -> Option<i64> {
        match &*e.node {
            Node::Integer(_) => e.as_constant(),
            Node::Local(local) => self.most.get(local).copied(),
            Node::Binary(Binary::Minimum, a, b) => match (self.most(a), self.most(b)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            _ => None,
        }
    }

    fn block(&mut self, statements: &[Stmt]) -> u64 {
        statements.iter().fold(0, |all, s| all.saturating_add(self.statement(s)))
    }

    fn statement(&mut self, statement: &Stmt) -> u64 {
        match statement {
            Stmt::Assign(local, value) => {
                match self.most(value) {
                    Some(most) => self.most.insert(*local, most),
                    None => self.most.remove(local),
                };
                self.rounds.assign(*local, value);
                self.expression(value)
            }
            Stmt::Store(_, index, value) => {
                MEMORY + self.expression(index) + self.expression(value)
            }
            Stmt::For { variable, start, end, body } => {
                let mean = self.rounds.mean(start, end);
                let rounds = match (start.as_constant(), end.as_constant()) {
                    _ if mean.is_some() => 1,
                    (start, None) if let Some(end) = self.most(end) => {
                        end.saturating_sub(start.unwrap_or(0)).max(0) as u64
                    }
                    (None, Some(end)) => end.max(0) as u64,
                    _ => UNKNOWN_ROUNDS,
                };
                let once = self.expression(start) + self.expression(end);
                let lanes = self.lanes.get(variable).filter(|_| !self.as_vectors);
                self.as_vectors |= lanes.is_some();
                self.rounds.open(*variable, start, end);
                let round = self.block(body).saturating_add(ROUND);
                self.rounds.close(*variable);
                let (rounds, of) = mean.unwrap_or((rounds, 1));
                let all = match lanes {
                    None => rounds.saturating_mul(round) / of,
                    Some(lanes) => {
                        self.as_vectors = false;
                        rounds.div_ceil(of).div_ceil(*lanes).saturating_mul(round.div_ceil(2))
                    }
                };
                once.saturating_add(all)
            }
            Stmt::If { condition, then, otherwise } => (1 + self.expression(condition))
                .saturating_add(self.block(then).max(self.block(otherwise))),
        }
    }

    fn expression(&self, e: &Expr) -> u64 {
        // Indices are mostly strength-reduced by a C compiler: their arithmetic is not counted.
        let own = |price: u64| if e.ty == Scalar::I64 { 0 } else { price };
        match &*e.node {
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => 0,
            Node::Load(_, index) => MEMORY + self.expression(index),
            Node::Unary(op, x) => {
                let price = match op {
                    Unary::Sqrt => self.prices.root,
                    Unary::RoundTiesEven | Unary::Floor | Unary::Ceil => self.prices.whole,
                    Unary::LeadingZeros => 6,
                    Unary::ToFloat | Unary::ToInteger => self.prices.conversion,
                    Unary::Extend
                    | Unary::ExtendUnsigned
                    | Unary::Truncate
                    | Unary::BoolToInteger => 0,
                    _ => 1,
                };
                own(price) + self.expression(x)
            }
            Node::Binary(op, a, b) => {
                let price = match op {
                    Binary::Divide if e.ty == Scalar::F32 => self.prices.division,
                    Binary::Divide | Binary::Remainder => DIVISION,
                    _ if e.ty == Scalar::F32 => self.prices.arithmetic,
                    _ => 1,
                };
                own(price) + self.expression(a) + self.expression(b)
            }
            Node::Compare(_, a, b) if a.ty == Scalar::F32 => {
                self.prices.comparison + self.expression(a) + self.expression(b)
            }
            Node::Compare(_, a, b) => 1 + self.expression(a) + self.expression(b),
            Node::Select(c, a, b) => {
                1 + self.expression(c) + self.expression(a).max(self.expression(b))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::function_by;
    use trainc_ir::ops::Mul;

    /// A vector of products is divided where functions make them and there are enough for the work, and by instructions only
    /// where it is long.
    #[test]
    fn products_by_functions_are_divided() {
        let divided = |floats, count: usize| {
            let ty = TensorType::f32([count]);
            let kernel = Op::Mul(Mul {}).lower(&[&ty, &ty], &[&ty]);
            let text = function_by(floats, "products", &kernel).expect("its text");
            text.contains("TRAINC_PARALLEL_FOR")
        };
        let first = |floats, counts: [usize; 2]| counts.map(|count| divided(floats, count));
        assert_eq!(first(Floats::Software, [8, 48]), [false, true]);
        assert_eq!(first(Floats::Hardware, [4095, 4096]), [false, true]);
    }
}
