//! The translation of PCRE's syntax to that of the engines.

/// The engine whose syntax is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The crate `regex`.
    Linear,
    /// The crate `fancy-regex`.
    Backtracking,
}

const WORD: &str = "0-9A-Za-z_";
const SPACE: &str = r"\t\n\x0B\x0C\r ";
const HORIZONTAL: &str = r"\t \x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";

struct Translator<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    out: String,
    dialect: Dialect,
    /// Whether classes know more than ASCII.
    unicode: bool,
}

/// The pattern in the engine's syntax. What makes no sense is left as it is, and refused by the engine.
pub(super) fn translate(pattern: &str, dialect: Dialect, extended: bool) -> String {
    let (mut pattern, mut unicode) = (pattern, false);
    while let Some((verb, rest)) = pattern.strip_prefix("(*").and_then(|rest| rest.split_once(')')) {
        match verb {
            "UCP" => unicode = true,
            "UTF" | "UTF8" | "LF" | "CR" | "CRLF" | "ANYCRLF" | "ANY" | "NO_START_OPT" | "NO_AUTO_POSSESS" => {}
            _ => break,
        }
        pattern = rest;
    }
    let mut translator = Translator { rest: pattern.chars().peekable(), out: String::new(), dialect, unicode };
    while let Some(c) = translator.rest.next() {
        match c {
            '\\' => translator.escape(false),
            '[' => translator.class(),
            '{' => translator.brace(),
            '#' if extended => {
                for c in translator.rest.by_ref() {
                    if c == '\n' {
                        break;
                    }
                }
            }
            '(' => translator.group(),
            other => translator.out.push(other),
        }
    }
    translator.out
}

impl Translator<'_> {
    fn ahead(&self) -> String {
        self.rest.clone().take(12).collect()
    }

    fn skip(&mut self, chars: usize) {
        for _ in 0..chars {
            self.rest.next();
        }
    }

    /// A comment is dropped, everything else stays.
    fn group(&mut self) {
        if self.ahead().starts_with("?#") {
            for c in self.rest.by_ref() {
                if c == ')' {
                    return;
                }
            }
        }
        self.out.push('(');
    }

    /// A brace that begins no quantifier is itself.
    fn brace(&mut self) {
        let inside: String = self.rest.clone().take_while(|c| *c != '}').take(24).collect();
        let closed = self.rest.clone().nth(inside.chars().count()) == Some('}');
        let (min, max) = inside.split_once(',').unwrap_or((&inside, ""));
        let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
        if closed && !min.is_empty() && digits(min) && digits(max) {
            self.out.push('{');
        } else {
            self.out.push_str("\\{");
        }
    }

    /// A class in brackets: what the engines take for operators of sets is itself.
    fn class(&mut self) {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str("\\]");
        }
        while let Some(c) = self.rest.next() {
            match c {
                ']' => {
                    self.out.push(']');
                    return;
                }
                '[' => {
                    let name: String = self.rest.clone().take_while(|c| *c != ']').take(16).collect();
                    if name.starts_with(':') && name.ends_with(':') && name.len() > 2 {
                        self.skip(name.chars().count() + 1);
                        self.posix(name.trim_matches(':'));
                    } else {
                        self.out.push_str("\\[");
                    }
                }
                '\\' => self.escape(true),
                '&' | '~' | '#' | ' ' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '-' if self.out.ends_with('-') => self.out.push_str("\\-"),
                other => self.out.push(other),
            }
        }
    }

    fn posix(&mut self, name: &str) {
        let (negated, name) = name.strip_prefix('^').map_or((false, name), |name| (true, name));
        let unicode = match name {
            "alpha" => r"\p{Alphabetic}",
            "lower" => r"\p{Lowercase}",
            "upper" => r"\p{Uppercase}",
            "alnum" => r"\p{Alphabetic}\p{Nd}",
            "digit" => r"\p{Nd}",
            _ => "",
        };
        if self.unicode && !unicode.is_empty() {
            let open = if negated { "[^" } else { "[" };
            self.out.push_str(&format!("{open}{unicode}]"));
        } else {
            self.out.push_str(&format!("[:{}{name}:]", if negated { "^" } else { "" }));
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, in_class: bool) {
        let Some(c) = self.rest.next() else {
            self.out.push('\\');
            return;
        };
        match c {
            'd' | 'D' if !self.unicode => self.set("0-9", c == 'D', in_class),
            'w' | 'W' if !self.unicode => self.set(WORD, c == 'W', in_class),
            's' | 'S' if !self.unicode => self.set(SPACE, c == 'S', in_class),
            'h' | 'H' => self.set(HORIZONTAL, c == 'H', in_class),
            'b' if in_class => self.out.push_str("\\x08"),
            'b' | 'B' if !self.unicode => self.boundary(c),
            'R' if !in_class => self.out.push_str(r"(?:\r\n|[\n\x0B\x0C\r\x{85}\x{2028}\x{2029}])"),
            'e' => self.out.push_str("\\x1B"),
            '0' => self.out.push_str("\\x00"),
            'Q' => self.literal(),
            'E' => {}
            '<' | '>' => self.out.push(c),
            c if !c.is_ascii() => self.out.push(c),
            c => {
                self.out.push('\\');
                self.out.push(c);
                if "pPxkgN".contains(c) && self.rest.peek() == Some(&'{') {
                    // What is in the braces is a name or a number.
                    for c in self.rest.by_ref() {
                        self.out.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
            }
        }
    }

    fn set(&mut self, set: &str, negated: bool, in_class: bool) {
        match (negated, in_class) {
            (false, true) => self.out.push_str(set),
            (false, false) => self.out.push_str(&format!("[{set}]")),
            (true, _) => self.out.push_str(&format!("[^{set}]")),
        }
    }

    fn boundary(&mut self, c: char) {
        let (inner, outer) = (format!("[{WORD}]"), c == 'B');
        let text = match (self.dialect, outer) {
            (Dialect::Linear, _) => format!(r"(?-u:\{c})"),
            (Dialect::Backtracking, false) => format!("(?:(?<={inner})(?!{inner})|(?<!{inner})(?={inner}))"),
            (Dialect::Backtracking, true) => format!("(?:(?<={inner})(?={inner})|(?<!{inner})(?!{inner}))"),
        };
        self.out.push_str(&text);
    }

    /// Text up to `\E`, which stands for itself.
    fn literal(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            if c.is_ascii_punctuation() && c != '<' && c != '>' || c == ' ' {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }
}
