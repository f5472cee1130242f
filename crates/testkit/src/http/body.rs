//! Bodies of replies: whole, or streamed through a channel.

use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Error;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::mpsc;

/// The body of a reply. An error in it closes the connection without the proper end, as a server that dies does.
pub(crate) type Body = BoxBody<Bytes, Error>;

/// The writing end of a streamed body.
pub(crate) type BodySender = mpsc::Sender<Result<Bytes, Error>>;

/// A body that is known as a whole.
pub(crate) fn bytes_body(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

/// A body whose pieces are sent through the channel; it ends when the sender is dropped.
pub(crate) fn stream_body() -> (BodySender, Body) {
    // A few pieces of slack: the source must not run far ahead of a slow reader.
    let (sender, receiver) = mpsc::channel(4);
    (sender, Received(receiver).boxed())
}

struct Received(mpsc::Receiver<Result<Bytes, Error>>);

impl HttpBody for Received {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.0
            .poll_recv(context)
            .map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
