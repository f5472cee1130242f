//! What is nested too deeply is cut out of JSON before anybody reads it.
//!
//! The API server stores values that are nested thousands of levels deep. A reader that gives up on such an object gives
//! up on the whole list that holds it, and then nobody is served any more; one that reads it needs a stack to match. So
//! what is too deep is replaced by [`MARK`] on the way, and only the object that has it is refused.

use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// The deepest nesting that is passed on. A list takes a few levels of it, and serde_json gives up at
/// 128.
const DEEPEST: u32 = 110;

/// Stands where something was too deep. No person writes this character.
pub(crate) const MARK: &str = "\u{1a}nested more than 100 deep";

/// The mark as JSON.
const MARK_JSON: &[u8] = b"\"\\u001anested more than 100 deep\"";

/// Cuts a stream of JSON documents, whatever pieces it comes in.
#[derive(Clone, Debug, Default)]
struct Shallow {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Shallow {
    /// The next piece, without what is too deep.
    fn pass(&mut self, piece: Bytes) -> Bytes {
        let mut out: Option<Vec<u8>> = (self.depth > DEEPEST).then(Vec::new);
        for (at, byte) in piece.iter().enumerate() {
            let was_deep = self.depth > DEEPEST;
            self.step(*byte);
            let is_deep = self.depth > DEEPEST;
            if is_deep && !was_deep {
                let kept = out.get_or_insert_with(|| piece.slice(..at).to_vec());
                kept.extend_from_slice(MARK_JSON);
            } else if let Some(out) = out.as_mut().filter(|_| !is_deep && !was_deep) {
                out.push(*byte);
            }
        }
        out.map_or(piece, Bytes::from)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Puts the cut before a client that reads what tenants have written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CutDepth;

impl<S> Layer<S> for CutDepth {
    type Service = Cut<S>;

    fn layer(&self, inner: S) -> Cut<S> {
        Cut { inner }
    }
}

/// A service behind [`CutDepth`].
#[derive(Clone, Debug)]
pub struct Cut<S> {
    inner: S,
}

impl<S, B> Service<Request<Body>> for Cut<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, B::Error>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let cut = |response: Response<B>| {
            response.map(|body| {
                let mut shallow = Shallow::default();
                body.map_frame(move |frame| frame.map_data(|piece| shallow.pass(piece)))
                    .boxed_unsync()
            })
        };
        let answer = self.inner.call(request);
        answer
            .map(move |answer| answer.map(cut).map_err(Into::into))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize, inner: &str) -> String {
        format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth))
    }

    /// Passes a text in pieces of this size.
    fn passed(text: &str, size: usize) -> String {
        let mut shallow = Shallow::default();
        let pieces = text.as_bytes().chunks(size);
        let out: Vec<u8> = pieces
            .flat_map(|piece| shallow.pass(Bytes::copy_from_slice(piece)))
            .collect();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_not_too_deep_passes_as_it_is() {
        for text in [
            r#"{"a": ["[[[{{{", "\"[", "\\"], "b": {}}"#.to_owned(),
            nested(110, "1"),
            "{}\n[]\n\"]]]]\"\n[1]".to_owned(),
        ] {
            for size in [1, 2, 3, 1000] {
                assert_eq!(passed(&text, size), text);
            }
        }
    }

    #[test]
    fn what_is_too_deep_is_one_mark_and_the_rest_goes_on() {
        for depth in [111, 112, 500, 9_000] {
            let deep = nested(depth, r#"{"x": "]]]\"]"}, 2"#);
            let text = format!(r#"{{"before": 1, "deep": {deep}, "after": [2]}}"#);
            for size in [1, 7, 100_000] {
                let cut = passed(&text, size);
                let read: serde_json::Value = serde_json::from_str(&cut).unwrap();
                assert_eq!((&read["before"], &read["after"][0]), (&1.into(), &2.into()));
                assert_eq!(cut.matches("nested more than").count(), 1, "{cut}");
            }
        }
        let mark: String = serde_json::from_slice(MARK_JSON).unwrap();
        assert_eq!(mark, MARK);
    }

    proptest::proptest! {
        #[test]
        fn pieces_make_no_difference(text in r#"[\[\]{}"\\ax,:]{0,400}"#, size in 1_usize..50) {
            proptest::prop_assert_eq!(passed(&text, size), passed(&text, usize::MAX));
        }
    }
}
