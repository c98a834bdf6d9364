//! Structured code as assembly one instruction a packet, every virtual register in memory: slow, and simple enough to
//! be believed. For comparison with what the machine layer makes of the same code.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::machine::function::{Node, Operand};
use crate::machine::registers::{FRAME_POINTER, Part};
use crate::machine::{Class, Count, Function, Instruction, Register};

struct Plain {
    text: String,
    slots: BTreeMap<u32, i32>,
    frame: i32,
    labels: usize,
    name: String,
}

/// The function's assembly text.
pub fn assembly(function: &Function) -> String {
    let mut plain = Plain {
        text: String::new(),
        slots: BTreeMap::new(),
        frame: 0,
        labels: 0,
        name: function.name.to_string(),
    };
    for (i, &parameter) in function.parameters.iter().enumerate().take(6) {
        let slot = plain.slot(parameter);
        plain.line(&format!("r28 = add(r30,##{slot})"));
        plain.line(&format!("memw(r28+#0) = r{i}"));
    }
    plain.nodes(&function.body);
    if let Some(result) = function.result {
        let slot = plain.slot(result);
        plain.line(&format!("r28 = add(r30,##{slot})"));
        plain.line("r0 = memw(r28+#0)");
    }
    let frame = (plain.frame + 255) / 256 * 256;
    let name = &function.name;
    format!(
        "\t.text\n\t.globl {name}\n\t.p2align 4\n\t.type {name},@function\n{name}:\n\t{{ allocframe(#8) }}\n\t{{ r28 = r29 }}\n\t{{ r28 = and(r28,#-128) }}\n\t{{ r29 = add(r28,##-{frame}) }}\n{}\t{{ r29 = add(r30,#-8) }}\n\t{{ deallocframe }}\n\t{{ jumpr r31 }}\n",
        plain.text
    )
}

impl Plain {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "\t{{ {text} }}");
    }

    fn slot(&mut self, register: Register) -> i32 {
        let whole = register.number();
        let frame = &mut self.frame;
        let slot = *self.slots.entry(whole).or_insert_with(|| {
            *frame += 8;
            -*frame
        });
        slot + if register.part == Part::High { 4 } else { 0 }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!(".L{}_{}", self.name, self.labels)
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Straight(run) => run.iter().for_each(|i| self.instruction(i)),
                Node::Loop(l) => {
                    self.frame += 8;
                    let (counter, top) = (-self.frame, self.label());
                    match l.count {
                        Count::Constant(n) => self.line(&format!("r0 = ##{n}")),
                        Count::Register(r) => self.read(r, "r0"),
                    }
                    self.line(&format!("r28 = add(r30,##{counter})"));
                    self.line("memw(r28+#0) = r0");
                    let _ = writeln!(self.text, "{top}:");
                    self.nodes(&l.body);
                    self.line(&format!("r28 = add(r30,##{counter})"));
                    self.line("r0 = memw(r28+#0)");
                    self.line("r0 = add(r0,#-1)");
                    self.line("memw(r28+#0) = r0");
                    self.line("p0 = cmp.gt(r0,#0)");
                    self.line(&format!("if (p0) jump ##{top}"));
                }
                Node::Branch(branch) => {
                    let (no, end) = (self.label(), self.label());
                    self.read(branch.condition, "p0");
                    self.line(&format!("if (!p0) jump ##{no}"));
                    self.nodes(&branch.then);
                    self.line(&format!("jump ##{end}"));
                    let _ = writeln!(self.text, "{no}:");
                    self.nodes(&branch.otherwise);
                    let _ = writeln!(self.text, "{end}:");
                }
                Node::Call(call) => {
                    for (i, &argument) in call.arguments.iter().enumerate() {
                        self.read(argument, &format!("r{i}"));
                    }
                    self.line(&format!("call ##{}", call.symbol));
                    if let Some(result) = call.result {
                        self.write(result, "r0");
                    }
                }
            }
        }
    }

    fn read(&mut self, register: Register, into: &str) {
        if register.is_fixed() {
            return self.line(&format!("{into} = {register}"));
        }
        let slot = self.slot(register);
        self.line(&format!("r28 = add(r30,##{slot})"));
        match register.class() {
            Class::R => self.line(&format!("{into} = memw(r28+#0)")),
            Class::RR => self.line(&format!("{into} = memd(r28+#0)")),
            Class::P => {
                self.line("r9 = memw(r28+#0)");
                self.line(&format!("{into} = r9"));
            }
            other => panic!("no memory for {other:?}"),
        }
    }

    fn write(&mut self, register: Register, from: &str) {
        let slot = self.slot(register);
        self.line(&format!("r28 = add(r30,##{slot})"));
        match register.class() {
            Class::R => self.line(&format!("memw(r28+#0) = {from}")),
            Class::RR => self.line(&format!("memd(r28+#0) = {from}")),
            Class::P => {
                self.line(&format!("r9 = {from}"));
                self.line("memw(r28+#0) = r9");
            }
            other => panic!("no memory for {other:?}"),
        }
    }

    fn instruction(&mut self, instruction: &Instruction) {
        let mut places: BTreeMap<Register, Register> = BTreeMap::new();
        let (mut scalars, mut predicates) = (0, 0);
        let mut placed = instruction.clone();
        for operand in &mut placed.operands {
            let Operand::Register(register) = operand else { continue };
            if register.is_fixed() {
                continue;
            }
            let place = *places.entry(*register).or_insert_with(|| match register.class() {
                Class::R => {
                    scalars += 1;
                    Register::fixed(Class::R, scalars - 1)
                }
                Class::RR => {
                    scalars = (scalars + 1) / 2 * 2 + 2;
                    Register::fixed(Class::RR, scalars - 2)
                }
                class => {
                    predicates += 1;
                    Register::fixed(class, predicates - 1)
                }
            });
            *register = place;
        }
        for register in instruction.reads() {
            if register != FRAME_POINTER {
                self.read(register, &places[&register].to_string());
            }
        }
        self.line(&placed.to_string());
        for register in instruction.writes() {
            self.write(register, &places[&register].to_string());
        }
    }
}
