//! The schedule of step sizes as a table, and the function that gives a step's size.

use std::fmt::Write as _;

use trainc_ir::graph::InputRole;
use trainc_ir::program::Program;
use trainc_ir::schedule::{self, PI, Point, Position, SINE, Shape};
use trainc_ir::{Element, Scale};

use crate::fraction::Fraction;
use crate::interface::Interface;
use crate::layout::Lines;

/// The step sizes of a program that trains by one scalar step size.
#[derive(Debug)]
pub(crate) struct Schedule<'p> {
    /// `PREFIX_learning_rate`.
    pub(crate) symbol: String,
    macros: String,
    /// Whether step sizes are integers (i32); else they are f32.
    integer: bool,
    points: &'p [Point],
}

impl<'p> Schedule<'p> {
    /// The schedule of a program's notes; `None` if it has none, takes no step size, or has a function of that name, or if
    /// what it gives are not fractions.
    pub(crate) fn of(program: &'p Program, interface: &Interface) -> Option<Schedule<'p>> {
        let symbol = format!("{}_learning_rate", interface.prefix);
        let mut all = interface.functions.iter().flat_map(|f| &f.parameters);
        let rate = all.find(|p| p.role == InputRole::LearningRate)?;
        let plain = rate.ty.count() == 1 && rate.ty.scale == Scale::None;
        let integer = rate.ty.element == Element::I32;
        let known = integer || rate.ty.element == Element::F32;
        let taken = interface.functions.iter().any(|f| f.symbol == symbol);
        let points = &program.notes.schedule[..];
        let stays = points.iter().all(|p| p.shape == Shape::Constant);
        let checked = schedule::check(points).is_ok() && (stays || !integer);
        (plain && known && !taken && checked).then(|| Schedule {
            symbol,
            macros: interface.macros(),
            integer,
            points,
        })
    }

    /// A step size as C writes it.
    fn c_size(&self, size: f64) -> String {
        if self.integer { format!("{}", size as i32) } else { format!("{:?}f", size as f32) }
    }

    /// The points, where a table of fractions and sizes says all.
    fn table(&self) -> Option<Vec<(f64, f64)>> {
        self.points.iter().map(Point::plain).collect()
    }

    /// The schedule in the command line's words.
    fn words(&self) -> String {
        self.points.iter().map(Point::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Whether a step is at a point or behind it; the language's words for the step, for all steps, and after a number.
    fn reached(from: Position, step: &str, all: &str, unsigned: &str) -> String {
        match from {
            Position::Steps(from) => format!("{step} >= {from}{unsigned}"),
            Position::Fraction(from) => {
                let Fraction { numerator, denominator } = Fraction::reached(from);
                format!("{step} * {denominator}{unsigned} >= {all} * {numerator}{unsigned}")
            }
        }
    }

    /// The table and the function, for the header.
    pub(crate) fn header(&self, out: &mut Lines) {
        let macros = &self.macros;
        out.line("");
        match self.table() {
            Some(table) => {
                let rows = table.iter();
                let rows =
                    rows.map(|&(from, size)| format!("{{ {from:?}, {} }}", self.c_size(size)));
                let rows: Vec<String> = rows.collect();
                out.comment(&[
                    "The schedule of step sizes: from which fraction of the training on, and the size."
                        .into(),
                ]);
                out.line(&format!("#define {macros}_SCHEDULE_POINTS {}", rows.len()));
                out.line(&format!("#define {macros}_SCHEDULE {{ {} }}", rows.join(", ")));
            }
            None => out.comment(&[format!("The schedule of step sizes: {}.", self.words())]),
        }
        out.line("");
        if self.points.iter().any(|p| p.shape != Shape::Constant) {
            self.between(out);
        }
        out.comment(&[
            "The schedule's size for a step (from 0) of a training of so many steps: exact, by integers"
                .into(),
            "that neither wrap nor divide.".into(),
        ]);
        let element = if self.integer { "int32_t" } else { "float" };
        out.open_function(&format!(
            "static inline {element} {}(uint32_t step, uint32_t steps)",
            self.symbol
        ));
        match self.points {
            [point] => {
                out.line("(void)step;");
                out.line("(void)steps;");
                out.line(&format!("return {};", self.c_size(point.value)));
            }
            points => {
                out.line("const uint64_t all = steps > 0 ? steps : 1;");
                if !self.fractions() {
                    out.line("(void)all;");
                }
                for (i, point) in points.iter().enumerate().skip(1).rev() {
                    let reached = Schedule::reached(point.from, "(uint64_t)step", "all", "u");
                    out.open(&format!("if ({reached}) {{"));
                    out.line(&format!("return {};", self.c_value(i)));
                    out.close("}");
                }
                out.line(&format!("return {};", self.c_value(0)));
            }
        }
        out.close("}");
    }

    /// Whether any position is a fraction that the function must compare.
    fn fractions(&self) -> bool {
        let fraction = |p: &Point| matches!(p.from, Position::Fraction(_));
        let line = |i: usize| self.points[i].shape != Shape::Constant;
        self.points.iter().skip(1).any(fraction)
            || (0..self.points.len()).any(|i| line(i) && fraction(&self.points[i]))
    }

    /// The size at and behind a point, in C.
    fn c_value(&self, at: usize) -> String {
        let (point, next) = (self.points[at], self.points.get(at + 1));
        let (Some(next), true) = (next, point.shape != Shape::Constant) else {
            return self.c_size(point.value);
        };
        let place = |from: Position| match from {
            Position::Steps(steps) => format!("{:?}f", steps as f32),
            Position::Fraction(from) => format!("{:?}f * (float)all", from as f32),
        };
        format!(
            "{}_{}(step, {}, {}, {}, {})",
            self.symbol,
            point.shape.name(),
            place(point.from),
            place(next.from),
            self.c_size(point.value),
            self.c_size(next.value)
        )
    }

    /// The functions of what is between two points: the same FP32 steps as the trainer's.
    fn between(&self, out: &mut Lines) {
        let symbol = &self.symbol;
        out.comment(&["How far a step is from one place to another, 0 to 1.".into()]);
        out.open_function(&format!(
            "static inline float {symbol}_way(uint32_t step, float start, float end)"
        ));
        out.line("const float way = ((float)step - start) / (end - start);");
        out.line("return way > 1.0f ? 1.0f : way > 0.0f ? way : 0.0f;");
        out.close("}");
        out.line("");
        for shape in [Shape::Linear, Shape::Cosine] {
            if !self.points.iter().any(|p| p.shape == shape) {
                continue;
            }
            out.open_function(&format!(
                "static inline float {symbol}_{}(uint32_t step, float start, float end, float first, float last)",
                shape.name()
            ));
            out.line(&format!("const float way = {symbol}_way(step, start, end);"));
            if shape == Shape::Linear {
                out.line("return first + (last - first) * way;");
            } else {
                let [a, b, c, d, e] = SINE.map(|c| format!("{c:?}f"));
                out.line(&format!("const float angle = {PI:?}f * (0.5f - way);"));
                out.line("const float square = angle * angle;");
                out.line(&format!("float series = {e} * square;"));
                for coefficient in [d, c, b, a] {
                    out.line(&format!("series = (series + {coefficient}) * square;"));
                }
                out.line("const float cosine = angle * (1.0f + series);");
                out.line("return last + (first - last) * (0.5f * (1.0f + cosine));");
            }
            out.close("}");
            out.line("");
        }
    }

    /// `SCHEDULE` and `learning_rate`, for the Rust module.
    pub(crate) fn rust(&self, out: &mut String) {
        let ty = if self.integer { "i32" } else { "f32" };
        let value = |size: f64| match self.integer {
            true => format!("{}", size as i32),
            false => format!("{:?}", size as f32),
        };
        let Some(table) = self.table() else { return self.rust_shapes(out, ty) };
        let points: Vec<String> =
            table.iter().map(|&(from, size)| format!("({from:?}, {})", value(size))).collect();
        let mut body = String::new();
        match self.points {
            [_] => body.push_str("    let _ = (step, steps);\n"),
            points => {
                body.push_str(
                    "    let (step, all) = (u64::from(step), u64::from(steps.max(1)));\n",
                );
                for (index, point) in points.iter().enumerate().skip(1).rev() {
                    let reached = Schedule::reached(point.from, "step", "all", "");
                    let _ = write!(
                        body,
                        "    if {reached} {{\n        return SCHEDULE[{index}].1;\n    }}\n"
                    );
                }
            }
        }
        let _ = write!(
            out,
            "/// Step sizes: from which fraction of the training on, and the size.\n\
             pub const SCHEDULE: [(f64, {ty}); {}] = [{}];\n\n\
             /// The size of [`SCHEDULE`] for a step (from 0) of a training of so many steps: exact, by integers that\n\
             /// neither wrap nor divide.\n\
             pub fn learning_rate(step: u32, steps: u32) -> {ty} {{\n{body}    SCHEDULE[0].1\n}}\n\n",
            points.len(),
            points.join(", "),
        );
    }

    /// `learning_rate` of a schedule with lines and counts of steps, for the Rust module.
    fn rust_shapes(&self, out: &mut String, ty: &str) {
        let mut body = String::new();
        for (i, point) in self.points.iter().enumerate().rev() {
            let place = |from: Position| match from {
                Position::Steps(steps) => format!("{:?}", steps as f32),
                Position::Fraction(from) => format!("{:?} * all as f32", from as f32),
            };
            let size = |value: f64| match self.integer {
                true => format!("{}", value as i32),
                false => format!("{:?}", value as f32),
            };
            let value = match (point.shape, self.points.get(i + 1)) {
                (Shape::Linear | Shape::Cosine, Some(next)) => {
                    let way = format!(
                        "let (start, end) = ({}, {});\n        let way = (step as f32 - start) / (end - start);\n        \
                         let way = if way > 1.0 {{ 1.0 }} else if way > 0.0 {{ way }} else {{ 0.0 }};\n        ",
                        place(point.from),
                        place(next.from)
                    );
                    let (first, last) = (size(point.value), size(next.value));
                    if point.shape == Shape::Linear {
                        format!("{way}return {first} + ({last} - {first}) * way;")
                    } else {
                        let [a, b, c, d, e] = SINE.map(|c| format!("{c:?}"));
                        format!(
                            "{way}let angle: f32 = {PI:?} * (0.5 - way);\n        let square = angle * angle;\n        \
                             let series = {e} * square;\n        let series = (series + {d}) * square;\n        \
                             let series = (series + {c}) * square;\n        let series = (series + {b}) * square;\n        \
                             let series = (series + {a}) * square;\n        let cosine = angle * (1.0 + series);\n        \
                             return {last} + ({first} - {last}) * (0.5 * (1.0 + cosine));"
                        )
                    }
                }
                _ => format!("return {};", size(point.value)),
            };
            if i > 0 {
                let reached = Schedule::reached(point.from, "step", "all", "");
                let _ = write!(body, "    if {reached} {{\n        {value}\n    }}\n");
            } else {
                let _ = writeln!(body, "    {}", value.replace("        ", "    "));
            }
        }
        let _ = write!(
            out,
            "/// The step size for a step (from 0) of a training of so many steps, by the schedule\n/// `{}`.\n\
             #[allow(clippy::all, clippy::pedantic, unused_variables, reason = \"emitted code\")]\n\
             pub fn learning_rate(step: u32, steps: u32) -> {ty} {{\n    \
             let (step, all) = (u64::from(step), u64::from(steps.max(1)));\n{body}}}\n\n",
            self.words()
        );
    }
}
