//! From text to nodes.
//!
//! The reader goes over its text as client-go's does, also where that is odd: a bracket in quotes ends an array, a
//! comma in quotes parts a union, and a quoted key is read as a field, so that its dots need a backslash.

use gotmpl::{strconv, unicode};

use super::{Filter, MAX_DEPTH, Node, ParseError, Slice};

/// The nodes of a template: texts, and a list for each pair of braces.
pub(super) fn template(text: &str, depth: usize) -> Result<Vec<Node>, ParseError> {
    if depth > MAX_DEPTH {
        return Err(ParseError::TooDeep);
    }
    let mut reader = Reader {
        text,
        at: 0,
        start: 0,
        depth,
    };
    let mut nodes = Vec::new();
    while !reader.rest().is_empty() {
        let length = reader.rest().find('{').unwrap_or(reader.rest().len());
        if length > 0 {
            reader.at += length;
            nodes.push(Node::Text(reader.take().into()));
        }
        if reader.skip("{") {
            nodes.push(Node::List(reader.action()?));
        }
    }
    Ok(nodes)
}

/// The nodes of an expression that stands in another one. Of what closes the braces too early, the rest is dropped.
fn expression(text: &str, depth: usize) -> Result<Vec<Node>, ParseError> {
    let nodes = template(&format!("{{{text}}}"), depth + 1)?;
    match nodes.into_iter().next() {
        Some(Node::List(nodes)) => Ok(nodes),
        _ => Err(ParseError::UnclosedAction),
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Where it reads, in bytes.
    at: usize,
    /// Where that begins which [`take`](Self::take) takes.
    start: usize,
    /// How many expressions it stands in.
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take(&mut self) -> &'a str {
        let taken = self.text.get(self.start..self.at).unwrap_or_default();
        self.start = self.at;
        taken
    }

    fn skip(&mut self, mark: &str) -> bool {
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len();
            self.start = self.at;
        }
        found
    }

    /// Whether the byte before the one that was read is a backslash.
    fn is_escaped(&self) -> bool {
        let before = self.at.checked_sub(2);
        before.and_then(|before| self.text.as_bytes().get(before)) == Some(&b'\\')
    }

    /// What stands between braces, up to the closing one.
    fn action(&mut self) -> Result<Vec<Node>, ParseError> {
        let mut nodes = Vec::new();
        while !self.skip("}") {
            self.node(&mut nodes)?;
        }
        Ok(nodes)
    }

    fn node(&mut self, nodes: &mut Vec<Node>) -> Result<(), ParseError> {
        if self.skip("[?(") {
            nodes.push(self.filter()?);
            return Ok(());
        }
        if self.rest().starts_with("..") {
            return self.recursive(nodes);
        }
        match self.peek() {
            None | Some('\r' | '\n') => return Err(ParseError::UnclosedAction),
            Some(' ' | '@' | '$') => {
                self.next();
                self.take();
            }
            Some('[') => self.array(nodes)?,
            Some(quote @ ('"' | '\'')) => nodes.push(self.quoted(quote)?),
            Some('.') => {
                self.next();
                self.take();
                nodes.push(self.field());
            }
            Some('+' | '-') => nodes.push(self.number()?),
            Some(digit) if unicode::is_digit(digit.into()) => nodes.push(self.number()?),
            Some(letter) if unicode::is_alphanumeric(letter.into()) => {
                nodes.push(self.identifier());
            }
            Some(other) => return Err(ParseError::Unrecognized(code_point(other))),
        }
        Ok(())
    }

    fn identifier(&mut self) -> Node {
        while !is_end(self.peek()) {
            self.next();
        }
        match self.take() {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            name => Node::Identifier(name.to_owned()),
        }
    }

    fn recursive(&mut self, nodes: &mut Vec<Node>) -> Result<(), ParseError> {
        if nodes.last() == Some(&Node::Recursive) {
            return Err(ParseError::MultipleDescents);
        }
        self.skip("..");
        nodes.push(Node::Recursive);
        if let Some(next) = self.peek()
            && unicode::is_alphanumeric(next.into())
        {
            nodes.push(self.field());
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Node, ParseError> {
        if let Some('+' | '-') = self.peek() {
            self.next();
        }
        while let Some(next) = self.peek()
            && (next == '.' || unicode::is_digit(next.into()))
        {
            self.next();
        }
        let text = self.take();
        if let Ok(number) = text.parse() {
            return Ok(Node::Int(number));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Node::Float(number)),
            _ => Err(ParseError::Number(text.to_owned())),
        }
    }

    fn array(&mut self, nodes: &mut Vec<Node>) -> Result<(), ParseError> {
        let length = self.rest().find([']', '\n']);
        let length = length.filter(|&end| self.rest().as_bytes().get(end) == Some(&b']'));
        self.at += length.ok_or(ParseError::UnterminatedArray)? + 1;
        let text = self.take();
        let inside = text.get(1..text.len() - 1).unwrap_or_default();
        if inside.contains(',') {
            let parts = inside.split(',').map(|part| {
                let part = part.trim_matches(' ');
                expression(&format!("[{part}]"), self.depth)
            });
            nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
        } else if let Some(key) = quoted_key(inside) {
            nodes.extend(expression(&format!(".{key}"), self.depth)?);
        } else {
            nodes.push(Node::Slice(slice(inside)?));
        }
        Ok(())
    }

    fn filter(&mut self) -> Result<Node, ParseError> {
        // The first quote that is met, and whether its pair was met: a parenthesis between the two is text.
        let (mut opened, mut closed) = (None, false);
        loop {
            match self.next() {
                None | Some('\n') => return Err(ParseError::UnterminatedFilter),
                Some(quote @ ('"' | '\'')) => match opened {
                    None => opened = Some(quote),
                    Some(pair) => closed |= pair == quote && !self.is_escaped(),
                },
                Some(')') if opened.is_some() == closed => break,
                Some(_) => {}
            }
        }
        if self.next() != Some(']') {
            return Err(ParseError::UnclosedFilter);
        }
        let text = self.take();
        let inside = text.get(..text.len() - 2).unwrap_or_default();
        let Some((left, operator, right)) = comparison(inside) else {
            return Ok(Node::Filter(Box::new(Filter {
                left: expression(inside, self.depth)?,
                comparison: None,
            })));
        };
        let left = expression(left, self.depth)?;
        let right = expression(right, self.depth)?;
        let comparison = Some((operator.to_owned(), right));
        Ok(Node::Filter(Box::new(Filter { left, comparison })))
    }

    fn quoted(&mut self, quote: char) -> Result<Node, ParseError> {
        self.next();
        loop {
            match self.next() {
                None | Some('\n') => return Err(ParseError::UnterminatedQuote),
                Some(end) if end == quote && !self.is_escaped() => break,
                Some(_) => {}
            }
        }
        let text = self.take();
        let inside = text.get(1..text.len() - 1).unwrap_or_default();
        let mark = if quote == '"' { b'"' } else { b'\'' };
        match strconv::unquote_body(inside.as_bytes(), mark) {
            Some(text) => Ok(Node::Text(text)),
            None => Err(ParseError::Quote(text.to_owned())),
        }
    }

    fn field(&mut self) -> Node {
        loop {
            match self.peek() {
                Some('\\') => {
                    self.next();
                    self.next();
                }
                next if is_end(next) => break,
                _ => {
                    self.next();
                }
            }
        }
        match self.take() {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }
}

/// Whether a name is over where this comes.
fn is_end(next: Option<char>) -> bool {
    match next {
        None => true,
        Some(next) => " \t\r\n.,[]$@{}".contains(next),
    }
}

/// What stands in single quotes.
fn quoted_key(text: &str) -> Option<&str> {
    let key = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (!key.contains('\'')).then_some(key)
}

/// The sides of a comparison and what is between them; nothing where a side would be empty. The operator is as long as
/// it can be, but for a right side of operators alone.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    const OPERATORS: [char; 4] = ['!', '<', '=', '>'];
    let (left, rest) = text.split_at(text.find(OPERATORS)?);
    let length = rest.find(|c| !OPERATORS.contains(&c));
    let (operator, right) = rest.split_at(length.unwrap_or(rest.len() - 1));
    let is_whole = !left.is_empty() && !operator.is_empty();
    is_whole.then_some((left, operator, right))
}

fn slice(text: &str) -> Result<Slice, ParseError> {
    if text == "*" {
        return slice(":");
    }
    let is_bound = |part: &str| {
        let digits = part.strip_prefix('-').unwrap_or(part);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || !parts.iter().all(|part| is_bound(part)) {
        return Err(ParseError::ArrayIndex(text.to_owned()));
    }
    let bound = |position: usize| match parts.get(position) {
        None | Some(&"") => Ok(None),
        Some(part) => match part.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(ParseError::IndexNumber((*part).to_owned())),
        },
    };
    Ok(Slice {
        start: bound(0)?,
        end: bound(1)?,
        step: bound(2)?,
        is_index: parts.len() == 1,
    })
}

/// Go's `%#U`.
fn code_point(character: char) -> String {
    let code = u32::from(character);
    if unicode::is_print(code) {
        format!("U+{code:04X} '{character}'")
    } else {
        format!("U+{code:04X}")
    }
}
