//! Products whose lanes are read where they lie (`support/trainc_neon_in_place.h`): only rows are packed.
//!
//! A lane is a place of an operand from which stretches of k lie together, so that nothing of it is gathered tap by tap. For
//! processors with `sdot` or `smmla`, whose tile kernels take a lane's k as they are. [`windows`] has the forward pass and the
//! operand's error, [`gradient`] the weight's, [`shifted`] those whose operand is copied for each column of taps.

mod gradient;
mod met;
mod shifted;
mod windows;

use trainc_c::product::suffix;
use trainc_ir::product::Narrowing;

use super::text::Text;
use crate::level::Level;

pub(super) use gradient::GradientInPlace;
pub(super) use shifted::ShiftedGradient;
pub(super) use windows::WindowsInPlace;

/// Bytes of k that lie together in a block of a level's panels of rows; `None` where no tile kernel reads lanes in place.
fn unit(level: Level) -> Option<usize> {
    match level {
        Level::Dotprod => Some(4),
        Level::I8mm => Some(8),
        Level::Armv7 | Level::Baseline | Level::Dispatch => None,
    }
}

/// A level's order of bytes in blocks.
fn order(level: Level) -> &'static str {
    if level == Level::I8mm { "halves" } else { "quarters" }
}

/// Stretches of k that all lanes read: how many, and bytes from one to the next in a panel of rows and in the operand.
#[derive(Clone, Debug)]
struct Stretches {
    outer: Axis,
    inner: Axis,
    /// Bytes of one, in whole units.
    bytes: usize,
    /// Whether lanes lie in pairs, for `smmla`.
    paired: bool,
}

#[derive(Clone, Copy, Debug)]
struct Axis {
    count: usize,
    rows: usize,
    lanes: i64,
}

impl Axis {
    /// One alone.
    const ONE: Axis = Axis { count: 1, rows: 0, lanes: 0 };
}

impl Stretches {
    /// An estimate of the instructions of a pair of panels, besides set-up and storing.
    fn instructions(&self, level: Level) -> usize {
        if self.step().is_some() {
            let halves = self.bytes / 8;
            return self.count() * (2 + 16 * halves + half_loads(halves));
        }
        if self.paired {
            let Rounds { halves, rounds } = self.rounds();
            // Where it starts; rounds have a loop of their own.
            let round = if rounds == 1 { 0 } else { 2 };
            return self.count() * (10 + rounds * (16 * halves + half_loads(halves) + round));
        }
        let (blocks, words) = (self.bytes / 16, self.bytes % 16 / 4);
        // A block loads 8 registers of rows, and of each lane one: 64 `sdot` or 32 `smmla` beside it.
        let [block, two, one] = match level {
            Level::I8mm => [53, 30, 0],
            _ => [77, 44, 41],
        };
        // Where it starts, and the loop of blocks; with words behind it, addresses are made again for these.
        let around = match (blocks, words) {
            (0, _) => 4,
            (_, 0) => 9,
            _ => 14,
        };
        let stretch = around + block * blocks + two * (words / 2) + one * (words % 2);
        self.count() * stretch
    }

    /// The halves of blocks of a stretch, of lanes in pairs: all of them at once where they are few, else in the rounds that take the
    /// fewest instructions.
    fn rounds(&self) -> Rounds {
        let all = self.bytes / 8;
        if all <= MOST_HALVES {
            return Rounds { halves: all, rounds: 1 };
        }
        let divisors = (1..=MOST_HALVES).rev().filter(|halves| all.is_multiple_of(*halves));
        let of = |halves| Rounds { halves, rounds: all / halves };
        let best = divisors.map(of).min_by_key(|r| r.rounds * (half_loads(r.halves) + 2));
        best.unwrap_or(of(1))
    }

    /// Bytes from each to the next in the operand, where lanes lie in pairs and stretches are even: of one round, one behind the
    /// other in a panel of rows, and as far apart everywhere in the operand. Tile kernels need no table of these.
    fn step(&self) -> Option<i64> {
        let Stretches { outer, inner, bytes, paired } = self;
        let halves = bytes / 8;
        if !paired || halves > if halves.is_multiple_of(3) { MOST_EVEN_HALVES } else { MOST_HALVES }
        {
            return None;
        }
        let behind = |axis: &Axis, rows: usize, lanes: i64| {
            (axis.rows == rows && axis.lanes == lanes).then_some(lanes)
        };
        match (outer.count, inner.count) {
            (0 | 1, 0 | 1) => Some(0),
            (_, 1) => behind(outer, 8 * bytes, outer.lanes),
            (1, _) => behind(inner, 8 * bytes, inner.lanes),
            (_, n) => behind(inner, 8 * bytes, inner.lanes)
                .filter(|lanes| behind(outer, 8 * bytes * n, lanes * n as i64).is_some()),
        }
    }

    /// The name of the tile kernel for so many rows.
    fn tiles(&self, rows: usize) -> String {
        if !self.paired {
            return format!("tiles_words{}", self.bytes % 16 / 4);
        }
        let kind = if rows <= SIX { "six" } else { "pairs" };
        if self.step().is_some() {
            return format!("{kind}_even{}", self.bytes / 8);
        }
        match self.rounds() {
            Rounds { halves, rounds: 1 } => format!("{kind}_once{halves}"),
            Rounds { halves, .. } => format!("{kind}_rounds{halves}"),
        }
    }

    /// What a stretch is made of: blocks, or rounds.
    fn parts(&self) -> usize {
        if self.paired { self.rounds().rounds } else { self.bytes / 16 }
    }

    /// An estimate of the instructions of an outer one.
    fn row_instructions(&self, level: Level) -> usize {
        self.instructions(level) / self.outer.count.max(1)
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.outer.count * self.inner.count
    }

    /// Bytes of the table of where they start.
    fn table_bytes(&self) -> usize {
        8 * self.rows_of_table()
    }

    /// How many stand in the table.
    fn rows_of_table(&self) -> usize {
        if self.step().is_some() { 0 } else { self.count() }
    }

    /// Prints the filling of the table.
    fn emit(&self, table: &str, out: &mut Text) {
        let Stretches { outer, inner, .. } = self;
        if self.step().is_some() {
            return;
        }
        out.long(format!(
            "trainc_stretches({table}, {}, {}, {}, {}, {}, {});",
            outer.count, outer.rows, outer.lanes, inner.count, inner.rows, inner.lanes
        ));
    }

    /// The last arguments of a tile kernel, but for the sums.
    fn arguments(&self, table: &str) -> String {
        match self.step() {
            Some(step) => format!("{}, {step}", self.count()),
            None => format!("{table}, {}, {}", self.count(), self.parts()),
        }
    }

    /// The same for those of the outer ones that `met` says.
    fn arguments_met(&self, table: &str, met: &str) -> String {
        let inner = self.inner.count;
        let [first, count] = ["first", "count"].map(|field| match inner {
            1 => format!("{met}.{field}"),
            _ => format!("{inner} * {met}.{field}"),
        });
        match self.step() {
            Some(step) => format!("{count}, {step}"),
            None => format!("{table} + {first}, {count}, {}", self.parts()),
        }
    }

    /// What is added to a panel of rows and to the operand, where `met` says the first of the outer ones that tile kernels without a
    /// table read.
    fn starts_met(&self, met: &str) -> [String; 2] {
        if self.step().is_none() {
            return [String::new(), String::new()];
        }
        let add = |distance: i64| match distance {
            0 => String::new(),
            1.. => format!(" + {met}.first * {distance}"),
            _ => format!(" - {met}.first * {}", -distance),
        };
        [add(self.outer.rows as i64), add(self.outer.lanes)]
    }
}

/// Most rows of which three pairs, not four, are multiplied by lanes in pairs.
const SIX: usize = 6;

/// The most halves of blocks that a tile kernel of lanes in pairs multiplies without a loop.
const MOST_HALVES: usize = 12;
/// The same of even stretches, whose halves are threes.
const MOST_EVEN_HALVES: usize = 24;

/// So many halves of blocks, so many times.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    halves: usize,
    rounds: usize,
}

/// Loads of so many halves of blocks, three at a time where that leaves none alone: one of rows for each, and four of lanes.
fn half_loads(halves: usize) -> usize {
    let twos = match halves % 3 {
        _ if halves == 1 => 0,
        0 => 0,
        2 => 1,
        _ => 2,
    };
    let threes = (halves - 2 * twos) / 3;
    let ones = halves - 2 * twos - 3 * threes;
    7 * threes + 6 * twos + 5 * ones
}

/// A plane that is copied with a border: `struct trainc_border`.
#[derive(Clone, Debug)]
pub(super) struct Border {
    pub(super) plane: [usize; 2],
    pub(super) start: [usize; 2],
    pub(super) step: [usize; 2],
    pub(super) parts: [usize; 2],
    pub(super) size: [usize; 2],
}

impl Border {
    /// Bytes of the copy.
    pub(super) fn bytes(&self) -> usize {
        self.parts[0] * self.parts[1] * self.size[0] * self.size[1]
    }

    pub(super) fn emit(&self, name: &str, out: &mut Text) {
        let Border { plane, start, step, parts, size } = self;
        out.long(format!(
            "static const struct trainc_border {name} = {{ .height = {}, .width = {}, .top = {}, .left = {}, .down = {}, .right = {}, .high = {}, .wide = {}, .rows = {}, .columns = {} }};",
            plane[0],
            plane[1],
            start[0],
            start[1],
            step[0],
            step[1],
            parts[0],
            parts[1],
            size[0],
            size[1]
        ));
    }
}

/// Instructions of a tile kernel's call with the loop around it, and of each pair of panels in it besides its stretches: 16 registers
/// of sums become zero, and are stored with their magnitudes' bits.
const TILES: usize = 45;
const TILE: usize = 64;
/// Of a call's further panels of lanes.
const TILES_BEHIND: usize = 18;
/// Of a function's call for all.
const CALL: usize = 300;

/// Instructions of a tile that is rounded and stored.
fn store(finish: Option<Narrowing>) -> usize {
    match suffix(finish) {
        "half_away" => 66,
        // More steps of rounding; of sums as they are, one after the other.
        _ => 150,
    }
}

/// Instructions of zeros for so many bytes, 64 at a time.
fn zeros(bytes: usize) -> usize {
    bytes * 5 / 64
}

/// Instructions of a table of places: four of a row at a time.
fn places([rows, columns]: [usize; 2]) -> usize {
    rows * (14 + columns * 3 / 4)
}
