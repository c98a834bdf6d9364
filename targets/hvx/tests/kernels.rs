//! Random kernels: structured code, packets and the emulator agree, with pipelining and with spilling forced; and the
//! loop to reach is found.

mod common;

use common::{Random, run};
use trainc_hvx::machine::evaluate::{Memory, State, scalar};
use trainc_hvx::machine::packets::check;
use trainc_hvx::machine::registers::{LINK, STACK_POINTER};
use trainc_hvx::machine::table::{Effect, Kind, Role, Unit};
use trainc_hvx::machine::{
    Assembled, Builder, Class, Count, Function, Instruction, Object, Opcode, Operand, Options,
    Register, Version, compile,
};

/// Inputs and results of the pool, then three objects.
const RESULTS: i32 = 4096;
const OBJECTS: i32 = 8192;
const OBJECT: i32 = 12544;
const SIZE: usize = 8192 + 3 * 12544;
const STACK: u32 = 65536;

struct Generator<'a> {
    random: &'a mut Random,
    base: Register,
    objects: [Object; 3],
    pool: Vec<Register>,
    opcodes: Vec<Opcode>,
    depth: u32,
}

impl Generator<'_> {
    fn any(&mut self, class: Class) -> Option<Register> {
        let fitting: Vec<Register> = self
            .pool
            .iter()
            .flat_map(|r| if r.class().is_pair() { vec![*r, r.low(), r.high()] } else { vec![*r] })
            .filter(|r| r.class() == class)
            .collect();
        (!fitting.is_empty()).then(|| fitting[self.random.below(fitting.len())])
    }

    fn immediate(&mut self, kind: Kind) -> i32 {
        let Kind::Immediate { signed, bits, scale, .. } = kind else { return 0 };
        let number = self.random.below(1 << bits) as i64;
        ((if signed { number - (1 << (bits - 1)) } else { number }) << scale) as i32
    }

    /// A random instruction on the pool.
    fn instruction(&mut self, b: &mut Builder) {
        let opcode = self.opcodes[self.random.below(self.opcodes.len())];
        let mut operands = Vec::new();
        let mut written: Vec<Register> = Vec::new();
        for field in opcode.row().fields {
            let operand = match field.kind {
                Kind::Register { class, .. } => {
                    let Some(register) = self.any(class) else { return };
                    if field.role != Role::Use {
                        written.push(register);
                    }
                    Operand::Register(register)
                }
                kind => Operand::Immediate(self.immediate(kind)),
            };
            operands.push(operand);
        }
        let instruction = Instruction::new(opcode, operands);
        if instruction.check().is_ok() {
            b.push(instruction);
        }
    }

    /// A pointer into an object, copied so that loops cannot move it far.
    fn pointer(&mut self, b: &mut Builder) -> (Register, Object) {
        let which = self.random.below(3);
        let from = OBJECTS + OBJECT * which as i32 + 1024;
        (b.emit(Opcode::AddImmediate, (self.base, from)), self.objects[which])
    }

    fn access(&mut self, b: &mut Builder, pointer: Register, object: Object) {
        use Opcode::*;
        const LOADS: [Opcode; 8] =
            [LoadV, LoadVNext, LoadVUnaligned, LoadW, LoadDNext, LoadUbNext, LoadD, LoadH];
        const STORES: [Opcode; 7] =
            [StoreV, StoreVNext, StoreVUnaligned, StoreW, StoreDNext, StoreB, StoreVIfQ];
        let load = self.random.chance(60);
        let opcode = if load { LOADS[self.random.below(8)] } else { STORES[self.random.below(7)] };
        let mut operands = Vec::new();
        for field in opcode.row().fields {
            let operand = match field.kind {
                Kind::Register { class: Class::R, .. }
                    if !(operands.contains(&Operand::Register(pointer))
                        || load && operands.is_empty()) =>
                {
                    Operand::Register(pointer)
                }
                Kind::Register { class, .. } => match self.any(class) {
                    Some(register) => Operand::Register(register),
                    None => return,
                },
                Kind::Immediate { scale, .. } => {
                    let most = if opcode.row().unit.is_vector() { 4 } else { 8 };
                    Operand::Immediate((self.random.below(most) as i32) << scale)
                }
            };
            operands.push(operand);
        }
        let instruction = Instruction::new(opcode, operands);
        if instruction.check().is_err() {
            return;
        }
        let access = Some(trainc_hvx::machine::Access { object, rounds_disjoint: false });
        b.push(Instruction { access, ..instruction });
    }

    fn straight(&mut self, b: &mut Builder, count: usize) {
        let (pointer, object) = self.pointer(b);
        self.run(b, count, pointer, object);
    }

    fn run(&mut self, b: &mut Builder, count: usize, pointer: Register, object: Object) {
        let mut accesses = 0;
        for _ in 0..count {
            if self.random.chance(25) && accesses < 3 {
                accesses += 1;
                self.access(b, pointer, object);
            } else {
                self.instruction(b);
            }
        }
    }

    fn code(&mut self, b: &mut Builder, pieces: usize) {
        for _ in 0..pieces {
            match self.random.below(4) {
                0 => {
                    let count = 2 + self.random.below(14);
                    self.straight(b, count);
                }
                1 | 2 if self.depth < 4 => {
                    let rounds = 1 + self.random.below(9) as u32;
                    let count = match self.random.below(3) {
                        0 => Count::Constant(rounds),
                        _ => Count::Register(b.constant(rounds as i32)),
                    };
                    let (first, second) = (self.pointer(b), self.pointer(b));
                    let inner = self.random.chance(55);
                    self.depth += 1;
                    let promised = self.random.below(rounds as usize) as u32 + 1;
                    b.repeat_at_least(count, promised, "a random loop", |b| {
                        if inner {
                            let (x, y) = (1 + self.random.below(8), 1 + self.random.below(8));
                            self.run(b, x, first.0, first.1);
                            self.run(b, y, second.0, second.1);
                        } else {
                            self.code(b, 2);
                        }
                    });
                    self.depth -= 1;
                }
                _ => {
                    let Some(condition) = self.any(Class::P) else { continue };
                    let both = self.random.chance(50);
                    let mut other = Vec::new();
                    std::mem::swap(&mut other, &mut self.pool);
                    self.pool = other;
                    let (x, y) = (1 + self.random.below(6), 1 + self.random.below(6));
                    let generator = std::cell::RefCell::new(&mut *self);
                    b.branch(
                        condition,
                        |b| generator.borrow_mut().straight(b, x),
                        |b| {
                            if both {
                                generator.borrow_mut().straight(b, y);
                            }
                        },
                    );
                }
            }
        }
    }
}

/// A random kernel: loads a pool of registers, does random things, stores the pool.
fn kernel(name: &str, random: &mut Random, version: Version) -> Function {
    let mut b = Builder::new(name, 1);
    let base = b.parameter(0);
    let any = Object::ANY;
    let objects = [b.object("a"), b.object("b"), b.object("c")];
    let mut pool = Vec::new();
    let (singles, pairs) = (2 + random.below(5), 1 + random.below(3));
    for slot in 0..singles as i32 {
        pool.push(b.load(Opcode::LoadW, (base, 4 * slot), any));
        pool.push(b.load(Opcode::LoadD, (base, 512 + 8 * slot), any));
        let from = b.emit(Opcode::AddImmediate, (base, 1024 + 128 * slot));
        pool.push(b.load(Opcode::LoadV, (from, 0), any));
    }
    for slot in 0..pairs as i32 {
        let from = b.emit(Opcode::AddImmediate, (base, 2048 + 256 * slot));
        let low = b.load(Opcode::LoadV, (from, 0), any);
        let high = b.load(Opcode::LoadV, (from, 1), any);
        pool.push(b.emit(Opcode::Vcombine, (high, low)));
        let scalar = pool[0];
        pool.push(b.emit(Opcode::PredicateFromR, (scalar,)));
        pool.push(b.emit(Opcode::QandVR, (low, scalar)));
    }
    let opcodes = Opcode::ALL.iter().copied().filter(|o| {
        let row = o.row();
        row.since <= version
            && row.effect() == Effect::None
            && !matches!(row.unit, Unit::Loop | Unit::Jump | Unit::JumpRegister | Unit::Control)
    });
    let opcodes = opcodes.collect();
    let pieces = 2 + random.below(4);
    let mut generator = Generator { random, base, objects, pool: pool.clone(), opcodes, depth: 0 };
    generator.code(&mut b, pieces);
    for (slot, register) in pool.into_iter().enumerate() {
        let here = b.emit(Opcode::AddImmediate, (base, RESULTS + 128 * slot as i32));
        match register.class() {
            Class::R => b.store(Opcode::StoreW, (here, 0, register), any),
            Class::RR => b.store(Opcode::StoreD, (here, 0, register), any),
            Class::P => {
                let bits = b.emit(Opcode::PredicateToR, (register,));
                b.store(Opcode::StoreW, (here, 0, bits), any);
            }
            Class::Q => {
                let ones = b.constant(0x0101_0101);
                let vector = b.emit(Opcode::VandQR, (register, ones));
                b.store(Opcode::StoreV, (here, 0, vector), any);
            }
            Class::VV => {
                let sum = b.emit(Opcode::VaddW, (register.low(), register.high()));
                let mixed = b.emit(Opcode::Vxor, (sum, register.high()));
                b.store(Opcode::StoreV, (here, 0, mixed), any);
            }
            _ => b.store(Opcode::StoreV, (here, 0, register), any),
        }
    }
    b.finish(None).unwrap_or_else(|e| panic!("{e}"))
}

/// Every packet is legal, and the packets compute what the structured code does.
fn agrees(function: &Function, code: &Assembled, memory: &[u8]) -> Vec<u8> {
    for packet in code.blocks.iter().flat_map(|b| &b.packets) {
        if let Err(e) = check(packet, code.version) {
            panic!("{e}: {}\n{}", trainc_hvx::machine::print::packet(packet), code.assembly());
        }
    }
    let base = 0x10_0000;
    let mut structured = State::new(Memory { base, bytes: memory.to_vec() });
    structured.run(function, &[base]).unwrap_or_else(|e| panic!("{e}"));
    let mut bytes = memory.to_vec();
    bytes.resize(memory.len() + STACK as usize, 0x5a);
    let mut packets = State::new(Memory { base, bytes });
    packets.set(STACK_POINTER, scalar(base + memory.len() as u32 + STACK - 8));
    packets.set(LINK, scalar(0x1234));
    for number in 16..28 {
        packets.set(Register::fixed(Class::R, number), scalar(number * 0x0101_0101));
    }
    packets.run_packets(code, &[base]).unwrap_or_else(|e| panic!("{e}\n{}", code.assembly()));
    for number in 16..28 {
        let kept = packets.get(Register::fixed(Class::R, number));
        assert_eq!(kept, scalar(number * 0x0101_0101), "r{number} of {}", code.name);
    }
    packets.memory.bytes.truncate(memory.len());
    if packets.memory.bytes != structured.memory.bytes {
        let at =
            packets.memory.bytes.iter().zip(&structured.memory.bytes).position(|(a, b)| a != b);
        panic!("packets differ at {at:?}\n{function:#?}\n{}", code.assembly());
    }
    structured.memory.bytes
}

#[test]
fn random_kernels_compute_what_they_say() {
    let mut random = Random(2024);
    let versions = [Version::V62, Version::V66, Version::V68, Version::V69, Version::V73];
    let (mut spills, mut pipelined, mut count) = (0, 0, 0);
    for version in versions {
        let mut functions = Vec::new();
        let mut expected = Vec::new();
        let kernels = if version == Version::V66 { 240 } else { 60 };
        for index in 0..kernels {
            let function = kernel(&format!("kernel_{index}"), &mut random, version);
            let options = match index % 4 {
                0 | 1 => Options::default(),
                2 => Options { pipeline: false, ..Options::default() },
                _ => Options { pipeline: true, scalars: 10, vectors: 6 },
            };
            let code = compile(&function, version, &options);
            let code = code.unwrap_or_else(|e| panic!("{e}"));
            spills += code.spills;
            pipelined += code.loops.iter().filter(|l| l.stages > 1).count();
            let memory = random.bytes(SIZE);
            expected.push(agrees(&function, &code, &memory));
            functions.push((code.name.clone(), code.assembly(), memory));
        }
        let name = format!("kernels_{version}");
        let found = run(&functions, version, &name).unwrap_or_else(|e| panic!("{e}"));
        for (index, (memory, _)) in found.iter().enumerate() {
            if *memory != expected[index] {
                let at = memory.iter().zip(&expected[index]).position(|(a, b)| a != b);
                panic!("{version} at {at:?}\n{}", functions[index].1);
            }
        }
        count += functions.len();
    }
    println!("{count} kernels, {spills} spills, {pipelined} pipelined loops");
    assert!(spills > 20 && pipelined > 20);
}

/// Eight rows by 32 columns of a matrix product, eight values of the depth a round, as plain code. Memory: a\[8\]\[depth\]
/// (i8), b\[depth/4\]\[32\]\[4\] (u8), c\[8\]\[32\] (i32).
fn product(depth: i32) -> Function {
    let mut b = Builder::new("product", 1);
    b.purpose("c[8][32] (int32) += a[8][depth] (i8) * b[depth/4][32][4] (u8)");
    let a = b.parameter(0);
    let weights = b.emit(Opcode::AddImmediate, (a, 8 * depth));
    let c = b.emit(Opcode::AddImmediate, (a, 40 * depth));
    let rounds = b.constant(depth / 8);
    let (inputs, packed, sums) = (b.object("inputs"), b.object("weights"), b.object("sums"));
    let row = b.constant(depth);
    let step = b.emit(Opcode::ModifierFromR, (row,));
    // Back up seven rows and on by eight bytes.
    let back = b.constant(8 - 7 * depth);
    let back = b.emit(Opcode::ModifierFromR, (back,));
    let accumulators: Vec<Register> = (0..8).map(|i| b.load(Opcode::LoadV, (c, i), sums)).collect();
    b.repeat_at_least(rounds, 8, "2048 products a round", |b| {
        let first = b.load(Opcode::LoadVNext, (weights, 1), packed);
        let second = b.load(Opcode::LoadVNext, (weights, 1), packed);
        for (i, sum) in accumulators.iter().enumerate() {
            let by = if i == 7 { back } else { step };
            let bytes = b.load(Opcode::LoadDStep, (a, by), inputs);
            b.update(Opcode::VrmpyUbBAccumulate, (*sum, first, bytes.low()));
            b.update(Opcode::VrmpyUbBAccumulate, (*sum, second, bytes.high()));
        }
    });
    for (i, sum) in (0..).zip(&accumulators) {
        b.store(Opcode::StoreV, (c, i, *sum), sums);
    }
    b.finish(None).unwrap_or_else(|e| panic!("{e}"))
}

/// The loop to reach: two dot products in every packet beside a load of a pair of words, a vector in two of eight.
#[test]
fn the_product_loop_takes_eight_packets() {
    const DEPTH: usize = 1152;
    let memory = Random(5).bytes(40 * DEPTH + 1024);
    let mut expected = memory.clone();
    for row in 0..8 {
        for column in 0..32 {
            let at = 40 * DEPTH + 128 * row + 4 * column;
            let old: [u8; 4] = memory[at..at + 4].try_into().expect("four bytes");
            let sum = (0..DEPTH).fold(i32::from_le_bytes(old), |sum, k| {
                let a = i32::from(memory[row * DEPTH + k] as i8);
                let b = memory[8 * DEPTH + k / 4 * 128 + 4 * column + k % 4];
                sum.wrapping_add(a * i32::from(b))
            });
            expected[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let function = product(DEPTH as i32);
    for version in [Version::V62, Version::V66, Version::V69, Version::V73] {
        let code =
            compile(&function, version, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let text = code.assembly();
        assert_eq!((code.loops[0].packets, code.spills), (8, 0), "{text}");
        let functions = [("product".to_string(), text, memory.clone())];
        let found = run(&functions, version, &format!("product_{version}"));
        let (result, packets) = &found.unwrap_or_else(|e| panic!("{e}"))[0];
        assert!(*result == expected, "{}", functions[0].1);
        let rate = (8 * 32 * DEPTH) as f64 / f64::from(*packets);
        println!("{version}: {packets} packets, {rate:.1} products a packet, call included");
        assert!(rate > 245.0, "{rate}");
    }
}

/// A stream updated in place: each round reads and writes its own vector of one object.
fn stream(name: &str, count: Count, promise: bool) -> Function {
    let mut b = Builder::new(name, 1);
    let base = b.parameter(0);
    let object = b.object("values");
    let (from, to) = (b.copy(base), b.copy(base));
    let count = match count {
        Count::Constant(_) => count,
        Count::Register(_) => Count::Register(b.load(Opcode::LoadW, (base, 6140), Object::ANY)),
    };
    let shift = b.constant(3);
    b.repeat(count, "in place", |b| {
        let x = b.load(Opcode::LoadVNext, (from, 1), object);
        if promise {
            b.promise_disjoint_rounds();
        }
        let y = b.emit(Opcode::VasrW, (x, shift));
        let z = b.emit(Opcode::VmpyiH, (y, x));
        let w = b.emit(Opcode::VaddW, (z, y));
        b.store(Opcode::StoreVNext, (to, 1, w), object);
        if promise {
            b.promise_disjoint_rounds();
        }
    });
    b.finish(None).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn streams_overlap_where_rounds_are_disjoint() {
    let mut random = Random(11);
    let mut functions = Vec::new();
    let mut expected = Vec::new();
    for (index, promise) in [false, true].into_iter().enumerate() {
        for rounds in 1..=8u32 {
            for register in [false, true] {
                let count = if register {
                    Count::Register(Register::fixed(Class::R, 0))
                } else {
                    Count::Constant(rounds)
                };
                let name = format!("stream_{index}_{rounds}_{register}");
                let function = stream(&name, count, promise);
                let code = compile(&function, Version::V66, &Options::default());
                let code = code.unwrap_or_else(|e| panic!("{e}"));
                if promise && (register || rounds > 5) {
                    assert!(
                        code.loops[0].stages > 1 && code.loops[0].packets <= 3,
                        "{}",
                        code.assembly()
                    );
                }
                let mut memory = random.bytes(6144);
                memory[6140..].copy_from_slice(&rounds.to_le_bytes());
                expected.push(agrees(&function, &code, &memory));
                functions.push((name, code.assembly(), memory));
            }
        }
    }
    let found = run(&functions, Version::V66, "streams").unwrap_or_else(|e| panic!("{e}"));
    for (index, (memory, _)) in found.iter().enumerate() {
        assert!(*memory == expected[index], "{}", functions[index].1);
    }
}

/// A stream that overlaps its rounds, and a loop that holds too many values for that.
fn narrow_and_wide() -> Function {
    let mut b = Builder::new("narrow_and_wide", 1);
    let base = b.parameter(0);
    let memory = b.object("memory");
    let number = b.constant(3);
    let from = b.emit(Opcode::AddImmediate, (base, 0));
    let to = b.emit(Opcode::AddImmediate, (base, 2048));
    b.repeat(16, "narrow", |b| {
        let x = b.load(Opcode::LoadVNext, (from, 1), memory);
        b.promise_disjoint_rounds();
        let y = b.emit(Opcode::VaslW, (x, number));
        let y = b.emit(Opcode::VmpyiWB, (y, number));
        let y = b.emit(Opcode::VasrW, (y, number));
        let z = b.emit(Opcode::VmpyiWB, (y, number));
        let z = b.emit(Opcode::VaddW, (z, y));
        b.store(Opcode::StoreVNext, (to, 1, z), memory);
        b.promise_disjoint_rounds();
    });
    let from = b.emit(Opcode::AddImmediate, (base, 0));
    b.repeat(8, "wide", |b| {
        let values: Vec<Register> = (0..6)
            .map(|i| {
                let x = b.load(Opcode::LoadV, (from, i), memory);
                b.promise_disjoint_rounds();
                b.emit(Opcode::VmpyiWB, (x, number))
            })
            .collect();
        let sums: Vec<Register> =
            (0..6).map(|i| b.emit(Opcode::VaslW, (values[5 - i], number))).collect();
        let mut all = sums[0];
        for i in 1..6 {
            let both = b.emit(Opcode::VmaxW, (sums[i], values[i]));
            all = b.emit(Opcode::Vxor, (all, both));
        }
        b.store(Opcode::StoreVNext, (to, 1, all), memory);
        b.promise_disjoint_rounds();
        b.emit_to(from, Opcode::AddImmediate, (from, 128));
    });
    b.finish(None).unwrap_or_else(|e| panic!("{e}"))
}

/// Only the loop that lacks registers gives way.
#[test]
fn one_loop_gives_way() {
    let function = narrow_and_wide();
    let compiled = |vectors: u32| {
        let options = Options { vectors, ..Options::default() };
        let code = compile(&function, Version::V66, &options).unwrap_or_else(|e| panic!("{e}"));
        let again = compile(&function, Version::V66, &options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(code.assembly(), again.assembly());
        code
    };
    let plenty = compiled(32);
    assert!(plenty.loops.iter().all(|l| l.stages > 1), "{:?}", plenty.loops);
    let mut random = Random(5);
    let memory = random.bytes(6144);
    let mut functions = Vec::new();
    let mut gave_way = 0;
    for vectors in 12..16 {
        let code = compiled(vectors);
        let [narrow, wide] = &code.loops[..] else { panic!("{:?}", code.loops) };
        assert_eq!(code.spills, 0);
        assert_eq!(narrow.packets, plenty.loops[0].packets, "{vectors} vectors");
        gave_way += u32::from(wide.packets > plenty.loops[1].packets);
        let name = format!("narrow_and_wide_{vectors}");
        let text = code.assembly().replace("narrow_and_wide", &name);
        functions.push((name, text, memory.clone()));
    }
    assert!(gave_way > 0, "registers never ran short");
    let expected = agrees(&function, &plenty, &memory);
    let found = run(&functions, Version::V66, "give_way").unwrap_or_else(|e| panic!("{e}"));
    for (index, (memory, _)) in found.iter().enumerate() {
        assert!(*memory == expected, "{}", functions[index].1);
    }
}

/// Calls with values alive across them, in loops; arguments beyond the registers; long counts.
#[test]
fn calls_keep_what_is_alive() {
    let mut b = Builder::new("callee", 2);
    let (x, y) = (b.parameter(0), b.parameter(1));
    // Uses what a callee may: loop registers, scratch registers, vectors.
    let sum = b.constant(0);
    let zero = b.emit(Opcode::VsplatW, (y,));
    b.repeat(1500, "a long count", |b| {
        b.emit_to(sum, Opcode::Add, (sum, x));
        b.update(Opcode::VaddWIfQ, (zero, Register::fixed(Class::Q, 3), zero));
    });
    let result = b.emit(Opcode::Sub, (sum, y));
    let callee = b.finish(Some(result)).unwrap_or_else(|e| panic!("{e}"));

    let mut b = Builder::new("caller", 1);
    let base = b.parameter(0);
    let vector = b.load(Opcode::LoadV, (base, 0), Object::ANY);
    let pair = b.load(Opcode::LoadD, (base, 128), Object::ANY);
    let flag = b.emit(Opcode::TestBit, (pair.low(), 4));
    let total = b.constant(0);
    let index = b.constant(0);
    b.repeat(3, "calls", |b| {
        let got = b.call("callee", &[index, total]);
        b.emit_to(total, Opcode::Add, (total, got));
        b.emit_to(index, Opcode::AddImmediate, (index, 1));
    });
    let chosen = b.emit(Opcode::Mux, (flag, total, index));
    let at = b.emit(Opcode::AddImmediate, (base, 256));
    b.store(Opcode::StoreV, (at, 0, vector), Object::ANY);
    b.store(Opcode::StoreD, (at, 128, pair), Object::ANY);
    b.store(Opcode::StoreW, (at, 136, total), Object::ANY);
    b.store(Opcode::StoreW, (at, 140, chosen), Object::ANY);
    let caller = b.finish(None).unwrap_or_else(|e| panic!("{e}"));

    let compiled = |f: &Function| {
        compile(f, Version::V66, &Options::default()).unwrap_or_else(|e| panic!("{e}")).assembly()
    };
    let memory = Random(3).bytes(512);
    let text = format!("{}{}", compiled(&caller), compiled(&callee));
    let found = run(&[("caller".to_string(), text.clone(), memory.clone())], Version::V66, "calls");
    let found = &found.unwrap_or_else(|e| panic!("{e}"))[0].0;
    let mut expected = memory.clone();
    let mut total = 0u32;
    for index in 0..3 {
        total = total.wrapping_add((1500u32 * index).wrapping_sub(total));
    }
    expected.copy_within(0..136, 256);
    expected[392..396].copy_from_slice(&total.to_le_bytes());
    let chosen = if memory[128] >> 4 & 1 == 1 { total } else { 3 };
    expected[396..400].copy_from_slice(&chosen.to_le_bytes());
    assert!(*found == expected, "{text}");
}
