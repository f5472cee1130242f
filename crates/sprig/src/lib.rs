//! The Sprig function library and Helm's own template functions.
