//! TOML that remembers its lines: whatever is wrong with a value is told with the line that it stands in.

use hailer::proto::Value;
use hailer::proto::model::printable;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something wrong, and in which line; 0 for what is no file's.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

impl Wrong {
    pub(crate) fn at(line: usize, problem: impl Into<String>) -> Self {
        Self {
            line,
            problem: problem.into(),
        }
    }
}

/// A value and its line.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub(crate) it: T,
    pub(crate) line: usize,
}

impl<T> At<T> {
    /// What a command line says has no line.
    pub(crate) fn flag(it: T) -> Self {
        Self { it, line: 0 }
    }

    pub(crate) fn wrong(&self, problem: impl Into<String>) -> Wrong {
        Wrong::at(self.line, problem)
    }
}

/// A document: its text for the lines, and its tables.
pub(crate) struct Document<'a> {
    /// Where lines begin.
    lines: Vec<usize>,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Wrong> {
        let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { lines, root }),
            Err(error) => {
                let line = line(&lines, error.span().map_or(0, |span| span.start));
                Err(Wrong::at(line, printable(error.message())))
            }
        }
    }

    pub(crate) fn root(&self) -> Table<'_> {
        Table::new(self.root.get_ref(), "the file", 1, &self.lines)
    }
}

fn line(lines: &[usize], at: usize) -> usize {
    lines.partition_point(|start| *start <= at) + 1
}

/// A table whose keys are taken one by one; what is left in the end nobody knows.
pub(crate) struct Table<'a> {
    /// Its name for people.
    name: &'a str,
    pub(crate) line: usize,
    /// Keys with their values, in the order of the file.
    entries: Vec<(At<&'a str>, Item<'a>)>,
    known: RefCell<BTreeSet<&'static str>>,
}

/// A value to be read as something.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    value: &'a DeValue<'a>,
    lines: &'a [usize],
    pub(crate) line: usize,
}

impl<'a> Table<'a> {
    fn new(table: &'a DeTable<'a>, name: &'a str, own: usize, lines: &'a [usize]) -> Self {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&'a Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let key_line = line(lines, key.span().start);
            let is_table = value.get_ref().is_table();
            // Tables of dotted keys have no place of their own.
            let value_line = if is_table {
                key_line
            } else {
                line(lines, value.span().start)
            };
            let key: &'a std::borrow::Cow<'a, str> = key.get_ref();
            (
                At {
                    it: &**key,
                    line: key_line,
                },
                Item {
                    value: value.get_ref(),
                    lines,
                    line: value_line,
                },
            )
        };
        Self {
            name,
            line: own,
            entries: entries.into_iter().map(entry).collect(),
            known: RefCell::default(),
        }
    }

    /// The value of a key, if it is there.
    pub(crate) fn take(&self, key: &'static str) -> Option<Item<'a>> {
        self.known.borrow_mut().insert(key);
        self.entries
            .iter()
            .find(|(name, _)| name.it == key)
            .map(|(_, item)| *item)
    }

    /// The value of a key that must be there; `fix` says what to write.
    pub(crate) fn need(&self, key: &'static str, fix: &str) -> Result<Item<'a>, Wrong> {
        self.take(key).ok_or_else(|| {
            Wrong::at(
                self.line,
                format!("{} needs `{key}`: write {fix}", self.name),
            )
        })
    }

    /// All keys and values, whatever they are.
    pub(crate) fn all(&self) -> &[(At<&'a str>, Item<'a>)] {
        &self.entries
    }

    /// Refuses what was not taken.
    pub(crate) fn finish(&self) -> Result<(), Wrong> {
        let known = self.known.borrow();
        let Some((key, _)) = self.entries.iter().find(|(key, _)| !known.contains(key.it)) else {
            return Ok(());
        };
        let shown: String = printable(key.it).chars().take(40).collect();
        let fix =
            close(key.it, known.iter().copied()).map(|close| format!("did you mean `{close}`?"));
        let fix = fix.unwrap_or_else(|| match known.is_empty() {
            true => "nothing may stand there".into(),
            false => format!(
                "known are {}",
                known.iter().copied().collect::<Vec<_>>().join(", ")
            ),
        });
        Err(key.wrong(format!("unknown key `{shown}` in {}; {fix}", self.name)))
    }
}

/// What somebody may have meant who wrote something else.
pub(crate) fn close<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase().replace('_', "-");
    let far = |known: &&str| strsim::damerau_levenshtein(&written, known);
    // A third of the letters may be wrong.
    known
        .min_by_key(far)
        .filter(|known| far(known) <= written.chars().count().max(3) / 3)
}

impl<'a> Item<'a> {
    fn wrong(&self, problem: impl Into<String>) -> Wrong {
        Wrong::at(self.line, problem)
    }

    /// Something made of it, with its line.
    pub(crate) fn located<T>(&self, it: T) -> At<T> {
        At {
            it,
            line: self.line,
        }
    }

    /// A text. `fix` is what to write where it is none. What was written is not repeated: it may be a secret that
    /// stands in the wrong place.
    pub(crate) fn text(&self, fix: &str) -> Result<At<&'a str>, Wrong> {
        match self.value {
            DeValue::String(text) => Ok(self.located(&**text)),
            _ => Err(self.wrong(fix)),
        }
    }

    /// A text, or a number or flag as its text.
    pub(crate) fn words(&self, fix: &str) -> Result<String, Wrong> {
        match self.value {
            DeValue::Integer(_) | DeValue::Float(_) => self.value().map(|value| value.to_string()),
            DeValue::Boolean(flag) => Ok(flag.to_string()),
            DeValue::Datetime(time) => Ok(time.to_string()),
            _ => self.text(fix).map(|text| text.it.to_owned()),
        }
    }

    /// A whole number within a range.
    pub(crate) fn number(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, Wrong> {
        let (least, most) = (range.start(), range.end());
        let fix = || {
            self.wrong(format!(
                "{key}: write a whole number from {least} to {most}"
            ))
        };
        self.integer()
            .filter(|number| range.contains(number))
            .ok_or_else(fix)
    }

    fn integer(&self) -> Option<i64> {
        let number = self.value.as_integer()?;
        i64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// Yes or no.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, Wrong> {
        self.value
            .as_bool()
            .ok_or_else(|| self.wrong(format!("{key}: write true or false")))
    }

    /// A time.
    pub(crate) fn duration(&self, key: &str, least: Duration) -> Result<Duration, Wrong> {
        const MOST: Duration = Duration::from_secs(366 * 86_400);
        let fix = format!("{key}: write a time in quotes such as \"5s\", \"500ms\" or \"1min\"");
        let text = self.text(&fix)?;
        let time = humantime::parse_duration(text.it).map_err(|_| self.wrong(fix))?;
        if time < least || time > MOST {
            let least = humantime::format_duration(least);
            return Err(self.wrong(format!(
                "{key}: {}: write at least {least}, and at most a year",
                text.it
            )));
        }
        Ok(time)
    }

    /// A table.
    pub(crate) fn table(&self, name: &'a str, fix: &str) -> Result<Table<'a>, Wrong> {
        match self.value {
            DeValue::Table(table) => Ok(Table::new(table, name, self.line, self.lines)),
            _ => Err(self.wrong(fix)),
        }
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// The values of a list.
    pub(crate) fn list(&self, fix: &str) -> Result<Vec<Item<'a>>, Wrong> {
        let Some(array) = self.value.as_array() else {
            return Err(self.wrong(fix));
        };
        let item = |value: &'a Spanned<DeValue<'a>>| Item {
            value: value.get_ref(),
            lines: self.lines,
            line: line(self.lines, value.span().start),
        };
        Ok(array.iter().map(item).collect())
    }

    /// A text, or a list of texts.
    pub(crate) fn texts(&self, fix: &str) -> Result<Vec<At<String>>, Wrong> {
        let items = if self.value.is_str() {
            vec![*self]
        } else {
            self.list(fix)?
        };
        items
            .iter()
            .map(|item| {
                item.text(fix).map(|text| At {
                    it: text.it.to_owned(),
                    line: text.line,
                })
            })
            .collect()
    }

    /// Whatever it is, as the value of an option.
    pub(crate) fn value(&self) -> Result<Value, Wrong> {
        Ok(match self.value {
            DeValue::String(text) => (&**text).into(),
            DeValue::Integer(_) => Value::Int(
                self.integer()
                    .ok_or_else(|| self.wrong("a number that is too large; write a smaller one"))?,
            ),
            DeValue::Float(number) => Value::Float(
                number
                    .as_str()
                    .parse()
                    .map_err(|_| self.wrong("no number; write one such as 1.5"))?,
            ),
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(time) => time.to_string().into(),
            DeValue::Array(_) => {
                let items = self.list("")?;
                Value::List(items.iter().map(Item::value).collect::<Result<_, _>>()?)
            }
            DeValue::Table(_) => {
                let table = self.table("", "")?;
                let entry = |(key, item): &(At<&str>, Item<'_>)| {
                    Ok((key.it.to_owned().into(), item.value()?))
                };
                Value::Table(table.all().iter().map(entry).collect::<Result<_, _>>()?)
            }
        })
    }
}
