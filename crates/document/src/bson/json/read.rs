//! Reading extended JSON into the bytes of a document.

use super::super::buf::{DocumentBuf, ValueBuf};
use super::super::builder::DocumentBuilder;
use super::super::validate::DEPTH_MAX;
use super::super::view::Value;
use super::lexer::Lexer;
use super::wrappers;
use crate::base::Result;

/// Where a value goes: a field with a name, or the next value of an array.
#[derive(Clone, Copy)]
enum Target<'n> {
    Field(&'n str),
    Next,
}

struct Reader<'j> {
    lexer: Lexer<'j>,
    builder: DocumentBuilder,
    depth: usize,
}

impl DocumentBuf {
    /// The document of a text in extended JSON, canonical or relaxed.
    ///
    /// # Errors
    /// `FailedToParse` (9) with the position of what is wrong.
    pub fn from_json(text: &str) -> Result<Self> {
        let mut reader = Reader { lexer: Lexer::new(text), builder: DocumentBuilder::new(), depth: 0 };
        reader.lexer.expect(b'{')?;
        reader.members(None)?;
        reader.lexer.end()?;
        Ok(reader.builder.finish())
    }
}

impl Reader<'_> {
    /// The members of an object behind its brace and, perhaps, behind the key of its first member, and the brace that
    /// ends it.
    fn members(&mut self, mut key: Option<String>) -> Result<()> {
        if key.is_none() && self.lexer.take(b'}') {
            return Ok(());
        }
        loop {
            let key = match key.take() {
                Some(key) => key,
                None => self.lexer.string()?.into_owned(),
            };
            if key.contains('\0') {
                return Err(self.lexer.error("a key holds a zero"));
            }
            self.lexer.expect(b':')?;
            self.value(Target::Field(&key))?;
            if !self.lexer.take(b',') {
                return self.lexer.expect(b'}');
            }
        }
    }

    fn value(&mut self, target: Target<'_>) -> Result<()> {
        match self.lexer.peek() {
            Some(b'{') => self.object(target),
            Some(b'[') => self.array(target),
            Some(b'"') => {
                let text = self.lexer.string()?;
                self.append(target, Value::from(&*text));
                Ok(())
            }
            _ => {
                let value = self.scalar()?;
                self.append(target, value);
                Ok(())
            }
        }
    }

    fn object(&mut self, target: Target<'_>) -> Result<()> {
        self.lexer.expect(b'{')?;
        let key = if self.lexer.peek() == Some(b'"') { Some(self.lexer.string()?.into_owned()) } else { None };
        if key.as_deref().is_some_and(wrappers::is_wrapper) {
            let value = self.wrapped(key)?;
            self.append(target, value.view());
            return Ok(());
        }
        self.enter()?;
        match target {
            Target::Field(name) => self.builder.open_document(name),
            Target::Next => self.builder.push_document(),
        };
        self.members(key)?;
        self.leave();
        Ok(())
    }

    /// The value that an object stands for, behind the key of its first member.
    fn wrapped(&mut self, key: Option<String>) -> Result<ValueBuf> {
        let name = key.clone().unwrap_or_default();
        // The object is read as a document of its own first.
        let outer = std::mem::take(&mut self.builder);
        let read = self.members(key);
        let object = std::mem::replace(&mut self.builder, outer).finish();
        read?;
        wrappers::unwrap(object.view()).ok_or_else(|| self.lexer.error(&format!("malformed {name}")))
    }

    fn array(&mut self, target: Target<'_>) -> Result<()> {
        self.lexer.expect(b'[')?;
        self.enter()?;
        match target {
            Target::Field(name) => self.builder.open_array(name),
            Target::Next => self.builder.push_array(),
        };
        if !self.lexer.take(b']') {
            loop {
                self.value(Target::Next)?;
                if !self.lexer.take(b',') {
                    self.lexer.expect(b']')?;
                    break;
                }
            }
        }
        self.leave();
        Ok(())
    }

    fn scalar(&mut self) -> Result<Value<'static>> {
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            if self.lexer.take_word(word) {
                return Ok(value);
            }
        }
        let (text, integer) = self.lexer.number()?;
        if integer {
            if let Ok(number) = text.parse() {
                return Ok(Value::Int32(number));
            }
            if let Ok(number) = text.parse() {
                return Ok(Value::Int64(number));
            }
        }
        text.parse().map(Value::Double).map_err(|_| self.lexer.error("expected a number"))
    }

    fn append(&mut self, target: Target<'_>, value: Value<'_>) {
        match target {
            Target::Field(name) => self.builder.append(name, value),
            Target::Next => self.builder.push(value),
        };
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(self.lexer.error("nested too deeply")) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.builder.close();
    }
}
