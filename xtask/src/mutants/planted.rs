//! Bugs that a person has written down, made switchable like generated mutants.
//!
//! The file is a JSON list. Each bug is `{"name", "file", "original", "mutated"}`, or has a list `edits` of such
//! without names. `original` must occur once in the file, else `fn` (`name` or `Type::name`) or `nth` (from 1) says
//! which. With an empty `original`, `mutated` is put at the start of the body of `fn`. Any piece of text inside of a
//! function's body will do: it is widened to the smallest expression, statement or block around it that is still Rust
//! with the change. Elsewhere `mutated` must contain `MUTANT`, which becomes a `bool` that is true when the bug is on;
//! it takes the place of `original` in every run.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::mutant::{Edit, Kind, Mutant, PLACEHOLDER};

/// A bug as it is written down.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Planted {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    edits: Vec<PlantedEdit>,
    #[serde(flatten)]
    only: Option<PlantedEdit>,
}

/// One place of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct PlantedEdit {
    pub(super) file: String,
    pub(super) original: String,
    pub(super) mutated: String,
    #[serde(rename = "fn", default, skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nth: Option<usize>,
}

impl Planted {
    /// A bug of one place.
    pub(super) fn one(name: String, edit: PlantedEdit) -> Self {
        Self { name, edits: Vec::new(), only: Some(edit) }
    }

    /// The files that it changes.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.only.iter().chain(&self.edits).map(|edit| edit.file.as_str())
    }
}

/// How far a change is widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// To the smallest expression, statement or block.
    Least,
    /// To the whole body of the function: where the least does not compile.
    Body,
}

/// The bugs of a file.
///
/// # Errors
/// When it cannot be read, or is not as described above.
pub(super) fn read(path: &Path) -> Result<Vec<Planted>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a bug switchable.
///
/// # Errors
/// When its text is not there, or there more than once, or the change is not Rust.
pub(super) fn mutant(root: &Path, number: usize, planted: &Planted, width: Width) -> Result<Mutant, String> {
    let name = if planted.name.is_empty() { format!("{number}") } else { planted.name.clone() };
    let places: Vec<_> = planted.only.iter().chain(&planted.edits).collect();
    let first = places.first().ok_or_else(|| format!("planted bug {name}: no file, original and mutated text"))?;
    let mut mutant = Mutant {
        name: name.clone(),
        file: first.file.clone(),
        line: 0,
        function: first.function.clone().unwrap_or_default(),
        what: "planted".to_owned(),
        original: first.original.clone(),
        nth: first.nth.unwrap_or(1),
        edits: Vec::new(),
    };
    for place in places {
        let path = root.join(&place.file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (edit, line) = edit(&text, place, width).map_err(|why| format!("planted bug {name}: {why}"))?;
        if mutant.edits.is_empty() {
            mutant.line = line;
        }
        mutant.edits.push(edit);
    }
    Ok(mutant)
}

fn edit(text: &str, place: &PlantedEdit, width: Width) -> Result<(Edit, usize), String> {
    let parsed = syn::parse_file(text).map_err(|error| format!("{}: {error}", place.file))?;
    let mut nodes = Nodes::default();
    nodes.visit_file(&parsed);
    let at = locate(text, place, &nodes)?;
    let line = 1 + text[..at.start].matches('\n').count();
    let made = |region, kind, mutated| Edit { file: place.file.clone(), region, kind, mutated };
    if place.original.is_empty() {
        return Ok((made(at, Kind::Insert, place.mutated.clone()), line));
    }
    let mut around: Vec<_> = nodes.found.iter().filter(|node| node.holds(&at)).collect();
    if around.is_empty() && place.mutated.contains(PLACEHOLDER) {
        return Ok((made(at, Kind::Raw, place.mutated.clone()), line));
    }
    around.sort_by_key(|node| (node.range.len(), node.kind != Kind::Expression));
    if width == Width::Body {
        around.retain(|node| node.is_body);
    }
    for node in around {
        let changed =
            format!("{}{}{}", &text[node.range.start..at.start], place.mutated, &text[at.end..node.range.end]);
        if is_rust(&changed, node.kind) {
            return Ok((made(node.range.clone(), node.kind, changed), line));
        }
    }
    Err(format!("{}:{line}: not inside of a function's body, or not Rust when changed", place.file))
}

/// Where the original text is.
fn locate(text: &str, place: &PlantedEdit, nodes: &Nodes) -> Result<Range<usize>, String> {
    let wanted = |name: &str| place.function.as_deref().is_none_or(|path| is_named(name, path));
    let within: Vec<_> = nodes.functions.iter().filter(|(name, _)| wanted(name)).map(|(_, range)| range).collect();
    if place.original.is_empty() {
        let [body] = within[..] else {
            return Err(format!("{}: with no original text, `fn` must name one function", place.file));
        };
        return Ok(body.start + 1..body.start + 1);
    }
    let matches = text.match_indices(&place.original).map(|(start, found)| start..start + found.len());
    let holds = |at: &Range<usize>| within.iter().any(|body| body.start <= at.start && at.end <= body.end);
    let found: Vec<_> = matches.filter(|at| place.function.is_none() || holds(at)).collect();
    match (&found[..], place.nth) {
        ([one], None) => Ok(one.clone()),
        (found, Some(nth)) if (1..=found.len()).contains(&nth) => Ok(found[nth - 1].clone()),
        (found, _) => {
            Err(format!("{}: the original text occurs {} times: `{}`", place.file, found.len(), place.original))
        }
    }
}

fn is_named(name: &str, path: &str) -> bool {
    name == path || name.strip_suffix(path).is_some_and(|before| before.ends_with("::"))
}

fn is_rust(text: &str, kind: Kind) -> bool {
    let text = text.replace(PLACEHOLDER, "true");
    match kind {
        Kind::Expression => syn::parse_str::<syn::Expr>(&text).is_ok(),
        Kind::Statement => syn::parse_str::<syn::Block>(&format!("{{ {text} }}")).is_ok(),
        _ => syn::parse_str::<syn::Block>(&text).is_ok(),
    }
}

struct Node {
    range: Range<usize>,
    kind: Kind,
    /// A function's whole body.
    is_body: bool,
}

impl Node {
    fn holds(&self, at: &Range<usize>) -> bool {
        self.range.start <= at.start && at.end <= self.range.end
    }
}

/// All that can be made switchable in a file.
#[derive(Default)]
struct Nodes {
    found: Vec<Node>,
    functions: Vec<(String, Range<usize>)>,
    within: Vec<String>,
}

impl Nodes {
    fn add(&mut self, node: &impl Spanned, kind: Kind, is_body: bool) {
        self.found.push(Node { range: node.span().byte_range(), kind, is_body });
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.within.push(signature.ident.to_string());
        self.functions.push((self.within.join("::"), block.span().byte_range()));
        if signature.constness.is_none() {
            self.add(block, Kind::Block, true);
            visit::visit_block(self, block);
        }
        self.within.pop();
    }
}

impl<'ast> Visit<'ast> for Nodes {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within.push(name.unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.add(block, Kind::Block, false);
        visit::visit_block(self, block);
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if matches!(statement, syn::Stmt::Expr(_, Some(_)) | syn::Stmt::Macro(_)) {
            self.add(statement, Kind::Statement, false);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        // Only what is a value wherever it stands: a copy of a place would take the place's changes.
        let is_value = matches!(
            expression,
            syn::Expr::Binary(_)
                | syn::Expr::Call(_)
                | syn::Expr::Closure(_)
                | syn::Expr::Lit(_)
                | syn::Expr::MethodCall(_)
                | syn::Expr::Range(_)
                | syn::Expr::Struct(_)
                | syn::Expr::Tuple(_)
        );
        if is_value && !has_let(expression) {
            self.add(expression, Kind::Expression, false);
        }
        visit::visit_expr(self, expression);
    }
}

fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "impl A { fn f(&self) { let a = b(1) + 2; c(a); d(a)?; } fn g(&self) { c(a); } }";

    fn planted(original: &str, mutated: &str, function: Option<&str>, nth: Option<usize>) -> PlantedEdit {
        let (original, mutated) = (original.to_owned(), mutated.to_owned());
        PlantedEdit { file: "x.rs".to_owned(), original, mutated, function: function.map(str::to_owned), nth }
    }

    #[test]
    fn a_change_is_widened_to_what_can_be_switched() {
        for (place, kind, mutated) in [
            (planted("+ 2", "- 2", None, None), Kind::Expression, "b(1) - 2"),
            (planted("d(a)?;", "", None, None), Kind::Statement, ""),
            (planted("c(a)", "c(b)", Some("A::g"), None), Kind::Expression, "c(b)"),
            (planted("c(a)", "c(b)", None, Some(1)), Kind::Expression, "c(b)"),
            (planted("c(a); d(a)?;", "d(a)?; c(a);", None, None), Kind::Block, "{ let a = b(1) + 2; d(a)?; c(a); }"),
            (planted("", "return;", Some("g"), None), Kind::Insert, "return;"),
            (planted("&self) { let", "&self, b: MUTANT) { let", None, None), Kind::Raw, "&self, b: MUTANT) { let"),
        ] {
            let (edit, _) = edit(TEXT, &place, Width::Least).unwrap();
            assert_eq!((edit.kind, edit.mutated.as_str()), (kind, mutated));
        }
        let (edit, line) = edit(TEXT, &planted("1", "2", None, None), Width::Body).unwrap();
        assert_eq!((edit.mutated.as_str(), line), ("{ let a = b(2) + 2; c(a); d(a)?; }", 1));
    }

    #[test]
    fn a_text_that_is_not_there_once_is_refused() {
        assert!(edit(TEXT, &planted("c(a)", "", None, None), Width::Least).unwrap_err().contains("occurs 2 times"));
        assert!(edit(TEXT, &planted("z", "", None, None), Width::Least).unwrap_err().contains("occurs 0 times"));
    }
}
