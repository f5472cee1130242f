//! Actions as step machines: `(state, answer) → (state, one request)`.
//!
//! An action is written as a plain sequence of steps over a [`Port`], and becomes a [`Machine`]:
//! a value that asks for one thing at a time and goes on when it is told the answer. It does no
//! I/O, knows no clock but the times that it is told, and can be dropped at any step: what it has
//! done so far is in the cluster, and [`recover`](crate::recover) goes on from there. Tests play
//! the API server and can stop it before and after every request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;

use crate::error::ActionError;
use crate::object::ObjectKey;
use crate::request::{Call, Failure, Reply, Request, Response};

/// An action, stopped between two steps.
pub struct Machine<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    port: Port,
}

/// What a machine wants next.
#[derive(Debug)]
pub enum Step<T> {
    /// Send this, and go on with the answer.
    Request(Request, Machine<T>),
    /// Wait, and go on with [`Reply::Woken`]. No request is in flight: the machine may be kept
    /// anywhere, for any time, without a worker.
    Wait(Wait, Machine<T>),
    /// The action is over.
    Done(T),
}

/// Something that a machine waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What is waited for.
    pub reason: WaitReason,
    /// The objects that are not yet as they should be.
    pub objects: Vec<ObjectKey>,
    /// Look again after this time, or earlier if one of the objects changes.
    pub after: Duration,
    /// When the machine gives up by itself.
    pub deadline: Timestamp,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Objects are to become ready.
    Readiness,
    /// Objects are to go away.
    Deletion,
    /// A hook or a test is to end.
    Hook,
    /// Custom resource definitions are to be served.
    Established,
}

impl<T> Machine<T> {
    /// Makes a machine of a sequence of steps.
    pub(crate) fn new<F>(steps: impl FnOnce(Port) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let port = Port::default();
        Self {
            future: Box::pin(steps(port.clone())),
            port,
        }
    }

    /// Takes the first step.
    pub fn start(self, now: Timestamp) -> Step<T> {
        self.advance(now, None)
    }

    /// Tells the answer to the last request, or the end of the last wait, and takes the next step.
    pub fn next(self, now: Timestamp, response: Response) -> Step<T> {
        self.advance(now, Some(response))
    }

    fn advance(mut self, now: Timestamp, response: Option<Response>) -> Step<T> {
        self.port.tell(now, response);
        let mut context = Context::from_waker(Waker::noop());
        match self.future.as_mut().poll(&mut context) {
            Poll::Ready(result) => Step::Done(result),
            Poll::Pending => match self.port.take_effect() {
                Effect::Request(request) => Step::Request(request, self),
                Effect::Wait(wait) => Step::Wait(wait, self),
            },
        }
    }
}

impl<T> fmt::Debug for Machine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

/// The only way in and out of a machine.
#[derive(Clone, Default)]
pub(crate) struct Port(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    now: Timestamp,
    effect: Option<Effect>,
    response: Option<Response>,
}

enum Effect {
    Request(Request),
    Wait(Wait),
}

impl Port {
    /// The time that was told with the last answer.
    pub(crate) fn now(&self) -> Timestamp {
        self.slot().now
    }

    /// Asks for something.
    pub(crate) async fn send(&self, request: Request) -> Response {
        self.exchange(Effect::Request(request)).await
    }

    /// Makes a call; a failure is told with what the call was for.
    pub(crate) async fn call(&self, call: Call) -> Result<Reply, ActionError> {
        let what = call.what.clone();
        self.try_call(call)
            .await
            .map_err(|failure| ActionError::from_failure(&what, &failure))
    }

    /// Makes a call; the caller looks at the failure.
    pub(crate) async fn try_call(&self, call: Call) -> Response {
        self.send(Request::Call(call)).await
    }

    /// Waits.
    pub(crate) async fn wait(&self, wait: Wait) {
        // Whatever wakes it, the machine looks for itself.
        self.exchange(Effect::Wait(wait)).await.ok();
    }

    fn exchange(&self, effect: Effect) -> Exchange {
        Exchange {
            port: self.clone(),
            effect: Some(effect),
        }
    }

    fn tell(&self, now: Timestamp, response: Option<Response>) {
        let mut slot = self.slot();
        slot.now = now;
        slot.response = response;
    }

    fn take_effect(&self) -> Effect {
        let deadline = self.now();
        self.slot().effect.take().unwrap_or(Effect::Wait(Wait {
            reason: WaitReason::Readiness,
            objects: Vec::new(),
            after: Duration::from_secs(1),
            deadline,
        }))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One question and its answer.
struct Exchange {
    port: Port,
    effect: Option<Effect>,
}

impl Future for Exchange {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Response> {
        let effect = self.effect.take();
        let mut slot = self.port.slot();
        if effect.is_some() {
            slot.effect = effect;
            return Poll::Pending;
        }
        match slot.response.take() {
            Some(response) => Poll::Ready(response),
            None => Poll::Pending,
        }
    }
}

/// An answer that makes no sense to the question: a fault of whoever drives the machine.
pub(crate) fn unexpected(what: &str) -> ActionError {
    let failure = Failure::Undecodable("an answer of another kind than the request".to_owned());
    ActionError::from_failure(what, &failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine<String> {
        Machine::new(|port| async move {
            let first = port.send(Request::Discover { fresh: false }).await;
            let at = port.now();
            port.wait(Wait {
                reason: WaitReason::Hook,
                objects: Vec::new(),
                after: Duration::from_secs(2),
                deadline: at,
            })
            .await;
            let second = port.send(Request::Discover { fresh: true }).await;
            format!("{} {} {}", first.is_ok(), second.is_ok(), port.now() - at)
        })
    }

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_machine_asks_for_one_thing_at_a_time() {
        let Step::Request(Request::Discover { fresh: false }, machine) = machine().start(second(1))
        else {
            panic!("no request")
        };
        let lost = Err(Failure::Transport("reset".to_owned()));
        let Step::Wait(wait, machine) = machine.next(second(2), lost) else {
            panic!("no wait")
        };
        assert_eq!(wait.after, Duration::from_secs(2));
        let woken = machine.next(second(4), Ok(Reply::Woken));
        let Step::Request(Request::Discover { fresh: true }, machine) = woken else {
            panic!("no second request")
        };
        let Step::Done(text) = machine.next(second(5), Ok(Reply::Text(String::new()))) else {
            panic!("not done")
        };
        assert_eq!(text, "false true PT3S");
    }

    #[test]
    fn a_machine_can_be_dropped_between_any_two_steps() {
        let Step::Request(_, machine) = machine().start(second(1)) else {
            panic!("no request")
        };
        drop(machine);
    }
}
