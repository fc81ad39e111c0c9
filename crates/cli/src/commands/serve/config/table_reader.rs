//! Tables of TOML, read field by field, so that every fault is found and told with its line.

use crate::output::harmless;
use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// What is wrong in a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// From 1 on.
    pub line: usize,
    pub text: String,
}

impl ConfigError {
    /// Told in one line that a terminal can show without harm, whatever stands in the file.
    pub fn new(line: usize, text: &str) -> Self {
        Self { line, text: harmless(text) }
    }
}

/// A value and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub line: usize,
}

/// A text, and the faults that were found in it.
pub struct ConfigText<'t> {
    text: &'t str,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'t> ConfigText<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, errors: RefCell::default() }
    }

    /// Its outermost table; what is no TOML is among the faults.
    pub fn table(&self) -> DeTable<'t> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            // Several lines would be taken for several messages.
            let why = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            self.error_at(self.line(error.span().unwrap_or_default()), why);
        }
        table.into_inner()
    }

    pub fn error_at(&self, line: usize, text: impl AsRef<str>) {
        self.errors.borrow_mut().push(ConfigError::new(line, text.as_ref()));
    }

    /// In the order of their lines.
    pub fn errors(self) -> Vec<ConfigError> {
        let mut errors = self.errors.into_inner();
        errors.sort();
        errors
    }

    fn line(&self, span: Range<usize>) -> usize {
        self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count() + 1
    }
}

/// The fields of one table. Those that nobody asks for are faults in the end.
pub struct TableReader<'p, 't> {
    text_file: &'p ConfigText<'t>,
    table: &'p DeTable<'t>,
    /// How people call it; none for the outermost one.
    name: String,
    line: usize,
    known: Vec<&'static str>,
}

impl<'p, 't> TableReader<'p, 't> {
    pub fn outermost(text_file: &'p ConfigText<'t>, table: &'p DeTable<'t>) -> Self {
        Self { text_file, table, name: String::new(), line: 1, known: Vec::new() }
    }

    /// The line where the table begins.
    pub fn line(&self) -> usize {
        self.line
    }

    /// A fault of this table.
    pub fn error_at(&self, line: usize, text: &str) {
        let name = if self.name.is_empty() { String::new() } else { format!("{}: ", self.name) };
        self.text_file.error_at(line, format!("{name}{text}"));
    }

    pub fn has(&self, name: &str) -> bool {
        self.table.keys().any(|key| key.get_ref() == name)
    }

    fn get(&mut self, name: &'static str) -> Option<(usize, &'p Spanned<DeValue<'t>>)> {
        self.known.push(name);
        let (key, value) = self.table.iter().find(|(key, _)| key.get_ref() == name)?;
        Some((self.text_file.line(key.span()), value))
    }

    /// A field that `read` understands; `wanted` says what it should be.
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
                self.error_at(line, &format!("{name} is {wanted}"));
                None
            }
        }
    }

    pub fn text(&mut self, name: &'static str) -> Option<Located<&'p str>> {
        self.read(name, "a text in quotes", DeValue::as_str)
    }

    pub fn flag(&mut self, name: &'static str) -> bool {
        self.read(name, "true or false", DeValue::as_bool).is_some_and(|flag| flag.value)
    }

    /// A text that `parse` understands.
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

    /// As [`TableReader::parsed`]; that it is not there is a fault.
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

    pub fn number(&mut self, name: &'static str, range: RangeInclusive<u32>, default: u32) -> u32 {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        let read = |value: &DeValue<'_>| {
            let number = value.as_integer()?;
            let number = u32::from_str_radix(number.as_str(), number.radix()).ok()?;
            range.contains(&number).then_some(number)
        };
        self.read(name, &wanted, read).map_or(default, |number| number.value)
    }

    /// Texts, each with its line; one alone needs no brackets.
    pub fn texts(&mut self, name: &'static str) -> Vec<Located<&'p str>> {
        let Some((line, value)) = self.get(name) else { return Vec::new() };
        if let Some(value) = value.get_ref().as_str() {
            return vec![Located { value, line }];
        }
        let mut texts = Vec::new();
        let wrong = |line| self.error_at(line, &format!("{name} is a list of texts in quotes"));
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

    /// The fields of a table in this one; none if it is not there.
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

    /// The tables in a table in this one, with their names.
    pub fn tables(&mut self, name: &'static str) -> Vec<(&'p str, TableReader<'p, 't>)> {
        let Some(outer) = self.table(name) else { return Vec::new() };
        let mut tables = Vec::new();
        for (key, value) in outer.table.iter() {
            let (line, key) = (self.text_file.line(key.span()), key.get_ref().as_ref());
            let name = format!("{name} {key:?}");
            match value.get_ref().as_table() {
                Some(table) => tables
                    .push((key, Self { text_file: self.text_file, table, name, line, known: Vec::new() })),
                None => self.text_file.error_at(line, format!("{name} is a table")),
            }
        }
        tables
    }

    /// Tells fields that nobody knows.
    pub fn end(self) {
        for (key, _) in self.table.iter().filter(|(key, _)| !self.known.contains(&key.get_ref().as_ref())) {
            let known = self.known.join(", ");
            self.error_at(
                self.text_file.line(key.span()),
                &format!("{:?} is not known here; there are {known}", key.get_ref()),
            );
        }
    }
}
