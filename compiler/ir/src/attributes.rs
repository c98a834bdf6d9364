//! Attributes of operations: plain, hashable data with a text form.
//!
//! `operator!` declares an operation's struct; its fields are its attributes. Floats never sit in attributes
//! as such: [`F32`] keeps the bits, so that attributes have total equality and order.

use std::marker::PhantomData;

use crate::text::cursor::{Cursor, SyntaxError};
use crate::text::nearest::did_you_mean;

/// An attribute value with a text form that reads back to the same value.
pub trait Attribute: Sized {
    /// Appends the text form.
    fn print(&self, out: &mut String);
    /// Reads the text form.
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxError>;
}

/// The attributes of an operation. Implemented by `operator!`.
pub trait Attributes: Sized {
    /// Name of the operation in the text form.
    const NAME: &'static str;
    /// First paragraph of the operation's documentation.
    const SUMMARY: &'static str;
    /// Names of the attributes in order.
    const FIELDS: &'static [&'static str];
    /// Appends `{name=value, ...}`; nothing if there is no attribute.
    fn print(&self, out: &mut String);
    /// The text form of one attribute's value.
    fn field_text(&self, name: &str) -> Option<String>;
    /// Reads what [`Attributes::print`] wrote.
    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxError>;
    /// The text form of a value of one attribute, of any text that reads as one.
    fn canonical(name: &str, value: &str) -> Result<String, SyntaxError>;
}

/// [`Attributes::canonical`] of an attribute's type.
///
/// # Errors
/// If the text is no value of it, or goes on after one.
pub fn canonical<T: Attribute>(value: &str) -> Result<String, SyntaxError> {
    let mut cursor = Cursor::new(value);
    let read = T::parse(&mut cursor)?;
    if !cursor.at_end() {
        return Err(cursor.error("text after the value"));
    }
    let mut text = String::new();
    read.print(&mut text);
    Ok(text)
}

/// An f32 by its bits: total equality and order; prints as the shortest decimal that reads back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct F32(u32);

impl F32 {
    /// Wraps a float.
    pub fn new(value: f32) -> F32 {
        F32(value.to_bits())
    }

    /// The float.
    pub fn get(self) -> f32 {
        f32::from_bits(self.0)
    }
}

impl From<f32> for F32 {
    fn from(value: f32) -> F32 {
        F32::new(value)
    }
}

impl Attribute for F32 {
    fn print(&self, out: &mut String) {
        let value = self.get();
        if value.is_nan() {
            out.push_str(&format!("nan{:08x}", self.0));
        } else {
            out.push_str(&format!("{value:?}"));
        }
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<F32, SyntaxError> {
        let at = cursor.clone();
        let text = cursor.number()?;
        let bits = match text.strip_prefix("nan") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse::<f32>().ok().map(f32::to_bits),
        };
        bits.map(F32).ok_or_else(|| at.error(format!("`{text}` is not an f32")))
    }
}

macro_rules! number_attribute {
    ($($ty:ty),*) => {$(
        impl Attribute for $ty {
            fn print(&self, out: &mut String) {
                out.push_str(&self.to_string());
            }
            fn parse(cursor: &mut Cursor<'_>) -> Result<$ty, SyntaxError> {
                cursor.parse_number()
            }
        }
    )*};
}
number_attribute!(u8, u32, usize, i32, i64, i8);

impl Attribute for bool {
    fn print(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<bool, SyntaxError> {
        let at = cursor.clone();
        match cursor.word()? {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(at.error("expected `true` or `false`")),
        }
    }
}

impl<T: Attribute> Attribute for Vec<T> {
    fn print(&self, out: &mut String) {
        out.push('[');
        for (i, item) in self.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            item.print(out);
        }
        out.push(']');
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Vec<T>, SyntaxError> {
        cursor.expect("[")?;
        let mut items = Vec::new();
        while !cursor.accept("]") {
            if !items.is_empty() {
                cursor.expect(",")?;
            }
            items.push(T::parse(cursor)?);
        }
        Ok(items)
    }
}

impl<T: Attribute + Clone, const N: usize> Attribute for [T; N] {
    fn print(&self, out: &mut String) {
        self.to_vec().print(out);
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<[T; N], SyntaxError> {
        let at = cursor.clone();
        let items = Vec::<T>::parse(cursor)?;
        items.try_into().map_err(|_| at.error(format!("expected {N} values")))
    }
}

impl Attribute for crate::types::Shape {
    fn print(&self, out: &mut String) {
        self.dims().to_vec().print(out);
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        Ok(Vec::<usize>::parse(cursor)?.into())
    }
}

impl Attribute for crate::types::Element {
    fn print(&self, out: &mut String) {
        out.push_str(self.name());
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let at = cursor.clone();
        let name = cursor.word()?;
        crate::types::Element::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = crate::types::Element::ALL.iter().map(|e| e.name()).collect();
            at.error(format!("unknown element type `{name}`, expected {}", known.join(", ")))
        })
    }
}

/// Declares an enum whose variants are keywords of the text form.
#[macro_export]
macro_rules! keyword_enum {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant),* }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
        }

        impl $crate::attributes::Attribute for $name {
            fn print(&self, out: &mut String) {
                out.push_str(match self { $($name::$variant => $word),* });
            }

            fn parse(
                cursor: &mut $crate::text::cursor::Cursor<'_>,
            ) -> Result<Self, $crate::text::cursor::SyntaxError> {
                let at = cursor.clone();
                match cursor.word()? {
                    $($word => Ok($name::$variant),)*
                    other => Err(at.error(format!(
                        "unknown word `{other}`, expected {}",
                        [$($word),*].join(", ")
                    ))),
                }
            }
        }
    };
}

/// Declares an operation: a struct whose fields are its attributes.
///
/// The first documentation line is the operation's summary in tables. The operation's behaviour is given by
/// implementing [`crate::ops::Operator`] in the same file.
#[macro_export]
macro_rules! operator {
    ($(#[doc = $doc:literal])* pub struct $name:ident = $text:literal { $($(#[$field_doc:meta])* pub $field:ident: $ty:ty),* $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty),* }

        impl $crate::attributes::Attributes for $name {
            const NAME: &'static str = $text;
            const SUMMARY: &'static str = concat!($($doc, "\n"),*);
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn print(&self, out: &mut String) {
                let fields: &[(&str, &dyn Fn(&mut String))] = &[
                    $((stringify!($field), &|out| $crate::attributes::Attribute::print(&self.$field, out))),*
                ];
                $crate::attributes::print_fields(fields, out);
            }

            #[allow(unused_variables, reason = "not every operation has attributes")]
            fn field_text(&self, name: &str) -> Option<String> {
                $(if name == stringify!($field) {
                    let mut text = String::new();
                    $crate::attributes::Attribute::print(&self.$field, &mut text);
                    return Some(text);
                })*
                None
            }

            fn parse(
                cursor: &mut $crate::text::cursor::Cursor<'_>,
            ) -> Result<Self, $crate::text::cursor::SyntaxError> {
                #[allow(unused_mut, unused_variables, reason = "not every operation has attributes")]
                let mut fields = $crate::attributes::FieldReader::<Self>::new(cursor)?;
                $(let $field = fields.field(cursor, stringify!($field))?;)*
                fields.end(cursor)?;
                Ok($name { $($field),* })
            }

            fn canonical(
                name: &str,
                #[allow(unused_variables, reason = "not every operation has attributes")]
                value: &str,
            ) -> Result<String, $crate::text::cursor::SyntaxError> {
                $(if name == stringify!($field) {
                    return $crate::attributes::canonical::<$ty>(value);
                })*
                Err($crate::text::cursor::Cursor::new(name)
                    .error($crate::attributes::no_attribute::<Self>(name)))
            }
        }
    };
}

/// A field's name and the closure that prints its value.
pub type FieldPrinter<'a> = (&'a str, &'a dyn Fn(&mut String));

/// Prints `{a=1, b=2}`; nothing if there is no field.
pub fn print_fields(fields: &[FieldPrinter<'_>], out: &mut String) {
    for (i, (name, print)) in fields.iter().enumerate() {
        out.push_str(if i == 0 { "{" } else { ", " });
        out.push_str(name);
        out.push('=');
        print(out);
    }
    if !fields.is_empty() {
        out.push('}');
    }
}

/// That an operation has no attribute of that name, with those that it has.
pub fn no_attribute<A: Attributes>(name: &str) -> String {
    match A::FIELDS {
        [] => format!("`{}` has no attributes", A::NAME),
        fields => {
            let near = did_you_mean(name, fields.iter().copied());
            let known = fields.join(", ");
            format!("`{}` has no attribute `{name}`, only {known}{near}", A::NAME)
        }
    }
}

/// Reads `{a=1, b=2}` in order.
#[derive(Debug)]
pub struct FieldReader<A> {
    braces: bool,
    first: bool,
    of: PhantomData<A>,
}

impl<A: Attributes> FieldReader<A> {
    /// Takes the opening brace, if the operation has attributes.
    pub fn new(cursor: &mut Cursor<'_>) -> Result<FieldReader<A>, SyntaxError> {
        let braces = !A::FIELDS.is_empty();
        if !braces && cursor.peek() == Some('{') {
            return Err(cursor.error(no_attribute::<A>("")));
        }
        if braces && !cursor.accept("{") {
            let known = A::FIELDS.join(", ");
            return Err(
                cursor.error(format!("expected `{{` and the attributes of `{}`: {known}", A::NAME))
            );
        }
        Ok(FieldReader { braces, first: true, of: PhantomData })
    }

    /// Reads `name=value`.
    pub fn field<T: Attribute>(
        &mut self,
        cursor: &mut Cursor<'_>,
        name: &str,
    ) -> Result<T, SyntaxError> {
        if !std::mem::replace(&mut self.first, false) && !cursor.accept(",") {
            return Err(
                cursor.error(format!("expected `,` and the attribute `{name}` of `{}`", A::NAME))
            );
        }
        let at = cursor.clone();
        match cursor.word() {
            Ok(word) if word == name => {}
            Ok(word) if !A::FIELDS.contains(&word) => {
                return Err(at.error(no_attribute::<A>(word)));
            }
            _ => {
                let known = A::FIELDS.join(", ");
                return Err(at.error(format!(
                    "expected the attribute `{name}`; `{}` takes {known}, in this order",
                    A::NAME
                )));
            }
        }
        cursor.expect("=")?;
        T::parse(cursor)
    }

    /// Takes the closing brace.
    pub fn end(&self, cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
        if !self.braces || cursor.accept("}") {
            return Ok(());
        }
        let mut rest = cursor.clone();
        match (rest.accept(","), rest.word()) {
            (true, Ok(word)) if !A::FIELDS.contains(&word) => {
                Err(cursor.error(no_attribute::<A>(word)))
            }
            _ => Err(cursor.error("expected `}`")),
        }
    }
}
