//! Clear-signed texts (RFC 4880 §7): what `helm package --sign` and `gpg --clearsign` write.

/// A text and its signature, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cleartext {
    /// The text as a reader sees it, each line ended by a line feed.
    pub(super) text: String,
    /// The text as it is signed: no blanks at the ends of lines, CR LF between them and none at the end.
    pub(super) signed: Vec<u8>,
    /// The armored signature.
    pub(super) signature: String,
}

const MESSAGE: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";

impl Cleartext {
    /// Takes the first message of a text apart; `None` where there is none. Headers other than `Hash` are refused: they
    /// would not be signed.
    pub(super) fn parse(message: &str) -> Option<Self> {
        let mut lines = message.lines();
        lines.find(|line| line.trim_end() == MESSAGE)?;
        for header in lines.by_ref() {
            match header.trim_end() {
                "" => break,
                header if header.starts_with("Hash:") => {}
                _ => return None,
            }
        }
        let (mut text, mut signed) = (String::new(), Vec::new());
        loop {
            let line = lines.next()?;
            if line.trim_end() == SIGNATURE {
                break;
            }
            let line = line.strip_prefix("- ").unwrap_or(line);
            if !text.is_empty() {
                signed.extend_from_slice(b"\r\n");
            }
            signed.extend_from_slice(line.trim_end_matches([' ', '\t', '\r']).as_bytes());
            text.push_str(line);
            text.push('\n');
        }
        let mut signature = format!("{SIGNATURE}\n");
        for line in lines {
            signature.push_str(line);
            signature.push('\n');
        }
        Some(Self {
            text,
            signed,
            signature,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_apart_as_it_was_signed() {
        let message = "before\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\none \t\n- --- two\n\nthree\n\
                       -----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----\n";
        let found = Cleartext::parse(message).unwrap();
        assert_eq!(found.text, "one \t\n--- two\n\nthree\n");
        assert_eq!(found.signed, b"one\r\n--- two\r\n\r\nthree");
        assert!(found.signature.contains("\nabcd\n"));
        let crlf = Cleartext::parse(&message.replace('\n', "\r\n")).unwrap();
        assert_eq!(crlf.signed, found.signed);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for message in [
            "",
            "text",
            "-----BEGIN PGP SIGNED MESSAGE-----\n\ntext\n",
            "-----BEGIN PGP SIGNED MESSAGE-----\nVersion: smuggled\n\nt\n-----BEGIN PGP SIGNATURE-----\n",
        ] {
            assert_eq!(Cleartext::parse(message), None, "{message:?}");
        }
    }
}
