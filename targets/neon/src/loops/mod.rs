//! Loop kernels as C with NEON intrinsics: several rounds of a loop at a time, the rest as the C target prints it.
//!
//! A loop qualifies if its rounds are independent, or combine values in ways that allow any order: integer sums,
//! extrema and bit operations. Float sums stay in their order. Results have the bits of the scalar loop.

mod arithmetic;
mod forms;
mod lanes;
mod memory;
mod reduce;
mod round;
mod truth;

use std::collections::BTreeMap;

use trainc_c::{CKernel, Emitted, LeadingRounds, Rest, Scope};
use trainc_ir::Op;
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::{LoopKernel, Role};
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;
use trainc_loops::{Place, Reduction, VectorLoop, collapsed, is_narrow, simplified, vector_loops};

use crate::level::Level;
pub use crate::lowering::lower;
use forms::{Machine, counts};
use round::{Line, Round};

/// Bits of a vector.
const VECTOR_BITS: u32 = 128;

/// A loop kernel as the text of a `static void` function, as [`trainc_c::function`] prints it, with vectors. Needs
/// `arm_neon.h`. `in_place` says whether a result may take the place of an operand (exactly, with elements of the same
/// width).
///
/// # Errors
/// If the kernel is not well formed.
pub fn function(
    level: Level,
    name: &str,
    kernel: &LoopKernel,
    in_place: bool,
) -> Result<String, String> {
    trainc_c::function_with(name, &collapsed(kernel), &Leading { level, in_place })
}

/// Any operation as [`function`].
#[derive(Debug)]
pub(crate) struct Loops {
    level: Level,
    kernel: LoopKernel,
    in_place: bool,
    cycles: u64,
}

impl Loops {
    pub(crate) fn of(level: Level, signature: &Signature<'_>) -> Loops {
        let Signature { op, inputs, outputs, .. } = *signature;
        let kernel = lower(op, inputs, outputs);
        let cycles = cycles(level, &kernel);
        Loops { level, kernel, in_place: in_place(op, inputs.len()), cycles }
    }
}

impl Implementation for Loops {
    fn name(&self) -> &'static str {
        "loops"
    }

    fn cost(&self) -> Cost {
        Cost::new(self.cycles)
    }

    fn scratch_bytes(&self) -> usize {
        loop_scratch(&self.kernel).1
    }

    fn scalar_loops(&self) -> Vec<String> {
        let Ok(kernel) = simplified(&collapsed(&self.kernel)) else { return Vec::new() };
        trainc_loops::scalar_loops(&kernel, &Machine { level: self.level, kernel: &kernel })
    }
}

impl CKernel for Loops {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        function(self.level, name, &self.kernel, self.in_place).map(Emitted::from)
    }
}

/// An estimate of instructions, of loops as they are printed.
pub(crate) fn cycles(level: Level, kernel: &LoopKernel) -> u64 {
    let Ok(printed) = simplified(&collapsed(kernel)) else { return trainc_c::loop_cycles(kernel) };
    let machine = Machine { level, kernel: &printed };
    let lanes = vector_loops(&printed, &machine).into_iter();
    let lanes =
        lanes.map(|(variable, plan)| (variable, u64::from(VECTOR_BITS / plan.lane_bits.max(8))));
    let [share, of] = if level == Level::Armv7 { [1, 1] } else { SEVERAL };
    trainc_c::vector_cycles(&printed, &lanes.collect()) * share / of
}

/// What is left of an estimate where up to four registers a value share what a round takes beside the operations. Counted, LeNet-5's loops
/// lie on both sides: between half of an estimate and three times it.
const SEVERAL: [u64; 2] = [14, 16];

/// Whether an operation's result may take the place of one of its operands.
pub fn in_place(op: &Op, operands: usize) -> bool {
    (0..operands).any(|operand| op.may_overwrite(operand))
}

/// Prints loops of a kernel as vectors.
struct Leading {
    level: Level,
    in_place: bool,
}

impl LeadingRounds for Leading {
    fn print(&self, place: &Place<'_>, scope: &mut Scope<'_, '_>) -> Option<Rest> {
        let machine = Machine { level: self.level, kernel: scope.kernel() };
        let plan = VectorLoop::of(place, &machine).ok()?;
        let mut left = place.start.as_constant().zip(place.rounds());
        let mut rest = None;
        for count in counts(self.level, &plan) {
            let rounds = left.map_or(place.most_rounds(), |(_, rounds)| rounds);
            if rounds >= count as i64 + plan.reads_beyond() {
                let round = Round::new(scope, &machine, &plan, place, count);
                let after = self.print_rounds(left, round);
                left =
                    left.zip(after.1).map(|((first, rounds), done)| (done, first + rounds - done));
                rest = Some(after.0);
                if left.is_none_or(|(_, rounds)| rounds == 0) {
                    break;
                }
            }
        }
        rest
    }
}

impl Leading {
    /// Prints rounds, several at a time, of those that are left: the first one and how many, where known. Says which
    /// remain, and where known the first of them.
    fn print_rounds(
        &self,
        left: Option<(i64, i64)>,
        mut round: Round<'_, '_, '_>,
    ) -> (Rest, Option<i64>) {
        let Place { intervals, variable, start, end, .. } = *round.place;
        let (plan, count) = (round.plan, round.count);
        let (lanes, beyond) = (count as i64, plan.reads_beyond());
        let name = round.scope.kernel().locals[variable.0 as usize].0.clone();
        let name = round.scope.fresh(&name);
        round.scope.set_local_name(variable, &name);
        round.steps(&plan.steps);
        // Results that take no operand's place may be computed twice.
        let stored = &plan.changes.buffers;
        let buffers = &round.scope.kernel().buffers;
        let twice = (!self.in_place
            || stored.iter().all(|b| buffers[b.0 as usize].role == Role::Scratch))
            && plan.reductions.iter().all(Reduction::is_idempotent)
            && plan.accesses.iter().all(|a| a.stored || !stored.contains(&a.buffer));
        let after = round.finish_reductions();
        let Round { scope, mut before, mut lines, .. } = round;
        without_unused(&mut before, &mut lines, &after);
        let narrow = [start, end].iter().all(|e| is_narrow(intervals.get(e)));
        let ty = if narrow { "int32_t" } else { "int64_t" };
        before.iter().for_each(|line| scope.line(line));
        let done = match left {
            Some((first, rounds)) => {
                let (possible, whole) = (rounds - beyond, (rounds - beyond) / lanes * lanes);
                let overlaps = twice && whole < possible;
                let end = first + if overlaps { possible } else { whole };
                let counter = if overlaps { scope.fresh("next") } else { name.clone() };
                if overlaps {
                    scope.comment("The last rounds overlap those before them.");
                }
                scope.open(&format!(
                    "for ({ty} {counter} = {first}; {counter} < {end}; {counter} += {count}) {{"
                ));
                if overlaps {
                    let last = end - lanes;
                    let line =
                        format!("const {ty} {name} = {counter} < {last} ? {counter} : {last};");
                    scope.line(&line);
                }
                end
            }
            None => {
                let (first, last) = (scope.scalar(start), scope.operand(end));
                scope.line(&format!("{ty} {name} = {first};"));
                let least = lanes - 1 + beyond;
                scope.open(&format!("for (; {name} < {last} - {least}; {name} += {count}) {{"));
                0
            }
        };
        for line in &lines {
            match line {
                Line::Code(code) => scope.line(code),
                Line::Open(code) => scope.open(code),
                Line::Close => scope.close(),
            }
        }
        scope.close();
        for line in &after {
            match line.as_str() {
                "}" => scope.close(),
                line if line.ends_with('{') => scope.open(line),
                line => scope.line(line),
            }
        }
        match left {
            None => (Rest::From(name), None),
            Some((first, rounds)) if first + rounds == done => (Rest::None, Some(done)),
            Some(_) => (Rest::From(done.to_string()), Some(done)),
        }
    }
}

/// Removes variables that nothing reads: values that turned out to be part of others.
fn without_unused(before: &mut Vec<String>, lines: &mut Vec<Line>, after: &[String]) {
    fn words(code: &str) -> impl Iterator<Item = &str> {
        code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
    }
    /// The name that a line declares.
    fn declared(code: &str) -> Option<&str> {
        words(code.strip_prefix("const ")?.split(" = ").next()?).nth(1)
    }
    loop {
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        let codes = lines.iter().filter_map(|line| match line {
            Line::Code(code) | Line::Open(code) => Some(code),
            Line::Close => None,
        });
        for code in before.iter().chain(codes).chain(after) {
            words(code).for_each(|word| *uses.entry(word.to_string()).or_default() += 1);
        }
        let read = |code: &str| declared(code).is_none_or(|name| uses[name] > 1);
        let count = before.len() + lines.len();
        before.retain(|code| read(code));
        lines.retain(|line| !matches!(line, Line::Code(code) if !read(code)));
        if before.len() + lines.len() == count {
            return;
        }
    }
}
