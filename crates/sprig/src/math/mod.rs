//! Numbers: conversion, whole and decimal arithmetic, rounding, sequences.

mod convert;
mod decimal;
mod float;
mod integer;
mod sequence;

use gotmpl::Functions;

pub(crate) use convert::{clamped as parse_decimal, parse_float, to_int64, truncate};

pub(crate) fn register(functions: &mut Functions) {
    convert::register(functions);
    decimal::register(functions);
    float::register(functions);
    integer::register(functions);
    sequence::register(functions);
}
