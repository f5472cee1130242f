//! Upper and lower case.

use gotmpl::{Functions, Type, Value};

use super::cut::without_spaces;
use crate::arguments::{define, string};
use crate::unicode::{
    is_digit, is_letter, is_lower, is_space, is_space_byte, is_title, is_upper, map, push,
    to_lower, to_title, to_upper,
};

pub(super) fn register(functions: &mut Functions) {
    define(functions, "upper", &[Type::String], |_, a| {
        let text = string(a, 0)?;
        Ok(match text.is_ascii() {
            true if !text.iter().any(u8::is_ascii_lowercase) => Value::String(text.clone()),
            true => Value::string(text.to_ascii_uppercase()),
            false => Value::string(map(text, to_upper)),
        })
    });
    define(functions, "lower", &[Type::String], |_, a| {
        let text = string(a, 0)?;
        Ok(match text.is_ascii() {
            true if !text.iter().any(u8::is_ascii_uppercase) => Value::String(text.clone()),
            true => Value::string(text.to_ascii_lowercase()),
            false => Value::string(map(text, to_lower)),
        })
    });
    define(functions, "title", &[Type::String], |_, a| {
        Ok(Value::string(title(string(a, 0)?)))
    });
    define(functions, "untitle", &[Type::String], |_, a| {
        Ok(Value::string(untitle(string(a, 0)?)))
    });
    define(functions, "swapcase", &[Type::String], |_, a| {
        Ok(Value::string(swap_case(string(a, 0)?)))
    });
    define(functions, "initials", &[Type::String], |_, a| {
        Ok(Value::string(initials(string(a, 0)?)))
    });
    define(functions, "nospace", &[Type::String], |_, a| {
        Ok(without_spaces(string(a, 0)?))
    });
}

/// `strings.Title`: title case after every character that ends a word.
fn title(text: &[u8]) -> Vec<u8> {
    let mut previous = ' ';
    map(text, |character| {
        let begins = ends_word(previous);
        previous = character;
        if begins {
            to_title(character)
        } else {
            character
        }
    })
}

fn ends_word(character: char) -> bool {
    match character {
        '\0'..='\x7f' => !(character.is_ascii_alphanumeric() || character == '_'),
        _ if is_letter(character) || is_digit(character) => false,
        _ => is_space(character),
    }
}

/// Lower case for the first character of every word; words end at white space.
fn untitle(text: &[u8]) -> Vec<u8> {
    let mut begins = true;
    map(text, |character| {
        let first = begins && !is_space(character);
        begins = is_space(character);
        if first {
            to_lower(character)
        } else {
            character
        }
    })
}

fn swap_case(text: &[u8]) -> Vec<u8> {
    let mut begins = true;
    map(text, |character| {
        let first = begins;
        if is_upper(character) || is_title(character) {
            begins = false;
            return to_lower(character);
        }
        if !is_lower(character) {
            begins = is_space(character);
            return character;
        }
        begins = false;
        if first {
            to_title(character)
        } else {
            to_upper(character)
        }
    })
}

/// The first byte of every word, as a character.
fn initials(text: &[u8]) -> Vec<u8> {
    let mut letters = Vec::new();
    let mut begins = true;
    for byte in text {
        if !is_space_byte(*byte) && begins {
            push(&mut letters, char::from(*byte));
        }
        begins = is_space_byte(*byte);
    }
    letters
}
