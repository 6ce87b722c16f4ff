//! The strict reading of projections.

use std::borrow::Cow;

use super::tree::{Mode, Node, Tree};
use crate::base::{ErrorCode, Result};
use crate::bson::{Document, Value};
use crate::expr::value::{error, truth};
use crate::expr::{Context, Expression};
use crate::query::parse::{Place, document as filter_of, is_operators_of_element};
use crate::query::{Node as Filter, parse::element_match_node};

/// Where a projection is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// In a find: `$slice`, `$elemMatch` and `a.$` are projections.
    Find,
    /// In a pipeline: everything but inclusion and exclusion is an expression.
    Pipeline,
}

pub(super) struct Parsed {
    pub(super) mode: Mode,
    pub(super) tree: Tree,
    pub(super) positional: bool,
}

/// What a leaf of a projection says about the mode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Include,
    Exclude,
    Computes,
    Nothing,
}

struct Reader<'c> {
    used_in: Use,
    context: &'c Context,
    mode: Option<Mode>,
    /// Dotted paths, and what is done there.
    leaves: Vec<(Cow<'c, str>, Node)>,
    computes: bool,
    elements: bool,
    positional: bool,
}

pub(super) fn projection<'c>(spec: Document<'c>, used_in: Use, context: &'c Context) -> Result<Parsed> {
    if spec.is_empty() && used_in == Use::Pipeline {
        return Err(error(
            51272,
            "Invalid $project :: caused by :: projection specification must have at least one field",
        ));
    }
    let mut reader = Reader {
        used_in,
        context,
        mode: None,
        leaves: Vec::new(),
        computes: false,
        elements: false,
        positional: false,
    };
    for element in spec {
        reader.field(element.name.to_str_lossy(), element.value)?;
    }
    let id = reader.leaves.iter().find(|(path, _)| path == "_id").map(|(_, node)| matches!(node, Node::Drop));
    let mode = reader.mode.unwrap_or_else(|| {
        let only_id = reader.leaves.iter().all(|(path, _)| path == "_id");
        match (only_id, id) {
            _ if reader.computes || reader.elements => Mode::Include,
            (true, Some(false)) => Mode::Include,
            _ => Mode::Exclude,
        }
    });
    let mut tree = Tree::default();
    if mode == Mode::Include
        && id.is_none()
        && !reader.leaves.iter().any(|(path, _)| path.split('.').next() == Some("_id"))
    {
        tree.fields.push("_id".into(), Node::Keep);
    }
    for (path, node) in reader.leaves {
        let redundant = path == "_id" && mode == Mode::Exclude && matches!(node, Node::Keep);
        if mode == Mode::Exclude && matches!(node, Node::Computed(_)) && used_in == Use::Pipeline {
            return Err(error(31252, "Cannot use an expression other than $meta in exclusion projection"));
        }
        if !redundant {
            insert(&mut tree, &path, node)?;
        }
    }
    Ok(Parsed { mode, tree, positional: reader.positional })
}

impl<'c> Reader<'c> {
    fn field(&mut self, path: Cow<'c, str>, value: Value<'c>) -> Result<()> {
        let (path, positional) = self.positional_part(path)?;
        crate::expr::parser::check_path(&path)?;
        self.value(path, value, positional)
    }

    /// A path without the positional operator at its end, and whether it had one.
    fn positional_part(&mut self, path: Cow<'c, str>) -> Result<(Cow<'c, str>, bool)> {
        let is_positional = |path: &str| path.contains('$') && path.split('.').any(|part| part == "$");
        if path == "$" || !is_positional(&path) {
            return Ok((path, false));
        }
        if self.used_in == Use::Pipeline {
            return Err(error(31324, "positional projection cannot be used with an aggregation pipeline"));
        }
        let Some(above) = path.strip_suffix(".$").filter(|above| !is_positional(above)) else {
            return Err(error(
                31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a path.",
            ));
        };
        if self.positional {
            return Err(error(31276, "Cannot specify more than one positional projection per query."));
        }
        self.positional = true;
        Ok((above.to_owned().into(), true))
    }

    fn value(&mut self, path: Cow<'c, str>, value: Value<'c>, positional: bool) -> Result<()> {
        let is_id = path == "_id";
        let (node, says) = match value {
            _ if positional => {
                if self.elements {
                    return Err(error(31256, "Cannot specify positional operator and $elemMatch."));
                }
                let refused = match value {
                    Value::Document(_) => Some((31271, "an expression or sub object")),
                    _ if !value.kind().is_number() && !matches!(value, Value::Bool(_)) => Some((31308, "a literal")),
                    _ if !truth(&value) => Some((31395, "exclusion")),
                    _ => None,
                };
                if let Some((code, what)) = refused {
                    return Err(error(code, format!("positional projection cannot be used with {what}")));
                }
                (Node::Positional, Says::Include)
            }
            Value::Bool(_) | Value::Int32(_) | Value::Int64(_) | Value::Double(_) | Value::Decimal128(_) => {
                if truth(&value) { (Node::Keep, Says::Include) } else { (Node::Drop, Says::Exclude) }
            }
            Value::Document(document) if document.is_empty() => {
                return Err(error(
                    51270,
                    format!("An empty sub-projection is not a valid value. Found empty object at path '{path}'"),
                ));
            }
            Value::Document(document) => match self.operator(&path, document)? {
                Some(found) => found,
                None => {
                    for element in document {
                        self.field(format!("{path}.{}", element.name.to_str_lossy()).into(), element.value)?;
                    }
                    return Ok(());
                }
            },
            value => (Node::Computed(crate::expr::parse(value, self.context)?), Says::Computes),
        };
        self.says(says, &path, is_id)?;
        self.leaves.push((path, node));
        Ok(())
    }

    /// Takes note of what a leaf says about the mode.
    fn says(&mut self, says: Says, path: &str, is_id: bool) -> Result<()> {
        let mode = match says {
            Says::Include | Says::Exclude if is_id => return Ok(()),
            Says::Nothing => return Ok(()),
            Says::Include => Mode::Include,
            Says::Exclude => Mode::Exclude,
            Says::Computes => {
                self.computes = true;
                if self.mode == Some(Mode::Exclude) {
                    let what = format!("Cannot use expression in exclusion projection on field {path}");
                    return Err(error(if self.used_in == Use::Find { 31252 } else { 31310 }, what));
                }
                Mode::Include
            }
        };
        match self.mode {
            None => self.mode = Some(mode),
            Some(known) if known == mode => {}
            Some(Mode::Exclude) => {
                return Err(error(31253, format!("Cannot do inclusion on field {path} in exclusion projection")));
            }
            Some(_) => {
                return Err(error(31254, format!("Cannot do exclusion on field {path} in inclusion projection")));
            }
        }
        Ok(())
    }

    /// The node of a document that begins with an operator; nothing for a document of fields.
    fn operator(&mut self, path: &str, document: Document<'_>) -> Result<Option<(Node, Says)>> {
        let Some(first) = document.first().filter(|first| first.name.as_bytes().starts_with(b"$")) else {
            return Ok(None);
        };
        if self.used_in == Use::Find {
            if document.elements().nth(1).is_some() {
                return Err(error(
                    16410,
                    format!("FieldPath field names may not start with '$'. Found '{}'", first.name),
                ));
            }
            match first.name.as_bytes() {
                b"$slice" => {
                    if let Some(slice) = slice(first.value)? {
                        return Ok(Some((slice, Says::Nothing)));
                    }
                }
                b"$elemMatch" => {
                    self.elements = true;
                    return element(path, first.value, self.positional, self.context)
                        .map(|node| Some((node, Says::Nothing)));
                }
                _ => {}
            }
        }
        let expression = crate::expr::parse(Value::Document(document), self.context).map_err(|wrong| {
            // An operator that there is not has a code of its own here.
            if wrong.code() == ErrorCode::INVALID_PIPELINE_OPERATOR {
                error(31325, format!("Unknown expression {}", first.name))
            } else {
                wrong
            }
        })?;
        Ok(Some((Node::Computed(expression), Says::Computes)))
    }
}

/// `$slice: limit` or `$slice: [skip, limit]`; nothing when it is the expression.
fn slice(value: Value<'_>) -> Result<Option<Node>> {
    let whole = |value: &Value<'_>| {
        let number = value.as_number().and_then(crate::bson::number::Number::trunc_to_i64);
        let saturated = value.as_f64().map_or(0, |double| if double > 0.0 { i64::MAX } else { i64::MIN });
        let nan = value.as_number().is_some_and(|number| number.is_nan());
        number.unwrap_or(if nan { 0 } else { saturated }).clamp(i64::from(i32::MIN), i64::from(i32::MAX))
    };
    match value {
        Value::Array(array) => {
            let values: Vec<_> = array.values().collect();
            match &values[..] {
                [skip, limit] if skip.kind().is_number() && limit.kind().is_number() => {
                    let (skip, limit) = (whole(skip), whole(limit));
                    if limit <= 0 {
                        return Err(error(28724, format!("$slice limit must be positive, got {limit}")));
                    }
                    Ok(Some(Node::Slice { skip: Some(skip), limit }))
                }
                _ => Ok(None),
            }
        }
        value if value.kind().is_number() => Ok(Some(Node::Slice { skip: None, limit: whole(&value) })),
        _ => Ok(None),
    }
}

fn element(path: &str, value: Value<'_>, positional: bool, context: &Context) -> Result<Node> {
    if positional {
        return Err(error(31255, "Cannot specify positional operator and $elemMatch."));
    }
    let Value::Document(conditions) = value else {
        return Err(error(
            31274,
            format!("elemMatch: Invalid argument, object required, but got {}", value.kind().name()),
        ));
    };
    if path.contains('.') {
        return Err(error(31275, "Cannot use $elemMatch projection on a nested field."));
    }
    let filter: Filter = if is_operators_of_element(conditions) {
        element_match_node(Value::Document(conditions), context)?
    } else {
        Filter::ElementDocument {
            path: crate::path::Path::itself(),
            node: Box::new(filter_of(conditions, context, Place::Element)?),
        }
    };
    Ok(Node::Element(Box::new(filter)))
}

/// Puts a node at a dotted path.
fn insert(tree: &mut Tree, path: &str, node: Node) -> Result<()> {
    insert_below(tree, path, path, node)
}

/// Puts a node at `rest`, the end of a path.
fn insert_below(tree: &mut Tree, path: &str, rest: &str, node: Node) -> Result<()> {
    let (first, rest) = rest.split_once('.').map_or((rest, None), |(first, rest)| (first, Some(rest)));
    let at = tree.fields.place(first.as_bytes());
    match (at, rest) {
        (None, None) => tree.fields.push(first.into(), node),
        (None, Some(rest)) => {
            let mut inner = Tree::default();
            insert_below(&mut inner, path, rest, node)?;
            tree.fields.push(first.into(), Node::Tree(inner));
        }
        (Some(at), None) => {
            let code = if matches!(tree.fields.as_slice()[at].1, Node::Tree(_)) { 31250 } else { 31249 };
            return Err(error(code, format!("Path collision at {path}")));
        }
        (Some(at), Some(rest)) => match tree.fields.value_mut(at) {
            Node::Tree(inner) => insert_below(inner, path, rest, node)?,
            _ => return Err(error(31249, format!("Path collision at {path} remaining portion {rest}"))),
        },
    }
    Ok(())
}

/// The tree of the fields of `$addFields`.
pub(super) fn added(spec: Document<'_>, context: &Context) -> Result<Tree> {
    if spec.is_empty() {
        return Err(error(40177, "Invalid $addFields :: caused by :: specification must have at least one field"));
    }
    let mut tree = Tree::default();
    for element in spec {
        let name = element.name.to_str_lossy();
        crate::expr::parser::check_path(&name)?;
        add(&mut tree, &name, element.value, context)?;
    }
    Ok(tree)
}

/// Adds the field at a path; `path` is checked.
fn add(tree: &mut Tree, path: &str, value: Value<'_>, context: &Context) -> Result<()> {
    match value {
        Value::Document(document) if document.first().is_some_and(|first| !first.name.as_bytes().starts_with(b"$")) => {
            for element in document {
                if element.name.as_bytes().contains(&b'.') {
                    return Err(error(
                        40183,
                        format!("cannot use dotted field name '{}' in a sub object", element.name),
                    ));
                }
                if element.name.as_bytes().starts_with(b"$") {
                    return Err(error(40182, format!("{} is not allowed in this context", element.name)));
                }
                let name = element.name.to_str_lossy();
                crate::expr::parser::check_path(&name)?;
                add(tree, &format!("{path}.{name}"), element.value, context)?;
            }
        }
        value => {
            let expression: Expression = crate::expr::parse(value, context)?;
            let collided = |_| {
                error(
                    40176,
                    format!(
                        "specification contains two conflicting paths. Cannot specify both '{path}' and a part of it"
                    ),
                )
            };
            insert(tree, path, Node::Computed(expression)).map_err(collided)?;
        }
    }
    Ok(())
}

/// The tree of paths that are dropped.
pub(super) fn removed(paths: &[String]) -> Result<Tree> {
    let mut tree = Tree::default();
    for path in paths {
        crate::expr::parser::check_path(path)?;
        insert(&mut tree, path, Node::Drop)?;
    }
    Ok(tree)
}
