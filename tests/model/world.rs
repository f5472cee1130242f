//! An operator with one release, its API server, and the time.
//!
//! The operator is that of `src/operator` without its tasks and sockets: the same decision, the same
//! status, the same actions, and between them the few lines that carry results from one to the next.

use std::sync::Arc;
use std::time::Duration;

use helm_engine::Status;
use helm_kube::{
    ActionError, Catalog, Class, DIGEST, Deploy, Driver, Failure, History, HookFilter, Interrupted,
    Machine, NextAction, Options, Outcome, RecoverContext, RecoveryPlan, ReleaseKey, Reply,
    Request, Response, Resume, Rollback, Step, Test, Uninstall, history, install, mend, recover,
    resume, rollback, test as run_tests, uninstall, upgrade,
};
use helm_operator::api::{
    ANTECEDENT_ANNOTATION, ConditionType, HelmReleaseStatus, NamespacedName, Reason,
};
use helm_operator::operator::{Action, Attempt, Desired, decide, is_retried};
use helm_operator::status::{Failure as StatusFailure, Progress, StatusEdit};
use jiff::Timestamp;

use crate::charts::{Chart, OWNER};
use crate::faults::{Fault, Faults, describe};
use crate::server::{Server, catalog, refuse};

/// No action needs more steps than this, however many requests fail: a wait gives up after five
/// minutes, and looks every few seconds.
const MOST_STEPS: usize = 600;

/// What the HelmRelease says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) chart: Chart,
    /// `rollback.enable`
    pub(crate) rollback: bool,
    /// `rollback.retry` with `maxRetries: 2`
    pub(crate) retry: bool,
    /// `retry.limit`
    pub(crate) limit: Option<i64>,
    /// `test.enable`
    pub(crate) test: bool,
}

impl Spec {
    pub(crate) fn of(chart: Chart) -> Self {
        Self {
            chart,
            rollback: false,
            retry: false,
            limit: None,
            test: false,
        }
    }
}

/// Everything there is.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) spec: Spec,
    pub(crate) generation: i64,
    pub(crate) status: HelmReleaseStatus,
    /// Histories as a watch has shown them, newest last.
    seen: Vec<History>,
    catalog: Arc<Catalog>,
    now: Timestamp,
    release: ReleaseKey,
    options: Options,
    /// The requests of this sync so far.
    pub(crate) asked: usize,
}

/// Why a sync did not come to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    Crashed,
    Failed(ActionError),
}

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Settled,
    Held,
    Waiting,
    Failed,
}

type Ended<T> = Result<T, Stop>;

impl World {
    pub(crate) fn new(spec: Spec) -> Self {
        Self {
            server: Server::default(),
            spec,
            generation: 1,
            status: HelmReleaseStatus::default(),
            seen: Vec::new(),
            catalog: Arc::new(catalog()),
            now: Timestamp::from_second(1_000_000).unwrap(),
            release: ReleaseKey::new("web", "shop"),
            options: Options {
                max_history: 5,
                ..Options::default()
            },
            asked: 0,
        }
    }

    /// A person changes the spec.
    pub(crate) fn change(&mut self, spec: Spec) {
        self.spec = spec;
        self.generation += 1;
    }

    fn tick(&mut self) -> Timestamp {
        self.now += Duration::from_millis(10);
        self.now
    }

    /// Runs a machine to its end, or to a crash.
    fn run<T>(&mut self, machine: Machine<Result<T, ActionError>>, faults: &Faults) -> Ended<T> {
        let mut step = machine.start(self.tick());
        for _ in 0..MOST_STEPS {
            step = match step {
                Step::Done(result) => return result.map_err(Stop::Failed),
                Step::Wait(wait, machine) => {
                    self.now += wait.after;
                    machine.next(self.now, Ok(Reply::Woken))
                }
                Step::Request(Request::Discover { .. }, machine) => {
                    let catalog = Reply::Catalog(Arc::clone(&self.catalog));
                    machine.next(self.tick(), Ok(catalog))
                }
                Step::Request(Request::Call(call), machine) => {
                    self.asked += 1;
                    let fault = faults.of(self.asked, &describe(&call));
                    let answer = self.answer(fault, |server| server.answer(&call))?;
                    machine.next(self.tick(), answer)
                }
            };
        }
        panic!("an action takes more than {MOST_STEPS} steps");
    }

    /// What a request comes to.
    fn answer(
        &mut self,
        fault: Option<Fault>,
        mut ask: impl FnMut(&mut Server) -> Response,
    ) -> Ended<Response> {
        let lost = || Err(Failure::Transport("reset".to_owned()));
        let server = &mut self.server;
        Ok(match fault {
            None => ask(server),
            Some(Fault::CrashBefore) => return Err(Stop::Crashed),
            Some(Fault::CrashAfter) => {
                ask(server).ok();
                return Err(Stop::Crashed);
            }
            Some(Fault::Reset) => lost(),
            Some(Fault::LostAnswer) => {
                ask(server).ok();
                lost()
            }
            Some(Fault::Repeated) => {
                ask(server).ok();
                ask(server)
            }
            Some(Fault::Unavailable) => refuse(503, "ServiceUnavailable"),
            Some(Fault::Internal) => refuse(500, "InternalError"),
            Some(Fault::TimeoutAfter) => {
                ask(server).ok();
                refuse(504, "Timeout")
            }
            Some(Fault::Throttled) => refuse(429, "TooManyRequests"),
            Some(Fault::Conflict) => refuse(409, "Conflict"),
            Some(Fault::Forbidden) => refuse(403, "Forbidden"),
            Some(Fault::Invalid) => refuse(422, "Invalid"),
        })
    }

    /// Writes the status; a failure to do so stops nothing.
    fn publish(&mut self, status: HelmReleaseStatus, faults: &Faults) -> Ended<()> {
        if self.status == status {
            return Ok(());
        }
        self.asked += 1;
        let fault = faults.of(self.asked, "Patch helmreleases/web/status");
        let mut sent = false;
        let answer = self.answer(fault, |server| {
            sent = true;
            server.writes += 1;
            Ok(Reply::Woken)
        });
        if sent {
            self.status = status;
        }
        answer.map(|_| ())
    }

    /// The history as the API server has it.
    pub(crate) fn history(&mut self) -> History {
        let read = history(self.release.clone(), Driver::Secret);
        let asked = self.asked;
        let history = self.run(read, &Faults::NONE).unwrap();
        self.asked = asked;
        history
    }

    fn plan(&self, history: &History, digest: Option<&str>) -> RecoveryPlan {
        recover(
            history,
            &RecoverContext {
                now: self.now,
                holder: &self.options.holder,
                digest,
                patience: self.options.patience,
            },
        )
    }

    fn resumed(&self, history: History, plan: RecoveryPlan) -> Resume {
        Resume {
            release: self.release.clone(),
            history,
            plan,
            options: self.options.clone(),
        }
    }

    /// One sync. `age` is how many syncs ago the watch has stopped telling of records.
    pub(crate) fn sync(&mut self, faults: &Faults, age: usize) -> Ended<End> {
        self.asked = 0;
        let fresh = self.history();
        self.seen.push(fresh);
        let at = self.seen.len().saturating_sub(1 + age);
        let history = self.seen[at].clone();
        self.server.lags = age > 0;
        let mut sync = Sync::new(self, faults);
        let end = sync.steps(history)?;
        let status = sync.edit.finish();
        self.publish(status, faults)?;
        Ok(end)
    }

    /// A rollback by hand: each such client has a name of its own, and waits for nobody.
    pub(crate) fn roll_back(&mut self, to: Option<i64>, faults: &Faults) -> Ended<()> {
        self.asked = 0;
        let ours = self.options.clone();
        self.options.holder = format!("a person at {}", self.tick());
        self.options.patience = Duration::ZERO;
        let history = self.history();
        let plan = self.plan(&history, None);
        let rollback = self.rollback_to(to, history, plan);
        self.options = ours;
        self.run(rollback, faults).map(|_| ())
    }

    /// Whether the newest of more than two revisions is deployed.
    pub(crate) fn is_rolled_back(&mut self) -> bool {
        let history = self.history();
        let newest = history.newest();
        newest.is_some_and(|newest| newest.revision > 2 && newest.status == Status::Deployed)
    }

    fn rollback_to(
        &self,
        to: Option<i64>,
        history: History,
        plan: RecoveryPlan,
    ) -> Machine<Result<Outcome, ActionError>> {
        let newest = history.newest().map_or(0, |newest| newest.revision);
        let target = match to {
            Some(to) => history.get(to),
            None => history.last_good_before(newest),
        };
        let digest = target.and_then(|target| target.annotations.get(DIGEST));
        let mut annotations: std::collections::BTreeMap<_, _> =
            [(ANTECEDENT_ANNOTATION.to_owned(), OWNER.to_owned())].into();
        annotations.extend(digest.map(|digest| (DIGEST.to_owned(), digest.clone())));
        rollback(Rollback {
            release: self.release.clone(),
            history,
            plan,
            to,
            description: None,
            annotations,
            options: self.options.clone(),
        })
    }

    /// An uninstall.
    pub(crate) fn uninstall(&mut self, keep_history: bool, faults: &Faults) -> Ended<()> {
        self.asked = 0;
        self.take_away(keep_history, faults)
    }

    fn take_away(&mut self, keep_history: bool, faults: &Faults) -> Ended<()> {
        let history = self.history();
        let plan = self.plan(&history, None);
        let action = Uninstall {
            release: self.release.clone(),
            history,
            plan,
            keep_history,
            description: None,
            options: self.options.clone(),
        };
        self.run(uninstall(action), faults).map(|_| ())
    }

    /// The tests, by hand.
    pub(crate) fn test(&mut self, faults: &Faults) -> Ended<()> {
        self.asked = 0;
        let history = self.history();
        self.run(self.tests(history), faults).map(|_| ())
    }

    fn tests(&self, history: History) -> Machine<Result<Outcome, ActionError>> {
        run_tests(Test {
            release: self.release.clone(),
            history,
            filter: HookFilter::default(),
            options: self.options.clone(),
        })
    }

    /// Another client upgrades and is killed among its objects.
    pub(crate) fn foreign(&mut self) {
        let history = self.history();
        let plan = self.plan(&history, None);
        let NextAction::Upgrade { .. } = plan.next else {
            return;
        };
        let mut desired = Chart::Good(1).desired();
        desired.annotations.clear();
        let deploy = Deploy {
            release: self.release.clone(),
            history,
            plan,
            desired,
            options: Options {
                holder: "somebody else".to_owned(),
                ..self.options.clone()
            },
        };
        self.asked = 0;
        let killed = Faults::one(6, Fault::CrashAfter);
        self.run(upgrade(deploy), &killed).ok();
    }

    /// Names of the live ConfigMaps.
    pub(crate) fn objects(&self) -> Vec<String> {
        let maps = self.server.list("configmaps");
        maps.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn uid(&self, name: &str) -> Option<String> {
        let mut all = self.server.list("configmaps");
        let found = all.find(|object| object["metadata"]["name"] == name)?;
        Some(found["metadata"]["uid"].to_string())
    }
}

/// A sync under way: `operator::reconcile::Sync`.
struct Sync<'a> {
    world: &'a mut World,
    faults: &'a Faults,
    before: HelmReleaseStatus,
    edit: StatusEdit,
    digest: String,
}

impl<'a> Sync<'a> {
    fn new(world: &'a mut World, faults: &'a Faults) -> Self {
        let before = world.status.clone();
        let key = NamespacedName::new("shop", "web");
        let edit = StatusEdit::new(before.clone(), key, world.generation, world.now);
        let digest = world.spec.chart.digest();
        Self {
            world,
            faults,
            before,
            edit,
            digest,
        }
    }

    fn is_renewed(&self) -> bool {
        self.before.observed_generation < Some(self.world.generation)
    }

    fn decide(&self, history: &History, next: NextAction) -> Action {
        let desired = Desired {
            digest: &self.digest,
            owner: OWNER,
            rollback: self.world.spec.rollback,
            test: self.world.spec.test,
        };
        let attempt = Attempt {
            digest: self.before.last_attempted_digest.as_deref(),
            succeeded: self.before.digest.as_deref(),
            failures: u32::try_from(self.before.failures.unwrap_or(0)).unwrap(),
            stalled: self.before.is_true(ConditionType::Stalled),
            renewed: self.is_renewed(),
            inherited: false,
        };
        // What another client deploys here is never what is wanted.
        decide(desired, history, attempt, next, Some("another client's"))
    }

    fn steps(&mut self, history: History) -> Ended<End> {
        let plan = self.world.plan(&history, Some(&self.digest));
        let action = self.decide(&history, plan.next);
        if plan.has_mending() && matches!(action, Action::Nothing | Action::Hold | Action::Test) {
            let mend = mend(self.world.resumed(history.clone(), plan.clone()));
            if let Err(error) = self.carry_out(mend)? {
                return Ok(self.failed_before(&error));
            }
        }
        match action {
            Action::Nothing => Ok(self.settle()),
            Action::Hold => Ok(End::Held),
            Action::Install | Action::Upgrade => self.deploy(history, plan),
            Action::Resume(interrupted) => self.resume(interrupted, history, plan),
            Action::RollBack => {
                let failure = self.known_failure();
                self.roll_back(failure)
            }
            Action::Test => self.test(history),
            Action::TakeBack => self.take_back(),
            Action::WaitUntil(until) => {
                self.edit.source_pending("OperationInProgress", "wait");
                self.world.now = until;
                Ok(End::Waiting)
            }
            Action::Compare | Action::Refuse => unreachable!("{action:?}"),
        }
    }

    /// A crash ends everything; a failure is told.
    fn carry_out<T>(
        &mut self,
        machine: Machine<Result<T, ActionError>>,
    ) -> Ended<Result<T, ActionError>> {
        match self.world.run(machine, self.faults) {
            Ok(done) => Ok(Ok(done)),
            Err(Stop::Failed(error)) => Ok(Err(error)),
            Err(Stop::Crashed) => Err(Stop::Crashed),
        }
    }

    fn begin(&mut self, progress: Progress) -> Ended<()> {
        let renewed = self.is_renewed();
        let fields = self.edit.fields();
        if fields.last_attempted_digest.as_deref() != Some(&self.digest) {
            fields.failures = None;
            fields.rollback_count = None;
        }
        if renewed {
            fields.rollback_count = None;
        }
        fields.last_attempted_digest = Some(self.digest.clone());
        self.edit.begin(progress, Duration::from_secs(300));
        self.publish()
    }

    fn publish(&mut self) -> Ended<()> {
        let status = self.edit.clone().into_status();
        self.world.publish(status, self.faults)
    }

    fn deploy(&mut self, history: History, plan: RecoveryPlan) -> Ended<End> {
        let is_install = matches!(plan.next, NextAction::Install { .. });
        let deploy = Deploy {
            release: self.world.release.clone(),
            history,
            plan,
            desired: self.world.spec.chart.desired(),
            options: self.world.options.clone(),
        };
        let (progress, machine) = if is_install {
            (Progress::Installing, install(deploy))
        } else {
            (Progress::Upgrading, upgrade(deploy))
        };
        self.begin(progress)?;
        let result = self.carry_out(machine)?;
        self.after_deploy(result, is_install)
    }

    fn resume(
        &mut self,
        interrupted: Interrupted,
        history: History,
        plan: RecoveryPlan,
    ) -> Ended<End> {
        let failure = self.known_failure();
        let is_of_these = self.before.last_attempted_digest.as_deref() == Some(&self.digest);
        self.begin(match interrupted {
            Interrupted::Install => Progress::Installing,
            Interrupted::Upgrade => Progress::Upgrading,
            Interrupted::Rollback => Progress::RollingBack,
        })?;
        let resume = resume(self.world.resumed(history, plan));
        let result = self.carry_out(resume)?;
        if interrupted == Interrupted::Rollback {
            if result.is_ok() && !is_of_these {
                return Ok(End::Waiting);
            }
            return Ok(self.after_rollback(result, failure));
        }
        self.after_deploy(result, interrupted == Interrupted::Install)
    }

    fn after_deploy(
        &mut self,
        result: Result<Outcome, ActionError>,
        is_install: bool,
    ) -> Ended<End> {
        let Err(error) = result else {
            self.edit.deployed();
            if self.world.spec.test {
                let history = self.world.history();
                return self.test_after(history, is_install);
            }
            return Ok(self.settle());
        };
        if error.resumable {
            self.edit.deploy_failed(&told(&error, true));
            return Ok(End::Failed);
        }
        let failures = self.count_failure();
        let failure = told(&error, is_retried(&error, failures, self.world.spec.limit));
        self.edit.deploy_failed(&failure);
        if !is_install && self.world.spec.rollback && error.revision.is_some() {
            self.publish()?;
            return self.roll_back(failure);
        }
        Ok(End::Failed)
    }

    fn count_failure(&mut self) -> i64 {
        let same = self.before.last_attempted_digest.as_deref() == Some(&self.digest);
        let earlier = self.before.failures.filter(|_| same && !self.is_renewed());
        let failures = earlier.unwrap_or(0) + 1;
        self.edit.fields().failures = Some(failures);
        failures
    }

    fn roll_back(&mut self, failure: StatusFailure) -> Ended<End> {
        let history = self.world.history();
        let newest = history.newest().map_or(0, |newest| newest.revision);
        if history.last_good_before(newest).is_none() {
            return Ok(End::Failed);
        }
        self.begin(Progress::RollingBack)?;
        let plan = self.world.plan(&history, None);
        let rollback = self.world.rollback_to(None, history, plan);
        let result = self.carry_out(rollback)?;
        Ok(self.after_rollback(result, failure))
    }

    fn after_rollback(
        &mut self,
        result: Result<Outcome, ActionError>,
        failure: StatusFailure,
    ) -> End {
        match result {
            Ok(_) => {
                let count = self.edit.status().rollback_count.unwrap_or(0) + 1;
                let retried = self.world.spec.retry && count <= 2;
                self.edit.rolled_back(&StatusFailure { retried, ..failure });
            }
            Err(error) => self.edit.rollback_failed(&told(&error, true)),
        }
        End::Failed
    }

    fn known_failure(&self) -> StatusFailure {
        StatusFailure::stalled(Reason::UpgradeFailed, "upgrade failed")
    }

    fn test(&mut self, history: History) -> Ended<End> {
        let newest = history.newest().map_or(0, |newest| newest.revision);
        let is_first = history.last_good_before(newest).is_none();
        self.test_after(history, is_first)
    }

    fn test_after(&mut self, history: History, is_install: bool) -> Ended<End> {
        self.begin(Progress::Testing)?;
        let tests = self.world.tests(history);
        let Err(error) = self.carry_out(tests)? else {
            self.edit.tested();
            return Ok(self.settle());
        };
        if error.resumable || error.class() == Class::Transient {
            self.edit.test_failed(&told(&error, true), false);
            return Ok(End::Failed);
        }
        let failures = self.count_failure();
        let as_failed = ActionError::new(helm_kube::Reason::TestFailed, "");
        let retried = is_retried(&as_failed, failures, self.world.spec.limit);
        let failure = told(&error, retried);
        self.edit.test_failed(&failure, false);
        self.publish()?;
        if is_install {
            if self.take_back()? == End::Failed {
                return Ok(End::Failed);
            }
        } else if self.world.spec.rollback {
            return self.roll_back(failure);
        }
        Ok(End::Failed)
    }

    fn take_back(&mut self) -> Ended<End> {
        match self.world.take_away(false, self.faults) {
            Err(Stop::Crashed) => Err(Stop::Crashed),
            Err(Stop::Failed(error)) => {
                self.edit.uninstall_failed(&told(&error, true));
                Ok(End::Failed)
            }
            Ok(()) => Ok(End::Held),
        }
    }

    fn failed_before(&mut self, error: &ActionError) -> End {
        self.edit.failed(&told(error, true));
        End::Failed
    }

    fn settle(&mut self) -> End {
        let is_known = self.before.is_true(ConditionType::Ready)
            && self.before.digest.as_deref() == Some(&self.digest);
        if !is_known || self.is_renewed() {
            self.edit.succeeded(Reason::UpToDate, "up to date");
            let fields = self.edit.fields();
            fields.digest = Some(self.digest.clone());
            fields.last_attempted_digest = Some(self.digest.clone());
        }
        End::Settled
    }
}

fn told(error: &ActionError, retried: bool) -> StatusFailure {
    StatusFailure {
        reason: error.reason.to_string(),
        message: error.message.clone(),
        retried,
    }
}

/// The chart of the deployed revision, if there is exactly one such revision.
pub(crate) fn deployed(history: &History) -> Option<Chart> {
    let mut all = history
        .revisions()
        .iter()
        .filter(|found| found.status == Status::Deployed);
    let only = all.next().filter(|_| all.next().is_none())?;
    only.annotations
        .get(DIGEST)
        .map(|digest| Chart::of_digest(digest))
}
