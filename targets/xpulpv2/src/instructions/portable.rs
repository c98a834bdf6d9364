//! A block as portable C.

use super::{Binary, Block, Immediate, Instruction, Item, Kind, Register, Slot, Ternary, Width};

impl Block {
    /// Statements of C, indented for a function's body. They need `trainc_xpulp.h`.
    pub(crate) fn portable(&self) -> String {
        let mut out = String::new();
        let mut used = vec![false; self.registers.len()];
        mark(&self.items, &mut used);
        let mut declared: Vec<&str> = Vec::new();
        for (register, _) in self.registers.iter().zip(used).filter(|(_, used)| *used) {
            if !declared.contains(&register.name.as_str()) {
                declared.push(&register.name);
            }
        }
        for kind in [Kind::Word, Kind::Source, Kind::Target] {
            let names: Vec<String> = declared
                .iter()
                .filter(|name| self.registers.iter().any(|r| r.name == **name && r.kind == kind))
                .enumerate()
                .map(|(i, name)| match (i, kind) {
                    (0, _) | (_, Kind::Word) => name.to_string(),
                    _ => format!("*{name}"),
                })
                .collect();
            if !names.is_empty() {
                let line = format!("{}{};", kind.c_type(), names.join(", "));
                for part in super::wrapped(&line).lines() {
                    out.push_str(&format!("    {part}\n"));
                }
            }
        }
        self.statements(&self.items, 1, &mut out);
        out
    }

    fn name(&self, register: Register) -> &str {
        &self.registers[register.0].name
    }

    fn slot(&self, slot: Slot) -> &str {
        &self.slots[slot.0].name
    }

    fn statements(&self, items: &[Item], depth: usize, out: &mut String) {
        let pad = "    ".repeat(depth);
        let mut rest = items.iter();
        while let Some(item) = rest.next() {
            if let Some(number) = self.number(item, rest.as_slice().first()) {
                out.push_str(&format!("{pad}{number}\n"));
                rest.next();
                continue;
            }
            match item {
                Item::Comment(text, _) => out.push_str(&format!("{pad}/* {text} */\n")),
                Item::One(instruction) => {
                    out.push_str(&format!("{pad}{}\n", self.statement(instruction)));
                }
                Item::HardwareLoop { level, rounds, body, .. } => {
                    let variable = ["round", "row"][*level as usize];
                    out.push_str(&format!(
                        "{pad}for (uint32_t {variable} = 0; {variable} < {rounds}; {variable}++) {{\n"
                    ));
                    self.statements(body, depth + 1, out);
                    out.push_str(&format!("{pad}}}\n"));
                }
                Item::Repeat { counter, body, .. } => {
                    out.push_str(&format!("{pad}do {{\n"));
                    self.statements(body, depth + 1, out);
                    out.push_str(&format!("{pad}}} while (--{} != 0);\n", self.slot(*counter)));
                }
            }
        }
    }

    /// A number that takes two instructions.
    fn number(&self, first: &Item, second: Option<&Item>) -> Option<String> {
        let Item::One(Instruction::UpperConstant(d, upper)) = first else { return None };
        match second? {
            Item::One(Instruction::Immediate(Immediate::Add, to, from, low))
                if [to, from] == [d, d] =>
            {
                let value = upper.wrapping_add(*low as u32);
                Some(format!("{} = {value:#010x};", self.name(*d)))
            }
            _ => None,
        }
    }

    fn statement(&self, instruction: &Instruction) -> String {
        let n = |register: Register| self.name(register);
        match *instruction {
            Instruction::Constant(d, value) => {
                let value = match value {
                    0.. => format!("{value}"),
                    _ => format!("{:#x}", value as u32),
                };
                format!("{} = {value};", n(d))
            }
            Instruction::UpperConstant(d, value) => format!("{} = {value:#x};", n(d)),
            Instruction::Binary(op, d, a, b) => {
                let (a_kind, b_kind) = (self.registers[a.0].kind, self.registers[b.0].kind);
                let value = match op {
                    Binary::Add if a_kind != Kind::Word && b_kind == Kind::Word => {
                        format!("{} + (int32_t){}", n(a), n(b))
                    }
                    Binary::Add => format!("{} + {}", n(a), n(b)),
                    Binary::Subtract if a_kind != b_kind => {
                        format!("{} - (int32_t){}", n(a), n(b))
                    }
                    Binary::Subtract if a_kind != Kind::Word => {
                        format!("(uint32_t)({} - {})", n(a), n(b))
                    }
                    Binary::Subtract => format!("{} - {}", n(a), n(b)),
                    Binary::Multiply => format!("{} * {}", n(a), n(b)),
                    Binary::SetLess => format!("(int32_t){} < (int32_t){}", n(a), n(b)),
                    Binary::Xor => format!("{} ^ {}", n(a), n(b)),
                    Binary::And => format!("{} & {}", n(a), n(b)),
                    Binary::Minimum => format!("trainc_xpulp_min({}, {})", n(a), n(b)),
                    Binary::Maximum => format!("trainc_xpulp_max({}, {})", n(a), n(b)),
                };
                format!("{} = {value};", n(d))
            }
            Instruction::Ternary(op, d, a, b) => match op {
                Ternary::MultiplySubtract if self.registers[d.0].kind != Kind::Word => {
                    format!("{} -= (int32_t)({} * {});", n(d), n(a), n(b))
                }
                Ternary::MultiplySubtract => format!("{} -= {} * {};", n(d), n(a), n(b)),
                _ => {
                    let function = match op {
                        Ternary::DotUnsigned => "sdotusp_b",
                        Ternary::DotSigned => "sdotsp_b",
                        Ternary::PackLow => "packlo_b",
                        _ => "packhi_b",
                    };
                    let (d, a, b) = (n(d), n(a), n(b));
                    format!("{d} = trainc_xpulp_{function}({d}, {a}, {b});")
                }
            },
            Instruction::Immediate(op, d, a, value) => {
                // Such as 0x03030303.
                let lanes = format!(
                    "{:#010x}",
                    value as u32 & 7
                        | (value as u32 & 7) << 8
                        | (value as u32 & 7) << 16
                        | (value as u32 & 7) << 24
                );
                let value = match op {
                    Immediate::Add if value < 0 => format!("{} - {}", n(a), -value),
                    Immediate::Add => format!("{} + {value}", n(a)),
                    Immediate::Xor => format!("{} ^ {:#x}", n(a), value as u32),
                    Immediate::ShiftLeft => format!("{} << {value}", n(a)),
                    Immediate::ShiftRight => format!("{} >> {value}", n(a)),
                    Immediate::ShiftBytesLeft => format!("trainc_xpulp_sll_b({}, {lanes})", n(a)),
                    Immediate::ShiftBytesRight => format!("trainc_xpulp_sra_b({}, {lanes})", n(a)),
                    Immediate::ShiftBytesRightUnsigned => {
                        format!("trainc_xpulp_srl_b({}, {lanes})", n(a))
                    }
                    Immediate::Clip => format!("trainc_xpulp_clip({}, {value})", n(a)),
                    Immediate::ClipUnsigned => format!("trainc_xpulp_clipu({}, {value})", n(a)),
                };
                format!("{} = {value};", n(d))
            }
            Instruction::AddShift(d, a, b, shift) => {
                format!("{} = (uint32_t)((int32_t)({} + {}) >> {shift});", n(d), n(a), n(b))
            }
            Instruction::Insert(d, a, width, offset) => {
                let (d, a) = (n(d), n(a));
                format!("{d} = trainc_xpulp_insert({d}, {a}, {width}, {offset});")
            }
            Instruction::Load(d, address, offset) => {
                format!("{} = trainc_xpulp_load({});", n(d), displaced(n(address), offset))
            }
            Instruction::LoadStep(d, address, step) => {
                let address = n(address);
                format!("{} = trainc_xpulp_load({address}), {address} += {step};", n(d))
            }
            Instruction::Store(width, value, address, offset) => {
                format!("{};", store(width, n(value), &displaced(n(address), offset)))
            }
            Instruction::StoreStep(width, value, address, step) => {
                let address = n(address);
                format!("{}, {address} += {step};", store(width, n(value), address))
            }
            Instruction::LoadSlot(d, slot) => format!("{} = {};", n(d), self.slot(slot)),
            Instruction::StoreSlot(a, slot) => format!("{} = {};", self.slot(slot), n(a)),
        }
    }
}

/// Marks the registers that instructions name.
fn mark(items: &[Item], used: &mut [bool]) {
    for item in items {
        match item {
            Item::Comment(..) => {}
            Item::One(instruction) => {
                let named = instruction.reads().into_iter().chain(instruction.writes());
                named.for_each(|register| used[register.0] = true);
            }
            Item::HardwareLoop { body, .. } | Item::Repeat { body, .. } => mark(body, used),
        }
    }
}

fn displaced(address: &str, offset: i32) -> String {
    match offset {
        0 => address.into(),
        ..0 => format!("{address} - {}", -offset),
        _ => format!("{address} + {offset}"),
    }
}

fn store(width: Width, value: &str, address: &str) -> String {
    let function = match width {
        Width::Byte => "trainc_mixed_store8",
        Width::Half => "trainc_mixed_store16",
        Width::Word => "trainc_xpulp_store",
    };
    format!("{function}({address}, {value})")
}
