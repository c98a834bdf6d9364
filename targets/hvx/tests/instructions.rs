//! Every instruction of the table does under the emulator what the evaluator says.

mod common;

use common::{Random, run};
use trainc_hvx::machine::evaluate::{Memory, State};
use trainc_hvx::machine::table::{Effect, Kind, Role, Unit};
use trainc_hvx::machine::{
    Builder, Class, Function, Instruction, Opcode, Operand, Options, Register, Version, compile,
};

/// Inputs from here on, 256 bytes an operand.
const INPUTS: i32 = 0;
/// The instruction's own memory.
const SCRATCH: i32 = 2048;
/// Results, 256 bytes an operand.
const RESULTS: i32 = 4096;
const SIZE: usize = 6144;

/// A register with an input, as an operand.
fn input(b: &mut Builder, base: Register, class: Class, slot: i32) -> Register {
    let here = b.emit(Opcode::AddImmediate, (base, INPUTS + 256 * slot));
    let any = trainc_hvx::machine::Object::ANY;
    match class {
        Class::R => b.load(Opcode::LoadW, (here, 0), any),
        Class::RR => b.load(Opcode::LoadD, (here, 0), any),
        Class::P => {
            let scalar = b.load(Opcode::LoadW, (here, 0), any);
            b.emit(Opcode::PredicateFromR, (scalar,))
        }
        Class::M => {
            let scalar = b.load(Opcode::LoadW, (here, 0), any);
            b.emit(Opcode::ModifierFromR, (scalar,))
        }
        Class::V => b.load(Opcode::LoadV, (here, 0), any),
        Class::VV => {
            let low = b.load(Opcode::LoadV, (here, 0), any);
            let high = b.load(Opcode::LoadV, (here, 1), any);
            b.emit(Opcode::Vcombine, (high, low))
        }
        Class::Q => {
            let vector = b.load(Opcode::LoadV, (here, 0), any);
            let bits = b.constant(0x0408_1020);
            b.emit(Opcode::QandVR, (vector, bits))
        }
    }
}

fn output(b: &mut Builder, base: Register, value: Register, slot: i32) {
    let here = b.emit(Opcode::AddImmediate, (base, RESULTS + 256 * slot));
    let any = trainc_hvx::machine::Object::ANY;
    match value.class() {
        Class::R => b.store(Opcode::StoreW, (here, 0, value), any),
        Class::RR => b.store(Opcode::StoreD, (here, 0, value), any),
        Class::P => {
            let scalar = b.emit(Opcode::PredicateToR, (value,));
            b.store(Opcode::StoreW, (here, 0, scalar), any);
        }
        Class::M => {
            let scalar = b.emit(Opcode::ModifierToR, (value,));
            b.store(Opcode::StoreW, (here, 0, scalar), any);
        }
        Class::V => b.store(Opcode::StoreV, (here, 0, value), any),
        Class::VV => {
            b.store(Opcode::StoreV, (here, 0, value.low()), any);
            b.store(Opcode::StoreV, (here, 1, value.high()), any);
        }
        Class::Q => {
            let bits = b.constant(0x0102_0408);
            let vector = b.emit(Opcode::VandQR, (value, bits));
            b.store(Opcode::StoreV, (here, 0, vector), any);
        }
    }
}

fn immediate(random: &mut Random, kind: Kind, address: bool) -> i32 {
    let Kind::Immediate { signed, bits, scale, extendable } = kind else { return 0 };
    if extendable && !address && random.chance(30) {
        return random.next() as i32;
    }
    let (low, high) = if signed {
        (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1)
    } else {
        (0, (1i64 << bits) - 1)
    };
    let (low, high) =
        if address { (low.max(-64 >> scale), high.min(64 >> scale)) } else { (low, high) };
    let number = match random.below(6) {
        0 => low,
        1 => high,
        _ => low + random.below((high - low + 1) as usize) as i64,
    };
    (number << scale) as i32
}

/// A function that does one instruction on inputs from memory.
fn one(opcode: Opcode, name: &str, random: &mut Random) -> Function {
    let mut b = Builder::new(name, 1);
    let base = b.parameter(0);
    let row = opcode.row();
    let memory = row.effect() != Effect::None;
    let mut operands: Vec<Operand> = Vec::new();
    let mut address = None;
    let mut results = Vec::new();
    let first_address = row.fields.iter().enumerate().position(|(i, f)| {
        memory
            && f.role != Role::Define
            && matches!(f.kind, Kind::Register { class: Class::R, .. })
            && !(i == 0 && row.effect() == Effect::Load)
    });
    for (slot, field) in row.fields.iter().enumerate() {
        let operand = match field.kind {
            Kind::Register { class, .. } => {
                let register = if Some(slot) == first_address {
                    let aligned =
                        if row.unit == Unit::Load || row.unit == Unit::Store { 8 } else { 1 };
                    let inside = 640 + (random.below(256) / aligned * aligned) as i32;
                    let pointer = b.emit(Opcode::AddImmediate, (base, SCRATCH + inside));
                    address = Some(pointer);
                    pointer
                } else if memory && class == Class::R && Some(slot) == first_address.map(|a| a + 1)
                {
                    b.constant(8 * random.below(16) as i32)
                } else if memory && class == Class::M {
                    let step = b.constant(8 * (random.below(60) as i32 - 30));
                    b.emit(Opcode::ModifierFromR, (step,))
                } else if field.role == Role::Define {
                    b.fresh(class)
                } else {
                    input(&mut b, base, class, slot as i32)
                };
                if field.role != Role::Use {
                    results.push((slot as i32, register));
                }
                Operand::Register(register)
            }
            // Shifted indices keep the access inside.
            kind => Operand::Immediate(immediate(random, kind, memory)),
        };
        operands.push(operand);
    }
    b.push(Instruction::new(opcode, operands));
    for (slot, register) in results {
        if Some(register) == address {
            let moved = b.emit(Opcode::Sub, (register, base));
            output(&mut b, base, moved, slot);
        } else {
            output(&mut b, base, register, slot);
        }
    }
    b.finish(None).unwrap_or_else(|e| panic!("{opcode:?}: {e}"))
}

#[test]
fn each_does_what_the_evaluator_says() {
    let written_by_the_layer = [Unit::Loop, Unit::Jump, Unit::JumpRegister, Unit::Frame];
    let mut random = Random(7);
    let mut cases = Vec::new();
    for opcode in Opcode::ALL {
        let skip = written_by_the_layer.contains(&opcode.row().unit)
            // An address of code is another under the emulator.
            || matches!(opcode, Opcode::DeallocateFrame | Opcode::AddressOf);
        if skip || opcode.row().since > Version::V66 {
            continue;
        }
        for round in 0..6 {
            let name = format!("{opcode:?}_{round}");
            let function = one(*opcode, &name, &mut random);
            cases.push((*opcode, function, random.bytes(SIZE)));
        }
    }
    let base = 0x10_0000;
    let mut functions = Vec::new();
    let mut expected = Vec::new();
    for (opcode, function, memory) in &cases {
        let mut state = State::new(Memory { base, bytes: memory.clone() });
        state.run(function, &[base]).unwrap_or_else(|e| panic!("{opcode:?}: {e}"));
        expected.push(state.memory.bytes);
        let code = compile(function, Version::V66, &Options::default());
        let code = code.unwrap_or_else(|e| panic!("{opcode:?}: {e}"));
        assert_eq!(code.spills, 0);
        functions.push((code.name.clone(), code.assembly(), memory.clone()));
    }
    let found = run(&functions, Version::V66, "instructions").unwrap_or_else(|e| panic!("{e}"));
    let mut wrong = Vec::new();
    for (index, (opcode, ..)) in cases.iter().enumerate() {
        if found[index].0 != expected[index] {
            let at = found[index].0.iter().zip(&expected[index]).position(|(a, b)| a != b);
            wrong.push(format!("{opcode:?} at {at:?}\n{}", functions[index].1));
        }
    }
    let first = wrong.first().cloned().unwrap_or_default();
    let names: Vec<&str> = wrong.iter().filter_map(|w| w.lines().next()).collect();
    assert!(wrong.is_empty(), "{} wrong: {names:?}\n{first}", wrong.len());
    println!("{} functions", cases.len());
}
