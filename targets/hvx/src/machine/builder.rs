//! Writes structured code: fresh virtual registers for results, loops and branches as closures.

use std::collections::VecDeque;
use std::rc::Rc;

use super::error::MachineError;
use super::function::{
    Access, Branch, Call, Count, Function, Instruction, Loop, Node, Object, Operand, Rounds,
};
use super::instructions::Opcode;
use super::registers::{ARGUMENT_REGISTERS, Class, FRAME_POINTER, Register};
use super::table::{Kind, Role};

/// Operands other than the result, in the order of the form's numbers: a tuple of registers and numbers.
pub trait Operands {
    /// As a list.
    fn list(self) -> Vec<Operand>;
}

impl Operands for Vec<Operand> {
    fn list(self) -> Vec<Operand> {
        self
    }
}

impl Operands for () {
    fn list(self) -> Vec<Operand> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        impl<$($name: Into<Operand>),+> Operands for ($($name,)+) {
            #[allow(non_snake_case, reason = "type parameters name the values")]
            fn list(self) -> Vec<Operand> {
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    )*};
}

tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) }

/// Writes one [`Function`]. Virtual registers are variables: an instruction may write one again. Mistakes in operands
/// are kept and given back by [`Builder::finish`].
#[derive(Debug)]
pub struct Builder {
    function: Function,
    /// Code of the open structures, innermost last.
    open: Vec<Vec<Node>>,
    comment: Option<Rc<str>>,
    error: Option<MachineError>,
}

/// What functions that divide a range call their own.
const DIVIDING: [&str; 7] = ["context", "begin", "end", "work", "seen", "first", "rounds"];

/// Which rounds a function does.
#[derive(Clone, Copy, Debug)]
pub enum Range {
    /// All, as many as that.
    Whole(u32),
    /// Those that its caller asks for.
    Part {
        /// The first.
        first: Register,
        /// How many.
        count: Register,
    },
}

impl Range {
    /// Moves a pointer to the first round, from which to the next there are so many bytes.
    pub fn move_on(self, b: &mut Builder, pointer: Register, bytes: usize) {
        if let Range::Part { first, .. } = self {
            let bytes = b.constant(i32::try_from(bytes).unwrap_or(i32::MAX));
            b.update(Opcode::MultiplyAccumulate, (pointer, first, bytes));
        }
    }

    /// Moves a pointer back from behind the last round.
    pub fn move_back(self, b: &mut Builder, pointer: Register, bytes: usize) {
        let word = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        match self {
            Range::Whole(count) => {
                let all = -word(bytes * count as usize);
                b.emit_to(pointer, Opcode::AddImmediate, (pointer, all));
            }
            Range::Part { count, .. } => {
                let back = b.constant(-word(bytes));
                b.update(Opcode::MultiplyAccumulate, (pointer, count, back));
            }
        }
    }

    /// Runs the rounds.
    pub fn repeat(self, b: &mut Builder, purpose: &str, body: impl FnOnce(&mut Builder)) {
        match self {
            Range::Whole(0) => {}
            Range::Whole(1) => body(b),
            Range::Whole(count) => b.repeat(count, purpose, body),
            Range::Part { count, .. } => b.repeat(count, purpose, body),
        }
    }
}

impl Builder {
    /// A function with this symbol and number of 32-bit parameters.
    #[must_use]
    pub fn new(name: &str, parameters: u32) -> Self {
        let function = Function {
            name: name.into(),
            purpose: "".into(),
            parameters: Vec::new(),
            body: Vec::new(),
            result: None,
            classes: Vec::new(),
            objects: vec!["any".into()],
            needs_frame: parameters > ARGUMENT_REGISTERS,
            range: None,
        };
        let mut builder = Self { function, open: vec![Vec::new()], comment: None, error: None };
        for index in 0..parameters {
            let register = builder.function.fresh(Class::R);
            builder.function.parameters.push(register);
            if index >= ARGUMENT_REGISTERS {
                // Above the saved frame pointer and return address.
                let offset = 8 + 4 * (index - ARGUMENT_REGISTERS).cast_signed();
                builder.emit_to(register, Opcode::LoadW, (FRAME_POINTER, offset));
            }
        }
        builder
    }

    /// What the function is for; printed above it.
    pub fn purpose(&mut self, text: &str) {
        self.function.purpose = text.into();
    }

    /// The register of a parameter; one that the function lacks is an error at the end.
    pub fn parameter(&mut self, index: usize) -> Register {
        match self.function.parameters.get(index) {
            Some(register) => *register,
            None => {
                self.fail(format!("there is no parameter {index}"));
                self.fresh(Class::R)
            }
        }
    }

    /// Makes the function one of a range of `count` rounds, which are independent of one another: two parameters follow, the
    /// first round and how many, at least one. A single round is no range. `names` are those of the parameters so far.
    ///
    /// What it returns, if it does, are bits that the caller combines by or.
    pub fn range(&mut self, count: usize, names: &[&str]) -> Range {
        let taken = names.iter().any(|name| DIVIDING.contains(name));
        if taken || names.len() != self.function.parameters.len() || names.len() + 2 > 6 {
            self.fail(format!("a range behind parameters {}", names.join(", ")));
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if count < 2 {
            return Range::Whole(count);
        }
        let parameters = names.iter().map(|&name| name.into()).collect();
        self.function.range = Some(Rounds { count, parameters });
        let [first, count] = [(); 2].map(|()| {
            let register = self.function.fresh(Class::R);
            self.function.parameters.push(register);
            register
        });
        Range::Part { first, count }
    }

    /// A new memory object, disjoint from all others.
    pub fn object(&mut self, name: &str) -> Object {
        let object = Object(u32::try_from(self.function.objects.len()).unwrap_or(u32::MAX));
        self.function.objects.push(name.into());
        object
    }

    /// A new virtual register without a value.
    pub fn fresh(&mut self, class: Class) -> Register {
        self.function.fresh(class)
    }

    /// The next instruction's packet carries this comment.
    pub fn comment(&mut self, text: &str) {
        self.comment = Some(text.into());
    }

    /// Appends an instruction as it is.
    pub fn push(&mut self, mut instruction: Instruction) {
        if let Err(reason) = instruction.check() {
            self.fail(reason);
        }
        if instruction.is_branch() {
            self.fail(format!("{:?} is written by the layer itself", instruction.opcode));
        }
        if instruction.comment.is_none() {
            instruction.comment = self.comment.take();
        }
        let nodes = self.nodes();
        match nodes.last_mut() {
            Some(Node::Straight(run)) => run.push(instruction),
            _ => nodes.push(Node::Straight(vec![instruction])),
        }
    }

    /// Appends an instruction whose result is a fresh register: the operands are all others, in order. For an
    /// instruction without result (a store) the register that comes back has no value.
    pub fn emit(&mut self, opcode: Opcode, operands: impl Operands) -> Register {
        let result = match opcode.row().fields.iter().find(|f| f.role == Role::Define) {
            Some(field) => match field.kind {
                Kind::Register { class, .. } => self.fresh(class),
                Kind::Immediate { .. } => self.fresh(Class::R),
            },
            None => {
                self.push(Instruction::new(opcode, operands.list()));
                return self.fresh(Class::R);
            }
        };
        self.emit_to(result, opcode, operands);
        result
    }

    /// As [`Self::emit`], into a given register.
    pub fn emit_to(&mut self, result: Register, opcode: Opcode, operands: impl Operands) {
        let instruction = self.with_result(result, opcode, operands.list(), None);
        self.push(instruction);
    }

    /// An instruction that has no result of its own: accumulates into, or moves on, its updated operands.
    pub fn update(&mut self, opcode: Opcode, operands: impl Operands) {
        self.push(Instruction::new(opcode, operands.list()));
    }

    /// A load into a fresh register.
    pub fn load(&mut self, opcode: Opcode, operands: impl Operands, object: Object) -> Register {
        let class = match opcode.row().fields.first().map(|f| f.kind) {
            Some(Kind::Register { class, .. }) => class,
            _ => Class::R,
        };
        let result = self.fresh(class);
        self.load_to(result, opcode, operands, object);
        result
    }

    /// A load into a given register.
    pub fn load_to(
        &mut self,
        result: Register,
        opcode: Opcode,
        operands: impl Operands,
        object: Object,
    ) {
        let access = Access { object, rounds_disjoint: false };
        let instruction = self.with_result(result, opcode, operands.list(), Some(access));
        self.push(instruction);
    }

    /// A store.
    pub fn store(&mut self, opcode: Opcode, operands: impl Operands, object: Object) {
        let access = Access { object, rounds_disjoint: false };
        let instruction = Instruction::new(opcode, operands.list());
        self.push(Instruction { access: Some(access), ..instruction });
    }

    /// Gives the last load or store the promise of [`Access::rounds_disjoint`].
    pub fn promise_disjoint_rounds(&mut self) {
        if let Some(Node::Straight(run)) = self.nodes().last_mut()
            && let Some(Instruction { access: Some(access), .. }) = run.last_mut()
        {
            access.rounds_disjoint = true;
        }
    }

    /// A 32-bit number in a fresh register.
    pub fn constant(&mut self, number: i32) -> Register {
        self.emit(Opcode::Constant, (number,))
    }

    /// Zero in a fresh register.
    pub fn zero(&mut self) -> Register {
        self.constant(0)
    }

    /// The address of a symbol plus an offset in bytes, wherever the code is loaded.
    pub fn address(&mut self, symbol: &str, offset: i32) -> Register {
        self.emit(Opcode::AddressOf, (Operand::Symbol(symbol.into(), offset),))
    }

    /// A copy in a fresh register of the same class (R, RR, V, VV, M from R).
    pub fn copy(&mut self, source: Register) -> Register {
        let result = self.fresh(source.class());
        self.copy_to(result, source);
        result
    }

    /// A copy into a given register of the same class; P and Q have none.
    pub fn copy_to(&mut self, result: Register, source: Register) {
        match source.class() {
            Class::R => self.emit_to(result, Opcode::Move, (source,)),
            Class::RR => self.emit_to(result, Opcode::Combine, (source.high(), source.low())),
            Class::V => self.emit_to(result, Opcode::Vassign, (source,)),
            Class::VV => self.emit_to(result, Opcode::Vcombine, (source.high(), source.low())),
            Class::P => self.emit_to(result, Opcode::PredicateOr, (source, source)),
            Class::Q => self.emit_to(result, Opcode::QOr, (source, source)),
            Class::M => self.fail("modifiers are set from scalars".to_string()),
        }
    }

    /// A counted loop. Innermost loops become `loop0`, the loops around them `loop1`, further ones compare and jump; an
    /// innermost loop of straight code is software pipelined where that pays.
    pub fn repeat(&mut self, count: impl Into<Count>, purpose: &str, body: impl FnOnce(&mut Self)) {
        self.repeat_at_least(count, 1, purpose, body);
    }

    /// As [`Self::repeat`] with the promise that a count in a register is at least this: saves the test for few rounds
    /// and the plain copy of a pipelined loop (eight is always enough).
    pub fn repeat_at_least(
        &mut self,
        count: impl Into<Count>,
        at_least: u32,
        purpose: &str,
        body: impl FnOnce(&mut Self),
    ) {
        let count = count.into();
        let at_least = at_least.max(1);
        match count {
            Count::Constant(0) => self.fail("a loop runs at least once".to_string()),
            Count::Register(r) if r.class() != Class::R => {
                self.fail(format!("a loop cannot count to {r}"));
            }
            _ => {}
        }
        let body = self.inside(body);
        self.nodes().push(Node::Loop(Loop { count, at_least, body, purpose: purpose.into() }));
    }

    /// As [`Self::repeat`] with a count that may be 0 or negative: then nothing runs.
    pub fn repeat_if_any(&mut self, count: Register, purpose: &str, body: impl FnOnce(&mut Self)) {
        let some = self.emit(Opcode::CompareGtImmediate, (count, 0));
        self.when(some, |b| b.repeat(count, purpose, body));
    }

    /// Runs the body if the predicate holds.
    pub fn when(&mut self, condition: Register, then: impl FnOnce(&mut Self)) {
        self.branch(condition, then, |_| {});
    }

    /// Runs one of two bodies.
    pub fn branch(
        &mut self,
        condition: Register,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        if condition.class() != Class::P {
            self.fail(format!("{condition} is no predicate"));
        }
        let then = self.inside(then);
        let otherwise = self.inside(otherwise);
        self.nodes().push(Node::Branch(Branch { condition, then, otherwise, rare: false }));
    }

    /// Runs a body if a predicate holds that seldom does.
    pub fn when_rarely(&mut self, condition: Register, then: impl FnOnce(&mut Self)) {
        self.when(condition, then);
        if let Some(Node::Branch(branch)) = self.nodes().last_mut() {
            branch.rare = true;
        }
    }

    /// Calls a function with up to six 32-bit arguments; gives r0 in a fresh register.
    pub fn call(&mut self, symbol: &str, arguments: &[Register]) -> Register {
        if arguments.len() > ARGUMENT_REGISTERS as usize
            || arguments.iter().any(|a| a.class() != Class::R)
        {
            self.fail(format!("{symbol} is called with other than up to six 32-bit arguments"));
        }
        let result = self.fresh(Class::R);
        let (symbol, arguments) = (symbol.into(), arguments.to_vec());
        self.nodes().push(Node::Call(Call { symbol, arguments, result: Some(result) }));
        result
    }

    /// The function, returning a 32-bit register or nothing.
    ///
    /// # Errors
    /// The first mistake in the code.
    pub fn finish(mut self, result: Option<Register>) -> Result<Function, MachineError> {
        if let Some(r) = result
            && r.class() != Class::R
        {
            self.fail(format!("{r} cannot be returned"));
        }
        self.function.result = result;
        self.function.body = self.open.pop().unwrap_or_default();
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.function),
        }
    }

    /// Where the next instruction stands: the number of its piece of straight code, and its place in it.
    pub(crate) fn place(&self) -> (usize, usize) {
        let nodes = self.open.last().map_or(&[][..], Vec::as_slice);
        match nodes.last() {
            Some(Node::Straight(run)) => (nodes.len() - 1, run.len()),
            _ => (nodes.len(), 0),
        }
    }

    /// Mixes parts of one piece of straight code, which begin at these places and reach to its end, an instruction of each in turn
    /// as far as they do not depend on each other: what is scheduled within a window then overlaps.
    pub(crate) fn interleave(&mut self, starts: &[(usize, usize)]) {
        let last = self.place().0;
        let together = starts.iter().all(|(piece, _)| *piece == last);
        let Some(Node::Straight(run)) = self.nodes().last_mut().filter(|_| together) else {
            return;
        };
        let mut parts: VecDeque<VecDeque<Instruction>> = VecDeque::new();
        for (_, start) in starts.iter().rev() {
            parts.push_front(run.split_off(*start).into());
        }
        while parts.iter().any(|part| !part.is_empty()) {
            for at in 0..parts.len() {
                let Some(next) = parts[at].front() else { continue };
                let waits = parts.iter().take(at).flatten().any(|other| other.meets(next));
                if !waits && let Some(next) = parts[at].pop_front() {
                    run.push(next);
                }
            }
        }
    }

    fn inside(&mut self, body: impl FnOnce(&mut Self)) -> Vec<Node> {
        self.open.push(Vec::new());
        body(self);
        self.open.pop().unwrap_or_default()
    }

    fn nodes(&mut self) -> &mut Vec<Node> {
        if self.open.is_empty() {
            self.open.push(Vec::new());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn with_result(
        &mut self,
        result: Register,
        opcode: Opcode,
        mut operands: Vec<Operand>,
        access: Option<Access>,
    ) -> Instruction {
        let fields = opcode.row().fields;
        // Predicated forms update their result: then it is the first field.
        let place = fields.iter().position(|f| f.role == Role::Define).unwrap_or(0);
        operands.insert(place.min(operands.len()), Operand::Register(result));
        Instruction { access, ..Instruction::new(opcode, operands) }
    }

    fn fail(&mut self, reason: String) {
        let function = self.function.name.to_string();
        self.error.get_or_insert(MachineError::Operand { function, reason });
    }
}
