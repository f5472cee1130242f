//! Percent-encoding.

use gotmpl::strconv::quote;

/// The part of a URL that a text stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Path,
    Host,
    Zone,
    UserPassword,
    Fragment,
}

fn must_escape(byte: u8, encoding: Encoding) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => false,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':'
        | b'[' | b']' | b'<' | b'>' | b'"'
            if matches!(encoding, Encoding::Host | Encoding::Zone) =>
        {
            false
        }
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match encoding {
            Encoding::Path => byte == b'?',
            Encoding::UserPassword => matches!(byte, b'@' | b'/' | b'?' | b':'),
            Encoding::Fragment => false,
            Encoding::Host | Encoding::Zone => true,
        },
        b'!' | b'(' | b')' | b'*' => encoding != Encoding::Fragment,
        _ => true,
    }
}

/// Go's `escape`.
pub(super) fn escape(text: &[u8], encoding: Encoding) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| HEX.get(usize::from(value & 15)).copied().unwrap_or(b'0');
    let mut escaped = Vec::with_capacity(text.len());
    for byte in text.iter().copied() {
        if must_escape(byte, encoding) {
            escaped.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]);
        } else {
            escaped.push(byte);
        }
    }
    escaped
}

/// Go's `unescape`. The error has its text.
pub(super) fn unescape(text: &[u8], encoding: Encoding) -> Result<Vec<u8>, String> {
    let host = matches!(encoding, Encoding::Host | Encoding::Zone);
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            if host && first.is_ascii() && must_escape(*first, encoding) {
                return Err(format!(
                    "invalid character {} in host name",
                    quote(&[*first])
                ));
            }
            plain.push(*first);
            rest = after;
            continue;
        }
        let sequence = rest.get(..3.min(rest.len())).unwrap_or_default();
        let invalid = || format!("invalid URL escape {}", quote(sequence));
        let byte = hex(sequence).ok_or_else(invalid)?;
        let percent = sequence == b"%25";
        let refused = match encoding {
            Encoding::Host => byte < 0x80 && !percent,
            Encoding::Zone => !percent && byte != b' ' && must_escape(byte, Encoding::Host),
            _ => false,
        };
        if refused {
            return Err(invalid());
        }
        plain.push(byte);
        rest = rest.get(3..).unwrap_or_default();
    }
    Ok(plain)
}

fn hex(sequence: &[u8]) -> Option<u8> {
    let [_, high, low] = sequence else {
        return None;
    };
    let high = char::from(*high).to_digit(16)?;
    let low = char::from(*low).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}
