//! The charts that are deployed: good ones, and one for each way to be bad.

use std::collections::BTreeMap;

use helm_engine::{Hook, HookEvent};
use helm_kube::{DIGEST, Desired};
use helm_operator::api::ANTECEDENT_ANNOTATION;

use crate::server::{FAILS, REFUSED};

/// Whom the releases belong to.
pub(crate) const OWNER: &str = "shop:helmrelease/web";

/// What a version of the chart is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chart {
    /// It works. Each number has an object of its own.
    Good(u8),
    /// Its hook before an install or upgrade fails.
    BadHook,
    /// One of its objects is refused.
    BadObject,
    /// Its test fails.
    BadTest,
}

impl Chart {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [
        Self::Good(1),
        Self::Good(2),
        Self::Good(3),
        Self::BadHook,
        Self::BadObject,
        Self::BadTest,
    ];

    pub(crate) fn is_bad(self) -> bool {
        !matches!(self, Self::Good(_))
    }

    pub(crate) fn digest(self) -> String {
        format!("{self:?}").to_lowercase().replace(['(', ')'], "-")
    }

    /// The chart that a revision was made of.
    pub(crate) fn of_digest(digest: &str) -> Self {
        *Self::ALL
            .iter()
            .find(|chart| chart.digest() == digest)
            .unwrap()
    }

    /// The names of its ConfigMaps.
    pub(crate) fn objects(self) -> Vec<String> {
        let own = format!("own-{}", self.digest());
        let mut names = vec!["same".to_owned(), own];
        if self == Self::BadObject {
            names.push(REFUSED.to_owned());
        }
        names.sort();
        names
    }

    /// What helm-kube is given.
    pub(crate) fn desired(self) -> Desired {
        let digest = self.digest();
        let map = |name: &String| {
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{version: {digest}}}\n"
            )
        };
        let mut before = vec![HookEvent::PreUpgrade, HookEvent::PreDelete];
        if !matches!(self, Self::Good(1)) {
            before.push(HookEvent::PreInstall);
        }
        let after = [HookEvent::PostInstall, HookEvent::PostRollback];
        Desired {
            manifest: self.objects().iter().map(map).collect(),
            hooks: vec![
                hook("before", &before, self == Self::BadHook),
                hook("after", &after, false),
                hook("check", &[HookEvent::Test], self == Self::BadTest),
            ],
            annotations: BTreeMap::from([
                (DIGEST.to_owned(), digest),
                (ANTECEDENT_ANNOTATION.to_owned(), OWNER.to_owned()),
            ]),
            ..Desired::default()
        }
    }
}

fn hook(name: &str, events: &[HookEvent], fails: bool) -> Hook {
    let labels = if fails {
        format!(", labels: {{{FAILS}: 'yes'}}")
    } else {
        String::new()
    };
    Hook {
        name: name.to_owned(),
        kind: "Job".to_owned(),
        path: format!("demo/templates/{name}.yaml"),
        manifest: format!("apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}{labels}}}\n"),
        events: events.to_vec(),
        ..Hook::default()
    }
}
