//! Writing a block: registers are taken and given back as they are needed.

use super::{
    Binary, Block, Immediate, Instruction, Item, Kind, Named, Register, Slot, Ternary, Width,
};

/// The machine's registers in the order they are taken: those that a function need not save first. The frame pointer of
/// debuggers, `s0`, comes last; zero, `sp`, `gp` and `tp` are not ours.
const POOL: [u32; 28] = [
    5, 6, 7, 28, 29, 30, 31, 10, 11, 12, 13, 14, 15, 16, 17, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    27, 1, 8,
];

/// Most parameters of a block: registers that C passes.
const PARAMETERS: usize = 8;

/// Builds a [`Block`].
#[derive(Debug, Default)]
pub(crate) struct Builder {
    /// Items of the blocks that are open, the innermost last.
    open: Vec<Vec<Item>>,
    registers: Vec<Named>,
    fixed: Vec<u32>,
    taken: Vec<u32>,
    slots: Vec<Named>,
}

impl Builder {
    /// A block with parameters.
    pub(crate) fn new(parameters: &[(&str, Kind)]) -> (Builder, Vec<Slot>) {
        assert!(parameters.len() <= PARAMETERS, "C passes {PARAMETERS} registers");
        let slots = parameters.iter().map(|&(name, kind)| Named { name: name.into(), kind });
        let builder =
            Builder { open: vec![Vec::new()], slots: slots.collect(), ..Builder::default() };
        let slots = (0..parameters.len()).map(Slot).collect();
        (builder, slots)
    }

    /// A register. Names of live registers differ.
    ///
    /// # Panics
    /// If the machine has no more.
    pub(crate) fn take(&mut self, name: impl Into<String>, kind: Kind) -> Register {
        let free = POOL.into_iter().find(|number| !self.taken.contains(number));
        let number = free.expect("a block fits the registers");
        self.taken.push(number);
        let mut name = name.into();
        // A register may be taken again under its name: then it is the same variable.
        let same = |old: &Named| old.name == name && old.kind != kind;
        if self.registers.iter().any(same) {
            name.push('_');
        }
        self.registers.push(Named { name, kind });
        self.fixed.push(number);
        Register(self.registers.len() - 1)
    }

    pub(crate) fn word(&mut self, name: impl Into<String>) -> Register {
        self.take(name, Kind::Word)
    }

    /// Gives registers back.
    pub(crate) fn free(&mut self, registers: impl IntoIterator<Item = Register>) {
        for register in registers {
            let number = self.fixed[register.0];
            self.taken.retain(|&taken| taken != number);
        }
    }

    /// A remark.
    pub(crate) fn comment(&mut self, text: impl Into<String>) {
        self.describe(text, &[]);
    }

    /// A remark that tells readers of the assembly what some registers are, by the names of the portable form.
    pub(crate) fn describe(&mut self, text: impl Into<String>, registers: &[Register]) {
        self.item(Item::Comment(text.into(), registers.to_vec()));
    }

    fn item(&mut self, item: Item) {
        self.open.last_mut().expect("a block is open").push(item);
    }

    fn one(&mut self, instruction: Instruction) {
        self.item(Item::One(instruction));
    }

    /// A number of 32 bits: one instruction or two.
    pub(crate) fn constant(&mut self, register: Register, value: i32) {
        constant(register, value).into_iter().for_each(|instruction| self.one(instruction));
    }

    pub(crate) fn binary(&mut self, op: Binary, d: Register, a: Register, b: Register) {
        self.one(Instruction::Binary(op, d, a, b));
    }

    pub(crate) fn ternary(&mut self, op: Ternary, d: Register, a: Register, b: Register) {
        self.one(Instruction::Ternary(op, d, a, b));
    }

    pub(crate) fn immediate(&mut self, op: Immediate, d: Register, a: Register, n: i32) {
        self.one(Instruction::Immediate(op, d, a, n));
    }

    /// Moves an address by any distance; takes a register if that is large.
    pub(crate) fn advance(&mut self, address: Register, bytes: i32) {
        if bytes == 0 {
            return;
        }
        if (-2048..2048).contains(&bytes) {
            return self.immediate(Immediate::Add, address, address, bytes);
        }
        let distance = self.word("distance");
        self.constant(distance, bytes);
        self.binary(Binary::Add, address, address, distance);
        self.free([distance]);
    }

    pub(crate) fn add_shift(&mut self, d: Register, a: Register, b: Register, shift: u32) {
        match shift {
            0 => self.binary(Binary::Add, d, a, b),
            _ => self.one(Instruction::AddShift(d, a, b, shift)),
        }
    }

    pub(crate) fn insert(&mut self, d: Register, a: Register, width: u32, offset: u32) {
        self.one(Instruction::Insert(d, a, width, offset));
    }

    pub(crate) fn load(&mut self, d: Register, address: Register, offset: i32) {
        self.one(Instruction::Load(d, address, offset));
    }

    pub(crate) fn load_step(&mut self, d: Register, address: Register, step: i32) {
        self.one(Instruction::LoadStep(d, address, step));
    }

    pub(crate) fn store(&mut self, width: Width, value: Register, address: Register, offset: i32) {
        self.one(Instruction::Store(width, value, address, offset));
    }

    pub(crate) fn store_step(
        &mut self,
        width: Width,
        value: Register,
        address: Register,
        step: i32,
    ) {
        self.one(Instruction::StoreStep(width, value, address, step));
    }

    /// A register with what a slot holds.
    pub(crate) fn take_slot(&mut self, slot: Slot) -> Register {
        let Named { name, kind } = self.slots[slot.0].clone();
        let register = self.take(format!("{name}_now"), kind);
        self.one(Instruction::LoadSlot(register, slot));
        register
    }

    pub(crate) fn load_slot(&mut self, register: Register, slot: Slot) {
        self.one(Instruction::LoadSlot(register, slot));
    }

    pub(crate) fn store_slot(&mut self, register: Register, slot: Slot) {
        self.one(Instruction::StoreSlot(register, slot));
    }

    /// Keeps a register in a slot and gives it back.
    pub(crate) fn keep(&mut self, register: Register, slot: Slot) {
        self.one(Instruction::StoreSlot(register, slot));
        self.free([register]);
    }

    /// A hardware loop of constant rounds; `temporary` holds the number of rounds at its start and may be overwritten in it.
    pub(crate) fn hardware_loop(
        &mut self,
        level: u32,
        rounds: usize,
        temporary: Register,
        body: impl FnOnce(&mut Builder),
    ) {
        let rounds = i32::try_from(rounds).expect("rounds of a loop are few");
        self.open.push(Vec::new());
        body(self);
        let body = self.open.pop().expect("the loop is open");
        self.item(Item::HardwareLoop { level, count: temporary, rounds, body });
    }

    /// Repeats as often as a slot says.
    pub(crate) fn repeat(&mut self, counter: Slot, body: impl FnOnce(&mut Builder)) {
        self.open.push(Vec::new());
        body(self);
        let body = self.open.pop().expect("the loop is open");
        let temporary = self.word(format!("{}_left", self.slots[counter.0].name));
        self.item(Item::Repeat { counter, temporary, body });
        self.free([temporary]);
    }

    /// The block.
    pub(crate) fn finish(mut self) -> Block {
        let items = self.open.pop().expect("the block is open");
        assert!(self.open.is_empty(), "all loops are closed");
        let parameters = self.slots.len();
        Block { items, registers: self.registers, fixed: self.fixed, slots: self.slots, parameters }
    }
}

/// Instructions that make a number of 32 bits.
pub(super) fn constant(register: Register, value: i32) -> Vec<Instruction> {
    if (-2048..2048).contains(&value) {
        return vec![Instruction::Constant(register, value)];
    }
    let low = (value << 20) >> 20;
    let upper = value.wrapping_sub(low) as u32;
    let mut all = vec![Instruction::UpperConstant(register, upper)];
    if low != 0 {
        all.push(Instruction::Immediate(Immediate::Add, register, register, low));
    }
    all
}
