//! Random texts and numbers.

use std::sync::Arc;

use gotmpl::{Call, FunctionError, Functions, Type, Value};

use crate::arguments::{define, fail, int, reserve, string};
use crate::{Environment, Random};

pub(crate) fn register(functions: &mut Functions, environment: &Environment) {
    for (name, letters) in [
        ("randAlphaNum", ALPHANUMERIC),
        ("randAlpha", ALPHABETIC),
        ("randNumeric", b"0123456789"),
        ("randAscii", ASCII),
    ] {
        let random = Arc::clone(&environment.random);
        define(functions, name, &[Type::Int], move |call, a| {
            text(call, &*random, int(a, 0)?, letters)
        });
    }
    let random = Arc::clone(&environment.random);
    define(
        functions,
        "randInt",
        &[Type::Int, Type::Int],
        move |_, a| between(&*random, int(a, 0)?, int(a, 1)?),
    );
    let random = Arc::clone(&environment.random);
    define(functions, "randBytes", &[Type::Int], move |call, a| {
        let Ok(count) = usize::try_from(int(a, 0)?) else {
            return fail("runtime error: makeslice: len out of range");
        };
        call.charge(count.saturating_mul(2))?;
        let mut bytes = vec![0; count];
        random.fill(&mut bytes)?;
        Ok(Value::string(crate::encoding::encode_base64(&bytes)))
    });
    let random = Arc::clone(&environment.random);
    define(functions, "uuidv4", &[], move |_, _| {
        let mut bytes = [0; 16];
        random.fill(&mut bytes)?;
        Ok(Value::string(uuid(u128::from_be_bytes(bytes))))
    });
    let random = Arc::clone(&environment.random);
    define(functions, "shuffle", &[Type::String], move |call, a| {
        shuffle(call, &*random, string(a, 0)?)
    });
}

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALPHABETIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ASCII: &[u8] = b" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`\
abcdefghijklmnopqrstuvwxyz{|}~";

/// So many letters, each as likely as any other; of a negative count none.
fn text(
    call: &mut dyn Call,
    random: &dyn Random,
    count: i64,
    letters: &[u8],
) -> Result<Value, FunctionError> {
    let count = usize::try_from(count).unwrap_or(0);
    reserve(call, count)?;
    let mut text = Vec::with_capacity(count);
    let fair = 256 - 256 % letters.len();
    let mut buffer = [0; 256];
    while text.len() < count {
        let wanted = buffer.len().min((count - text.len()).saturating_mul(2));
        let bytes = buffer.get_mut(..wanted).unwrap_or_default();
        random.fill(bytes)?;
        let fair_bytes = bytes
            .iter()
            .map(|byte| usize::from(*byte))
            .filter(|byte| *byte < fair);
        let chosen = fair_bytes.filter_map(|byte| letters.get(byte % letters.len()).copied());
        text.extend(chosen.take(count - text.len()));
    }
    Ok(Value::string(text))
}

/// A number below a bound, each as likely as any other.
pub(crate) fn below(random: &dyn Random, bound: u64) -> Result<u64, FunctionError> {
    let unfair = u64::MAX % bound;
    loop {
        let mut bytes = [0; 8];
        random.fill(&mut bytes)?;
        let number = u64::from_be_bytes(bytes);
        if number < u64::MAX - unfair {
            return Ok(number % bound);
        }
    }
}

/// A number from the first bound on and below the second.
fn between(random: &dyn Random, least: i64, bound: i64) -> Result<Value, FunctionError> {
    let Some(width) = bound.checked_sub(least).filter(|width| *width > 0) else {
        return fail("invalid argument to Intn");
    };
    let offset = below(random, width.unsigned_abs())?;
    Ok(Value::Int(least.wrapping_add_unsigned(offset)))
}

/// A random UUID of version 4.
fn uuid(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-")
}

fn shuffle(call: &mut dyn Call, random: &dyn Random, text: &[u8]) -> Result<Value, FunctionError> {
    reserve(call, text.len().saturating_mul(8))?;
    let mut characters: Vec<char> = crate::unicode::runes(text)
        .map(|(found, _)| found)
        .collect();
    for index in (1..characters.len()).rev() {
        let bound = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
        let other = usize::try_from(below(random, bound)?).unwrap_or(0);
        characters.swap(index, other);
    }
    Ok(Value::string(characters.into_iter().collect::<String>()))
}
