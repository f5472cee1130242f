//! `.netrc`: logins by host, as curl and git read them.

use zeroize::Zeroizing;

/// User and password for `host`, from the first `machine` of that name or else from `default`.
pub(crate) fn find(file: &[u8], host: &str) -> Option<(String, Zeroizing<String>)> {
    let text = std::str::from_utf8(file).ok()?;
    let mut words = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(str::split_ascii_whitespace);
    let mut matches = false;
    let (mut user, mut password) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" => {
                if matches && password.is_some() {
                    break;
                }
                (user, password) = (None, None);
                matches = word == "default"
                    || words
                        .next()
                        .is_some_and(|name| name.eq_ignore_ascii_case(host));
            }
            "login" => user = words.next(),
            "password" => password = words.next(),
            "account" => {
                words.next();
            }
            "macdef" => break,
            _ => {}
        }
    }
    let password = password.filter(|_| matches)?;
    Some((
        user.unwrap_or_default().to_owned(),
        Zeroizing::new(password.to_owned()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# my logins\nmachine a.example login alice password pa\nmachine b.example\n  login bob\n  \
                        password pb\ndefault login anon password pd\n";

    fn lookup(file: &str, host: &str) -> Option<(String, String)> {
        find(file.as_bytes(), host).map(|(user, password)| (user, password.to_string()))
    }

    #[test]
    fn the_login_of_the_host_is_found_on_one_line_and_on_several() {
        assert_eq!(
            lookup(FILE, "a.example"),
            Some(("alice".into(), "pa".into()))
        );
        assert_eq!(lookup(FILE, "B.example"), Some(("bob".into(), "pb".into())));
    }

    #[test]
    fn the_default_is_for_every_other_host() {
        assert_eq!(
            lookup(FILE, "c.example"),
            Some(("anon".into(), "pd".into()))
        );
        assert_eq!(lookup("machine a login x password y", "c"), None);
    }

    #[test]
    fn broken_files_give_nothing() {
        for file in [
            "",
            "machine",
            "machine a login",
            "machine a password",
            "login x password y",
        ] {
            assert_eq!(lookup(file, "a"), None, "{file}");
        }
        assert_eq!(find(&[0xff, 0xfe], "a"), None);
    }
}
