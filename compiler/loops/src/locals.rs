//! Where the locals of a loop kernel are declared, and what is dead.

use std::collections::BTreeSet;

use trainc_ir::loops::{Expr, Local, LoopKernel, Node, Stmt, each_statement};

use crate::intervals::addend;

/// A kernel without assignments that nothing reads, and without loops and branches that do nothing.
pub fn without_dead_code(kernel: &LoopKernel) -> LoopKernel {
    let mut kernel = kernel.clone();
    loop {
        let mut live = BTreeSet::new();
        live_block(&kernel.body, &mut live);
        let before = count(&kernel.body);
        kernel.body = prune(std::mem::take(&mut kernel.body), &live);
        if count(&kernel.body) == before {
            return kernel;
        }
    }
}

/// Statements of a block and of the blocks in it.
pub fn count(block: &[Stmt]) -> usize {
    let mut statements = 0;
    each_statement(block, &mut |_| statements += 1);
    statements
}

fn prune(block: Vec<Stmt>, live: &BTreeSet<Local>) -> Vec<Stmt> {
    block
        .into_iter()
        .filter_map(|statement| match statement {
            Stmt::Assign(local, _) if !live.contains(&local) => None,
            Stmt::For { variable, start, end, body } => {
                let rounds = match (start.as_constant(), end.as_constant()) {
                    (Some(start), Some(end)) => start < end,
                    _ => true,
                };
                let body = prune(body, live);
                (rounds && !body.is_empty()).then_some(Stmt::For { variable, start, end, body })
            }
            Stmt::If { condition, then, otherwise } => {
                let (then, otherwise) = (prune(then, live), prune(otherwise, live));
                let some = !then.is_empty() || !otherwise.is_empty();
                some.then_some(Stmt::If { condition, then, otherwise })
            }
            other => Some(other),
        })
        .collect()
}

/// Locals that something other than their own assignments reads.
fn live_block(block: &[Stmt], live: &mut BTreeSet<Local>) {
    each_statement(block, &mut |statement| {
        let own = match statement {
            Stmt::Assign(local, _) => Some(*local),
            _ => None,
        };
        for e in statement.expressions() {
            e.each_local(&mut |l| {
                if Some(l) != own {
                    live.insert(l);
                }
            });
        }
    });
}

/// What a local is.
#[derive(Clone, Debug)]
enum Kind {
    /// Never mentioned.
    Unused,
    /// Counts a loop.
    LoopVariable,
    /// Declared where it is first assigned: the number of that statement, the loops open there, the first
    /// value if everything else is adding to it, and whether that is all.
    AtFirstAssignment { statement: usize, depth: usize, sum_start: Option<Expr>, fixed: bool },
    /// Declared at the top of the function.
    Hoisted,
}

/// Where each local of a kernel is declared. Statements are numbered in the order of the text.
#[derive(Debug)]
pub struct Locals {
    kinds: Vec<Kind>,
}

impl Locals {
    /// Analyses a kernel.
    ///
    /// # Errors
    /// If a loop variable is used outside of its loop or assigned.
    pub fn of_kernel(kernel: &LoopKernel) -> Result<Locals, String> {
        let mut survey = Survey {
            uses: vec![Uses::default(); kernel.locals.len()],
            path: Vec::new(),
            blocks: 0,
            statements: 0,
            depth: 0,
        };
        survey.block(&kernel.body);
        let kinds = survey
            .uses
            .into_iter()
            .enumerate()
            .map(|(i, uses)| {
                let kind = uses.kind(Local(i as u32));
                kind.ok_or_else(|| format!("loop variable `{}` is misused", kernel.locals[i].0))
            })
            .collect::<Result<_, _>>()?;
        Ok(Locals { kinds })
    }

    /// Whether a local may be read before it is assigned: then it starts as 0.
    pub fn is_hoisted(&self, local: Local) -> bool {
        matches!(self.kinds[local.0 as usize], Kind::Hoisted)
    }

    /// The number of the assignment that declares a local.
    pub fn declared_at(&self, local: Local) -> Option<usize> {
        match self.kinds[local.0 as usize] {
            Kind::AtFirstAssignment { statement, .. } => Some(statement),
            _ => None,
        }
    }

    /// Whether a local is set by its declaration alone, or counts a loop: it stays while it is in sight.
    pub fn is_fixed(&self, local: Local) -> bool {
        matches!(
            self.kinds[local.0 as usize],
            Kind::LoopVariable | Kind::AtFirstAssignment { fixed: true, .. }
        )
    }

    /// What can stand for a local: a constant or another local that it is a mere copy of.
    pub fn stands_for(&self, local: Local) -> Option<&Expr> {
        let Kind::AtFirstAssignment { sum_start: Some(value), fixed: true, .. } =
            &self.kinds[local.0 as usize]
        else {
            return None;
        };
        let simple = match *value.node {
            Node::Integer(_) | Node::Float(_) => true,
            Node::Local(other) => self.is_fixed(other),
            _ => false,
        };
        simple.then_some(value)
    }

    /// What a local always is, if it is set once, by its declaration.
    pub fn value(&self, local: Local) -> Option<&Expr> {
        match &self.kinds[local.0 as usize] {
            Kind::AtFirstAssignment { sum_start, fixed: true, .. } => sum_start.as_ref(),
            _ => None,
        }
    }

    /// The first value of local `i` if it is a sum.
    pub fn sum_start(&self, i: usize) -> Option<&Expr> {
        match &self.kinds[i] {
            Kind::AtFirstAssignment { sum_start, .. } => sum_start.as_ref(),
            _ => None,
        }
    }

    /// How many loops are open where local `i` is declared, if it is a sum.
    pub fn sum_depth(&self, i: usize) -> Option<usize> {
        match &self.kinds[i] {
            Kind::AtFirstAssignment { depth, sum_start: Some(_), .. } => Some(*depth),
            _ => None,
        }
    }
}

/// The first use of a local in the text.
#[derive(Clone, Debug, Default)]
enum First {
    #[default]
    None,
    Read,
    /// An assignment: its block's path, number, open loops, value.
    Assignment {
        path: Vec<usize>,
        statement: usize,
        depth: usize,
        value: Expr,
    },
}

#[derive(Clone, Debug, Default)]
struct Uses {
    /// Blocks that enclose all uses, the outermost first.
    common: Option<Vec<usize>>,
    first: First,
    /// Further assignments all add.
    only_adds: bool,
    /// Path of the body of the loop that it counts.
    counts: Option<Vec<usize>>,
    misused: bool,
    /// How many statements assign it.
    assignments: usize,
}

impl Uses {
    fn at(&mut self, path: &[usize]) {
        self.common = Some(match self.common.take() {
            None => path.to_vec(),
            Some(common) => {
                let same = common.iter().zip(path).take_while(|(a, b)| a == b).count();
                common[..same].to_vec()
            }
        });
    }

    fn kind(self, local: Local) -> Option<Kind> {
        if let Some(body) = self.counts {
            let inside = self.common.is_none_or(|c| c.starts_with(&body));
            return (inside && !self.misused).then_some(Kind::LoopVariable);
        }
        let Some(common) = self.common else { return Some(Kind::Unused) };
        Some(match self.first {
            First::Assignment { path, statement, depth, value } if path == common => {
                let sum_start =
                    (self.only_adds && !value.mentions(|l| l == local)).then_some(value);
                Kind::AtFirstAssignment {
                    statement,
                    depth,
                    sum_start,
                    fixed: self.assignments == 1,
                }
            }
            _ => Kind::Hoisted,
        })
    }
}

struct Survey {
    uses: Vec<Uses>,
    path: Vec<usize>,
    blocks: usize,
    statements: usize,
    depth: usize,
}

impl Survey {
    fn read(&mut self, e: &Expr) {
        let (uses, path) = (&mut self.uses, &self.path);
        e.each_local(&mut |local| {
            let uses = &mut uses[local.0 as usize];
            uses.at(path);
            if matches!(uses.first, First::None) {
                uses.first = First::Read;
            }
        });
    }

    fn nested(&mut self, block: &[Stmt]) {
        self.blocks += 1;
        self.path.push(self.blocks);
        self.block(block);
        self.path.pop();
    }

    fn block(&mut self, block: &[Stmt]) {
        for statement in block {
            let number = self.statements;
            self.statements += 1;
            match statement {
                Stmt::Assign(local, value) => {
                    self.read(value);
                    let (path, depth) = (self.path.clone(), self.depth);
                    let uses = &mut self.uses[local.0 as usize];
                    uses.at(&path);
                    uses.misused |= uses.counts.is_some();
                    uses.assignments += 1;
                    if matches!(uses.first, First::None) {
                        let value = value.clone();
                        uses.first = First::Assignment { path, statement: number, depth, value };
                        uses.only_adds = true;
                    } else {
                        uses.only_adds &= addend(*local, value).is_some();
                    }
                }
                Stmt::Store(_, index, value) => {
                    self.read(index);
                    self.read(value);
                }
                Stmt::For { variable, start, end, body } => {
                    self.read(start);
                    self.read(end);
                    let mut inside = self.path.clone();
                    inside.push(self.blocks + 1);
                    let uses = &mut self.uses[variable.0 as usize];
                    uses.misused |= uses.counts.is_some() || !matches!(uses.first, First::None);
                    uses.counts = Some(inside);
                    self.depth += 1;
                    self.nested(body);
                    self.depth -= 1;
                }
                Stmt::If { condition, then, otherwise } => {
                    self.read(condition);
                    self.nested(then);
                    self.nested(otherwise);
                }
            }
        }
    }
}
