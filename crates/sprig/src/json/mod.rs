//! JSON as `encoding/json` and Kubernetes read it.

mod object;

pub(crate) use object::object_value;
