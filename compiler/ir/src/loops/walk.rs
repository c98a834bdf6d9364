//! Walks over the expressions and statements of loop kernels, and copies with parts exchanged.

use super::{Buffer, Expr, Local, Node, Stmt};

impl Expr {
    /// The operands, in order; of a load its index.
    pub fn operands(&self) -> impl Iterator<Item = &Expr> {
        let operands = match &*self.node {
            Node::Integer(_) | Node::Float(_) | Node::Local(_) => [None; 3],
            Node::Load(_, x) | Node::Unary(_, x) => [Some(x), None, None],
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => [Some(a), Some(b), None],
            Node::Select(c, a, b) => [Some(c), Some(a), Some(b)],
        };
        operands.into_iter().flatten()
    }

    /// Calls `f` for the expression and each part of it, the whole before its operands.
    pub fn each<'e>(&'e self, f: &mut dyn FnMut(&'e Expr)) {
        f(self);
        self.operands().for_each(|x| x.each(f));
    }

    /// Calls `f` with each local that is read.
    pub fn each_local(&self, f: &mut dyn FnMut(Local)) {
        self.each(&mut |e| {
            if let Node::Local(local) = &*e.node {
                f(*local);
            }
        });
    }

    /// Calls `f` with the buffer and index of each load.
    pub fn each_load<'e>(&'e self, f: &mut dyn FnMut(Buffer, &'e Expr)) {
        self.each(&mut |e| {
            if let Node::Load(buffer, index) = &*e.node {
                f(*buffer, index);
            }
        });
    }

    /// Whether a local of a kind is read.
    pub fn mentions(&self, is: impl Fn(Local) -> bool) -> bool {
        let mut found = false;
        self.each_local(&mut |local| found |= is(local));
        found
    }

    /// Whether memory is read.
    pub fn loads(&self) -> bool {
        let mut found = false;
        self.each_load(&mut |_, _| found = true);
        found
    }

    /// The local that the expression is.
    pub fn as_local(&self) -> Option<Local> {
        match *self.node {
            Node::Local(local) => Some(local),
            _ => None,
        }
    }

    /// The same operation on other operands; `None` if one of them has no other.
    pub fn map_operands(&self, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Option<Expr> {
        let node = match &*self.node {
            node @ (Node::Integer(_) | Node::Float(_) | Node::Local(_)) => node.clone(),
            Node::Load(buffer, index) => Node::Load(*buffer, f(index)?),
            Node::Unary(op, x) => Node::Unary(*op, f(x)?),
            Node::Binary(op, a, b) => Node::Binary(*op, f(a)?, f(b)?),
            Node::Compare(comparison, a, b) => Node::Compare(*comparison, f(a)?, f(b)?),
            Node::Select(c, a, b) => Node::Select(f(c)?, f(a)?, f(b)?),
        };
        Some(Expr { ty: self.ty, node: Box::new(node) })
    }
}

impl Stmt {
    /// The statement's own expressions, in the order of their evaluation: those of its blocks are left out.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let expressions = match self {
            Stmt::Assign(_, value) => [Some(value), None],
            Stmt::Store(_, index, value) => [Some(index), Some(value)],
            Stmt::For { start, end, .. } => [Some(start), Some(end)],
            Stmt::If { condition, .. } => [Some(condition), None],
        };
        expressions.into_iter().flatten()
    }

    /// The blocks inside: the body of a loop, the sides of a branch.
    pub fn blocks(&self) -> impl Iterator<Item = &[Stmt]> {
        let blocks: [&[Stmt]; 2] = match self {
            Stmt::Assign(..) | Stmt::Store(..) => [&[], &[]],
            Stmt::For { body, .. } => [body, &[]],
            Stmt::If { then, otherwise, .. } => [then, otherwise],
        };
        blocks.into_iter()
    }

    /// The local that the statement itself sets: by assignment, or as a loop's variable.
    pub fn sets(&self) -> Option<Local> {
        match self {
            Stmt::Assign(local, _) | Stmt::For { variable: local, .. } => Some(*local),
            Stmt::Store(..) | Stmt::If { .. } => None,
        }
    }

    /// The statement with other expressions, those of its blocks too; `None` if one has no other.
    pub fn map_expressions(&self, f: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Option<Stmt> {
        let block = |f: &mut dyn FnMut(&Expr) -> Option<Expr>, block: &[Stmt]| {
            block.iter().map(|s| s.map_expressions(f)).collect::<Option<Vec<Stmt>>>()
        };
        Some(match self {
            Stmt::Assign(local, value) => Stmt::Assign(*local, f(value)?),
            Stmt::Store(buffer, index, value) => Stmt::Store(*buffer, f(index)?, f(value)?),
            Stmt::For { variable, start, end, body } => Stmt::For {
                variable: *variable,
                start: f(start)?,
                end: f(end)?,
                body: block(f, body)?,
            },
            Stmt::If { condition, then, otherwise } => Stmt::If {
                condition: f(condition)?,
                then: block(f, then)?,
                otherwise: block(f, otherwise)?,
            },
        })
    }
}

/// Calls `f` for each statement, those of inner blocks too, in the order of the text.
pub fn each_statement<'a>(block: &'a [Stmt], f: &mut dyn FnMut(&'a Stmt)) {
    for statement in block {
        f(statement);
        statement.blocks().for_each(|inner| each_statement(inner, f));
    }
}

/// Calls `f` for each expression of a block, with those of inner blocks, but not for their parts.
pub fn each_expression<'a>(block: &'a [Stmt], f: &mut dyn FnMut(&'a Expr)) {
    each_statement(block, &mut |statement| statement.expressions().for_each(&mut *f));
}

/// Loops that nest in a block, at most.
pub fn height(block: &[Stmt]) -> usize {
    let of = |s: &Stmt| {
        let own = usize::from(matches!(s, Stmt::For { .. }));
        own + s.blocks().map(height).max().unwrap_or(0)
    };
    block.iter().map(of).max().unwrap_or(0)
}
