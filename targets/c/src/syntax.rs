//! What a language near C has in the place of C's: heads of functions, float quotients, loops that the caller runs.

/// A buffer that a function uses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// Position among the kernel's buffers.
    pub buffer: usize,
    /// Its name in the function.
    pub name: String,
    /// The C type of its elements.
    pub element: &'static str,
    /// Whether the function writes it.
    pub written: bool,
    /// For working memory, the offset of the buffer in it.
    pub scratch: Option<usize>,
}

/// A language near C.
pub trait Syntax {
    /// Words that nothing may be called.
    fn reserved(&self) -> &'static [&'static str];

    /// The head of a function, without a brace.
    fn head(&self, name: &str, pointers: &[Pointer]) -> String;

    /// Statements at its start, which make the pointers of what the head declares.
    fn start(&self, pointers: &[Pointer]) -> Vec<String>;

    /// A float quotient, rounded to nearest; the operands are whole expressions.
    fn quotient(&self, a: &str, b: &str) -> String;

    /// The value of the variable of the loop at a depth, of loops that the caller runs with these rounds.
    fn item(&self, depth: usize, rounds: &[i32]) -> String;
}

/// A printed function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Printed {
    /// The function.
    pub text: String,
    /// The buffers that it uses, in the order of the kernel's.
    pub pointers: Vec<Pointer>,
}
