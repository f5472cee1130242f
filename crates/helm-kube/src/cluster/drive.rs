//! Drives step machines: sends what they ask for, sleeps where they wait.

use jiff::Timestamp;

use super::Cluster;
use crate::machine::{Machine, Step, Wait};
use crate::request::Reply;

/// Where a machine stands after [`Cluster::advance`].
#[derive(Debug)]
pub enum Halt<T> {
    /// It waits: keep it without a worker, and [`resume`](Cluster::resume) it after
    /// [`Wait::after`], or as soon as one of the objects changes.
    Waiting(Wait, Machine<T>),
    /// It is over.
    Done(T),
}

impl Cluster {
    /// Starts a machine and sends its requests until it waits or is over.
    pub async fn advance<T>(&self, machine: Machine<T>) -> Halt<T> {
        self.drive(machine.start(Timestamp::now())).await
    }

    /// Goes on with a machine that waited.
    pub async fn resume<T>(&self, machine: Machine<T>) -> Halt<T> {
        self.drive(machine.next(Timestamp::now(), Ok(Reply::Woken)))
            .await
    }

    /// Runs a machine to its end, sleeping where it waits.
    pub async fn run<T>(&self, machine: Machine<T>) -> T {
        let mut halt = self.advance(machine).await;
        loop {
            match halt {
                Halt::Done(result) => return result,
                Halt::Waiting(wait, machine) => {
                    tokio::time::sleep(wait.after).await;
                    halt = self.resume(machine).await;
                }
            }
        }
    }

    async fn drive<T>(&self, mut step: Step<T>) -> Halt<T> {
        loop {
            match step {
                Step::Done(result) => return Halt::Done(result),
                Step::Wait(wait, machine) => return Halt::Waiting(wait, machine),
                Step::Request(request, machine) => {
                    let response = self.send(request).await;
                    step = machine.next(Timestamp::now(), response);
                }
            }
        }
    }
}
