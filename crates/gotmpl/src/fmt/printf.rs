//! The directives of a format.

use super::format::Flags;
use super::printer::{Printer, append_type};
use crate::Value;
use crate::unicode;

/// The largest width and precision; what is larger counts as bad.
const MOST: usize = 1_000_000;

/// Where a format and its arguments are read.
struct Reader<'a> {
    format: &'a [u8],
    position: usize,
    arguments: &'a [Value],
    argument: usize,
    /// An explicit index `[n]` has been used somewhere.
    reordered: bool,
    /// The index of this directive is good.
    good_index: bool,
    /// The last thing read was an index.
    after_index: bool,
}

pub(super) fn print(printer: &mut Printer<'_>, format: &[u8], arguments: &[Value]) {
    let mut reader = Reader {
        format,
        position: 0,
        arguments,
        argument: 0,
        reordered: false,
        good_index: true,
        after_index: false,
    };
    while printer.has_room() {
        let rest = format.get(reader.position..).unwrap_or_default();
        let plain = rest.iter().position(|&byte| byte == b'%');
        let text = rest.get(..plain.unwrap_or(rest.len())).unwrap_or(rest);
        printer.buffer.extend_from_slice(text);
        reader.position += text.len() + 1;
        if plain.is_none() {
            break;
        }
        if !reader.directive(printer) {
            break;
        }
    }
    reader.extra(printer);
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.position).copied()
    }

    /// What follows one `%`; false at the end of the format.
    fn directive(&mut self, printer: &mut Printer<'_>) -> bool {
        self.good_index = true;
        self.after_index = false;
        printer.flags = self.flags();
        // The usual case: a verb right after the flags.
        if let Some(verb @ b'a'..=b'z') = self.peek()
            && let Some(value) = self.arguments.get(self.argument)
        {
            self.position += 1;
            self.argument += 1;
            print_with_verb(printer, value, char::from(verb));
            return true;
        }
        self.index();
        self.width(printer);
        self.precision(printer);
        if !self.after_index {
            self.index();
        }
        self.verb(printer)
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        loop {
            match self.peek() {
                Some(b'#') => flags.sharp = true,
                Some(b'0') => flags.zero = true,
                Some(b'+') => flags.plus = true,
                Some(b'-') => flags.minus = true,
                Some(b' ') => flags.space = true,
                _ => return flags,
            }
            self.position += 1;
        }
    }

    /// `[n]`, if it stands here.
    fn index(&mut self) {
        self.after_index = false;
        if self.peek() != Some(b'[') {
            return;
        }
        self.reordered = true;
        let rest = self.format.get(self.position + 1..).unwrap_or_default();
        let Some(close) = rest
            .iter()
            .position(|&byte| byte == b']')
            .filter(|_| rest.len() >= 2)
        else {
            self.position += 1;
            self.good_index = false;
            return;
        };
        self.position += close + 2;
        let digits = rest.get(..close).unwrap_or_default();
        let number =
            parse_number(digits).filter(|&(_, length)| length == digits.len() && close > 0);
        match number {
            Some((number, _)) if (1..=self.arguments.len()).contains(&number) => {
                self.argument = number - 1;
                self.after_index = true;
            }
            Some(_) => {
                self.good_index = false;
                self.after_index = true;
            }
            None => self.good_index = false,
        }
    }

    fn width(&mut self, printer: &mut Printer<'_>) {
        if self.peek() == Some(b'*') {
            self.position += 1;
            match self.integer_argument() {
                None => printer.text("%!(BADWIDTH)"),
                Some(width) => {
                    printer.flags.width = Some(usize::try_from(width.unsigned_abs()).unwrap_or(0));
                    if width < 0 {
                        printer.flags.minus = true;
                        printer.flags.zero = false;
                    }
                }
            }
            self.after_index = false;
        } else {
            printer.flags.width = self.number();
            if self.after_index && printer.flags.width.is_some() {
                self.good_index = false;
            }
        }
    }

    fn precision(&mut self, printer: &mut Printer<'_>) {
        if self.peek() != Some(b'.') || self.position + 1 >= self.format.len() {
            return;
        }
        self.position += 1;
        if self.after_index {
            self.good_index = false;
        }
        self.index();
        if self.peek() == Some(b'*') {
            self.position += 1;
            let precision = self.integer_argument();
            printer.flags.precision = precision.and_then(|given| usize::try_from(given).ok());
            if printer.flags.precision.is_none() {
                printer.text("%!(BADPREC)");
            }
            self.after_index = false;
        } else {
            printer.flags.precision = Some(self.number().unwrap_or(0));
        }
    }

    /// An argument used as width or precision.
    fn integer_argument(&mut self) -> Option<i64> {
        let value = self.arguments.get(self.argument)?;
        self.argument += 1;
        let basic = match value {
            Value::Object(object) => object.as_basic()?,
            value => value.clone(),
        };
        let number = match &basic {
            Value::Int(number) | Value::Int64(number) => *number,
            Value::Int32(number) => i64::from(*number),
            Value::Uint8(number) => i64::from(*number),
            Value::Uint64(number) => i64::try_from(*number).ok()?,
            _ => return None,
        };
        usize::try_from(number.unsigned_abs())
            .is_ok_and(|size| size <= MOST)
            .then_some(number)
    }

    /// Digits; a number beyond bounds takes the whole rest of the format with it, as in Go.
    fn number(&mut self) -> Option<usize> {
        let rest = self.format.get(self.position..).unwrap_or_default();
        if rest.is_empty() {
            return None;
        }
        match parse_number(rest) {
            None => {
                self.position = self.format.len();
                None
            }
            Some((_, 0)) => None,
            Some((number, length)) => {
                self.position += length;
                Some(number)
            }
        }
    }

    fn verb(&mut self, printer: &mut Printer<'_>) -> bool {
        let rest = self.format.get(self.position..).unwrap_or_default();
        if rest.is_empty() {
            printer.text("%!(NOVERB)");
            return false;
        }
        let (code, length) = unicode::decode(rest);
        self.position += length;
        let verb = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        match self.arguments.get(self.argument) {
            _ if verb == '%' => printer.text("%"),
            _ if !self.good_index => printer.complaint(verb, "(BADINDEX)"),
            None => printer.complaint(verb, "(MISSING)"),
            Some(value) => {
                self.argument += 1;
                print_with_verb(printer, value, verb);
            }
        }
        true
    }

    /// `%!(EXTRA int=1)`
    fn extra(&self, printer: &mut Printer<'_>) {
        let extra = self.arguments.get(self.argument..).unwrap_or_default();
        if self.reordered || extra.is_empty() {
            return;
        }
        printer.flags = Flags::default();
        printer.text("%!(EXTRA ");
        for (index, value) in extra.iter().enumerate() {
            if index > 0 {
                printer.text(", ");
            }
            append_type(printer.buffer, value);
            if !matches!(value, Value::Nil) {
                printer.text("=");
                printer.print_argument(value, 'v');
            }
        }
        printer.text(")");
    }
}

fn print_with_verb(printer: &mut Printer<'_>, value: &Value, verb: char) {
    if verb == 'v' || verb == 'w' {
        let flags = &mut printer.flags;
        flags.sharp_v = std::mem::take(&mut flags.sharp);
        flags.plus_v = std::mem::take(&mut flags.plus);
    }
    printer.print_argument(value, verb);
}

/// A number at the start and its length, 0 if there is none; `None` if it is beyond bounds.
fn parse_number(text: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0usize;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut length = 0;
    for digit in digits {
        // Looked at before the digit is added, as Go does: a number of seven digits still passes.
        if number > MOST {
            return None;
        }
        number = number * 10 + usize::from(digit - b'0');
        length += 1;
    }
    Some((number, length))
}
