//! Reads TOML tables field by field, so that every error is reported with its line.

use crate::line::sanitize;
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// An error in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// Line number, from 1.
    pub line: usize,
    /// The message.
    pub text: String,
}

impl ConfigError {
    /// An error whose text is one line without control characters.
    pub fn new(line: usize, text: &str) -> Self {
        Self { line, text: sanitize(text) }
    }
}

/// A value with its line number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Number of the line, from 1.
    pub line: usize,
}

/// The text of a file, and the errors found in it.
pub struct ConfigText<'t> {
    text: &'t str,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'t> ConfigText<'t> {
    /// A text without errors so far.
    pub fn new(text: &'t str) -> Self {
        Self { text, errors: RefCell::default() }
    }

    /// Parses the top-level table and records syntax errors.
    pub fn table(&self) -> DeTable<'t> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            // One error must stay one line.
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            self.error_at(self.line(error.span().unwrap_or_default()), why);
        }
        table.into_inner()
    }

    /// Records an error.
    pub fn error_at(&self, line: usize, text: impl AsRef<str>) {
        self.errors.borrow_mut().push(ConfigError::new(line, text.as_ref()));
    }

    /// Returns the errors, sorted by line.
    pub fn errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort();
        errors
    }

    fn line(&self, span: Range<usize>) -> usize {
        self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count() + 1
    }
}

/// Reads the fields of a table; the fields that were never read are errors in the end.
pub struct TableReader<'p, 't> {
    text_file: &'p ConfigText<'t>,
    table: &'p DeTable<'t>,
    /// Name for messages; empty for the top-level table.
    name: String,
    line: usize,
    known: Vec<&'static str>,
}

impl<'p, 't> TableReader<'p, 't> {
    /// A reader of the top-level table.
    pub fn outermost(text_file: &'p ConfigText<'t>, table: &'p DeTable<'t>) -> Self {
        Self { text_file, table, name: String::new(), line: 1, known: Vec::new() }
    }

    /// Line where the table begins.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Records an error of this table.
    pub fn error_at(&self, line: usize, text: &str) {
        let name = if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) };
        self.text_file.error_at(line, format!("{name}{text}"));
    }

    /// Whether the table has a field.
    pub fn has(&self, name: &str) -> bool {
        self.table.keys().any(|key| key.get_ref() == name)
    }

    /// Returns the line of a field.
    pub fn line_of(&self, name: &str) -> Option<usize> {
        let key = self.table.keys().find(|key| key.get_ref() == name)?;
        Some(self.text_file.line(key.span()))
    }

    fn get(&mut self, name: &'static str) -> Option<(usize, &'p Spanned<DeValue<'t>>)> {
        self.known.push(name);
        let (key, value) = self.table.iter().find(|(key, _)| key.get_ref() == name)?;
        Some((self.text_file.line(key.span()), value))
    }

    /// Reads a field with `read`; `wanted` describes a valid value.
    fn read<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl FnOnce(&'p DeValue<'t>) -> Option<T>,
    ) -> Option<Located<T>> {
        let (line, value) = self.get(name)?;
        match read(value.get_ref()) {
            Some(value) => Some(Located { value, line }),
            None => {
                self.error_at(line, &format!("{name}: expected {wanted}"));
                None
            }
        }
    }

    /// Reads a string.
    pub fn text(&mut self, name: &'static str) -> Option<Located<&'p str>> {
        self.read(name, "a string", DeValue::as_str)
    }

    /// Reads a Boolean; the default is false.
    pub fn flag(&mut self, name: &'static str) -> bool {
        self.read(name, "true or false", DeValue::as_bool).is_some_and(|flag| flag.value)
    }

    /// Reads a string field with `parse`.
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Located<T>> {
        let Located { value, line } = self.text(name)?;
        match parse(value) {
            Ok(value) => Some(Located { value, line }),
            Err(why) => {
                self.error_at(line, &format!("{name}: {why}"));
                None
            }
        }
    }

    /// Reads a required field, as [`TableReader::parsed`] does.
    pub fn wanted<T: Default>(
        &mut self,
        name: &'static str,
        missing: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Located<T> {
        if !self.has(name) {
            self.error_at(self.line, missing);
        }
        let line = self.line;
        self.parsed(name, parse).unwrap_or_else(|| Located { value: T::default(), line })
    }

    /// Reads an integer in a range.
    pub fn number(&mut self, name: &'static str, range: RangeInclusive<u32>, default: u32) -> u32 {
        let wanted = format!("an integer from {} to {}", range.start(), range.end());
        let read = |value: &DeValue<'_>| {
            let number = value.as_integer()?;
            let number = u32::from_str_radix(number.as_str(), number.radix()).ok()?;
            range.contains(&number).then_some(number)
        };
        self.read(name, &wanted, read).map_or(default, |number| number.value)
    }

    /// Reads an array of strings, or a single string, with line numbers.
    pub fn texts(&mut self, name: &'static str) -> Vec<Located<&'p str>> {
        let Some((line, value)) = self.get(name) else { return Vec::new() };
        if let Some(value) = value.get_ref().as_str() {
            return vec![Located { value, line }];
        }
        let mut texts = Vec::new();
        let wrong = |line| self.error_at(line, &format!("{name}: expected strings"));
        match value.get_ref().as_array() {
            None => wrong(line),
            Some(array) => {
                for entry in array.iter() {
                    let line = self.text_file.line(entry.span());
                    match entry.get_ref().as_str() {
                        Some(value) => texts.push(Located { value, line }),
                        None => wrong(line),
                    }
                }
            }
        }
        texts
    }

    /// Returns a reader of a subtable, if it exists.
    pub fn table(&mut self, name: &'static str) -> Option<TableReader<'p, 't>> {
        let table = self.read(name, "a table", DeValue::as_table)?;
        Some(Self {
            text_file: self.text_file,
            table: table.value,
            name: name.into(),
            line: table.line,
            known: Vec::new(),
        })
    }

    /// Returns readers of all tables in a subtable, with their names.
    pub fn tables(&mut self, name: &'static str) -> Vec<(&'p str, TableReader<'p, 't>)> {
        let Some(outer) = self.table(name) else { return Vec::new() };
        let mut tables = Vec::new();
        for (key, value) in outer.table.iter() {
            let (line, key) = (self.text_file.line(key.span()), key.get_ref().as_ref());
            let name = format!("{name} {key:?}");
            match value.get_ref().as_table() {
                Some(table) => tables
                    .push((key, Self { text_file: self.text_file, table, name, line, known: Vec::new() })),
                None => self.text_file.error_at(line, format!("{name}: expected a table")),
            }
        }
        tables
    }

    /// Records the unknown fields as errors.
    pub fn end(self) {
        for (key, _) in self.table.iter().filter(|(key, _)| !self.known.contains(&key.get_ref().as_ref())) {
            let known = self.known.join(", ");
            self.error_at(
                self.text_file.line(key.span()),
                &format!("unknown field {:?}; expected one of {known}", key.get_ref()),
            );
        }
    }
}
