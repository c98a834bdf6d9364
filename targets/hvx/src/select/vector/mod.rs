//! Innermost loops over neighbouring elements on HVX: lanes of 32 bits, or of 16 or 8 where all values fit, as many
//! rounds at once as a vector holds of the narrowest element. The rest runs with the last of the others once more, which
//! store the same again; where sums would count these twice, and where few rounds are left, a scalar loop does the rest.
//!
//! Narrower elements are widened in order and stored truncated, so lanes hold what the scalar core would. Sums, extremes
//! and bits that all rounds add to one local are kept by lane, and folded after the loop: all of these operations give
//! the same bits in any order.

mod forms;
mod prepare;
mod products;
mod reduce;
mod round;
mod survey;
mod truth;

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::Element;
use trainc_ir::loops::{Binary, Expr, Local, Stmt};
use trainc_loops::{Linear, Reason, VectorLoop};

use forms::{ClampedByte, ClampedSum};
use reduce::Kept;

use super::Selector;
use crate::machine::{Builder, Count, Object, Opcode, Register};

/// Bytes of a vector.
const VECTOR: i32 = 128;

/// A value of one part of the lanes.
#[derive(Clone, Copy, Debug)]
enum Lanes {
    /// Words.
    Words(Register),
    /// A predicate, and whether its opposite is meant.
    Truth(Register, bool),
}

/// Neighbouring elements that a round reads or writes.
#[derive(Clone, Debug)]
struct Stream {
    buffer: u32,
    bytes: Linear,
    pointer: Register,
    /// Whether vectors of it begin where those of memory do.
    aligned: bool,
}

/// The loop variable, or a sum of it and something that stays, in each lane.
#[derive(Clone, Debug)]
struct Counter {
    /// What is added to the variable.
    added: Option<Expr>,
    /// Of a round's first part.
    first: Register,
    /// Of the other parts, as far as they are computed.
    others: Vec<Register>,
}

/// Fewest rounds beyond those that fill vectors that run on vectors, too, rather than one by one.
const LEAST_REST: u32 = 4;

/// A vector that a round stores.
struct Stored {
    opcode: Opcode,
    pointer: Register,
    /// Vectors from the pointer.
    offset: i32,
    vector: Register,
    object: Object,
}

/// A loop that runs on vectors.
#[derive(Clone)]
struct Plan {
    vectors: VectorLoop,
    /// Bytes of a lane.
    width: i32,
    /// Vectors that the lanes of a round take.
    parts: usize,
    /// Rounds at once.
    lanes: i64,
    streams: Vec<Stream>,
    /// Empty until the loop is prepared.
    reductions: Vec<Kept>,
    /// What is the same in all rounds, in every lane.
    splats: Vec<(Expr, Register)>,
    /// What is the same in all rounds, as a scalar.
    scalars: Vec<(Expr, Register)>,
    /// Conditions that are the same in all rounds, as predicates that hold where they do not.
    refusals: Vec<(Expr, Register)>,
    /// The first value of the loop variable.
    start: Expr,
    /// The numbers of the lanes, where something counts.
    numbers: Option<Register>,
    counters: Vec<Counter>,
    /// Factors that are the same in all rounds, in every lane of 16 bits.
    halves: Vec<(Expr, Register)>,
    /// What interleaves words, where products of halves are made.
    interleaves: Option<Register>,
    /// Halves of loaded streams, two parts a vector.
    half_loads: Vec<(usize, Vec<Register>)>,
    /// Sums of products of halves, by the number of their two parts.
    products: Vec<(Expr, usize, Register)>,
    /// Words of loaded streams, all parts.
    loaded: BTreeMap<usize, Vec<Register>>,
    /// Values of the current part.
    values: Vec<(Expr, Lanes)>,
    locals: BTreeMap<Local, Lanes>,
}

/// Rounds at once.
fn lanes(plan: &VectorLoop) -> i64 {
    i64::from(VECTOR) * 8 / i64::from(plan.element_bits)
}

impl Plan {
    /// The form of an instruction for the lanes' width.
    fn of(&self, words: Opcode, halves: Opcode, bytes: Opcode) -> Opcode {
        match self.width {
            1 => bytes,
            2 => halves,
            _ => words,
        }
    }

    /// Rounds of a part.
    fn part_lanes(&self) -> Expr {
        Expr::i32((self.lanes / self.parts as i64) as i32)
    }

    /// Whether rounds may run more than once: what they keep is the same then.
    fn may_repeat(&self) -> bool {
        self.reductions.iter().all(|kept| kept.reduction.op != Binary::Add)
    }

    fn equal(&self) -> Opcode {
        self.of(Opcode::VcompareEqW, Opcode::VcompareEqH, Opcode::VcompareEqB)
    }

    /// `x` of a magnitude that an instruction computes: of bytes only later versions do.
    fn magnitude<'e>(&self, e: &'e Expr) -> Option<&'e Expr> {
        forms::magnitude(e).filter(|_| self.width > 1)
    }

    /// A value that is narrowed to signed bytes as it is stored, to be clamped as such.
    fn clamped_byte<'e>(&self, element: Element, e: &'e Expr) -> Option<ClampedByte<'e>> {
        let narrows = element == Element::I8 && self.width > 1 && self.clamped_sum(e).is_none();
        ClampedByte::of(e).filter(|_| narrows)
    }

    /// A sum for saturating lanes, with those of its limits that they do not have themselves. Words wrap as the sum does.
    fn clamped_sum<'e>(&self, e: &'e Expr) -> Option<(ClampedSum<'e>, [Option<&'e Expr>; 2])> {
        let sum = ClampedSum::of(e).filter(|_| self.width < 4)?;
        let bytes = [i8::MIN, i8::MAX].map(i64::from);
        let own = |i: usize| self.width == 1 && sum.limits[i].as_constant() == Some(bytes[i]);
        let limits = [0, 1].map(|i| Some(sum.limits[i]).filter(|_| !own(i)));
        Some((sum, limits))
    }
}

impl Selector<'_> {
    /// Notes why none of a loop's rounds run on vectors.
    fn stays_scalar(&mut self, variable: Local, reason: &Reason) -> u32 {
        let note = reason.of_loop(self.kernel, variable);
        if !self.scalar_loops.contains(&note) {
            self.scalar_loops.push(note);
        }
        0
    }

    /// Runs a loop's first rounds on vectors if it has a form for that: the number of rounds done.
    pub(super) fn vectorise(
        &mut self,
        b: &mut Builder,
        variable: Local,
        (start, end): (&Expr, &Expr),
        rounds: u32,
        body: &[Stmt],
    ) -> u32 {
        let vectors = match self.survey(variable, (start, end), body) {
            Ok(vectors) => vectors,
            Err(Reason::InnerLoop) => return 0,
            Err(reason) => return self.stays_scalar(variable, &reason),
        };
        let (width, narrowest) = (vectors.lane_bits / 8, vectors.element_bits / 8);
        let lanes = lanes(&vectors);
        let mut plan = Plan {
            vectors,
            width: width as i32,
            parts: (width / narrowest) as usize,
            lanes,
            streams: Vec::new(),
            reductions: Vec::new(),
            splats: Vec::new(),
            scalars: Vec::new(),
            refusals: Vec::new(),
            start: start.clone(),
            numbers: None,
            counters: Vec::new(),
            halves: Vec::new(),
            interleaves: None,
            half_loads: Vec::new(),
            products: Vec::new(),
            loaded: BTreeMap::new(),
            values: Vec::new(),
            locals: BTreeMap::new(),
        };
        let (times, rest) = (rounds / lanes as u32, rounds % lanes as u32);
        self.prepare(b, &mut plan, start);
        let again = rest >= LEAST_REST && plan.may_repeat();
        let last = again.then(|| plan.clone());
        // Where the rounds begin that end with the loop.
        let ahead_of_end = i64::from(rounds - lanes as u32);
        let begin = match start.as_constant() {
            Some(first) => Expr::i64(first + ahead_of_end),
            None => start.clone() + Expr::i64(ahead_of_end),
        };
        // In place, the last rounds read what the others change.
        let in_place = self.is_in_place(&plan.vectors);
        let ahead = last.clone().filter(|_| in_place).map(|mut last| {
            self.prepare_again(b, &mut last, &begin);
            self.vectors_of_round(b, &mut last)
        });
        let outside = std::mem::take(&mut self.disjoint);
        self.disjoint.extend(self.disjoint_rounds(variable, body));
        let name = &self.kernel.locals[variable.0 as usize].0;
        let purpose = format!("{name}: {} at once", plan.lanes);
        match times {
            1 => self.vector_round(b, &mut plan),
            _ => b.repeat(Count::Constant(times), &purpose, |b| self.vector_round(b, &mut plan)),
        }
        self.disjoint = outside;
        match (ahead, last) {
            (Some(ahead), _) => self.store_vectors(b, &ahead),
            (None, Some(mut last)) => {
                self.prepare_again(b, &mut last, &begin);
                self.vector_round(b, &mut last);
            }
            (None, None) => {}
        }
        for r in plan.reductions.clone() {
            self.fold(b, &r);
        }
        let changes = self.changes(body, Some(variable));
        self.forget(&changes);
        if again { rounds } else { times * lanes as u32 }
    }

    /// Whether a loop reads memory that it writes.
    fn is_in_place(&self, vectors: &VectorLoop) -> bool {
        let objects = |stored: bool| {
            let accesses = vectors.accesses.iter().filter(move |access| access.stored == stored);
            accesses.map(|access| self.object(access.buffer.0)).collect::<BTreeSet<_>>()
        };
        !objects(true).is_disjoint(&objects(false))
    }
}
