//! Finds every place of a source file where a mutant can be made, and the mutants of each.
//!
//! Left out: tests, constants and `const fn` (the switch is not `const`), arguments of macros (assertions and
//! messages), `Debug` and `Display`, and what only counts for statistics.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::mutant::{Edit, Kind, Mutant};

/// Traits whose implementations only describe a value to a person.
const DESCRIBING: [&str; 2] = ["Debug", "Display"];

/// A call or statement with one of these in it only counts.
const COUNTING: [&str; 3] = ["counters.", "stats.", "counters()"];

/// One of the engine with one of these in it only counts, marks or prefetches.
const COUNTING_OF_ENGINE: [&str; 5] = ["CoveragePoint::", "count(&", "prefetch", ".synced(", ".wrote("];

/// Binary operators and what each becomes.
const OPERATORS: [(&str, &[&str]); 18] = [
    ("<", &["<=", ">"]),
    ("<=", &["<", ">"]),
    (">", &[">=", "<"]),
    (">=", &[">", "<"]),
    ("==", &["!="]),
    ("!=", &["=="]),
    ("&&", &["||"]),
    ("||", &["&&"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["+"]),
    ("/", &["*"]),
    ("%", &["/"]),
    ("<<", &[">>"]),
    (">>", &["<<"]),
    ("&", &["|"]),
    ("+=", &["-="]),
    ("-=", &["+="]),
];

/// Methods and what each becomes.
const METHODS: [(&str, &str); 10] = [
    ("min", "max"),
    ("max", "min"),
    ("any", "all"),
    ("all", "any"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("first", "last"),
    ("last", "first"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
];

/// All mutants of a file, in the order of their places.
///
/// # Errors
/// When the text is not Rust.
pub(super) fn mutants(file: &str, text: &str) -> Result<Vec<Mutant>, String> {
    let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
    let mut finder = Finder { file, text, functions: Vec::new(), within: Vec::new(), found: Vec::new() };
    finder.visit_file(&parsed);
    finder.found.sort_by_key(|mutant| mutant.edits[0].region.start);
    Ok(finder.found)
}

/// The modules that a file declares only for tests.
pub(super) fn test_modules(text: &str) -> Vec<String> {
    let Ok(parsed) = syn::parse_file(text) else { return Vec::new() };
    let modules = parsed.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if is_test(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    });
    modules.collect()
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    /// Functions around this place, outermost first, and where they begin.
    functions: Vec<(String, usize)>,
    /// Types and traits that are implemented around it.
    within: Vec<String>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn at(&self, node: &impl Spanned) -> (Range<usize>, String) {
        let range = node.span().byte_range();
        let text = self.text[range.clone()].to_owned();
        (range, text)
    }

    fn only_counts(&self, text: &str) -> bool {
        let of_engine = COUNTING_OF_ENGINE.iter().filter(|_| self.file.starts_with("crates/engine/"));
        COUNTING.iter().chain(of_engine).any(|word| text.contains(word))
    }

    fn add(&mut self, what: &str, kind: Kind, region: Range<usize>, mutated: String) {
        let Some((_, begin)) = self.functions.last() else { return };
        let original = self.text[region.clone()].to_owned();
        let line = 1 + self.text[..region.start].matches('\n').count();
        let functions = self.functions.iter().map(|(name, _)| name);
        let function = self.within.iter().chain(functions).cloned().collect::<Vec<_>>().join("::");
        let nth = 1 + if original.is_empty() { 0 } else { self.text[*begin..region.start].matches(&original).count() };
        let edit = Edit { file: self.file.to_owned(), region, kind, mutated };
        self.found.push(Mutant {
            name: String::new(),
            file: self.file.to_owned(),
            line,
            function,
            what: what.to_owned(),
            original,
            nth,
            edits: vec![edit],
        });
    }

    /// A function's body left out: it returns something plain at once.
    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let returned = match &signature.output {
            syn::ReturnType::Default => String::new(),
            syn::ReturnType::Type(_, returned) => self.at(returned).1.replace(char::is_whitespace, ""),
        };
        let start = block.brace_token.span.open().byte_range().end;
        for value in plain_values(&returned) {
            self.add("function left at once", Kind::Insert, start..start, format!("return {value};"));
        }
    }

    fn condition(&mut self, condition: &syn::Expr, and_true: bool) {
        if has_let(condition) {
            return;
        }
        let (region, _) = self.at(condition);
        self.add("condition", Kind::Expression, region.clone(), "false".to_owned());
        if and_true {
            self.add("condition", Kind::Expression, region, "true".to_owned());
        }
    }

    fn in_function(&mut self, name: &syn::Ident, visit: impl FnOnce(&mut Self)) {
        self.functions.push((name.to_string(), name.span().byte_range().end));
        visit(self);
        self.functions.pop();
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let (region, text) = self.at(binary);
        let operator = binary.op.span().byte_range();
        if has_let(&binary.left) || has_let(&binary.right) {
            return;
        }
        let (from, to) = (operator.start - region.start, operator.end - region.start);
        let known = OPERATORS.iter().find(|(known, _)| *known == &text[from..to]);
        for other in known.map_or(&[][..], |(_, others)| others) {
            self.add("operator", Kind::Expression, region.clone(), format!("{}{other}{}", &text[..from], &text[to..]));
        }
        if matches!(binary.op, syn::BinOp::Add(_) | syn::BinOp::Sub(_)) && is_literal(&binary.right) {
            let left = self.at(&binary.left).1;
            self.add("off by one", Kind::Expression, region, left);
        }
    }

    fn range(&mut self, range: &syn::ExprRange) {
        let Some(end) = &range.end else { return };
        let (region, text) = self.at(end);
        let change = match range.limits {
            syn::RangeLimits::HalfOpen(_) => "+ 1",
            syn::RangeLimits::Closed(_) => "- 1",
        };
        self.add("end of a range", Kind::Expression, region, format!("({text}) {change}"));
        let Some(start) = &range.start else { return };
        let (region, text) = self.at(start);
        self.add("start of a range", Kind::Expression, region, format!("({text}) + 1"));
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Const(_) | syn::Item::Static(_) | syn::Item::Macro(_) => {}
            syn::Item::Mod(module) if is_test(&module.attrs) => {}
            syn::Item::Fn(function) if is_test(&function.attrs) => {}
            item => visit::visit_item(self, item),
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if is_test(&item.attrs) || of.is_some_and(|of| DESCRIBING.iter().any(|name| of.ident == name)) {
            return;
        }
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        self.within.push(name.unwrap_or_default());
        visit::visit_item_impl(self, item);
        self.within.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() {
            self.in_function(&item.sig.ident, |finder| {
                finder.body(&item.sig, &item.block);
                finder.visit_block(&item.block);
            });
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() && !is_test(&item.attrs) {
            self.in_function(&item.sig.ident, |finder| {
                finder.body(&item.sig, &item.block);
                finder.visit_block(&item.block);
            });
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.in_function(&item.sig.ident, |finder| finder.visit_block(block));
        }
    }

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if let syn::Stmt::Expr(expression, Some(_)) = statement {
            let (region, text) = self.at(statement);
            if self.only_counts(&text) {
                return;
            }
            let is_call = |expression: &syn::Expr| matches!(expression, syn::Expr::MethodCall(_) | syn::Expr::Call(_));
            let is_left_out = match expression {
                syn::Expr::Try(tried) => is_call(&tried.expr),
                syn::Expr::Assign(_) => true,
                other => is_call(other),
            };
            if is_left_out {
                self.add("statement left out", Kind::Statement, region, String::new());
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, true);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let ends_in_wildcard = expression.arms.last().is_some_and(|arm| matches!(arm.pat, syn::Pat::Wild(_)));
        for arm in expression.arms.iter().filter(|arm| ends_in_wildcard && arm.guard.is_none()) {
            if !matches!(arm.pat, syn::Pat::Wild(_)) {
                let (region, text) = self.at(&arm.pat);
                self.add("arm of a match left out", Kind::Raw, region, format!("{text} if !MUTANT"));
            }
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_expr_repeat(&mut self, expression: &'ast syn::ExprRepeat) {
        self.visit_expr(&expression.expr);
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let (region, text) = self.at(call);
        if self.only_counts(&text) {
            return;
        }
        if let Some((_, other)) = METHODS.iter().find(|(known, _)| call.method == known) {
            let name = call.method.span().byte_range();
            let (from, to) = (name.start - region.start, name.end - region.start);
            self.add("method", Kind::Expression, region, format!("{}{other}{}", &text[..from], &text[to..]));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let (region, text) = self.at(call);
        if self.only_counts(&text) {
            return;
        }
        let function = self.at(&call.func).1;
        for (bound, other) in [("Included", "Excluded"), ("Excluded", "Included")] {
            if let Some(path) = function.strip_suffix(bound) {
                let rest = &text[function.len()..];
                self.add("bound", Kind::Expression, region.clone(), format!("{path}{other}{rest}"));
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        match expression {
            syn::Expr::Binary(binary) => self.binary(binary),
            syn::Expr::Range(range) => self.range(range),
            syn::Expr::If(branch) => self.condition(&branch.cond, true),
            syn::Expr::While(repeated) => self.condition(&repeated.cond, false),
            syn::Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Not(_)) => {
                let inner = self.at(&unary.expr).1;
                let (region, _) = self.at(unary);
                self.add("negation left out", Kind::Expression, region, inner);
            }
            syn::Expr::Lit(literal) => {
                if let syn::Lit::Bool(value) = &literal.lit {
                    let (region, _) = self.at(literal);
                    self.add("boolean", Kind::Expression, region, (!value.value).to_string());
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

/// What a function with this return type could return without having done anything.
fn plain_values(returned: &str) -> Vec<String> {
    let inner = returned.strip_prefix("io::").unwrap_or(returned);
    if let Some(ok) = inner.strip_prefix("Result<").and_then(|rest| rest.strip_suffix('>')) {
        let values = if ok == "()" { vec!["()".to_owned()] } else { plain_values(ok) };
        return values.into_iter().map(|value| format!("Ok({value})")).collect();
    }
    let values: &[&str] = match returned {
        "" | "()" => &[""],
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" => &["0", "1"],
        "SeqNum" => &["crate::base::SeqNum(0)"],
        "Lsn" => &["crate::base::Lsn(0)"],
        option if option.starts_with("Option<") => &["None"],
        list if list.starts_with("Vec<") => &["Vec::new()"],
        _ => &[],
    };
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// Whether a condition binds something: then it cannot be moved into another expression.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_literal(expression: &syn::Expr) -> bool {
    matches!(expression, syn::Expr::Lit(_))
}

/// Whether something is there for tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            list.tokens.to_string().split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "test")
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let found = mutants("x.rs", text).unwrap();
        found.iter().map(|mutant| format!("{} -> {}", mutant.original, mutant.edits[0].mutated)).collect()
    }

    #[test]
    fn every_kind_of_place_is_found() {
        let found = shown(
            "impl A { fn f(&self, a: u64) -> Result<()> { if a < 1 && !self.b { self.sync()?; } for i in 0..a { g(i, true); } } }",
        );
        let expected = [
            " -> return Ok(());",
            "a < 1 && !self.b -> false",
            "a < 1 && !self.b -> true",
            "a < 1 && !self.b -> a < 1 || !self.b",
            "a < 1 -> a <= 1",
            "a < 1 -> a > 1",
            "!self.b -> self.b",
            "self.sync()?; -> ",
            "0 -> (0) + 1",
            "a -> (a) + 1",
            "g(i, true); -> ",
            "true -> false",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn bindings_tests_constants_and_counters_are_left_alone() {
        let found = shown(
            "const A: u64 = 1 + 1; const fn f(a: u64) -> bool { a < 1 } #[cfg(test)] mod tests { fn g() { a < 1; } }\n\
             fn h(a: Option<u64>) { if let Some(b) = a && let 1 = b {} self.counters.a.fetch_add(1 + 2, Relaxed); }",
        );
        assert_eq!(found, [" -> return ;"]);
    }

    #[test]
    fn an_arm_is_left_out_where_another_takes_its_cases() {
        let found = shown("fn f(a: u8) -> Never { match a { 1 => b, 2 if c => d, _ => e } }");
        assert_eq!(found, ["1 -> 1 if !MUTANT", "c -> false", "c -> true"]);
    }
}
