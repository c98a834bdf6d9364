//! What a verifier accepted, as a type: back ends demand it, and only a verifier makes it.

use std::fmt;
use std::ops::Deref;

use crate::program::{Notes, Program};

/// A value that its verifier accepts: of programs [`verify_program`](crate::program_verify::verify_program).
///
/// It reads like the value, and cannot be changed in place: who changes it takes it out and has it verified again.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// For verifiers.
    pub(crate) fn accepted(value: T) -> Verified<T> {
        Verified(value)
    }

    /// The value, of which nothing is known any more.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl Verified<Program> {
    /// What headers and examples say beside the program: no promise rests on it.
    pub fn notes_mut(&mut self) -> &mut Notes {
        &mut self.0.notes
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Display> fmt::Display for Verified<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
