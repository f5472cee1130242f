//! What nodes find in a document.

use gotmpl::{Type, Value};
use goyaml::Tree;

use super::compare::compare;
use super::{ExecError, Filter, MAX_DEPTH, MAX_STEPS, Node, Slice};

/// A value that was found, or that stands in the template.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    /// What a range over nothing, or over null, goes on with: Go's invalid `reflect.Value`.
    Nothing,
    Tree(&'a Tree),
    Text(&'a [u8]),
    /// Of a string.
    Byte(u8),
    Int(i64),
    Float(f64),
    Bool(bool),
}

/// An error, with what was found before it: a filter that asks whether something exists looks at that alone.
struct Failure<'a> {
    error: ExecError,
    found: Vec<Item<'a>>,
}

type Found<'a> = Result<Vec<Item<'a>>, Failure<'a>>;

/// One execution of a template.
pub(super) struct Evaluation<'a> {
    nodes: &'a [Node],
    steps: usize,
    /// Ranges that were read and not yet begun.
    begun: usize,
    /// Ranges around what is evaluated.
    open: usize,
    /// Ends that were read and have closed no range yet.
    ended: usize,
    /// The place of the last end that closed a range.
    last_end: Option<usize>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(nodes: &'a [Node]) -> Self {
        Self {
            nodes,
            steps: 0,
            begun: 0,
            open: 0,
            ended: 0,
            last_end: None,
        }
    }

    /// What each text and each pair of braces finds.
    pub(super) fn run(&mut self, data: Item<'a>) -> Result<Vec<Vec<Item<'a>>>, ExecError> {
        let mut all = Vec::new();
        self.run_from(0, data, &mut all)?;
        Ok(all)
    }

    /// Goes on from a node, up to the end of the range that it stands in.
    fn run_from(
        &mut self,
        first: usize,
        data: Item<'a>,
        all: &mut Vec<Vec<Item<'a>>>,
    ) -> Result<(), ExecError> {
        if self.open > MAX_DEPTH {
            return Err(ExecError::Limit("nests more than 100 ranges"));
        }
        let nodes = self.nodes;
        let mut at = first;
        while let Some(node) = nodes.get(at) {
            let found = self
                .node(vec![data], node)
                .map_err(|failure| failure.error)?;
            if self.ended > 0 && self.ended <= self.open {
                self.ended -= 1;
                self.last_end = Some(at);
                return Ok(());
            }
            if self.begun > 0 {
                self.begun -= 1;
                self.range(at + 1, &found, all)?;
                at = self.last_end.filter(|&end| end > at).unwrap_or(at);
            } else {
                all.push(found);
            }
            at += 1;
        }
        Ok(())
    }

    /// The nodes from `first` on for each of the values; for none, they are gone over for their errors and their end.
    fn range(
        &mut self,
        first: usize,
        values: &[Item<'a>],
        all: &mut Vec<Vec<Item<'a>>>,
    ) -> Result<(), ExecError> {
        self.open += 1;
        for value in values {
            let value = match value {
                Item::Nothing => return Err(ExecError::NoValue),
                Item::Tree(Tree::Null) => Item::Nothing,
                other => *other,
            };
            self.run_from(first, value, all)?;
        }
        if values.is_empty() {
            self.run_from(first, Item::Nothing, &mut Vec::new())?;
        }
        self.open -= 1;
        Ok(())
    }

    fn nodes(&mut self, input: Vec<Item<'a>>, nodes: &'a [Node]) -> Found<'a> {
        nodes
            .iter()
            .try_fold(input, |input, node| self.node(input, node))
    }

    fn node(&mut self, input: Vec<Item<'a>>, node: &'a Node) -> Found<'a> {
        self.step(1 + input.len())?;
        let found = match node {
            Node::Text(text) => vec![Item::Text(text)],
            Node::List(nodes) => return self.nodes(input, nodes),
            Node::Field(name) => return field(&input, name),
            Node::Slice(slice) => return self.elements(input, slice),
            Node::Union(parts) => return self.union(input, parts),
            Node::Filter(filter) => return self.filter(input, filter),
            Node::Wildcard => {
                let mut found = Vec::new();
                for item in input {
                    self.parts(item, &mut found)?;
                }
                found
            }
            Node::Recursive => {
                let mut found = Vec::new();
                for item in input {
                    self.descend(item, &mut found)?;
                }
                found
            }
            Node::Int(number) => vec![Item::Int(*number); input.len()],
            Node::Float(number) => vec![Item::Float(*number); input.len()],
            Node::Bool(value) => vec![Item::Bool(*value); input.len()],
            Node::Identifier(name) => return self.identifier(input, name),
        };
        Ok(found)
    }

    fn step(&mut self, count: usize) -> Result<(), Failure<'a>> {
        self.steps = self.steps.saturating_add(count);
        if self.steps > MAX_STEPS {
            return Err(Failure {
                error: ExecError::Limit("takes more than 4 million steps"),
                found: Vec::new(),
            });
        }
        Ok(())
    }

    fn identifier(&mut self, input: Vec<Item<'a>>, name: &str) -> Found<'a> {
        match name {
            "range" => {
                self.begun += 1;
                Ok(input)
            }
            "end" if self.open > 0 => {
                self.ended += 1;
                Ok(Vec::new())
            }
            "end" => fail("not in range, nothing to end".to_owned(), Vec::new()),
            _ => fail(format!("unrecognized identifier {name}"), input),
        }
    }

    fn elements(&mut self, input: Vec<Item<'a>>, slice: &Slice) -> Found<'a> {
        let mut found = Vec::new();
        for item in &input {
            let list = match item {
                Item::Tree(Tree::Null) => continue,
                Item::Tree(Tree::List(list)) => list,
                Item::Nothing => return stop(ExecError::NoValue),
                other => {
                    let text = format!("{} is not array or slice", type_of(*other));
                    return fail(text, input);
                }
            };
            match slice.range(list.len()) {
                // Nothing of one list is nothing of those behind it, too.
                Ok(None) => return Ok(found),
                Ok(Some((elements, step))) => {
                    let elements = list.get(elements).unwrap_or_default();
                    self.step(elements.len() / step)?;
                    found.extend(elements.iter().step_by(step).map(Item::Tree));
                }
                Err(text) => return fail(text, input),
            }
        }
        Ok(found)
    }

    fn union(&mut self, input: Vec<Item<'a>>, parts: &'a [Vec<Node>]) -> Found<'a> {
        let mut found = Vec::new();
        for part in parts {
            match self.nodes(input.clone(), part) {
                Ok(more) => found.extend(more),
                Err(Failure { error, .. }) => {
                    return Err(Failure {
                        error,
                        found: input,
                    });
                }
            }
        }
        Ok(found)
    }

    /// The values of a map, the elements of a list, the bytes of a string.
    fn parts(&mut self, item: Item<'a>, found: &mut Vec<Item<'a>>) -> Result<(), Failure<'a>> {
        let text: &[u8] = match item {
            Item::Tree(Tree::Map(entries)) => {
                self.step(entries.len())?;
                found.extend(entries.values().map(Item::Tree));
                return Ok(());
            }
            Item::Tree(Tree::List(list)) => {
                self.step(list.len())?;
                found.extend(list.iter().map(Item::Tree));
                return Ok(());
            }
            Item::Tree(Tree::String(text)) => text,
            Item::Text(text) => text,
            _ => return Ok(()),
        };
        self.step(text.len())?;
        found.extend(text.iter().map(|&byte| Item::Byte(byte)));
        Ok(())
    }

    /// The value and those in it, as far as they have parts. A document is not so deep that this is not.
    fn descend(&mut self, item: Item<'a>, found: &mut Vec<Item<'a>>) -> Result<(), Failure<'a>> {
        self.step(1)?;
        match item {
            Item::Tree(Tree::Map(entries)) if !entries.is_empty() => {
                found.push(item);
                for value in entries.values() {
                    self.descend(Item::Tree(value), found)?;
                }
            }
            Item::Tree(Tree::List(list)) if !list.is_empty() => {
                found.push(item);
                for value in list {
                    self.descend(Item::Tree(value), found)?;
                }
            }
            Item::Tree(Tree::String(text)) if !text.is_empty() => found.push(item),
            Item::Text(text) if !text.is_empty() => found.push(item),
            _ => {}
        }
        Ok(())
    }

    fn filter(&mut self, input: Vec<Item<'a>>, filter: &'a Filter) -> Found<'a> {
        let mut found = Vec::new();
        for item in &input {
            let Item::Tree(Tree::List(list)) = item else {
                let shown = String::from_utf8_lossy(&shown(*item)).into_owned();
                let text = format!("{shown} is not array or slice and cannot be filtered");
                return fail(text, input);
            };
            for element in list.iter().map(Item::Tree) {
                match self.passes(element, filter) {
                    Ok(true) => found.push(element),
                    Ok(false) => {}
                    Err(error) => {
                        return Err(Failure {
                            error,
                            found: input,
                        });
                    }
                }
            }
        }
        Ok(found)
    }

    fn passes(&mut self, element: Item<'a>, filter: &'a Filter) -> Result<bool, ExecError> {
        let left = self.nodes(vec![element], &filter.left);
        let Some((operator, right)) = &filter.comparison else {
            return match left {
                Ok(found) => Ok(!found.is_empty()),
                Err(Failure { error, found }) => match error {
                    ExecError::Data(_) => Ok(!found.is_empty()),
                    error => Err(error),
                },
            };
        };
        let Some(left) = only(left)? else {
            return Ok(false);
        };
        let Some(right) = only(self.nodes(vec![element], right))? else {
            return Ok(false);
        };
        compare(left, operator, right)
    }
}

/// The one value of a side of a comparison, if there is one.
fn only<'a>(found: Found<'a>) -> Result<Option<Item<'a>>, ExecError> {
    match found.map_err(|failure| failure.error)?.as_slice() {
        [] => Ok(None),
        [item] => Ok(Some(*item)),
        _ => Err(ExecError::Data(
            "can only compare one element at a time".to_owned(),
        )),
    }
}

fn field<'a>(input: &[Item<'a>], name: &str) -> Found<'a> {
    let value = |item: &Item<'a>| match item {
        Item::Tree(tree) => tree.get(name).map(Item::Tree),
        _ => None,
    };
    let found: Vec<_> = input.iter().filter_map(value).collect();
    if found.is_empty() && !input.is_empty() {
        return fail(format!("{name} is not found"), Vec::new());
    }
    Ok(found)
}

fn fail<'a>(text: String, found: Vec<Item<'a>>) -> Found<'a> {
    let error = ExecError::Data(text);
    Err(Failure { error, found })
}

fn stop<'a>(error: ExecError) -> Found<'a> {
    let found = Vec::new();
    Err(Failure { error, found })
}

impl Slice {
    /// The elements of a list of that length, and the step from one to the next; `None` where none is asked for.
    fn range(self, length: usize) -> Result<Option<(std::ops::Range<usize>, usize)>, String> {
        // A list has no more elements than memory has bytes.
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let out_of_bounds =
            |index| format!("array index out of bounds: index {index}, length {length}");
        let first = self.start.unwrap_or(0);
        let mut end = match self.is_index {
            true => first.wrapping_add(1),
            false => self.end.unwrap_or(length),
        };
        if end < 0 || (end == 0 && self.is_index) {
            end += length;
        }
        let start = if first < 0 { first + length } else { first };
        if start == end {
            return Ok(None);
        }
        if !(0..length).contains(&start) {
            return Err(out_of_bounds(start));
        }
        if !(0..=length).contains(&end) {
            return Err(out_of_bounds(end - 1));
        }
        if start > end {
            return Err(format!(
                "starting index {start} is greater than ending index {end}"
            ));
        }
        let step = self.step.unwrap_or(1);
        match (
            usize::try_from(start),
            usize::try_from(end),
            usize::try_from(step),
        ) {
            (Ok(start), Ok(end), Ok(step)) if step > 0 => Ok(Some((start..end, step))),
            _ => Err("step must be > 0".to_owned()),
        }
    }
}

/// The name of a value's type in Go.
fn type_of(item: Item<'_>) -> Type {
    let value = match item {
        Item::Tree(Tree::Map(_)) => return Type::Map(&Type::Any),
        Item::Tree(Tree::List(_)) => return Type::List(&Type::Any),
        item => value_of(item),
    };
    value.go_type().unwrap_or(Type::Any)
}

/// The value as Go's `fmt` prints it; of a very large one, a part.
pub(super) fn shown(item: Item<'_>) -> Vec<u8> {
    const LIMIT: usize = 64 << 10;
    let mut text = Vec::new();
    if matches!(item, Item::Nothing) {
        return b"<invalid reflect.Value>".to_vec();
    }
    // What is more than the limit is cut.
    let _ = gotmpl::fmt::append_value(&mut text, &value_of(item), LIMIT);
    text
}

fn value_of(item: Item<'_>) -> Value {
    match item {
        Item::Nothing => Value::Nil,
        Item::Tree(tree) => tree.to_value(),
        Item::Text(text) => Value::String(text.into()),
        Item::Byte(byte) => Value::Uint8(byte),
        Item::Int(number) => Value::Int(number),
        Item::Float(number) => Value::Float64(number),
        Item::Bool(value) => Value::Bool(value),
    }
}
