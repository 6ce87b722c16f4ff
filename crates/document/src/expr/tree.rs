//! The compiled tree of an expression and its evaluation.

use std::cmp;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::allowance::{self, Scope};
use super::value::Val;
use crate::base::Result;
use crate::bson::{Array, Document, DocumentBuilder, Value, ValueBuf};
use crate::collation::{self, Collation};
use crate::path::{Part, Path};

/// Defines a [`Function`]: `function!(name(call, env) { .. })`.
macro_rules! function {
    ($name:ident($call:ident, $env:ident) $body:block) => {
        pub(in crate::expr) fn $name<'a>(
            $call: &'a $crate::expr::tree::Call,
            $env: &$crate::expr::tree::Env<'a>,
        ) -> $crate::base::Result<$crate::expr::value::Val<'a>> $body
    };
}
pub(in crate::expr) use function;

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Expression {
    /// A value.
    Constant(ValueBuf),
    /// No value: `$$REMOVE`.
    Missing,
    /// An argument that was not given.
    Absent,
    /// A field of the current document, `$a.b`; without components the document itself.
    Field(Path),
    /// A field of the whole document, `$$ROOT.a.b`.
    Root(Path),
    /// A variable by how many variables were bound after it, and a path in it.
    Local(usize, Path),
    /// A document of expressions.
    Document(Vec<(String, Expression)>),
    /// An array of expressions.
    Array(Vec<Expression>),
    /// An operator.
    Call(Call),
    /// `$rand`: a random number from 0 to below 1; the state of its generator.
    Random(Arc<AtomicU64>),
    /// An expression whose operators compare strings by a collation.
    Collated(Arc<Collation>, Box<Expression>),
}

/// An operator and its arguments.
#[derive(Clone)]
pub struct Call {
    /// The operator's name, such as `$add`.
    pub name: &'static str,
    /// What it does.
    pub function: Function,
    /// The arguments, in the order in which the function takes them.
    pub arguments: Vec<Expression>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(self.name).field(&self.arguments).finish()
    }
}

/// What an operator does with its call, in an environment.
pub type Function = for<'a> fn(&'a Call, &Env<'a>) -> Result<Val<'a>>;

/// What names stand for while an expression is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Env<'a> {
    /// `$$ROOT`.
    pub root: Value<'a>,
    /// `$$CURRENT`, to which field paths are relative.
    pub current: Value<'a>,
    /// The variable that was bound last.
    pub locals: Option<&'a Local<'a>>,
    /// How strings are compared.
    pub collation: Option<&'a Collation>,
}

/// A variable, and those bound before it.
#[derive(Debug)]
pub struct Local<'a> {
    value: Val<'a>,
    before: Option<&'a Local<'a>>,
}

impl<'a> Env<'a> {
    /// The environment of a document.
    #[must_use]
    pub const fn new(document: Document<'a>) -> Self {
        let root = Value::Document(document);
        Self { root, current: root, locals: None, collation: None }
    }

    /// The environment with one more variable.
    #[must_use]
    pub const fn with(&self, local: &'a Local<'a>) -> Self {
        Self { root: self.root, current: self.current, locals: Some(local), collation: self.collation }
    }

    /// The order of two values.
    #[inline]
    #[must_use]
    pub fn compare(&self, a: &Value<'_>, b: &Value<'_>) -> cmp::Ordering {
        collation::compare(self.collation, a, b)
    }

    /// Whether two values are equal.
    #[inline]
    #[must_use]
    pub fn equal(&self, a: &Value<'_>, b: &Value<'_>) -> bool {
        self.compare(a, b).is_eq()
    }
}

impl<'a> Local<'a> {
    /// A variable that is bound after those of an environment.
    #[must_use]
    pub const fn new(value: Val<'a>, env: &Env<'a>) -> Self {
        Self { value, before: env.locals }
    }
}

impl Call {
    /// The value of an argument.
    ///
    /// # Errors
    /// Those of the argument.
    #[inline]
    pub fn argument<'a>(&'a self, at: usize, env: &Env<'a>) -> Result<Val<'a>> {
        self.arguments.get(at).map_or(Ok(Val::Missing), |argument| argument.evaluate(env))
    }

    /// Whether an argument was given.
    #[must_use]
    pub fn has(&self, at: usize) -> bool {
        self.arguments.get(at).is_some_and(|argument| !matches!(argument, Expression::Absent))
    }

    /// The values of all arguments.
    ///
    /// # Errors
    /// Those of the arguments.
    pub fn all<'a>(&'a self, env: &Env<'a>) -> Result<Vec<Val<'a>>> {
        self.arguments.iter().map(|argument| argument.evaluate(env)).collect()
    }
}

impl Expression {
    /// A constant.
    #[must_use]
    pub fn constant(value: Value<'_>) -> Self {
        Self::Constant(value.into())
    }

    /// Whether the expression is a constant, and which.
    #[must_use]
    pub fn as_constant(&self) -> Option<Value<'_>> {
        match self {
            Self::Constant(value) => Some(value.view()),
            _ => None,
        }
    }

    /// Whether its value depends on no document.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Missing | Self::Absent => true,
            Self::Field(_) | Self::Root(_) | Self::Local(..) | Self::Random(_) => false,
            Self::Document(fields) => fields.iter().all(|(_, expression)| expression.is_constant()),
            Self::Array(items) => items.iter().all(Self::is_constant),
            Self::Call(call) => call.arguments.iter().all(Self::is_constant),
            Self::Collated(_, expression) => expression.is_constant(),
        }
    }

    /// The value for a document.
    ///
    /// # Errors
    /// MongoDB's, as the operators have them.
    pub fn of<'a>(&'a self, document: Document<'a>) -> Result<Val<'a>> {
        self.within(&Env::new(document))
    }

    /// The value in an environment, for callers that are no expressions.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn within<'a>(&'a self, env: &Env<'a>) -> Result<Val<'a>> {
        let _scope = Scope::new();
        self.evaluate(env)
    }

    /// Whether the value for a document counts as true.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn test(&self, document: Document<'_>) -> Result<bool> {
        Ok(self.of(document)?.truth())
    }

    /// The value in an environment. Each value that an expression builds returns through here, where its bytes are
    /// counted and its levels are bounded.
    ///
    /// # Errors
    /// As [`Self::of`]; `ExceededMemoryLimit` (146) and `Overflow` (15) for what is too large or too deep.
    #[inline]
    pub(super) fn evaluate<'a>(&'a self, env: &Env<'a>) -> Result<Val<'a>> {
        match self {
            Self::Constant(value) => Ok(Val::View(value.view())),
            Self::Missing | Self::Absent => Ok(Val::Missing),
            _ => {
                let before = allowance::held();
                allowance::settled(before, self.compute(env))
            }
        }
    }

    fn compute<'a>(&'a self, env: &Env<'a>) -> Result<Val<'a>> {
        Ok(match self {
            Self::Constant(value) => Val::View(value.view()),
            Self::Missing | Self::Absent => Val::Missing,
            Self::Field(path) => follow(env.current, path.parts()),
            Self::Root(path) => follow(env.root, path.parts()),
            Self::Local(back, path) => local(env, *back, path),
            Self::Document(fields) => {
                let mut builder = DocumentBuilder::new();
                for (name, expression) in fields {
                    if let Some(value) = expression.evaluate(env)?.view() {
                        allowance::charge(allowance::payload_bytes(&value))?;
                        builder.append(name, value);
                    }
                }
                Val::document(builder.finish())
            }
            Self::Array(items) => {
                let values = items.iter().map(|item| item.evaluate(env)).collect::<Result<Vec<_>>>()?;
                Val::Own(allowance::array(values.iter().map(Val::value))?)
            }
            Self::Call(call) => (call.function)(call, env)?,
            Self::Random(state) => Val::View(Value::Double(random(state))),
            Self::Collated(collation, expression) => {
                expression.evaluate(&Env { collation: Some(&**collation), ..*env })?
            }
        })
    }
}

/// The next number of a generator (SplitMix64).
fn random(state: &AtomicU64) -> f64 {
    // The state belongs to one expression; nothing is published by it.
    let mut bits = state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    // 53 random bits are the fraction of a double.
    f64::from_bits(0x3FF0_0000_0000_0000 | bits >> 12) - 1.0
}

fn local<'a>(env: &Env<'a>, back: usize, path: &Path) -> Val<'a> {
    let mut local = env.locals;
    for _ in 0..back {
        local = local.and_then(|local| local.before);
    }
    let Some(local) = local else { return Val::Missing };
    if path.parts().is_empty() {
        return match &local.value {
            Val::Missing => Val::Missing,
            Val::View(value) => Val::View(*value),
            Val::Own(value) => Val::View(value.view()),
        };
    }
    match local.value.view() {
        Some(value) => follow(value, path.parts()),
        None => Val::Missing,
    }
}

/// The value at the end of a path. At an array the rest of the path is followed in each of its documents, and the
/// values make an array; positions have no meaning.
#[must_use]
pub fn follow<'a>(value: Value<'a>, parts: &[Part]) -> Val<'a> {
    let Some((first, rest)) = parts.split_first() else { return Val::View(value) };
    match value {
        Value::Document(document) => match document.get(first.name()) {
            Some(value) => follow(value, rest),
            None => Val::Missing,
        },
        Value::Array(array) => follow_array(array, parts),
        _ => Val::Missing,
    }
}

fn follow_array(array: Array<'_>, parts: &[Part]) -> Val<'static> {
    let found = array.values().filter_map(|value| match value {
        Value::Document(_) => follow(value, parts).into_buf(),
        _ => None,
    });
    let found: Vec<ValueBuf> = found.collect();
    Val::Own(ValueBuf::array(found.iter().map(ValueBuf::view)))
}
