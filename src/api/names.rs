//! Names that follow from a HelmRelease.

use kube::ResourceExt;

use super::chart::NamespacedName;
use super::spec::HelmRelease;

/// A release name that Helm refuses; the text is what 1.4 said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Release name is invalid: {name}: {why}; set spec.releaseName")]
pub struct InvalidReleaseName {
    name: String,
    why: &'static str,
}

/// The most characters of a release name: the rest of 63 is for what charts append.
const LONGEST_RELEASE_NAME: usize = 53;

/// Checks a release name by Helm's rules: 1 to 53 characters; lower-case letters, digits, `-` and `.`;
/// each part between dots starts and ends with a letter or a digit.
///
/// # Errors
/// Says which rule is broken.
pub fn check_release_name(name: &str) -> Result<(), InvalidReleaseName> {
    let invalid = |why| InvalidReleaseName {
        name: name.chars().take(256).collect(),
        why,
    };
    if name.is_empty() {
        return Err(invalid("it is empty"));
    }
    if name.len() > LONGEST_RELEASE_NAME {
        return Err(invalid("it has more than 53 characters"));
    }
    let alphanumeric =
        |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let label = |part: &str| {
        alphanumeric(part.chars().next())
            && alphanumeric(part.chars().next_back())
            && part.chars().all(|c| c == '-' || alphanumeric(Some(c)))
    };
    if name.split('.').all(label) {
        Ok(())
    } else {
        Err(invalid(
            "only lower-case letters, digits, '-' and '.' are allowed, and not '-' or '.' at an end",
        ))
    }
}

/// The antecedent of an object of the release of `key`: `<namespace>:helmrelease/<name>`.
#[must_use]
pub fn resource_id(key: &NamespacedName) -> String {
    format!("{}:helmrelease/{}", key.namespace, key.name)
}

impl HelmRelease {
    /// Namespace and name of the object itself.
    #[must_use]
    pub fn key(&self) -> NamespacedName {
        NamespacedName::new(self.own_namespace(), self.name_any())
    }

    /// The object's own namespace; `default` when it has none, as in 1.4.
    #[must_use]
    pub fn own_namespace(&self) -> &str {
        self.metadata
            .namespace
            .as_deref()
            .filter(|ns| !ns.is_empty())
            .unwrap_or("default")
    }

    /// Namespace of the Helm release and of its records.
    #[must_use]
    pub fn target_namespace(&self) -> &str {
        let target = self
            .spec
            .target_namespace
            .as_deref()
            .filter(|ns| !ns.is_empty());
        target.unwrap_or_else(|| self.own_namespace())
    }

    /// Name of the Helm release: `spec.releaseName`, or made of the namespaces and the name, never
    /// shortened.
    #[must_use]
    pub fn release_name(&self) -> String {
        if let Some(name) = self
            .spec
            .release_name
            .as_ref()
            .filter(|name| !name.is_empty())
        {
            return name.clone();
        }
        let (own, target) = (self.own_namespace(), self.target_namespace());
        let name = self.metadata.name.as_deref().unwrap_or_default();
        if own == target {
            format!("{own}-{name}")
        } else {
            format!("{own}-{target}-{name}")
        }
    }

    /// Namespace and name of the Helm release.
    #[must_use]
    pub fn release_key(&self) -> NamespacedName {
        NamespacedName::new(self.target_namespace(), self.release_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(namespace: Option<&str>, spec: serde_json::Value) -> HelmRelease {
        let mut spec = spec;
        spec["chart"] = serde_json::json!({});
        let mut release = HelmRelease::new("web", serde_json::from_value(spec).unwrap());
        release.metadata.namespace = namespace.map(str::to_owned);
        release
    }

    #[test]
    fn release_names_are_derived_as_in_1_4() {
        let cases = [
            (Some("demo"), serde_json::json!({}), "demo-web", "demo"),
            (
                Some("demo"),
                serde_json::json!({"targetNamespace": "demo"}),
                "demo-web",
                "demo",
            ),
            (
                Some("demo"),
                serde_json::json!({"targetNamespace": "apps"}),
                "demo-apps-web",
                "apps",
            ),
            (
                Some("demo"),
                serde_json::json!({"releaseName": "x", "targetNamespace": "apps"}),
                "x",
                "apps",
            ),
            (
                Some("demo"),
                serde_json::json!({"releaseName": "", "targetNamespace": ""}),
                "demo-web",
                "demo",
            ),
            (None, serde_json::json!({}), "default-web", "default"),
        ];
        for (namespace, spec, name, target) in cases {
            let release = release(namespace, spec);
            assert_eq!(release.release_name(), name);
            assert_eq!(release.target_namespace(), target);
        }
    }

    #[test]
    fn release_names_that_helm_refuses_are_refused() {
        for good in ["a", "demo-web", "a.b-c.d", "0", &"x".repeat(53)] {
            assert_eq!(check_release_name(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "Demo",
            "a_b",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a.",
            "é",
            &"x".repeat(54),
        ] {
            let error = check_release_name(bad).unwrap_err().to_string();
            assert!(error.starts_with("Release name is invalid: "), "{error}");
        }
    }

    #[test]
    fn the_antecedent_names_the_object() {
        assert_eq!(
            resource_id(&NamespacedName::new("demo", "web")),
            "demo:helmrelease/web"
        );
    }
}
