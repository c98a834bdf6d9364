//! Locals that rounds combine, in any order: `local = local op value`.

use trainc_ir::loops::{Binary, Expr, Scalar};
use trainc_loops::Reduction;

use super::arithmetic::instruction;
use super::lanes::{Kind, Lanes, quad, suffix};
use super::round::{Line, Round};

impl Round<'_, '_, '_> {
    /// Adds the rounds' values to the sums.
    pub(super) fn accumulate(&mut self, at: usize, value: &Expr) {
        let reduction = Reduction { value: value.clone(), ..self.plan.reductions[at].clone() };
        if value.ty == Scalar::F32 {
            let value = self.float(value);
            let value = self.bind("magnitude", &value);
            let sums = self.sums(at, (Kind::Float, 32), self.count);
            for (sum, value) in sums.parts.iter().zip(&value.parts) {
                let line = format!("{sum} = vbslq_f32(vcgtq_f32({value}, {sum}), {value}, {sum});");
                self.lines.push(Line::Code(line));
            }
            return;
        }
        let (op, own, bits) =
            (reduction.op, self.natural(value), self.view().reduction(&reduction));
        if op == Binary::Add && bits == 32 && self.machine.level.has_dots() {
            let factors = match self.view().byte_factors(value) {
                None if self.view().is_byte(value) => Some((value.clone(), Expr::i32(1))),
                factors => factors.map(|(a, b)| (a.clone(), b.clone())),
            };
            if let Some((a, b)) = factors {
                return self.accumulate_dots(at, &a, &b);
            }
        }
        if op == Binary::Add && own < bits && !self.is_uniform(value) {
            // Pairs of neighbours add up in lanes of twice the width.
            let mut lanes = self.value(value, own);
            while 2 * lanes.bits < bits {
                let (wide, count) = (2 * lanes.bits, lanes.count / 2);
                let parts = lanes.map("vpaddl", "").parts;
                lanes = Lanes { kind: lanes.kind, bits: wide, count, parts };
            }
            let sums = self.sums(at, (Kind::Signed, bits), lanes.count / 2);
            let name = lanes.intrinsic("vpadal");
            for (sum, part) in sums.parts.iter().zip(&lanes.parts) {
                self.lines.push(Line::Code(format!("{sum} = {name}({sum}, {part});")));
            }
            return;
        }
        let sums = self.sums(at, (Kind::Signed, bits), self.count);
        let joined = match op {
            Binary::Add => self.add(value, bits, sums.clone()),
            _ => sums.zip(instruction(op), &self.value(value, bits)),
        };
        for (sum, part) in sums.parts.iter().zip(&joined.parts) {
            self.lines.push(Line::Code(format!("{sum} = {part};")));
        }
    }

    /// Adds products of signed bytes to sums of four rounds each.
    fn accumulate_dots(&mut self, at: usize, a: &Expr, b: &Expr) {
        let (a, b) = (self.value(a, 8), self.value(b, 8));
        // Two registers of sums, which have to be added up behind the loop.
        let sums = self.sums(at, (Kind::Signed, 32), (self.count / 4).min(8));
        let name = sums.intrinsic("vdot");
        for (sum, (a, b)) in sums.parts.iter().cycle().zip(a.parts.iter().zip(&b.parts)) {
            self.lines.push(Line::Code(format!("{sum} = {name}({sum}, {a}, {b});")));
        }
    }

    /// The variables of a reduction, which start before the loop.
    fn sums(&mut self, at: usize, (kind, bits): (Kind, u32), count: usize) -> Lanes {
        let like = |sums: &Lanes| (sums.bits, sums.count) == (bits, count);
        if let Some((_, sums)) = self.sums.iter().find(|(n, sums)| *n == at && like(sums)) {
            return sums.clone();
        }
        let Reduction { local, op, .. } = self.plan.reductions[at];
        let (quad, suffix) = (quad(bits, count), suffix(kind, bits));
        let scalar = self.scope.local_name(local).to_string();
        let first = match op {
            Binary::Add | Binary::Or | Binary::Xor => "0".to_string(),
            Binary::And => "-1".to_string(),
            _ if bits < 32 => format!("(int{bits}_t){scalar}"),
            _ => scalar.clone(),
        };
        let parts = super::lanes::part_count(bits, count);
        let ty = super::lanes::vector_type(kind, bits, count);
        let name = if parts > 1 { scalar } else { format!("{scalar}_v") };
        let names = self.names(&name, parts);
        for name in &names {
            self.before.push(format!("{ty} {name} = vdup{quad}_n_{suffix}({first});"));
        }
        let sums = Lanes::new(kind, bits, count, names);
        self.sums.push((at, sums.clone()));
        sums
    }

    /// Lines after the loop: the lanes join the local.
    pub(super) fn finish_reductions(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, sums) in std::mem::take(&mut self.sums) {
            let Reduction { local, op, .. } = self.plan.reductions[at];
            let name = self.scope.local_name(local).to_string();
            let wide = if self.scope.local_type(local) == "int64_t" { 64 } else { 32 };
            let join = |scalar: &str| match (sums.kind, op) {
                (Kind::Float, _) => format!("{name} = trainc_maximum({scalar}, {name});"),
                (_, Binary::Add) => format!("{name} = trainc_add{wide}({name}, {scalar});"),
                (_, Binary::Minimum) => format!("{name} = trainc_minimum{wide}({name}, {scalar});"),
                (_, Binary::Maximum) => format!("{name} = trainc_maximum{wide}({name}, {scalar});"),
                (_, Binary::And) => format!("{name} &= {scalar};"),
                (_, Binary::Or) => format!("{name} |= {scalar};"),
                (_, _) => format!("{name} ^= {scalar};"),
            };
            let operation = instruction(op);
            let combine = sums.intrinsic(operation);
            let mut parts = sums.parts.clone();
            let one = Lanes { parts: Vec::new(), count: sums.count / parts.len(), ..sums.clone() };
            if sums.kind == Kind::Float {
                // No instruction joins floats in this way.
                for part in &parts[1..] {
                    let first = &parts[0];
                    let larger = format!("vcgtq_f32({part}, {first})");
                    lines.push(format!("{first} = vbslq_f32({larger}, {part}, {first});"));
                }
            } else {
                while parts.len() > 1 {
                    parts = parts
                        .as_chunks::<2>()
                        .0
                        .iter()
                        .map(|[a, b]| format!("{combine}({a}, {b})"))
                        .collect();
                }
            }
            let vector = parts.swap_remove(0);
            let across = match op {
                Binary::Add | Binary::Minimum | Binary::Maximum
                    if !self.is_armv7() && sums.kind != Kind::Float =>
                {
                    Some(one.intrinsic(&format!("{operation}v")))
                }
                _ => None,
            };
            if let Some(across) = across {
                lines.push(join(&format!("{across}({vector})")));
                continue;
            }
            let lanes = self.scope.fresh(&format!("{name}_lanes"));
            let lane = self.scope.fresh("lane");
            let element = match sums.kind {
                Kind::Float => "float".to_string(),
                _ => format!("int{}_t", sums.bits),
            };
            let count = one.count;
            lines.push(format!("{element} {lanes}[{count}];"));
            lines.push(format!("{}({lanes}, {vector});", one.intrinsic("vst1")));
            lines.push(format!("for (int32_t {lane} = 0; {lane} < {count}; {lane}++) {{"));
            lines.push(join(&format!("{lanes}[{lane}]")));
            lines.push("}".into());
        }
        lines
    }
}
