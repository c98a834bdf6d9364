//! Joining loop kernels into one.

use std::collections::BTreeMap;

use crate::loops::{Buffer, BufferParameter, Draw, Expr, Local, LoopKernel, Node, Role, Stmt};

/// A kernel that runs others in turn over one set of buffers.
#[derive(Debug)]
pub(crate) struct Fusion {
    kernel: LoopKernel,
}

impl Fusion {
    /// A kernel with these parameters and no code yet.
    pub(crate) fn new(buffers: Vec<BufferParameter>) -> Fusion {
        Fusion {
            kernel: LoopKernel { buffers, locals: Vec::new(), body: Vec::new(), draws: Vec::new() },
        }
    }

    /// Adds working memory.
    pub(crate) fn scratch(&mut self, buffer: BufferParameter) -> Buffer {
        self.kernel.buffers.push(BufferParameter { role: Role::Scratch, ..buffer });
        Buffer(self.kernel.buffers.len() as u32 - 1)
    }

    /// The parameter of that role.
    pub(crate) fn of_role(&self, role: &Role) -> Buffer {
        let position = self.kernel.buffers.iter().position(|b| b.role == *role);
        Buffer(position.expect("the kernel has the parameter") as u32)
    }

    /// The parameter of that role, for a kernel that may take its elements as the bytes that hold them.
    fn own(&mut self, role: &Role, parameter: &BufferParameter) -> Buffer {
        let buffer = self.of_role(role);
        let own = &mut self.kernel.buffers[buffer.0 as usize];
        (own.element, own.count) = (parameter.element, parameter.count);
        buffer
    }

    /// Appends a kernel's code. `place` gives the buffer that stands for a parameter of it; its own working memory
    /// becomes this kernel's.
    pub(crate) fn append(&mut self, kernel: &LoopKernel, mut place: impl FnMut(&Role) -> Place) {
        let mut buffers = BTreeMap::new();
        for (i, parameter) in kernel.buffers.iter().enumerate() {
            let buffer = match parameter.role {
                Role::Scratch => self.scratch(parameter.clone()),
                ref role => match place(role) {
                    Place::Buffer(buffer) => buffer,
                    Place::Role(role) => self.own(&role, parameter),
                },
            };
            buffers.insert(i as u32, buffer);
        }
        let renamed = Renamed { buffers, first_local: self.kernel.locals.len() as u32 };
        self.kernel.locals.extend(kernel.locals.iter().cloned());
        self.kernel.body.extend(kernel.body.iter().map(|statement| renamed.statement(statement)));
        self.kernel.draws.extend(kernel.draws.iter().map(|draw| Draw {
            element: renamed.local(draw.element),
            bits: renamed.local(draw.bits),
            ..*draw
        }));
    }

    /// The joined kernel.
    pub(crate) fn finish(self) -> LoopKernel {
        self.kernel
    }
}

/// What stands for a parameter of a joined kernel.
#[derive(Debug)]
pub(crate) enum Place {
    /// This buffer.
    Buffer(Buffer),
    /// The whole kernel's parameter of that role.
    Role(Role),
}

/// A kernel's buffers and locals under the names of the whole.
struct Renamed {
    buffers: BTreeMap<u32, Buffer>,
    first_local: u32,
}

impl Renamed {
    fn local(&self, local: Local) -> Local {
        Local(self.first_local + local.0)
    }

    fn block(&self, block: &[Stmt]) -> Vec<Stmt> {
        block.iter().map(|statement| self.statement(statement)).collect()
    }

    fn statement(&self, statement: &Stmt) -> Stmt {
        match statement {
            Stmt::Assign(local, value) => Stmt::Assign(self.local(*local), self.expr(value)),
            Stmt::Store(buffer, index, value) => {
                Stmt::Store(self.buffers[&buffer.0], self.expr(index), self.expr(value))
            }
            Stmt::For { variable, start, end, body } => Stmt::For {
                variable: self.local(*variable),
                start: self.expr(start),
                end: self.expr(end),
                body: self.block(body),
            },
            Stmt::If { condition, then, otherwise } => Stmt::If {
                condition: self.expr(condition),
                then: self.block(then),
                otherwise: self.block(otherwise),
            },
        }
    }

    fn expr(&self, expr: &Expr) -> Expr {
        let node = match &*expr.node {
            Node::Integer(value) => Node::Integer(*value),
            Node::Float(value) => Node::Float(*value),
            Node::Local(local) => Node::Local(self.local(*local)),
            Node::Load(buffer, index) => Node::Load(self.buffers[&buffer.0], self.expr(index)),
            Node::Unary(op, x) => Node::Unary(*op, self.expr(x)),
            Node::Binary(op, a, b) => Node::Binary(*op, self.expr(a), self.expr(b)),
            Node::Compare(op, a, b) => Node::Compare(*op, self.expr(a), self.expr(b)),
            Node::Select(condition, a, b) => {
                Node::Select(self.expr(condition), self.expr(a), self.expr(b))
            }
        };
        Expr { ty: expr.ty, node: Box::new(node) }
    }
}
