//! The strict reading of expressions.

use std::sync::Arc;

use super::context::Context;
use super::tree::{Call, Env, Expression, Function};
use super::value::{TEXT_BYTES_MAX, error, too_large};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, FieldList, Text, Value, may_be_in_path};
use crate::path::Path;

/// How an operator is read.
#[derive(Clone, Copy, Debug)]
pub enum Build {
    /// A number of arguments from a least to a greatest one, in an array; a single one may stand alone.
    Arguments(usize, usize, Function),
    /// In its own way.
    Special(fn(&mut Parser<'_>, &'static str, Value<'_>) -> Result<Expression>),
}

/// The operators by their names.
pub type Table = fn(&str) -> Option<(&'static str, Build)>;

/// Reads expressions.
#[derive(Debug)]
pub struct Parser<'c> {
    /// The constants of the command.
    pub context: &'c Context,
    table: Table,
    /// The names of the variables that are bound, the last one last.
    scope: Vec<String>,
    depth: usize,
    /// Within how many expressions it is that may never be evaluated: an error of constants there waits for that.
    unfolded: usize,
}

/// The deepest nesting of expressions.
const DEPTH_MAX: usize = 200;

impl<'c> Parser<'c> {
    /// A parser with a table of operators.
    #[must_use]
    pub const fn new(context: &'c Context, table: Table) -> Self {
        Self { context, table, scope: Vec::new(), depth: 0, unfolded: 0 }
    }

    /// Reads an expression.
    ///
    /// # Errors
    /// MongoDB's: 168 for an operator that there is not, 16020 for a wrong number of arguments, and many more.
    pub fn parse(&mut self, value: Value<'_>) -> Result<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::new(ErrorCode::OVERFLOW, "an expression is nested too deeply"));
        }
        let expression = match value {
            Value::String(text) if text.as_bytes().starts_with(b"$") => self.path(text),
            Value::String(text) if text.len() >= TEXT_BYTES_MAX => Err(too_large(text.len())),
            Value::Document(document) => self.document(document),
            Value::Array(array) => {
                let items = self.items(array)?;
                let known = items.iter().all(is_known);
                self.folded(Expression::Array(items), known)
            }
            other => Ok(Expression::constant(other)),
        };
        self.depth -= 1;
        let expression = expression?;
        // The outermost expression tells the collation to all within it.
        Ok(match (&self.context.collation, &expression) {
            (Some(collation), Expression::Call(_) | Expression::Document(_) | Expression::Array(_))
                if self.depth == 0 =>
            {
                Expression::Collated(Arc::clone(collation), Box::new(expression))
            }
            _ => expression,
        })
    }

    /// Reads each value of an array.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn items(&mut self, array: Array<'_>) -> Result<Vec<Expression>> {
        array.values().map(|value| self.parse(value)).collect()
    }

    /// Reads the operands of an operator: the values of an array, or one value that is none.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn operands(&mut self, value: Value<'_>) -> Result<Vec<Expression>> {
        match value {
            Value::Array(array) => self.items(array),
            single => Ok(vec![self.parse(single)?]),
        }
    }

    /// Reads an expression that may never be evaluated: an error of its constants is one of its evaluation.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_unfolded(&mut self, value: Value<'_>) -> Result<Expression> {
        self.unfolded += 1;
        let parsed = self.parse(value);
        self.unfolded -= 1;
        parsed
    }

    /// Whether an error of constants is one of the command.
    #[must_use]
    pub const fn folds(&self) -> bool {
        self.unfolded == 0 && !self.context.defers_constants
    }

    /// Reads an optional operand.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn optional(&mut self, value: Option<Value<'_>>) -> Result<Expression> {
        value.map_or(Ok(Expression::Absent), |value| self.parse(value))
    }

    /// Reads an expression in which further variables are bound.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_with(&mut self, names: &[&str], value: Value<'_>) -> Result<Expression> {
        let before = self.scope.len();
        self.scope.extend(names.iter().map(|name| (*name).to_owned()));
        let expression = self.parse(value);
        self.scope.truncate(before);
        expression
    }

    fn document(&mut self, document: Document<'_>) -> Result<Expression> {
        let Some(first) = document.first() else { return Ok(Expression::constant(Value::Document(document))) };
        if !first.name.as_bytes().starts_with(b"$") {
            return self.fields(document);
        }
        if document.elements().nth(1).is_some() {
            let what =
                format!("an object representing an expression must have exactly one field: {}", document.to_json());
            return Err(error(15983, what));
        }
        let name = first.name.to_str_lossy();
        let (name, build) = (self.table)(&name).ok_or_else(|| {
            Error::new(ErrorCode::INVALID_PIPELINE_OPERATOR, format!("Unrecognized expression '{name}'"))
        })?;
        match build {
            Build::Arguments(min, max, function) => {
                let arguments = self.arguments(name, first.value, min, max)?;
                let known = arguments.iter().all(is_known);
                self.folded(Expression::Call(Call { name, function, arguments }), known)
            }
            Build::Special(build) => build(self, name, first.value),
        }
    }

    /// Computes, when all its parts are known, what an expression is for every document. So an error of constants is
    /// one of the command, whether or not there is a document.
    fn folded(&self, expression: Expression, known: bool) -> Result<Expression> {
        if !known {
            return Ok(expression);
        }
        let env = Env { collation: self.context.collation.as_deref(), ..Env::new(Document::empty()) };
        let value = match expression.within(&env) {
            Ok(value) => value.into_buf(),
            Err(error) if self.folds() && self.context.is_of_pipeline => {
                return Err(error.prefixed("Failed to optimize pipeline :: caused by :: "));
            }
            Err(error) if self.folds() => return Err(error),
            Err(_) => return Ok(expression),
        };
        Ok(value.map_or(Expression::Missing, Expression::Constant))
    }

    /// Reads the arguments of an operator.
    ///
    /// # Errors
    /// 16020, 28667 or, for conversions, 50723 for a wrong number of arguments.
    pub fn arguments(&mut self, name: &str, value: Value<'_>, min: usize, max: usize) -> Result<Vec<Expression>> {
        let arguments = self.operands(value)?;
        let given = arguments.len();
        if min == max && given != min {
            let converts =
                ["$toInt", "$toLong", "$toDouble", "$toDecimal", "$toBool", "$toDate", "$toObjectId", "$toString"];
            return Err(error(
                if converts.contains(&name) { 50723 } else { 16020 },
                format!("Expression {name} takes exactly {min} arguments. {given} were passed in."),
            ));
        }
        if given < min || given > max {
            let what = format!(
                "Expression {name} takes at least {min} arguments, and at most {max}, but {given} were passed in."
            );
            return Err(error(28667, what));
        }
        Ok(arguments)
    }

    fn fields(&mut self, document: Document<'_>) -> Result<Expression> {
        let mut fields: FieldList<String, Expression> = FieldList::default();
        for element in document {
            let name = element.name.to_str_lossy().into_owned();
            check_field_name(&name)?;
            if fields.place(name.as_bytes()).is_some() {
                return Err(error(16406, format!("duplicate field name specified in object literal: {name}")));
            }
            fields.push(name, self.parse(element.value)?);
        }
        Ok(Expression::Document(fields.into_fields()))
    }

    /// Reads a path such as `$a.b` or `$$name.a`.
    fn path(&self, text: Text<'_>) -> Result<Expression> {
        let text = text.to_str_lossy();
        let Some(rest) = text.strip_prefix("$$") else {
            let path = &text[1..];
            if path.is_empty() {
                return Err(error(16872, "'$' by itself is not a valid FieldPath"));
            }
            check_path(path)?;
            return Ok(self.current(Path::new(path)));
        };
        let (name, path) = rest.split_once('.').map_or((rest, None), |(name, path)| (name, Some(path)));
        if name.is_empty() {
            let what = "empty variable names are not allowed";
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
        }
        if let Some(path) = path {
            check_path(path)?;
        }
        let path = path.map_or_else(Path::itself, Path::new);
        self.variable(name, path)
    }

    /// A path from the current document.
    fn current(&self, path: Path) -> Expression {
        match self.scope.iter().rev().position(|known| known == "CURRENT") {
            Some(back) => Expression::Local(back, path),
            None => match self.context.variable("CURRENT") {
                // By `let` of the command.
                Some(value) => value.map_or(Expression::Missing, |value| constant_of(value, &path)),
                None => Expression::Field(path),
            },
        }
    }

    fn variable(&self, name: &str, path: Path) -> Result<Expression> {
        if let Some(back) = self.scope.iter().rev().position(|known| known == name) {
            return Ok(Expression::Local(back, path));
        }
        let constant = |value: Value<'_>| constant_of(value, &path);
        Ok(match name {
            "ROOT" => Expression::Root(path),
            "CURRENT" => self.current(path),
            "REMOVE" => Expression::Missing,
            "NOW" => constant(Value::DateTime(self.context.now)),
            "CLUSTER_TIME" => match self.context.cluster_time {
                Some(time) => constant(Value::Timestamp(time)),
                None => {
                    let what = "system variable $$CLUSTER_TIME is only available on replica sets";
                    return Err(error(10_071_200, what));
                }
            },
            "USER_ROLES" => constant(Value::Array(Array::empty())),
            "DESCEND" => constant(Value::from("descend")),
            "PRUNE" => constant(Value::from("prune")),
            "KEEP" => constant(Value::from("keep")),
            name => match self.context.variable(name) {
                Some(Some(value)) => constant(value),
                Some(None) => Expression::Missing,
                None => return Err(error(17276, format!("Use of undefined variable: {name}"))),
            },
        })
    }
}

/// What a path means within a value that is known.
fn constant_of(value: Value<'_>, path: &Path) -> Expression {
    super::tree::follow(value, path.parts()).into_buf().map_or(Expression::Missing, Expression::Constant)
}

/// Whether an expression is a value, or none, that is known already.
const fn is_known(expression: &Expression) -> bool {
    matches!(expression, Expression::Constant(_) | Expression::Missing)
}

/// Checks the name of a field of an object expression.
///
/// # Errors
/// 16410, 16412 and others.
pub fn check_field_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(error(15998, "FieldPath field names may not be empty strings."));
    }
    if !may_be_in_path(name.as_bytes()) {
        return Err(error(
            16410,
            format!(
                "FieldPath field names may not start with '$'. Consider using $getField or $setField. Found '{name}'"
            ),
        ));
    }
    if name.contains('.') {
        return Err(error(
            16412,
            format!("FieldPath field names may not contain '.'. Consider using $getField or $setField. Found '{name}'"),
        ));
    }
    Ok(())
}

/// Checks a path of fields.
///
/// # Errors
/// 40352 for an empty path, 40353 for a dot at the end, 15998 for an empty component, 16410 for a dollar.
pub fn check_path(path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(error(40352, "FieldPath cannot be constructed with empty string"));
    }
    if path.ends_with('.') {
        return Err(error(40353, "FieldPath must not end with a '.'."));
    }
    if path.contains('\0') {
        return Err(error(16411, "FieldPath field names may not contain '\0'."));
    }
    if path.len() > DEPTH_MAX && path.split('.').count() > DEPTH_MAX {
        return Err(error(5_984_700, "FieldPath is too long"));
    }
    path.split('.').try_for_each(check_field_name)
}

/// Checks the name of a variable that a user binds.
///
/// # Errors
/// 16867 for an empty name, `FailedToParse` (9) for one of characters that are not allowed.
pub fn check_variable(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(error(16867, "empty variable names are not allowed"));
    }
    if name == "CURRENT" {
        return Ok(());
    }
    let wrong = |what: &str| Err(Error::new(ErrorCode::FAILED_TO_PARSE, format!("'{name}' {what}")));
    let first_is_right = name.starts_with(|c: char| c.is_ascii_lowercase() || !c.is_ascii());
    if !first_is_right {
        return wrong("starts with an invalid character for a user variable name");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()) {
        return wrong("contains an invalid character for a variable name");
    }
    Ok(())
}
