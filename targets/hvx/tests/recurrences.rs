//! Pipelined loops whose rounds depend on one another: sums carried in registers, and vectors of one object that are
//! stored and loaded again some rounds before or after. The emulator computes what the structured code says.

mod common;

use common::{Random, run};
use trainc_hvx::machine::evaluate::{Memory, State};
use trainc_hvx::machine::{
    Builder, Count, Function, Object, Opcode, Options, Register, Version, compile,
};

/// Vectors of the object, in the middle of which the loop walks.
const VECTORS: i32 = 40;
const MIDDLE: i32 = 14;
const SUMS: i32 = 3;

/// Vectors at both ends of the memory are the carried sums; each round's accesses are at random distances from a pointer
/// that moves on by a vector, in random order.
fn recurrence(name: &str, random: &mut Random) -> Function {
    let mut b = Builder::new(name, 1);
    let base = b.parameter(0);
    let object = b.object("vectors");
    let sums: Vec<Register> =
        (0..SUMS).map(|i| b.load(Opcode::LoadV, (base, i), Object::ANY)).collect();
    let from = b.emit(Opcode::AddImmediate, (base, 128 * MIDDLE));
    let to = b.copy(from);
    let rounds = 5 + random.below(6) as u32;
    let count = match random.chance(50) {
        true => Count::Constant(rounds),
        false => Count::Register(b.constant(rounds as i32)),
    };
    let steps = 2 + random.below(4);
    b.repeat(count, "rounds that depend on one another", |b| {
        let mut value = sums[0];
        for _ in 0..steps {
            let sum = sums[random.below(sums.len())];
            let distance = random.below(7) as i32 - 3;
            match random.below(5) {
                0 | 1 => value = b.load(Opcode::LoadV, (from, distance), object),
                2 => b.store(Opcode::StoreV, (to, distance, value), object),
                3 => b.emit_to(sum, Opcode::VaddW, (sum, value)),
                _ => {
                    b.update(Opcode::VrmpyBBvAccumulate, (sum, value, sum));
                    value = b.emit(Opcode::Vxor, (value, sum));
                }
            }
        }
        // A recurrence through memory, and a store before or behind it.
        let distance = random.below(7) as i32 - 3;
        let loaded = b.load(Opcode::LoadV, (from, distance), object);
        let mixed = b.emit(Opcode::VaddW, (loaded, value));
        b.emit_to(from, Opcode::AddImmediate, (from, 128));
        b.store(Opcode::StoreVNext, (to, 1, mixed), object);
        b.emit_to(sums[1], Opcode::VsubH, (mixed, sums[1]));
    });
    for (i, &sum) in (0..).zip(&sums) {
        let at = b.emit(Opcode::AddImmediate, (base, 128 * (VECTORS - SUMS + i)));
        b.store(Opcode::StoreV, (at, 0, sum), Object::ANY);
    }
    b.finish(None).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn rounds_that_depend_on_one_another() {
    let mut random = Random(77);
    let mut pipelined = 0;
    for version in [Version::V62, Version::V66, Version::V73] {
        let (mut functions, mut expected) = (Vec::new(), Vec::new());
        for index in 0..150 {
            let function = recurrence(&format!("recurrence_{index}"), &mut random);
            let code = compile(&function, version, &Options::default());
            let code = code.unwrap_or_else(|e| panic!("{e}"));
            pipelined += code.loops.iter().filter(|l| l.stages > 1).count();
            let memory = random.bytes(128 * VECTORS as usize);
            let base = 0x10_0000;
            let mut state = State::new(Memory { base, bytes: memory.clone() });
            state.run(&function, &[base]).unwrap_or_else(|e| panic!("{e}"));
            expected.push(state.memory.bytes);
            functions.push((code.name.clone(), code.assembly(), memory));
        }
        let found = run(&functions, version, &format!("recurrences_{version}"));
        let found = found.unwrap_or_else(|e| panic!("{e}"));
        for (index, (memory, _)) in found.iter().enumerate() {
            let wrong = (0..memory.len()).find(|&i| memory[i] != expected[index][i]);
            assert_eq!(wrong, None, "{version}\n{}", functions[index].1);
        }
    }
    println!("{pipelined} pipelined loops");
    assert!(pipelined > 100, "{pipelined} pipelined loops");
}
