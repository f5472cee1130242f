use std::sync::Arc;

use super::*;
use Priority::{Changed, Periodic};

fn key(text: &str) -> NamespacedName {
    let (namespace, name) = text.split_once('/').unwrap_or(("demo", text));
    NamespacedName::new(namespace, name)
}

async fn take(queue: &Queue) -> String {
    queue.take().await.unwrap().key.to_string()
}

async fn nothing(queue: &Queue) -> bool {
    tokio::time::timeout(Duration::from_millis(1), queue.take())
        .await
        .is_err()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_queued_once() {
    let queue = Queue::default();
    for _ in 0..3 {
        queue.add(key("a"), Changed);
        queue.add(key("a"), Periodic);
    }
    assert_eq!(queue.len(), 1);
    assert_eq!(take(&queue).await, "demo/a");
    queue.done(&key("a"));
    assert!(nothing(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_while_it_is_worked_on_is_taken_again_afterwards() {
    let queue = Queue::default();
    queue.add(key("a"), Changed);
    take(&queue).await;
    queue.add(key("a"), Changed);
    queue.add(key("a"), Changed);
    assert!(nothing(&queue).await);
    queue.done(&key("a"));
    assert_eq!(take(&queue).await, "demo/a");
    queue.done(&key("a"));
    assert!(nothing(&queue).await);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_claimed_when_nobody_works_on_it_or_is_about_to() {
    let queue = Queue::default();
    queue.add(key("a"), Changed);
    assert!(!queue.claim(&key("a")), "its turn comes");
    take(&queue).await;
    assert!(!queue.claim(&key("a")), "it is worked on");
    queue.done(&key("a"));
    queue.add_after(key("a"), Duration::from_secs(1), Periodic);
    assert!(queue.claim(&key("a")));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(nothing(&queue).await, "it is claimed");
    queue.done(&key("a"));
    assert_eq!(take(&queue).await, "demo/a");
}

#[tokio::test(start_paused = true)]
async fn changes_go_before_periodic_work_and_do_not_starve_it() {
    let queue = Queue::default();
    for number in 0..20 {
        queue.add(key(&format!("p/{number}")), Periodic);
        queue.add(key(&format!("c/{number}")), Changed);
    }
    let mut order = String::new();
    for _ in 0..16 {
        order.push_str(&take(&queue).await[..1]);
    }
    assert_eq!(order, "cccccccpcccccccp");
}

#[tokio::test(start_paused = true)]
async fn periodic_work_that_turns_out_changed_moves_ahead() {
    let queue = Queue::default();
    queue.add(key("a"), Periodic);
    queue.add(key("b"), Periodic);
    queue.add(key("b"), Changed);
    let first = queue.take().await.unwrap();
    assert_eq!((first.key, first.priority), (key("b"), Changed));
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns() {
    let queue = Queue::default();
    for name in ["big/1", "big/2", "big/3", "small/1", "tiny/1"] {
        queue.add(key(name), Changed);
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(take(&queue).await);
    }
    assert_eq!(order, ["big/1", "small/1", "tiny/1", "big/2", "big/3"]);
}

#[tokio::test(start_paused = true)]
async fn repositories_take_turns_across_namespaces() {
    let queue = Queue::default();
    for number in 0..4 {
        let release = key(&format!("team{number}/mono"));
        queue.assign(&release, "https://git.example.com/mono");
        queue.add(release, Changed);
    }
    // A namespace that is in the middle of the storm does not wait for its end.
    for name in ["team3/own", "other/own"] {
        queue.assign(&key(name), "https://git.example.com/own");
        queue.add(key(name), Changed);
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(take(&queue).await);
    }
    assert_eq!(
        order,
        [
            "team0/mono",
            "team1/mono",
            "team3/own",
            "other/own",
            "team2/mono",
            "team3/mono"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_changes_all_the_time_does_not_keep_another_waiting() {
    let queue = Queue::default();
    for number in 0..3 {
        queue.add(key(&format!("calm/{number}")), Changed);
    }
    queue.add(key("busy/a"), Changed);
    let mut order = Vec::new();
    for _ in 0..6 {
        let next = take(&queue).await;
        if next == "busy/a" {
            queue.done(&key("busy/a"));
            queue.add(key("busy/a"), Changed);
        }
        order.push(next);
    }
    let calm = order.iter().filter(|key| key.starts_with("calm")).count();
    assert_eq!(calm, 3, "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_come_in_their_time_and_a_change_does_not_wait() {
    let queue = Queue::default();
    let started = Instant::now();
    queue.add_after(key("late"), Duration::from_secs(60), Periodic);
    queue.add_after(key("soon"), Duration::from_secs(5), Periodic);
    queue.add_after(key("late"), Duration::from_secs(90), Periodic);
    assert!(queue.is_empty());
    assert_eq!(take(&queue).await, "demo/soon");
    assert_eq!(started.elapsed(), Duration::from_secs(5));
    queue.add(key("late"), Changed);
    assert_eq!(take(&queue).await, "demo/late");
    assert_eq!(started.elapsed(), Duration::from_secs(5));
    queue.done(&key("late"));
    queue.add_after(key("late"), Duration::from_secs(90), Periodic);
    queue.add_after(key("late"), Duration::from_secs(10), Periodic);
    assert_eq!(take(&queue).await, "demo/late");
    assert_eq!(started.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_plan_the_next_visit_before_it_is_done() {
    let queue = Queue::default();
    queue.add(key("a"), Changed);
    take(&queue).await;
    queue.add_after(key("a"), Duration::from_secs(180), Periodic);
    queue.done(&key("a"));
    assert!(nothing(&queue).await);
    let started = Instant::now();
    assert_eq!(take(&queue).await, "demo/a");
    assert!(started.elapsed() > Duration::from_secs(170));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_becomes_due_while_it_is_worked_on_waits_for_that() {
    let queue = Queue::default();
    queue.add(key("a"), Changed);
    take(&queue).await;
    queue.add_after(key("a"), Duration::from_secs(1), Periodic);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(nothing(&queue).await);
    queue.done(&key("a"));
    assert_eq!(take(&queue).await, "demo/a");
}

#[tokio::test(start_paused = true)]
async fn every_waiting_worker_hears_of_a_key_and_of_the_end() {
    let queue = std::sync::Arc::new(Queue::default());
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = std::sync::Arc::clone(&queue);
            tokio::spawn(async move { queue.take().await.map(|taken| taken.key.to_string()) })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add(key("a"), Changed);
    queue.add(key("b"), Changed);
    tokio::time::sleep(Duration::from_millis(1)).await;
    queue.close();
    let mut results = Vec::new();
    for worker in workers {
        results.push(worker.await.unwrap());
    }
    results.sort();
    assert_eq!(
        results,
        [None, Some("demo/a".to_owned()), Some("demo/b".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_key_is_not_given_out() {
    let queue = Queue::default();
    queue.add(key("a"), Changed);
    queue.add_after(key("b"), Duration::from_millis(1), Changed);
    queue.forget(&key("a"));
    queue.forget(&key("b"));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(nothing(&queue).await);
}

/// S-35: eight threads add, take and forget the same keys: no key is worked on twice at once, and a key that was
/// added last is taken.
#[test]
fn s35_a_key_is_never_worked_on_twice_at_once_and_none_is_lost() {
    use std::sync::atomic::{AtomicU32, Ordering};
    const KEYS: usize = 16;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(8)
        .enable_time()
        .build()
        .unwrap();
    let queue = Arc::new(Queue::default());
    let busy: Arc<[AtomicU32; KEYS]> = Arc::default();
    let taken: Arc<[AtomicU32; KEYS]> = Arc::default();
    let keys: Vec<_> = (0..KEYS)
        .map(|number| NamespacedName::new(format!("n{}", number % 3), number.to_string()))
        .collect();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (queue, busy, taken) = (queue.clone(), busy.clone(), taken.clone());
            runtime.spawn(async move {
                while let Some(Taken { key, .. }) = queue.take().await {
                    let at: usize = key.name.parse().unwrap();
                    assert_eq!(busy[at].fetch_add(1, Ordering::SeqCst), 0, "{key} twice");
                    taken[at].fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    busy[at].fetch_sub(1, Ordering::SeqCst);
                    queue.done(&key);
                }
            })
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (queue, keys, busy) = (&queue, &keys, &busy);
            scope.spawn(move || {
                for round in 0..5_000_usize {
                    let key = keys[(round * 7 + thread) % KEYS].clone();
                    match round % 11 {
                        2 => {
                            if queue.claim(&key) {
                                let at = (round * 7 + thread) % KEYS;
                                assert_eq!(
                                    busy[at].fetch_add(1, Ordering::SeqCst),
                                    0,
                                    "{key} twice"
                                );
                                busy[at].fetch_sub(1, Ordering::SeqCst);
                                queue.done(&key);
                            }
                        }
                        0 => queue.forget(&key),
                        1 => queue.add_after(key, Duration::ZERO, Priority::Periodic),
                        _ => queue.add(key, Priority::Changed),
                    }
                }
            });
        }
    });
    let before: Vec<u32> = taken
        .iter()
        .map(|count| count.load(Ordering::SeqCst))
        .collect();
    keys.iter()
        .for_each(|key| queue.add(key.clone(), Priority::Changed));
    let end = std::time::Instant::now() + Duration::from_secs(30);
    let all_taken = || {
        let counts = taken.iter().map(|count| count.load(Ordering::SeqCst));
        counts.zip(&before).all(|(now, before)| now > *before)
    };
    while !all_taken() || queue.active() > 0 || !queue.is_empty() {
        assert!(std::time::Instant::now() < end, "a key was lost");
        std::thread::yield_now();
    }
    queue.close();
    for worker in workers {
        runtime.block_on(worker).unwrap();
    }
}
