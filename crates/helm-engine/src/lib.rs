//! Helm charts: loading, values, dependencies, schema, rendering, release records.
