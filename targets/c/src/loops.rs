//! A loop kernel as a C99 function.

use std::collections::{BTreeMap, BTreeSet};

use trainc_ir::Element;
use trainc_ir::loops::{Binary, Draw, Expr, Local, LoopKernel, Node, Role, Scalar, Stmt};
use trainc_ir::names::unique;
use trainc_loops::{
    Changes, Independent, Intervals, Locals, Place, addend, all, count, count_uses, exact,
    independent, is_narrow, simplified, within,
};

use crate::cost::Floats;
use crate::expression::{Expressions, Text};
use crate::heads::{pointer, used};
use crate::layout::Lines;
use crate::leading::{LeadingRounds, Rest, Scope};
use crate::syntax::{Printed, Syntax};

/// The C type of an element; elements narrower than a byte take one each.
pub fn element_type(element: Element) -> &'static str {
    match element {
        Element::F32 => "float",
        Element::I8 => "int8_t",
        Element::I16 => "int16_t",
        Element::I32 => "int32_t",
        Element::U8 => "uint8_t",
        // Packed.
        Element::B1 | Element::U2 | Element::U4 | Element::I2 | Element::I4 => "uint8_t",
        Element::U16 => "uint16_t",
        Element::U32 => "uint32_t",
    }
}

/// A loop kernel as the text of a `static void` function. Its parameters are the kernel's buffers in order, each a
/// pointer to its element type, but for the working memory: one `uint8_t *scratch` at the end, which holds the scratch
/// buffers at the offsets of [`trainc_ir::target::loop_scratch`]. Needs `trainc_rt.h`. Operands and results may overlap as far as the
/// operation itself allows it. A loop whose rounds are independent stands in a function of its own, which
/// `TRAINC_PARALLEL_FOR` calls.
///
/// # Errors
/// If the kernel is not well formed: a loop variable is used outside of its loop.
pub fn function(name: &str, kernel: &LoopKernel) -> Result<String, String> {
    print(name, kernel, Way::default()).map(|printed| printed.text)
}

/// [`function`], with loops whose leading rounds a dialect prints in its own way.
///
/// # Errors
/// As [`function`].
pub fn function_with(
    name: &str,
    kernel: &LoopKernel,
    leading: &dyn LeadingRounds,
) -> Result<String, String> {
    let way = Way { leading: Some(leading), ..Way::default() };
    print(name, kernel, way).map(|printed| printed.text)
}

/// [`function`] for a machine whose floats something computes.
///
/// # Errors
/// As [`function`].
pub(crate) fn function_by(
    floats: Floats,
    name: &str,
    kernel: &LoopKernel,
) -> Result<String, String> {
    print(name, kernel, Way { floats, ..Way::default() }).map(|printed| printed.text)
}

/// [`function`] in another language. Of the loops that the kernel's body ends in, one in the other, the caller runs as many
/// as there are `rounds`.
///
/// # Errors
/// As [`function`].
pub fn function_in(
    syntax: &dyn Syntax,
    name: &str,
    kernel: &LoopKernel,
    rounds: &[i32],
) -> Result<Printed, String> {
    print(name, kernel, Way { syntax: Some(syntax), rounds, ..Way::default() })
}

/// How a function is printed.
#[derive(Clone, Copy, Default)]
struct Way<'a> {
    leading: Option<&'a dyn LeadingRounds>,
    syntax: Option<&'a dyn Syntax>,
    /// Of the outer loops that the caller runs.
    rounds: &'a [i32],
    /// What computes its floats.
    floats: Floats,
}

fn print(name: &str, kernel: &LoopKernel, way: Way<'_>) -> Result<Printed, String> {
    let mut kernel = simplified(kernel)?;
    let reserved = way.syntax.map_or(&[][..], |syntax| syntax.reserved());
    let mut taken: BTreeSet<String> = reserved.iter().map(ToString::to_string).collect();
    taken.insert("scratch".to_string());
    for buffer in &mut kernel.buffers {
        buffer.name = unique(&buffer.name, &taken);
        taken.insert(buffer.name.clone());
    }
    let locals = Locals::of_kernel(&kernel)?;
    let intervals = Intervals::of_kernel(&kernel, &locals);
    let uses = count_uses(&kernel, &kernel.body);
    let names = vec![String::new(); kernel.locals.len()];
    let mut printer = Printer {
        name,
        locals: &locals,
        expressions: Expressions {
            kernel: &kernel,
            intervals: &intervals,
            names,
            syntax: way.syntax,
        },
        parts: Lines::default(),
        divided: 0,
        repeats: false,
        lines: Lines::default(),
        taken,
        added: Vec::new(),
        uses: &uses,
        statements: 0,
        leading: way.leading,
        rounds: way.rounds,
        depth: 0,
        floats: way.floats,
        draws: match way.syntax {
            None => Draws::of(&kernel),
            Some(_) => Draws::default(),
        },
    };
    let pointers = match way.syntax {
        Some(syntax) => printer.head_in(syntax, name),
        None => {
            printer.head(name);
            Vec::new()
        }
    };
    printer.hoisted();
    printer.block(&kernel.body);
    printer.lines.close("}");
    let mut text = printer.parts.finish();
    text.push_str(&printer.lines.finish());
    Ok(Printed { text, pointers })
}

/// The uniform bits that a function calls for.
#[derive(Default)]
struct Draws {
    bits: BTreeMap<Local, Draw>,
    /// Locals of their steps, which are not printed.
    steps: BTreeSet<Local>,
}

impl Draws {
    /// Those of a kernel whose element and bits are still locals of their own.
    fn of(kernel: &LoopKernel) -> Draws {
        let set = Changes::of(&kernel.body).locals;
        let mut draws = Draws::default();
        for draw in &kernel.draws {
            if set.contains(&draw.element) && set.contains(&draw.bits) {
                draws.bits.insert(draw.bits, *draw);
                draws.steps.extend((draw.element.0 + 1..draw.bits.0).map(Local));
            }
        }
        draws
    }
}

pub(crate) struct Printer<'k> {
    name: &'k str,
    pub(crate) locals: &'k Locals,
    pub(crate) expressions: Expressions<'k>,
    /// Functions of the loops that are divided, and how many there are.
    parts: Lines,
    divided: usize,
    /// Whether the present statement is in a loop.
    repeats: bool,
    pub(crate) lines: Lines,
    /// Names in sight.
    pub(crate) taken: BTreeSet<String>,
    /// Those of them that came after the parameters', in order.
    pub(crate) added: Vec<String>,
    /// Mentions of each local.
    uses: &'k [usize],
    /// Number of the next statement.
    statements: usize,
    leading: Option<&'k dyn LeadingRounds>,
    /// Of the loops that the caller runs, and how many of them are open.
    rounds: &'k [i32],
    depth: usize,
    floats: Floats,
    draws: Draws,
}

impl Printer<'_> {
    pub(crate) fn declare(&mut self, local: Local) -> String {
        let name = unique(&self.expressions.kernel.locals[local.0 as usize].0, &self.taken);
        self.take(&name);
        self.rename(local, &name);
        name
    }

    /// Gives a local a name.
    pub(crate) fn rename(&mut self, local: Local, name: &str) {
        self.expressions.names[local.0 as usize] = name.to_string();
    }

    /// Takes a name until [`Printer::release`].
    pub(crate) fn take(&mut self, name: &str) {
        if self.taken.insert(name.to_string()) {
            self.added.push(name.to_string());
        }
    }

    /// Frees the names taken since there were `mark` of [`Printer::added`]: their scope ends.
    pub(crate) fn release(&mut self, mark: usize) {
        for name in self.added.drain(mark..) {
            self.taken.remove(&name);
        }
    }

    fn block(&mut self, block: &[Stmt]) {
        let mark = self.added.len();
        block.iter().for_each(|s| self.statement(s));
        self.release(mark);
    }

    fn statement(&mut self, statement: &Stmt) {
        let number = self.statements;
        self.statements += 1;
        match statement {
            Stmt::Assign(local, _) if self.draws.steps.contains(local) => {}
            Stmt::Assign(local, value) => self.assign(*local, value, number),
            Stmt::Store(buffer, index, value) => {
                let parameter = &self.expressions.kernel.buffers[buffer.0 as usize];
                let index = self.expressions.print(index).text;
                let (ty, text) = (element_type(parameter.element), self.expressions.print(value));
                let keeps = match parameter.element {
                    Element::F32 => true,
                    Element::I32 => !text.wide,
                    _ => false,
                };
                let text = if keeps { text } else { text.cast(ty) };
                let line = format!("{}[{index}] = {};", parameter.name, text.text);
                self.lines.line(&line);
            }
            Stmt::For { variable, start, end, body } => {
                if let (true, Some(syntax)) =
                    (self.depth < self.rounds.len(), self.expressions.syntax)
                {
                    let value = syntax.item(self.depth, self.rounds);
                    let name = self.declare(*variable);
                    self.lines.line(&format!("const int32_t {name} = {value};"));
                    self.depth += 1;
                    self.repeats = true;
                    return body.iter().for_each(|s| self.statement(s));
                }
                let Expressions { kernel, intervals, .. } = self.expressions;
                let (uses, variable) = (self.uses, *variable);
                let place = Place { kernel, uses, intervals, variable, start, end, body };
                let leading = self.leading;
                let rest = leading.and_then(|l| l.print(&place, &mut Scope { printer: self }));
                if let Some(Rest::None) = rest {
                    self.statements += count(body);
                    return;
                }
                let (locals, body_number) = (self.locals, self.statements);
                let floats = self.floats;
                let alone = || {
                    let many = floats.many(statement);
                    independent(kernel, locals, intervals, statement, body_number, many)
                };
                let divides = !self.repeats && rest.is_none() && self.expressions.syntax.is_none();
                if let Some(free) = divides.then(alone).flatten() {
                    return self.divide(variable, body, &free);
                }
                let repeats = std::mem::replace(&mut self.repeats, true);
                self.for_(variable, (start, end), body, rest);
                self.repeats = repeats;
            }
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expressions.print(condition);
                if then.is_empty() {
                    self.lines.open(&format!("if (!({})) {{", condition.text));
                } else {
                    self.lines.open(&format!("if ({}) {{", condition.text));
                    self.block(then);
                    if !otherwise.is_empty() {
                        self.lines.close("} else {");
                        self.lines.open_quietly();
                    }
                }
                self.block(otherwise);
                self.lines.close("}");
            }
        }
    }

    fn assign(&mut self, local: Local, value: &Expr, number: usize) {
        let ty = self.expressions.local_type(local);
        let fitted = |text: Text| if ty == "int64_t" { text } else { text.narrowed() };
        let text = match self.draws.bits.get(&local) {
            Some(draw) => self.draw(draw),
            None => fitted(self.expressions.print(value)).text,
        };
        if self.locals.declared_at(local) == Some(number) {
            let name = self.declare(local);
            return self.lines.line(&format!("{ty} {name} = {text};"));
        }
        let name = &self.expressions.names[local.0 as usize];
        let line = match self.increment(local, value) {
            Some(more) => format!("{name} += {more};"),
            None => format!("{name} = {text};"),
        };
        self.lines.line(&line);
    }

    /// The call that gives uniform bits.
    fn draw(&self, draw: &Draw) -> String {
        let Expressions { kernel, names, .. } = &self.expressions;
        let run = kernel.buffers.iter().find(|buffer| buffer.role == Role::RunContext);
        let run = run.map_or("run", |run| &run.name);
        format!("trainc_draw({run}, {}u, {})", draw.stream, names[draw.element.0 as usize])
    }

    /// What a plain `local += ...` adds, if that is what the assignment does.
    fn increment(&self, local: Local, value: &Expr) -> Option<String> {
        let more = addend(local, value)?;
        let Node::Binary(Binary::Add, left, _) = &*value.node else { return None };
        let text = self.expressions.print(more);
        if value.ty == Scalar::F32 {
            // The order of operands decides which of two NaNs stays.
            return matches!(*left.node, Node::Local(_)).then_some(text.text);
        }
        let intervals = &self.expressions.intervals;
        let (a, b) = (intervals.local(local), intervals.get(more));
        let sum = exact(Binary::Add, value.ty, a, b)?;
        let limit = if self.expressions.is_narrow(local) { Scalar::I32 } else { value.ty };
        let fits = within(sum, all(limit));
        (fits && (!text.wide || limit == Scalar::I64)).then_some(text.text)
    }

    /// A loop, or what is left of it.
    fn for_(
        &mut self,
        variable: Local,
        (start, end): (&Expr, &Expr),
        body: &[Stmt],
        rest: Option<Rest>,
    ) {
        let (of_start, of_end) =
            (self.expressions.intervals.get(start), self.expressions.intervals.get(end));
        // The variable reaches the end.
        let narrow = is_narrow(of_start) && is_narrow(of_end);
        let ty = if narrow { "int32_t" } else { "int64_t" };
        let fitted = |text: Text| if narrow { text.narrowed() } else { text };
        let first = match rest {
            Some(Rest::From(first)) => first,
            _ => fitted(self.expressions.print(start)).text,
        };
        let last = fitted(self.expressions.print(end));
        let changes = Changes::of(body);
        // What is stored may be what is loaded.
        let moves = changes.touch(end, &|_, _| true);
        let last = if moves {
            let name = unique("end", &self.taken);
            self.take(&name);
            self.lines.line(&format!("const {ty} {name} = {};", last.text));
            name
        } else {
            last.compared()
        };
        // `end` stands beside the loop, not in it.
        let mark = self.added.len();
        let name = self.declare(variable);
        self.lines.open(&format!("for ({ty} {name} = {first}; {name} < {last}; {name}++) {{"));
        self.block(body);
        self.lines.close("}");
        self.release(mark);
    }

    /// A loop as a function of a range of its rounds, and the call that divides them.
    fn divide(&mut self, variable: Local, body: &[Stmt], free: &Independent) {
        self.divided += 1;
        let part = format!("{}_part{}", self.name, self.divided);
        let kernel = self.expressions.kernel;
        let (mut all, mut loop_reads) = (BTreeSet::new(), BTreeSet::new());
        let (mut writes, mut loop_writes) = (BTreeSet::new(), BTreeSet::new());
        used(&kernel.body, &mut all, &mut writes);
        used(body, &mut loop_reads, &mut loop_writes);
        let buffers = loop_reads.union(&loop_writes).map(|&i| {
            let buffer = &kernel.buffers[i as usize];
            (pointer(buffer, writes.contains(&i)), buffer.name.clone())
        });
        let locals = free.locals.iter().map(|&local| {
            let ty = format!("{} ", self.expressions.local_type(local));
            (ty, self.expressions.names[local.0 as usize].clone())
        });
        let fields: Vec<(String, String)> = buffers.chain(locals).collect();
        let mark = self.added.len();
        let [context, work, begin, end] = ["context", "work", "begin", "end"].map(|name| {
            let name = unique(name, &self.taken);
            self.take(&name);
            name
        });
        let outside = std::mem::take(&mut self.lines);
        self.lines.open(&format!("struct {part} {{"));
        fields.iter().for_each(|(ty, name)| self.lines.line(&format!("{ty}{name};")));
        self.lines.close("};");
        self.lines.line("");
        let head = format!("static void {part}(void *{context}, int32_t {begin}, int32_t {end})");
        self.lines.open_function(&head);
        self.lines.line(&format!(
            "const struct {part} *const {work} = (const struct {part} *){context};"
        ));
        for (ty, name) in &fields {
            let ty = if ty.ends_with('*') { format!("{ty}const ") } else { format!("const {ty}") };
            self.lines.line(&format!("{ty}{name} = {work}->{name};"));
        }
        let name = self.declare(variable);
        let head = format!("for (int32_t {name} = {begin}; {name} < {end}; {name}++) {{");
        self.lines.open(&head);
        self.repeats = true;
        self.block(body);
        self.repeats = false;
        self.lines.close("}");
        self.lines.close("}");
        self.lines.line("");
        let lines = std::mem::replace(&mut self.lines, outside);
        self.parts.raw(&lines.finish());
        self.release(mark);
        let values: Vec<&str> = fields.iter().map(|(_, name)| name.as_str()).collect();
        let work = unique("work", &self.taken);
        self.take(&work);
        self.lines.line(&format!("struct {part} {work} = {{ {} }};", values.join(", ")));
        let rounds = free.rounds;
        self.lines.line(&format!("TRAINC_PARALLEL_FOR(&{work}, {rounds}, {part});"));
    }
}
