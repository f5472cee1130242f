//! The API server's own count of requests, from its metric `apiserver_request_total`.

use std::collections::BTreeMap;

/// Requests answered since the API server started, by verb and resource.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RequestCounts {
    counts: BTreeMap<(String, String), u64>,
}

/// The verbs that change something, as the API server spells them.
const WRITES: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

impl RequestCounts {
    /// Reads the API server's `/metrics`.
    #[must_use]
    pub fn parse(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, value)) = line
                .strip_prefix("apiserver_request_total{")
                .and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let key = (label(labels, "verb"), label(labels, "resource"));
            // Prometheus prints large counts as floats; a count is never negative nor fractional.
            let value = value.parse::<f64>().unwrap_or_default() as u64;
            *counts.entry(key).or_default() += value;
        }
        Self { counts }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |key| earlier.counts.get(key).copied().unwrap_or_default();
        let counts = self
            .counts
            .iter()
            .map(|(key, count)| (key, count.saturating_sub(before(key))));
        let counts = counts.filter(|(_, count)| *count > 0);
        Self {
            counts: counts.map(|(key, count)| (key.clone(), count)).collect(),
        }
    }

    /// The writes of every resource except leases, as `VERB resource` → count.
    ///
    /// The API server itself renews a lease every few seconds, and so does a leader.
    #[must_use]
    pub fn writes(&self) -> BTreeMap<String, u64> {
        self.counts
            .iter()
            .filter(|((verb, resource), _)| WRITES.contains(&verb.as_str()) && resource != "leases")
            .map(|((verb, resource), count)| (format!("{verb} {resource}"), *count))
            .collect()
    }

    /// All requests, watches and lists included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The requests of one verb (as the metric spells it: `GET`, `LIST`, `WATCH`, `APPLY` …) for one resource.
    #[must_use]
    pub fn of(&self, verb: &str, resource: &str) -> u64 {
        self.counts
            .get(&(verb.to_owned(), resource.to_owned()))
            .copied()
            .unwrap_or_default()
    }
}

/// The value of a label. The values of the labels that we ask for never hold quotes.
fn label(labels: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    labels
        .split(',')
        .find_map(|pair| pair.strip_prefix(start.as_str()))
        .map(|value| value.trim_end_matches('"').to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = r#"
# HELP apiserver_request_total Counter of requests
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 8
apiserver_request_duration_seconds_count{verb="POST",resource="secrets"} 4
"#;

    #[test]
    fn codes_of_one_verb_and_resource_are_added() {
        let counts = RequestCounts::parse(EARLIER);
        assert_eq!(counts.of("POST", "secrets"), 4);
        assert_eq!(counts.total(), 12);
    }

    #[test]
    fn leases_are_no_writes() {
        let counts = RequestCounts::parse(EARLIER);
        assert_eq!(
            counts.writes(),
            BTreeMap::from([("POST secrets".to_owned(), 4)])
        );
    }

    #[test]
    fn only_what_was_added_is_left() {
        let earlier = RequestCounts::parse(EARLIER);
        let later = RequestCounts::parse(&EARLIER.replace("} 3", "} 5e+00"));
        assert_eq!(
            later.since(&earlier).writes(),
            BTreeMap::from([("POST secrets".to_owned(), 2)])
        );
        assert!(earlier.since(&earlier).writes().is_empty());
    }
}
