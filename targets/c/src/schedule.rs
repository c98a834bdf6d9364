//! The schedules of step sizes and other inputs as tables, and the functions that give a step's values.

use std::fmt::Write as _;

use trainc_ir::graph::InputRole;
use trainc_ir::names::snake;
use trainc_ir::program::{Program, StageChoice};
use trainc_ir::schedule::{self, PI, Per, Point, Position, SINE, Shape};
use trainc_ir::{Element, Scale};

use crate::fraction::Fraction;
use crate::interface::{Interface, Parameter};
use crate::layout::Lines;

/// What one input of a training step is by how far the training is.
#[derive(Debug)]
pub(crate) struct Schedule<'p> {
    /// `PREFIX_learning_rate`.
    pub(crate) symbol: String,
    /// What it counts.
    pub(crate) per: Per,
    /// The function in the Rust module.
    function: String,
    /// What stands before the names of macros.
    macros: String,
    /// The table in the Rust module.
    table: String,
    /// What its values are.
    subject: String,
    /// Whether values are integers (i32); else they are f32.
    integer: bool,
    points: &'p [Point],
}

impl<'p> Schedule<'p> {
    /// The schedule of the step size by a program's notes; `None` if it has none, takes no step size, or has a function of
    /// that name, or if what it gives are not fractions.
    pub(crate) fn of(program: &'p Program, interface: &Interface) -> Option<Schedule<'p>> {
        let mut all = interface.functions.iter().flat_map(|f| &f.parameters);
        let rate = all.find(|p| p.role == InputRole::LearningRate)?;
        let points = &program.notes.schedule[..];
        Schedule::with(interface, Some(rate), "learning_rate", Per::Step, points)
    }

    /// The schedules of all inputs that have one, the step size first.
    pub(crate) fn all(program: &'p Program, interface: &Interface) -> Vec<Schedule<'p>> {
        let others = program
            .notes
            .scheduled
            .iter()
            .filter_map(|scheduled| Schedule::named(program, interface, &scheduled.name));
        let stages = Schedule::of_stages(program, interface);
        Schedule::of(program, interface).into_iter().chain(others).chain(stages).collect()
    }

    /// Which training step runs, if there are several.
    pub(crate) fn of_stages(program: &'p Program, interface: &Interface) -> Option<Schedule<'p>> {
        let StageChoice::Schedule(schedule) = &program.notes.stages.as_ref()?.choice else {
            return None;
        };
        let found = Schedule::with(interface, None, &schedule.name, schedule.per, &schedule.points);
        found.map(|found| Schedule { subject: Schedule::stages(program, interface), ..found })
    }

    /// The schedule of an input other than the step size; `None` as in [`Schedule::of`].
    pub(crate) fn named(
        program: &'p Program,
        interface: &Interface,
        name: &str,
    ) -> Option<Schedule<'p>> {
        let scheduled = program.notes.scheduled.iter().find(|s| s.name == name)?;
        let mut all = interface.functions.iter().flat_map(|f| &f.parameters);
        let input = all.find(|p| p.role == InputRole::Scheduled && p.original == name)?;
        Schedule::with(interface, Some(input), name, scheduled.per, &scheduled.points)
    }

    /// A schedule; without an input of whole numbers.
    fn with(
        interface: &Interface,
        input: Option<&Parameter>,
        name: &str,
        per: Per,
        points: &'p [Point],
    ) -> Option<Schedule<'p>> {
        let symbol = format!("{}_{name}", interface.prefix);
        let plain = input.is_none_or(|i| i.ty.count() == 1 && i.ty.scale == Scale::None);
        let element = input.map_or(Element::I32, |input| input.ty.element);
        let integer = element == Element::I32;
        let known = integer || element == Element::F32;
        let taken = interface.functions.iter().any(|f| f.symbol == symbol);
        let stays = points.iter().all(|p| p.shape == Shape::Constant);
        let checked = schedule::check_per(points, per).is_ok() && (stays || !integer);
        let (macros, table, subject) = match input.map(|input| input.role) {
            Some(InputRole::LearningRate) => {
                (interface.macros(), "SCHEDULE".to_string(), "step sizes".to_string())
            }
            _ => {
                let upper = name.to_uppercase();
                let macros = format!("{}_{upper}", interface.macros());
                (macros, format!("{upper}_SCHEDULE"), format!("values of {name}"))
            }
        };
        let function = snake(name);
        (plain && known && !taken && checked).then_some(Schedule {
            symbol,
            per,
            function,
            macros,
            table,
            subject,
            integer,
            points,
        })
    }

    /// What a value is for, and so the name of its parameter; the same of all of them.
    fn counted(&self) -> (&'static str, &'static str) {
        match self.per {
            Per::Step => ("step", "steps"),
            Per::Epoch => ("epoch", "epochs"),
        }
    }

    /// A step size as C writes it.
    fn c_size(&self, size: f64) -> String {
        if self.integer { format!("{}", size as i32) } else { format!("{:?}f", size as f32) }
    }

    /// The points, where a table of fractions and sizes says all.
    fn table(&self) -> Option<Vec<(f64, f64)>> {
        self.points.iter().map(Point::plain).collect()
    }

    /// What one of its values is.
    fn one(&self) -> &'static str {
        if self.table == "SCHEDULE" { "size" } else { "value" }
    }

    /// What the numbers of stages mean.
    pub(crate) fn stages(program: &Program, interface: &Interface) -> String {
        let symbol = |entry: &String| {
            interface.functions.iter().find(|f| f.entry == *entry).map(|f| f.symbol.clone())
        };
        let functions = program.notes.stages.iter().flat_map(|stages| &stages.functions);
        let named = functions.filter_map(symbol).enumerate();
        let named: Vec<String> = named.map(|(n, symbol)| format!("{n} {symbol}")).collect();
        format!("stages, of which each has a training step ({})", named.join(", "))
    }

    /// The schedule in the command line's words.
    fn words(&self) -> String {
        self.points.iter().map(Point::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Whether a step is at a point or behind it; the language's words for the step, for all steps, and after a number.
    fn reached(from: Position, step: &str, all: &str, unsigned: &str) -> String {
        match from {
            Position::Steps(from) | Position::Epochs(from) => {
                format!("{step} >= {from}{unsigned}")
            }
            Position::Fraction(from) => {
                let Fraction { numerator, denominator } = Fraction::reached(from);
                format!("{step} * {denominator}{unsigned} >= {all} * {numerator}{unsigned}")
            }
        }
    }

    /// The table and the function, for the header.
    pub(crate) fn header(&self, out: &mut Lines) {
        let macros = &self.macros;
        let subject = &self.subject;
        let (step, steps) = self.counted();
        out.line("");
        match self.table() {
            Some(table) => {
                let rows = table.iter();
                let rows =
                    rows.map(|&(from, size)| format!("{{ {from:?}, {} }}", self.c_size(size)));
                let rows: Vec<String> = rows.collect();
                out.comment(&[
                    format!("The schedule of {subject}: from which fraction of the training on, and the {}.", self.one()),
                ]);
                out.line(&format!("#define {macros}_SCHEDULE_POINTS {}", rows.len()));
                out.line(&format!("#define {macros}_SCHEDULE {{ {} }}", rows.join(", ")));
            }
            None => out.comment(&[format!("The schedule of {subject}: {}.", self.words())]),
        }
        out.line("");
        if self.points.iter().any(|p| p.shape != Shape::Constant) {
            self.between(out);
        }
        out.comment(&[
            format!(
                "The schedule's {} for a{} {step} (from 0) of a training of so many {steps}: exact, by integers",
                self.one(),
                if self.per == Per::Epoch { "n" } else { "" }
            ),
            "that neither wrap nor divide.".into(),
        ]);
        let element = if self.integer { "int32_t" } else { "float" };
        out.open_function(&format!(
            "static inline {element} {}(uint32_t {step}, uint32_t {steps})",
            self.symbol
        ));
        match self.points {
            [point] => {
                out.line(&format!("(void){step};"));
                out.line(&format!("(void){steps};"));
                out.line(&format!("return {};", self.c_size(point.value)));
            }
            points => {
                out.line(&format!("const uint64_t all = {steps} > 0 ? {steps} : 1;"));
                if !self.fractions() {
                    out.line("(void)all;");
                }
                for (i, point) in points.iter().enumerate().skip(1).rev() {
                    let step = format!("(uint64_t){step}");
                    let reached = Schedule::reached(point.from, &step, "all", "u");
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
            Position::Steps(steps) | Position::Epochs(steps) => format!("{:?}f", steps as f32),
            Position::Fraction(from) => format!("{:?}f * (float)all", from as f32),
        };
        format!(
            "{}_{}({}, {}, {}, {}, {})",
            self.symbol,
            point.shape.name(),
            self.counted().0,
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

    /// The table and the function, for the Rust module.
    pub(crate) fn rust(&self, out: &mut String) {
        let ty = if self.integer { "i32" } else { "f32" };
        let (function, name, subject) = (&self.function, &self.table, &self.subject);
        let (step, steps) = self.counted();
        let article = if self.per == Per::Epoch { "an" } else { "a" };
        let value = |size: f64| match self.integer {
            true => format!("{}", size as i32),
            false => format!("{:?}", size as f32),
        };
        let Some(table) = self.table() else { return self.rust_shapes(out, ty) };
        let points: Vec<String> =
            table.iter().map(|&(from, size)| format!("({from:?}, {})", value(size))).collect();
        let mut body = String::new();
        match self.points {
            [_] => {
                let _ = writeln!(body, "    let _ = ({step}, {steps});");
            }
            points => {
                let _ = writeln!(
                    body,
                    "    let ({step}, all) = (u64::from({step}), u64::from({steps}.max(1)));"
                );
                for (index, point) in points.iter().enumerate().skip(1).rev() {
                    let reached = Schedule::reached(point.from, step, "all", "");
                    let _ = write!(
                        body,
                        "    if {reached} {{\n        return {name}[{index}].1;\n    }}\n"
                    );
                }
            }
        }
        let _ = write!(
            out,
            "/// {}: from which fraction of the training on, and the {one}.\n\
             pub const {name}: [(f64, {ty}); {}] = [{}];\n\n\
             /// The {one} of [`{name}`] for {article} {step} (from 0) of a training of so many {steps}: exact, by integers that\n\
             /// neither wrap nor divide.\n\
             pub fn {function}({step}: u32, {steps}: u32) -> {ty} {{\n{body}    {name}[0].1\n}}\n\n",
            capital(subject),
            points.len(),
            points.join(", "),
            one = self.one(),
        );
    }

    /// The function of a schedule with lines and counts of steps, for the Rust module.
    fn rust_shapes(&self, out: &mut String, ty: &str) {
        let mut body = String::new();
        let (function, (step, steps)) = (&self.function, self.counted());
        let article = if self.per == Per::Epoch { "an" } else { "a" };
        for (i, point) in self.points.iter().enumerate().rev() {
            let place = |from: Position| match from {
                Position::Steps(steps) | Position::Epochs(steps) => format!("{:?}", steps as f32),
                Position::Fraction(from) => format!("{:?} * all as f32", from as f32),
            };
            let size = |value: f64| match self.integer {
                true => format!("{}", value as i32),
                false => format!("{:?}", value as f32),
            };
            let value = match (point.shape, self.points.get(i + 1)) {
                (Shape::Linear | Shape::Cosine, Some(next)) => {
                    let way = format!(
                        "let (start, end) = ({}, {});\n        let way = ({step} as f32 - start) / (end - start);\n        \
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
                let reached = Schedule::reached(point.from, step, "all", "");
                let _ = write!(body, "    if {reached} {{\n        {value}\n    }}\n");
            } else {
                let _ = writeln!(body, "    {}", value.replace("        ", "    "));
            }
        }
        let _ = write!(
            out,
            "/// The {} for {article} {step} (from 0) of a training of so many {steps}, by the schedule\n/// `{}`.\n\
             #[allow(clippy::all, clippy::pedantic, unused_variables, reason = \"emitted code\")]\n\
             pub fn {function}({step}: u32, {steps}: u32) -> {ty} {{\n    \
             let ({step}, all) = (u64::from({step}), u64::from({steps}.max(1)));\n{body}}}\n\n",
            if self.one() == "size" { "step size" } else { "value" },
            self.words()
        );
    }
}

/// Text with its first letter in capitals.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
