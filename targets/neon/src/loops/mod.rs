//! Loop kernels as C with NEON intrinsics: several rounds of a loop at a time, the rest as the C target prints it.
//!
//! A loop qualifies if its rounds are independent, or combine values in ways that allow any order: integer sums,
//! extrema and bit operations. Float sums stay in their order. Results have the bits of the scalar loop.

mod arithmetic;
mod lanes;
mod memory;
mod reduce;
mod round;
mod truth;

use std::collections::BTreeMap;

use trainc_c::{CKernel, CountedLoop, Emitted, LeadingRounds, Rest, Scope};
use trainc_ir::implementation::{Cost, Implementation, Signature};
use trainc_ir::loops::{Buffer, Expr, LoopKernel, Role, Stmt, each_expression, each_statement};
use trainc_ir::program::Kernel;
use trainc_ir::target::loop_scratch;
use trainc_ir::{Op, TensorType};
use trainc_loops::{Carried, Changes, bits_of, collapsed, count_uses};

use crate::level::Level;
use crate::lowering;
use memory::element_kind;
use reduce::Kept;
use round::{Line, Round, Setting};

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
    trainc_c::function_with(name, &collapsed(kernel), &Vectors { level, in_place })
}

/// The loops of an operation that are printed, those that fill vectors where there is a choice.
pub fn lower(op: &Op, inputs: &[&TensorType], outputs: &[&TensorType]) -> LoopKernel {
    lowering::lower(op, inputs, outputs)
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
        Loops {
            level,
            kernel: lower(op, inputs, outputs),
            in_place: in_place(op, inputs.len()),
            cycles: trainc_c::loop_cycles(&signature.lower()),
        }
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
}

impl CKernel for Loops {
    fn emit(&self, name: &str, _: &Kernel) -> Result<Emitted, String> {
        function(self.level, name, &self.kernel, self.in_place).map(Emitted::from)
    }
}

/// Whether an operation's result may take the place of one of its operands.
pub fn in_place(op: &Op, operands: usize) -> bool {
    (0..operands).any(|operand| op.may_overwrite(operand))
}

struct Vectors {
    level: Level,
    in_place: bool,
}

/// A loop, part of which runs as vectors.
struct Trip<'a> {
    counted: CountedLoop<'a>,
    /// First value and rounds, where known.
    known: Option<(i64, i64)>,
    /// Mentions of each local in the kernel.
    uses: &'a [usize],
}

impl LeadingRounds for Vectors {
    fn print(&self, counted: &CountedLoop<'_>, scope: &mut Scope<'_, '_>) -> Option<Rest> {
        let uses = scope.uses(|kernel| count_uses(kernel, &kernel.body));
        if self.has_better_inside(counted.body, &uses, scope) {
            return None;
        }
        self.print_loop(counted, &uses, scope)
    }
}

impl Vectors {
    /// Whether a loop inside runs as vectors.
    fn has_better_inside(&self, body: &[Stmt], uses: &[usize], scope: &mut Scope<'_, '_>) -> bool {
        let mut better = false;
        each_statement(body, &mut |statement| {
            if let Stmt::For { variable, start, end, body } = statement {
                let counted = CountedLoop { variable: *variable, start, end, body };
                let mut prints = false;
                // A trial: nothing of it stays.
                let _: Option<()> = scope.attempt(|scope| {
                    prints = self.print_loop(&counted, uses, scope).is_some();
                    None
                });
                better |= prints;
            }
        });
        better
    }

    fn print_loop(
        &self,
        counted: &CountedLoop<'_>,
        uses: &[usize],
        scope: &mut Scope<'_, '_>,
    ) -> Option<Rest> {
        let known = match (counted.start.as_constant(), counted.end.as_constant()) {
            (Some(start), Some(end)) => Some((start, end - start)),
            _ => None,
        };
        // The bounds stay while the loop runs.
        let changes = Changes::of(counted.body);
        if [counted.start, counted.end].iter().any(|e| changes.touch(e, &|a, b| a == b)) {
            return None;
        }
        let mut narrowest = 64;
        let kernel = scope.kernel();
        let mut element = |buffer: Buffer| {
            let element = kernel.buffers[buffer.0 as usize].element;
            narrowest = element_kind(element).1.min(narrowest);
        };
        each_statement(counted.body, &mut |statement| {
            if let Stmt::Store(buffer, ..) = statement {
                element(*buffer);
            }
        });
        each_expression(counted.body, &mut |e| {
            e.each_load(&mut |buffer, index| {
                if index.mentions(|_| true) {
                    element(buffer);
                }
            });
        });
        let counts: &[usize] = match narrowest {
            8 => &[32, 16, 8],
            16 => &[16, 8],
            _ => &[8, 4],
        };
        let trip = Trip { counted: *counted, known, uses };
        self.print_with(&trip, counts, scope)
    }

    /// Prints rounds with the first count that works, and what is left with those after it.
    fn print_with(
        &self,
        trip: &Trip<'_>,
        counts: &[usize],
        scope: &mut Scope<'_, '_>,
    ) -> Option<Rest> {
        let (&count, fewer) = counts.split_first()?;
        let Some(rest) = scope.attempt(|scope| self.print_rounds(trip, count, scope)) else {
            return self.print_with(trip, fewer, scope);
        };
        let (Rest::From(first), Some((start, rounds))) = (&rest, trip.known) else {
            return Some(rest);
        };
        let first: i64 = first.parse().ok()?;
        let counted = CountedLoop { start: &Expr::i64(first), ..trip.counted };
        let known = Some((first, start + rounds - first));
        let left = Trip { counted, known, uses: trip.uses };
        Some(self.print_with(&left, fewer, scope).unwrap_or(rest))
    }

    /// Prints rounds, `count` at a time.
    fn print_rounds(
        &self,
        trip: &Trip<'_>,
        count: usize,
        scope: &mut Scope<'_, '_>,
    ) -> Option<Rest> {
        let lanes = count as i64;
        let CountedLoop { variable, start, end, body } = trip.counted;
        // Few rounds fill no vector.
        let most = scope.interval(end).1 - scope.interval(start).0;
        if trip.known.map_or(most, |(_, rounds)| rounds.into()) < lanes.into() {
            return None;
        }
        let carried = Carried::of(scope.kernel(), body, trip.uses).ok()?;
        let kept = |reduction| Kept { reduction, sums: None };
        let found: Vec<Kept> = carried.reductions.into_iter().map(kept).collect();
        let name = scope.kernel().locals[variable.0 as usize].0.clone();
        let name = scope.fresh(&name);
        scope.set_local_name(variable, &name);
        let setting = |expected| Setting {
            level: self.level,
            count,
            variable,
            body,
            reductions: found.clone(),
            expected,
            rounds: trip.known.map(|(_, rounds)| rounds),
        };
        // Loads of every other element go in pairs, which the first pass over the body finds.
        let mut strided = Vec::new();
        let _: Option<()> = scope.attempt(|scope| {
            let mut round = Round::new(scope, setting(Vec::new()));
            round.block(body)?;
            strided = round.strided;
            None
        });
        let mut round = Round::new(scope, setting(strided));
        round.block(body)?;
        if !round.rounds_are_apart() {
            return None;
        }
        // Results that take no operand's place may be computed twice.
        let twice = (!self.in_place
            || round
                .stored
                .iter()
                .all(|b| round.scope.kernel().buffers[b.0 as usize].role == Role::Scratch))
            && found.iter().all(|kept| kept.reduction.is_idempotent())
            && round.accesses.iter().all(|a| a.stored || !round.stored.contains(&a.buffer));
        let after = round.finish_reductions()?;
        let beyond = i64::from(round.reads_beyond);
        let (mut before, mut lines) =
            (std::mem::take(&mut round.before), std::mem::take(&mut round.lines));
        without_unused(&mut before, &mut lines, &after);
        let narrow = bits_of(scope.interval(start)) <= 32 && bits_of(scope.interval(end)) <= 32;
        let ty = if narrow { "int32_t" } else { "int64_t" };
        before.iter().for_each(|line| scope.line(line));
        let rest = match trip.known {
            Some((first, rounds)) => {
                let possible = rounds - beyond;
                if possible < lanes {
                    return None;
                }
                let whole = possible / lanes * lanes;
                if twice && whole < possible {
                    let last = first + possible - lanes;
                    let next = scope.fresh("next");
                    let end = first + possible;
                    scope.comment("The last rounds overlap those before them.");
                    scope.open(&format!(
                        "for ({ty} {next} = {first}; {next} < {end}; {next} += {count}) {{"
                    ));
                    scope.line(&format!("const {ty} {name} = {next} < {last} ? {next} : {last};"));
                    (first + possible, first + rounds)
                } else {
                    let end = first + whole;
                    scope.open(&format!(
                        "for ({ty} {name} = {first}; {name} < {end}; {name} += {count}) {{"
                    ));
                    (end, first + rounds)
                }
            }
            None => {
                let (first, last) = (scope.scalar(start), scope.operand(end));
                scope.line(&format!("{ty} {name} = {first};"));
                let least = lanes - 1 + beyond;
                scope.open(&format!("for (; {name} < {last} - {least}; {name} += {count}) {{"));
                (0, 1)
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
        Some(match (trip.known, rest) {
            (Some(_), (done, all)) if done == all => Rest::None,
            (Some(_), (done, _)) => Rest::From(done.to_string()),
            (None, _) => Rest::From(name),
        })
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
