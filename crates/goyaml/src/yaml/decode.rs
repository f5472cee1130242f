//! The decoder: from nodes to values.

use std::collections::{HashMap, HashSet};

use gotmpl::Str;

use super::build::{Build, HeadNode, Skipped};
use super::compose::{Document, DocumentNode, NodeKind};
use super::gosyntax::GoValue;
use super::parser::{Scalar, YAML_TAGS};
use super::resolve::{Resolved, resolve, resolve_tagged};
use super::source::Source;
use crate::base64;
use crate::{Error, MAX_DEPTH, Node};

/// Strings from this length on are shared by all uses of an alias.
const SHARED_LENGTH: usize = 64;

/// How many duplicate keys are told of.
const MAX_DUPLICATES: usize = 1_000;

const CONVERTING: &str = "error converting YAML to JSON";

/// Reads the first document of a text; `None` if there is none.
///
/// With `strict`, duplicate keys are errors; with `finite`, so are `.nan` and `.inf`. The error is
/// that of `sigs.k8s.io/yaml`.
pub(crate) fn decode<B: Build>(
    text: &[u8],
    strict: bool,
    finite: bool,
) -> Result<Option<B>, Error> {
    let source = Source::new(text);
    let Some(document) =
        Document::compose(&source).map_err(|fault| Error::from(fault).prefixed(CONVERTING))?
    else {
        return Ok(None);
    };
    let mut decoder = Decoder::new(&document, strict);
    let value: B = decoder.whole()?;
    if finite
        && decoder.has_non_finite
        && let Some(number) = value.non_finite()
    {
        return Err(unsupported_number(number).prefixed(CONVERTING));
    }
    Ok(Some(value))
}

/// Reads what a manifest's head is in, as [`decode`] would with neither; other values are `null`.
///
/// It also tells whether there is a `.nan` or a `.inf` anywhere.
pub(crate) fn decode_head(text: &[u8]) -> Result<(Node, bool), Error> {
    let source = Source::new(text);
    let document = match Document::compose(&source) {
        Ok(Some(document)) => document,
        Ok(None) => return Ok((Node::Null, false)),
        Err(fault) => return Err(Error::from(fault).prefixed(CONVERTING)),
    };
    let mut decoder = Decoder::new(&document, false);
    let HeadNode(node) = decoder.whole()?;
    Ok((node, decoder.has_non_finite))
}

/// As go-yaml reads a text that is JSON, without the errors' prefixes.
pub(crate) fn decode_bare(text: &[u8]) -> Result<Option<Node>, Error> {
    let source = Source::new(text);
    match Document::compose(&source)? {
        Some(document) => Decoder::new(&document, false).document().map(Some),
        None => Ok(None),
    }
}

/// `json: unsupported value: NaN`
pub(crate) fn unsupported_number(number: f64) -> Error {
    let text = match number {
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        _ => "NaN",
    };
    Error::new(format!("json: unsupported value: {text}"))
}

struct Decoder<'d> {
    nodes: &'d [DocumentNode<'d>],
    strict: bool,
    /// How many nodes were decoded, in all and for aliases.
    decoded: u64,
    aliased: u64,
    /// Aliases that are being decoded.
    open_aliases: Vec<u32>,
    depth: usize,
    /// What opens the collection that is nested too deep.
    too_deep: Option<char>,
    /// Complaints about duplicate keys.
    duplicates: Vec<String>,
    /// Whether there is a key that JSON cannot have, unless a later one replaces what holds it.
    has_bad_key: bool,
    has_non_finite: bool,
    /// Long strings that aliases refer to.
    shared: HashMap<u32, Str>,
}

/// A mapping that is being decoded.
struct Entries<B: Build> {
    entries: Vec<(B::Key, B)>,
    /// The keys so far, if duplicates are errors.
    seen: Option<HashSet<KeyId>>,
}

/// What makes keys equal in Go: the type counts.
#[derive(PartialEq, Eq, Hash)]
enum KeyId {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(u64),
    String(Str),
}

impl<'d> Decoder<'d> {
    fn new(document: &'d Document<'d>, strict: bool) -> Self {
        Self {
            nodes: &document.nodes,
            strict,
            decoded: 0,
            aliased: 0,
            open_aliases: Vec::new(),
            depth: 0,
            too_deep: None,
            duplicates: Vec::new(),
            has_bad_key: false,
            has_non_finite: false,
            shared: HashMap::new(),
        }
    }

    /// The document, with the whole text of errors.
    fn whole<B: Build>(&mut self) -> Result<B, Error> {
        match (self.document(), self.too_deep) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(opening)) => Err(Error::new(format!(
                "error unmarshaling JSON: while decoding JSON: invalid character '{opening}' \
                 exceeded max depth"
            ))),
            (Err(error), None) => Err(error.prefixed(CONVERTING)),
        }
    }

    fn document<B: Build>(&mut self) -> Result<B, Error> {
        self.count()?;
        let value = self.value(0)?;
        if !self.duplicates.is_empty() {
            return Err(Error::new(format!(
                "yaml: unmarshal errors:\n  {}",
                self.duplicates.join("\n  ")
            )));
        }
        if self.has_bad_key {
            let keyed: GoValue = self.again()?;
            if let Some(complaint) = keyed.bad_key() {
                return Err(Error::new(complaint));
            }
        }
        Ok(value)
    }

    fn node(&self, index: u32) -> Result<&'d DocumentNode<'d>, Error> {
        self.nodes
            .get(index as usize)
            .ok_or_else(|| Error::new("yaml: node out of range"))
    }

    /// Counts a node, and stops aliases that blow the document up.
    fn count(&mut self) -> Result<(), Error> {
        self.decoded += 1;
        if self.open_aliases.is_empty() {
            return Ok(());
        }
        self.aliased += 1;
        if self.aliased > 100 && self.decoded > 1000 && self.alias_ratio_exceeded() {
            return Err(Error::new("yaml: document contains excessive aliasing"));
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "go-yaml counts so, too")]
    fn alias_ratio_exceeded(&self) -> bool {
        const LOW: u64 = 400_000;
        const HIGH: u64 = 4_000_000;
        let allowed = match self.decoded {
            ..=LOW => 0.99,
            HIGH.. => 0.10,
            decoded => 0.99 - 0.89 * ((decoded - LOW) as f64 / (HIGH - LOW) as f64),
        };
        self.aliased as f64 / self.decoded as f64 > allowed
    }

    fn value<B: Build>(&mut self, index: u32) -> Result<B, Error> {
        self.count()?;
        self.uncounted(index)
    }

    /// As [`value`](Self::value), for a node that is counted already.
    fn uncounted<B: Build>(&mut self, index: u32) -> Result<B, Error> {
        let node = self.node(index)?;
        match &node.kind {
            NodeKind::Scalar(scalar) => Ok(B::scalar(self.scalar::<B>(index, scalar)?)),
            NodeKind::Alias(name, target) => {
                self.enter_alias(index, name)?;
                let value = self.value(*target)?;
                self.open_aliases.pop();
                Ok(value)
            }
            NodeKind::Sequence => self.nested('[', |decoder| decoder.sequence(index, node.end)),
            NodeKind::Mapping => self.nested('{', |decoder| {
                let mut entries = Entries {
                    entries: Vec::new(),
                    seen: decoder.strict.then(HashSet::new),
                };
                decoder.mapping(index, node.end, &mut entries)?;
                Ok(B::map(entries.entries))
            }),
        }
    }

    fn enter_alias(&mut self, index: u32, name: &[u8]) -> Result<(), Error> {
        if self.open_aliases.contains(&index) {
            let name = String::from_utf8_lossy(name);
            return Err(Error::new(format!(
                "yaml: anchor '{name}' value contains itself"
            )));
        }
        self.open_aliases.push(index);
        Ok(())
    }

    /// Goes one level deeper, if there is one.
    fn enter(&mut self, opening: char) -> Result<(), Error> {
        if self.depth >= MAX_DEPTH {
            self.too_deep = Some(opening);
            return Err(Error::new("yaml: exceeded max depth"));
        }
        self.depth += 1;
        Ok(())
    }

    /// Decodes a collection, unless it is nested too deep.
    fn nested<B: Build>(
        &mut self,
        opening: char,
        decode: impl FnOnce(&mut Self) -> Result<B, Error>,
    ) -> Result<B, Error> {
        self.enter(opening)?;
        let value = decode(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn sequence<B: Build>(&mut self, index: u32, end: u32) -> Result<B, Error> {
        let mut items = Vec::new();
        let mut child = index + 1;
        while child < end {
            items.push(self.value(child)?);
            child = self.node(child)?.end;
        }
        Ok(B::list(items))
    }

    fn mapping<B: Build>(
        &mut self,
        index: u32,
        end: u32,
        entries: &mut Entries<B>,
    ) -> Result<(), Error> {
        let mut key = index + 1;
        while key < end {
            let node = self.node(key)?;
            let value = node.end;
            if is_merge(node) {
                self.merge(value, entries)?;
            } else {
                self.entry(key, value, entries)?;
            }
            key = self.node(value)?.end;
        }
        Ok(())
    }

    fn entry<B: Build>(
        &mut self,
        key: u32,
        value_index: u32,
        entries: &mut Entries<B>,
    ) -> Result<(), Error> {
        let key = self.key::<B>(key)?;
        let value = match B::wants(&key, self.depth) {
            true => self.value(value_index)?,
            false => {
                self.value::<Skipped>(value_index)?;
                B::scalar(Node::Null)
            }
        };
        if let Some(seen) = &mut entries.seen
            && !seen.insert(KeyId::of(&key))
        {
            let line = self.node(value_index)?.line + 1;
            let key = GoValue::Scalar(key).to_syntax();
            if self.duplicates.len() < MAX_DUPLICATES {
                self.duplicates
                    .push(format!("line {line}: key {key} already set in map"));
            }
            return Ok(());
        }
        match B::key(key) {
            Ok(key) => entries.entries.push((key, value)),
            Err(_) => self.has_bad_key = true,
        }
        Ok(())
    }

    /// The scalar that a key is.
    fn key<B: Build>(&mut self, index: u32) -> Result<Node, Error> {
        self.count()?;
        match &self.node(index)?.kind {
            NodeKind::Scalar(scalar) => self.scalar::<B>(index, scalar),
            NodeKind::Alias(name, target) => {
                self.enter_alias(index, name)?;
                let key = self.key::<B>(*target)?;
                self.open_aliases.pop();
                Ok(key)
            }
            NodeKind::Sequence | NodeKind::Mapping => {
                let key: GoValue = self.uncounted(index)?;
                Err(Error::new(format!(
                    "yaml: invalid map key: {}",
                    key.to_syntax()
                )))
            }
        }
    }

    /// Decodes the document once more, which is known to go well.
    fn again<B: Build>(&mut self) -> Result<B, Error> {
        (self.decoded, self.aliased) = (0, 0);
        self.value(0)
    }

    /// Puts the entries of a mapping, or of several, where a `<<` stands.
    fn merge<B: Build>(&mut self, index: u32, entries: &mut Entries<B>) -> Result<(), Error> {
        let node = self.node(index)?;
        if !matches!(node.kind, NodeKind::Sequence) {
            return self.merge_one(index, entries);
        }
        let mut items = Vec::new();
        let mut child = index + 1;
        while child < node.end {
            items.push(child);
            child = self.node(child)?.end;
        }
        // Backwards, as earlier mappings take precedence.
        items
            .into_iter()
            .rev()
            .try_for_each(|item| self.merge_one(item, entries))
    }

    fn merge_one<B: Build>(&mut self, index: u32, entries: &mut Entries<B>) -> Result<(), Error> {
        let mut mapping = (index, self.node(index)?);
        if let NodeKind::Alias(_, target) = mapping.1.kind {
            mapping = (target, self.node(target)?);
        }
        if !matches!(mapping.1.kind, NodeKind::Mapping) {
            return Err(Error::new(
                "yaml: map merge requires map or sequence of maps as the value",
            ));
        }
        self.count()?;
        let alias = match &self.node(index)?.kind {
            NodeKind::Alias(name, _) => {
                self.enter_alias(index, name)?;
                self.count()?;
                true
            }
            _ => false,
        };
        self.enter('{')?;
        self.mapping(mapping.0, mapping.1.end, entries)?;
        self.depth -= 1;
        if alias {
            self.open_aliases.pop();
        }
        Ok(())
    }

    fn scalar<B: Build>(&mut self, index: u32, scalar: &'d Scalar<'d>) -> Result<Node, Error> {
        let value = &*scalar.value;
        let resolved = match scalar.tag.as_deref() {
            Some(tag) => match tag.strip_prefix(YAML_TAGS) {
                Some(b"binary") => return self.binary(value),
                Some(tag) => resolve_explicit(tag, value)?,
                None => Resolved::String,
            },
            None if scalar.implicit => resolve(value),
            None => Resolved::String,
        };
        Ok(match resolved {
            Resolved::Null => Node::Null,
            Resolved::Bool(value) => Node::Bool(value),
            Resolved::Int(value) => Node::Int(value),
            Resolved::Uint(value) => Node::Uint(value),
            Resolved::Float(value) => {
                self.has_non_finite |= !value.is_finite();
                Node::Float(value)
            }
            // Timestamps stay as they were written.
            Resolved::Timestamp | Resolved::String if B::TEXT => {
                Node::String(self.text(index, value))
            }
            Resolved::Timestamp | Resolved::String => Node::Bool(true),
        })
    }

    fn binary(&self, value: &[u8]) -> Result<Node, Error> {
        match base64::decode(value) {
            // JSON has no place for what is no UTF-8.
            Some(bytes) => Ok(Node::String(crate::utf8::valid(&bytes).into_owned().into())),
            None => Err(Error::new(
                "yaml: !!binary value contains invalid base64 data",
            )),
        }
    }

    fn text(&mut self, index: u32, value: &[u8]) -> Str {
        if self.open_aliases.is_empty() || value.len() < SHARED_LENGTH {
            return value.into();
        }
        let text = self.shared.entry(index).or_insert_with(|| value.into());
        text.clone()
    }
}

/// The type of a scalar with one of YAML's own tags, which it must fit.
fn resolve_explicit(tag: &[u8], value: &[u8]) -> Result<Resolved, Error> {
    let resolved = match tag {
        b"timestamp" => resolve(value),
        b"bool" | b"int" | b"float" | b"null" => resolve_tagged(value),
        _ => return Ok(Resolved::String),
    };
    if resolved.tag().as_bytes().strip_prefix(b"!!") == Some(tag) {
        return Ok(resolved);
    }
    match resolved {
        #[expect(clippy::cast_precision_loss, reason = "as Go's conversion does")]
        Resolved::Int(number) if tag == b"float" => Ok(Resolved::Float(number as f64)),
        _ => Err(Error::new(format!(
            "yaml: cannot decode {} `{}` as a !!{}",
            resolved.tag(),
            String::from_utf8_lossy(value),
            String::from_utf8_lossy(tag)
        ))),
    }
}

fn is_merge(node: &DocumentNode<'_>) -> bool {
    let NodeKind::Scalar(scalar) = &node.kind else {
        return false;
    };
    &*scalar.value == b"<<"
        && (scalar.implicit
            || scalar
                .tag
                .as_deref()
                .and_then(|tag| tag.strip_prefix(YAML_TAGS))
                == Some(b"merge"))
}

impl KeyId {
    fn of(key: &Node) -> Self {
        match key {
            Node::Bool(value) => Self::Bool(*value),
            Node::Int(value) => Self::Int(*value),
            Node::Uint(value) => Self::Uint(*value),
            Node::Float(value) => Self::Float(value.to_bits()),
            Node::String(text) => Self::String(text.clone()),
            Node::Null | Node::List(_) | Node::Map(_) => Self::Null,
        }
    }
}
