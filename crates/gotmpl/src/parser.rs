//! Tokens into trees, with Go's grammar and Go's complaints.

mod operand;
mod pipeline;
mod scope;

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::lexer::{Lexer, Token, TokenKind};
use crate::tree::{
    Branch, BranchKind, Command, Item, ItemKind, Operand, Span, Template, TemplateCall, Tree,
};
use crate::{Functions, ParseError, Str, fmt, stack, strconv};
use scope::Scope;

/// How deep parentheses may be nested, as in Go.
const MAX_PARENS: usize = 10_000;
/// How deep `if`, `with`, `range` and `block` may be nested. Go knows no bound.
const MAX_BLOCKS: usize = 10_000;

/// The templates that a text defines, the text itself among them, under its own name.
pub(crate) fn parse(
    name: &Str,
    text: Str,
    functions: &Functions,
) -> Result<Vec<Arc<Template>>, ParseError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ParseError {
            name: name.clone(),
            line: 0,
            message: "the text is larger than 4 GiB; make it smaller".to_owned(),
        });
    }
    let source = text.clone();
    let mut parser = Parser::new(name, text, &source, functions);
    match parser.text() {
        Ok(()) => Ok(parser.finish()),
        Err(message) => Err(ParseError {
            name: name.clone(),
            line: parser.lexer.line(parser.state.tokens[0]),
            message,
        }),
    }
}

/// What is wrong. The line is that of the token read last.
type Parse<T> = Result<T, String>;

/// A template found in the text.
struct Definition {
    name: Str,
    root: Span,
    slots: usize,
    empty: bool,
}

/// What a template has of its own while it is being parsed: `define` and `block` begin a new one.
struct State {
    name: Str,
    /// Three tokens of look-ahead; the first is the one read last.
    tokens: [Token; 3],
    peeked: usize,
    scope: Scope,
    /// The delimiter that began the current action, none outside.
    action: Option<Token>,
    range_depth: usize,
    paren_depth: usize,
}

impl State {
    fn new(name: Str, dollar: Str) -> Self {
        Self {
            name,
            tokens: [Token::NONE; 3],
            peeked: 0,
            scope: Scope::new(dollar),
            action: None,
            range_depth: 0,
            paren_depth: 0,
        }
    }
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    tree: Tree,
    functions: &'t Functions,
    state: State,
    definitions: Vec<Definition>,
    defined: HashMap<Str, usize, RandomState>,
    interned: HashMap<&'t [u8], Str, RandomState>,
    function_ids: HashMap<&'t [u8], u32, RandomState>,
    block_depth: usize,
    open: Open,
}

/// What lies in lists that are not complete yet, of all levels: a level takes its own off the end.
#[derive(Default)]
struct Open {
    items: Vec<Item>,
    commands: Vec<Command>,
    operands: Vec<Operand>,
}

/// What an action or a text turned out to be.
enum Node {
    Item(Item),
    End,
    Else,
}

impl Node {
    fn source(&self) -> &'static str {
        match self {
            Self::End => "{{end}}",
            Self::Else | Self::Item(_) => "{{else}}",
        }
    }
}

fn index(length: usize) -> u32 {
    // A text of less than 4 GiB has fewer nodes than that.
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Appends to a table and tells where.
fn append<T>(table: &mut Vec<T>, entries: impl IntoIterator<Item = T>) -> Span {
    let start = index(table.len());
    table.extend(entries);
    Span {
        start,
        end: index(table.len()),
    }
}

/// Appends what a list of open entries holds from a place on.
fn close<T>(table: &mut Vec<T>, open: &mut Vec<T>, mark: usize) -> Span {
    append(table, open.drain(mark.min(open.len())..))
}

fn push<T>(table: &mut Vec<T>, entry: T) -> u32 {
    table.push(entry);
    index(table.len() - 1)
}

fn span(token: Token) -> Span {
    Span {
        start: token.start,
        end: token.end,
    }
}

impl<'t> Parser<'t> {
    fn new(name: &Str, text: Str, source: &'t [u8], functions: &'t Functions) -> Self {
        let mut lexer = Lexer::new(source);
        lexer.break_is_keyword = functions.get("break").is_none();
        lexer.continue_is_keyword = functions.get("continue").is_none();
        let tree = Tree {
            name: name.clone(),
            text,
            ..Tree::default()
        };
        let mut interned = HashMap::default();
        let dollar = interned
            .entry(&b"$"[..])
            .or_insert_with(|| Str::from("$"))
            .clone();
        Self {
            lexer,
            tree,
            functions,
            state: State::new(name.clone(), dollar),
            definitions: Vec::new(),
            defined: HashMap::default(),
            interned,
            function_ids: HashMap::default(),
            block_depth: 0,
            open: Open::default(),
        }
    }

    fn finish(self) -> Vec<Arc<Template>> {
        let tree = Arc::new(self.tree);
        let template = |definition: Definition| {
            Arc::new(Template {
                name: definition.name,
                tree: Arc::clone(&tree),
                root: definition.root,
                slots: definition.slots,
                empty: definition.empty,
            })
        };
        self.definitions.into_iter().map(template).collect()
    }

    /// One `Str` for each distinct name.
    fn intern(&mut self, name: &'t [u8]) -> Str {
        self.interned
            .entry(name)
            .or_insert_with(|| Str::from(name))
            .clone()
    }
}

/// The token stream.
impl<'t> Parser<'t> {
    fn next(&mut self) -> Token {
        let state = &mut self.state;
        match state.peeked.checked_sub(1) {
            Some(peeked) => state.peeked = peeked,
            None => state.tokens[0] = self.lexer.next_token(),
        }
        state
            .tokens
            .get(state.peeked)
            .copied()
            .unwrap_or(Token::NONE)
    }

    fn backup(&mut self) {
        self.state.peeked += 1;
    }

    /// Puts a token back in front of the one read last.
    fn backup_two(&mut self, first: Token) {
        self.state.tokens[1] = first;
        self.state.peeked = 2;
    }

    /// Puts two tokens back in front of the one read last.
    fn backup_three(&mut self, first: Token, second: Token) {
        self.state.tokens[1] = second;
        self.state.tokens[2] = first;
        self.state.peeked = 3;
    }

    fn peek(&mut self) -> Token {
        let token = self.next();
        self.backup();
        token
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != TokenKind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.backup();
        token
    }

    fn bytes(&self, token: Token) -> &'t [u8] {
        self.lexer.text(token)
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Parse<Token> {
        let token = self.next_non_space();
        if token.kind == kind {
            Ok(token)
        } else {
            Err(self.unexpected(token, context))
        }
    }

    /// A token as complaints show it.
    fn show(&self, token: Token) -> String {
        let text = self.bytes(token);
        match token.kind {
            TokenKind::Eof => "EOF".to_owned(),
            TokenKind::Error => self.lexer.error().to_owned(),
            kind if kind.is_keyword() => format!("<{}>", String::from_utf8_lossy(text)),
            _ if text.len() > 10 => fmt::sprintf(b"%.10q...", &[Str::from(text).into()])
                .map_or_else(|_| String::new(), |text| text.to_text().into_owned()),
            _ => strconv::quote(text),
        }
    }

    fn unexpected(&self, token: Token, context: &str) -> String {
        let shown = self.show(token);
        if token.kind != TokenKind::Error {
            return format!("unexpected {shown} in {context}");
        }
        let Some(start) = self.state.action else {
            return shown;
        };
        let line = self.lexer.line(start);
        if line == self.lexer.line(token) {
            return shown;
        }
        let name = self.tree.name.to_text();
        let action = if shown.ends_with(" action") {
            ""
        } else {
            " in action"
        };
        format!("{shown}{action} started at {name}:{line}")
    }
}

/// Bodies and actions.
impl<'t> Parser<'t> {
    /// The whole text: what stands outside definitions is the template of its own name.
    fn text(&mut self) -> Parse<()> {
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::Eof => break,
                TokenKind::LeftDelim => {
                    let delimiter = self.next();
                    if self.next_non_space().kind == TokenKind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.backup_two(delimiter);
                }
                _ => {}
            }
            match self.text_or_action()? {
                Node::Item(item) => self.open.items.push(item),
                node => return Err(format!("unexpected {}", node.source())),
            }
        }
        let root = close(&mut self.tree.items, &mut self.open.items, 0);
        self.define(root)
    }

    /// `{{define "name"}} … {{end}}`, from the name on.
    fn definition(&mut self) -> Parse<()> {
        const CONTEXT: &str = "define clause";
        let outer = self.enter(Str::from("definition"));
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        self.state.name = name;
        self.expect(TokenKind::RightDelim, CONTEXT)?;
        self.body(CONTEXT)?;
        self.state = outer;
        Ok(())
    }

    /// Begins another template.
    fn enter(&mut self, name: Str) -> State {
        let dollar = self.intern(b"$");
        std::mem::replace(&mut self.state, State::new(name, dollar))
    }

    /// The body of a definition, to its end.
    fn body(&mut self, context: &str) -> Parse<()> {
        let (root, end) = self.item_list()?;
        if !matches!(end, Node::End) {
            return Err(format!("unexpected {} in {context}", end.source()));
        }
        self.define(root)
    }

    /// Adds the current template to those found.
    fn define(&mut self, root: Span) -> Parse<()> {
        let name = self.state.name.clone();
        let definition = Definition {
            name: name.clone(),
            root,
            slots: self.state.scope.slots(),
            empty: self.is_empty(root),
        };
        let earlier = self
            .defined
            .get(&name)
            .and_then(|&at| self.definitions.get_mut(at));
        match earlier {
            None => {
                self.defined.insert(name, self.definitions.len());
                self.definitions.push(definition);
            }
            Some(earlier) if earlier.empty => *earlier = definition,
            Some(_) if definition.empty => {}
            Some(_) => {
                let quoted = strconv::quote(&name);
                return Err(format!(
                    "template: multiple definition of template {quoted}"
                ));
            }
        }
        Ok(())
    }

    /// Only white space and comments.
    fn is_empty(&self, list: Span) -> bool {
        self.tree.list(list).iter().all(|item| match item.kind {
            ItemKind::Text(span) => crate::unicode::Chars(self.tree.source(span))
                .all(|(code, _)| char::from_u32(code).is_some_and(char::is_whitespace)),
            _ => false,
        })
    }

    /// To the next `{{end}}` or `{{else}}`, which is returned too.
    fn item_list(&mut self) -> Parse<(Span, Node)> {
        let mark = self.open.items.len();
        while self.peek_non_space().kind != TokenKind::Eof {
            match self.text_or_action()? {
                Node::Item(item) => self.open.items.push(item),
                node => {
                    let list = close(&mut self.tree.items, &mut self.open.items, mark);
                    return Ok((list, node));
                }
            }
        }
        Err("unexpected EOF".to_owned())
    }

    fn text_or_action(&mut self) -> Parse<Node> {
        let token = self.next_non_space();
        match token.kind {
            TokenKind::Text => Ok(Node::Item(Item {
                position: token.start,
                kind: ItemKind::Text(span(token)),
            })),
            TokenKind::LeftDelim => {
                self.state.action = Some(token);
                let node = stack::grow(|| self.action())?;
                self.state.action = None;
                Ok(node)
            }
            _ => Err(self.unexpected(token, "input")),
        }
    }

    fn action(&mut self) -> Parse<Node> {
        let token = self.next_non_space();
        match token.kind {
            TokenKind::Block => self.block(),
            TokenKind::Break => self.loop_control(token, ItemKind::Break, "{{break}}"),
            TokenKind::Continue => self.loop_control(token, ItemKind::Continue, "{{continue}}"),
            TokenKind::Else => self.else_control(),
            TokenKind::End => {
                self.expect(TokenKind::RightDelim, "end")?;
                Ok(Node::End)
            }
            TokenKind::If => self.control(BranchKind::If),
            TokenKind::Range => self.control(BranchKind::Range),
            TokenKind::Template => self.template_call(),
            TokenKind::With => self.control(BranchKind::With),
            _ => {
                self.backup();
                let position = self.peek().start;
                let pipe = self.pipeline("command", TokenKind::RightDelim)?;
                Ok(Node::Item(Item {
                    position,
                    kind: ItemKind::Action(pipe),
                }))
            }
        }
    }

    fn loop_control(&mut self, token: Token, kind: ItemKind, source: &str) -> Parse<Node> {
        let next = self.next_non_space();
        if next.kind != TokenKind::RightDelim {
            return Err(self.unexpected(next, source));
        }
        if self.state.range_depth == 0 {
            return Err(format!("{source} outside {{{{range}}}}"));
        }
        Ok(Node::Item(Item {
            position: token.start,
            kind,
        }))
    }

    fn else_control(&mut self) -> Parse<Node> {
        let peeked = self.peek_non_space();
        // Of `{{else if` the `if` stays, for the one who asked for the list.
        if matches!(peeked.kind, TokenKind::If | TokenKind::With) {
            return Ok(Node::Else);
        }
        self.expect(TokenKind::RightDelim, "else")?;
        Ok(Node::Else)
    }

    /// `if`, `with` and `range`, from the pipeline on.
    fn control(&mut self, kind: BranchKind) -> Parse<Node> {
        self.block_depth += 1;
        if self.block_depth > MAX_BLOCKS {
            return Err("max nesting depth exceeded".to_owned());
        }
        let outer = self.state.scope.mark();
        let context = match kind {
            BranchKind::If => "if",
            BranchKind::With => "with",
            BranchKind::Range => "range",
        };
        let pipe = self.pipeline(context, TokenKind::RightDelim)?;
        let inner = self.state.scope.mark();
        self.state.range_depth += usize::from(kind == BranchKind::Range);
        let (list, end) = self.item_list()?;
        self.state.range_depth -= usize::from(kind == BranchKind::Range);
        self.state.scope.leave_list(inner);
        let otherwise = match end {
            Node::Else => Some(self.otherwise(kind)?),
            _ => None,
        };
        self.state.scope.leave_block(outer);
        self.block_depth -= 1;
        let position = self
            .tree
            .pipes
            .get(pipe as usize)
            .map_or(0, |pipe| pipe.position);
        let branch = push(
            &mut self.tree.branches,
            Branch {
                kind,
                pipe,
                list,
                otherwise,
            },
        );
        Ok(Node::Item(Item {
            position,
            kind: ItemKind::Branch(branch),
        }))
    }

    /// What follows `{{else`: `if` and `with` go on as a block of their own, whose end is this end.
    fn otherwise(&mut self, kind: BranchKind) -> Parse<Span> {
        let chained = match (kind, self.peek().kind) {
            (BranchKind::If, TokenKind::If) | (BranchKind::With, TokenKind::With) => {
                self.next();
                stack::grow(|| self.control(kind))?
            }
            _ => {
                let (list, end) = self.item_list()?;
                if !matches!(end, Node::End) {
                    return Err(format!("expected end; found {}", end.source()));
                }
                return Ok(list);
            }
        };
        match chained {
            Node::Item(item) => Ok(append(&mut self.tree.items, [item])),
            _ => Ok(Span::default()),
        }
    }

    /// `{{block "name" pipe}} … {{end}}`: a definition and a call of it.
    fn block(&mut self) -> Parse<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, TokenKind::RightDelim)?;
        self.block_depth += 1;
        if self.block_depth > MAX_BLOCKS {
            return Err("max nesting depth exceeded".to_owned());
        }
        let outer = self.enter(name.clone());
        self.body(CONTEXT)?;
        self.state = outer;
        self.block_depth -= 1;
        Ok(self.call(token, name, Some(pipe)))
    }

    /// `{{template "name" pipe}}`, the pipe being optional.
    fn template_call(&mut self) -> Parse<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != TokenKind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, TokenKind::RightDelim)?);
        }
        Ok(self.call(token, name, pipe))
    }

    fn call(&mut self, token: Token, name: Str, pipe: Option<u32>) -> Node {
        let call = push(&mut self.tree.calls, TemplateCall { name, pipe });
        Node::Item(Item {
            position: token.start,
            kind: ItemKind::Template(call),
        })
    }

    fn template_name(&mut self, token: Token, context: &str) -> Parse<Str> {
        match token.kind {
            TokenKind::String | TokenKind::RawString => self.unquote(token),
            _ => Err(self.unexpected(token, context)),
        }
    }

    fn unquote(&self, token: Token) -> Parse<Str> {
        match strconv::unquote(self.bytes(token)) {
            Some(text) => Ok(text.into()),
            None => Err("invalid syntax".to_owned()),
        }
    }
}
