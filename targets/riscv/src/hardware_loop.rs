//! The two hardware loops. A loop's end is the address of its body's last instruction; when that is executed and more
//! than one iteration is left, the next instruction is the body's first. A count of 0 runs the body once, as 1 does.

use crate::decode::{Action, FUNCT3, Field, LoopSetting, Operands, Row, encoding};

const LOOP: u32 = 0x7b;

pub(crate) fn rows(rows: &mut Vec<Row>) {
    let table = [
        ("lp.starti", 0, LoopSetting::Start),
        ("lp.endi", 1, LoopSetting::End),
        ("lp.count", 2, LoopSetting::Count),
        ("lp.counti", 3, LoopSetting::CountImmediate),
        ("lp.setup", 4, LoopSetting::Setup),
        ("lp.setupi", 5, LoopSetting::SetupImmediate),
    ];
    for (name, funct3, setting) in table {
        let reads = matches!(setting, LoopSetting::Count | LoopSetting::Setup);
        let operands = if reads { Operands::SOURCE } else { Operands::NONE };
        let operands = operands.with(Field::UnsignedI);
        // Bit 7 is the loop's number.
        let mask = FUNCT3 | 0xf00;
        let pattern = encoding(LOOP, funct3, 0);
        rows.push(Row::new(name, mask, pattern, operands, Action::Loop(setting)));
    }
}

/// The state of the loops; 0 is the inner one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loops {
    pub(crate) start: [u32; 2],
    pub(crate) end: [u32; 2],
    pub(crate) count: [u32; 2],
}

impl Loops {
    /// No instruction ends these: addresses are even.
    pub(crate) const IDLE: Loops = Loops { start: [0; 2], end: [u32::MAX; 2], count: [0; 2] };

    /// Executes a setting that stands at `pc`.
    pub(crate) fn set(
        &mut self,
        number: usize,
        setting: LoopSetting,
        pc: u32,
        rs1: (u32, u32),
        immediate: u32,
    ) {
        let (field, value) = rs1;
        let target = pc.wrapping_add(immediate << 1);
        match setting {
            LoopSetting::Start => self.start[number] = target,
            LoopSetting::End => self.end[number] = target,
            LoopSetting::Count => self.count[number] = value,
            LoopSetting::CountImmediate => self.count[number] = immediate,
            LoopSetting::Setup => {
                self.start[number] = pc.wrapping_add(4);
                self.end[number] = target;
                self.count[number] = value;
            }
            LoopSetting::SetupImmediate => {
                self.start[number] = pc.wrapping_add(4);
                self.end[number] = pc.wrapping_add(field << 1);
                self.count[number] = immediate;
            }
        }
    }

    /// Where the instruction after the one at `pc` is, if a loop goes on there.
    #[inline]
    pub(crate) fn next(&mut self, pc: u32) -> Option<u32> {
        for number in 0..2 {
            if pc == self.end[number] && self.count[number] > 1 {
                self.count[number] -= 1;
                return Some(self.start[number]);
            }
        }
        None
    }
}
