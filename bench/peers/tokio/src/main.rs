// Tokio. Usage: tokio WORKLOAD WORKERS [FIBERS or PORT]
// WORKERS: 1 = current_thread runtime, 2.. = multi_thread, "m1" = multi_thread with one worker.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, Notify};

fn report(peer: &str, workload: &str, value: f64, unit: &str) {
    println!("{} {} {:.3} {}", peer, workload, value, unit);
}

fn ns_since(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

fn runtime(workers: &str) -> Runtime {
    let mut builder = match workers {
        "1" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if workers != "1" {
        builder.worker_threads(workers.trim_start_matches('m').parse().unwrap());
    }
    builder.enable_all().build().unwrap()
}

// Runs the body inside a spawned task, so that on multi_thread it is on a worker and not on the
// thread that waits in block_on.
fn on_worker<F>(workers: &str, body: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    runtime(workers).block_on(async move { tokio::spawn(body).await.unwrap() })
}

struct Countdown {
    left: AtomicUsize,
    zero: Notify,
}
impl Countdown {
    fn new(n: usize) -> Arc<Countdown> {
        Arc::new(Countdown { left: AtomicUsize::new(n), zero: Notify::new() })
    }
    fn done(&self) {
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.zero.notify_one();
        }
    }
    async fn wait(&self) {
        self.zero.notified().await
    }
}

fn yields(workers: &str) {
    const FIBERS: usize = 1000;
    const YIELDS: usize = 1000;
    let ns = on_worker(workers, async {
        let countdown = Countdown::new(FIBERS);
        let start = Instant::now();
        for _ in 0..FIBERS {
            let countdown = countdown.clone();
            tokio::spawn(async move {
                for _ in 0..YIELDS {
                    tokio::task::yield_now().await;
                }
                countdown.done();
            });
        }
        countdown.wait().await;
        ns_since(start)
    });
    report("tokio", &format!("yield{}", workers), ns / (FIBERS * YIELDS) as f64, "ns/yield");
}

fn spawn(workload: &str, workers: &str, batches: usize, batch: usize) {
    let ns = on_worker(workers, async move {
        let start = Instant::now();
        for _ in 0..batches {
            let countdown = Countdown::new(batch);
            for _ in 0..batch {
                let countdown = countdown.clone();
                tokio::spawn(async move { countdown.done() });
            }
            countdown.wait().await;
        }
        ns_since(start)
    });
    report("tokio", &format!("{}{}", workload, workers), ns / (batches * batch) as f64, "ns/spawn");
}

fn pingpong(workers: &str) {
    const ROUNDS: usize = 1_000_000;
    let ns = on_worker(workers, async {
        let (ping, mut ping_end) = mpsc::channel::<usize>(1);
        let (pong, mut pong_end) = mpsc::channel::<usize>(1);
        tokio::spawn(async move {
            while let Some(v) = ping_end.recv().await {
                pong.send(v).await.unwrap();
            }
        });
        let start = Instant::now();
        for i in 0..ROUNDS {
            ping.send(i).await.unwrap();
            pong_end.recv().await.unwrap();
        }
        ns_since(start)
    });
    report("tokio", &format!("pingpong{}", workers), ns / ROUNDS as f64, "ns/roundtrip");
}

fn many_to_one(workers: &str) {
    const PRODUCERS: usize = 4;
    const EACH: usize = 1_000_000;
    let ns = on_worker(workers, async {
        let (tx, mut rx) = mpsc::channel::<usize>(1024);
        let start = Instant::now();
        for _ in 0..PRODUCERS {
            let tx = tx.clone();
            tokio::spawn(async move {
                for j in 1..=EACH {
                    tx.send(j).await.unwrap();
                }
            });
        }
        let mut sum = 0;
        for _ in 0..PRODUCERS * EACH {
            sum += rx.recv().await.unwrap();
        }
        let took = ns_since(start);
        assert_eq!(sum, PRODUCERS * EACH * (EACH + 1) / 2);
        took
    });
    report("tokio", &format!("mpsc{}", workers), (PRODUCERS * EACH) as f64 * 1e3 / ns, "Mmsg/s");
}

// Its smallest channel holds one.
fn select4(workers: &str) {
    const EACH: usize = 500_000;
    let ns = on_worker(workers, async {
        let mut ends = vec![];
        let start = Instant::now();
        for _ in 0..4 {
            let (tx, rx) = mpsc::channel::<usize>(1);
            ends.push(rx);
            tokio::spawn(async move {
                for j in 1..=EACH {
                    tx.send(j).await.unwrap();
                }
                std::future::pending::<()>().await
            });
        }
        // What tokio::select! does, which Debian's crates lack: polls all, from another one on each time.
        let (mut sum, mut first) = (0, 0);
        for _ in 0..4 * EACH {
            first = (first + 1) % 4;
            sum += std::future::poll_fn(|cx| {
                for i in 0..4 {
                    if let Poll::Ready(v) = ends[(first + i) % 4].poll_recv(cx) {
                        return Poll::Ready(v.unwrap());
                    }
                }
                Poll::Pending
            })
            .await;
        }
        let took = ns_since(start);
        assert_eq!(sum, 4 * EACH * (EACH + 1) / 2);
        took
    });
    report("tokio", "select4", ns / (4 * EACH) as f64, "ns/select");
}

const LEAVES: usize = 1_000_000;
const LEAF_SUM: usize = 499_999_500_000;

// Children are joined through their JoinHandle: what a Tokio user would normally write.
fn sky_join(first: usize, leaves: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return first;
        }
        let part = leaves / 10;
        let children: Vec<_> = (0..10).map(|i| tokio::spawn(sky_join(first + i * part, part))).collect();
        let mut sum = 0;
        for child in children {
            sum += child.await.unwrap();
        }
        sum
    })
}

// Children answer through a channel: the form of the original benchmark.
fn sky_channel(up: mpsc::Sender<usize>, first: usize, leaves: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let mut sum = first;
        if leaves > 1 {
            let part = leaves / 10;
            let (tx, mut rx) = mpsc::channel(10);
            for i in 0..10 {
                tokio::spawn(sky_channel(tx.clone(), first + i * part, part));
            }
            sum = 0;
            for _ in 0..10 {
                sum += rx.recv().await.unwrap();
            }
        }
        let _ = up.send(sum).await;
    })
}

fn skynet(workers: &str) {
    let row = format!("skynet{}", workers);
    let ns = on_worker(workers, async {
        let start = Instant::now();
        assert_eq!(sky_join(0, LEAVES).await, LEAF_SUM);
        ns_since(start)
    });
    report("tokio", &row, ns / 1e6, "ms");
    let ns = on_worker(workers, async {
        let start = Instant::now();
        let (tx, mut rx) = mpsc::channel(1);
        tokio::spawn(sky_channel(tx, 0, LEAVES));
        assert_eq!(rx.recv().await.unwrap(), LEAF_SUM);
        ns_since(start)
    });
    report("tokio-chan", &row, ns / 1e6, "ms");
}

fn pin_to(cpu: usize) {
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set);
    }
}

// Calls body with a runtime that lives in another thread; pinned: the runtime on CPU 0 (its worker
// threads inherit it), the caller on CPU 1.
fn from_outside(workers: &str, pinned: bool, body: impl FnOnce(Handle)) {
    let stop = Arc::new(Notify::new());
    let (handle_tx, handle_rx) = std::sync::mpsc::channel();
    let (stopped, workers) = (stop.clone(), workers.to_string());
    let thread = std::thread::spawn(move || {
        if pinned {
            pin_to(0);
        }
        let runtime = runtime(&workers);
        handle_tx.send(runtime.handle().clone()).unwrap();
        runtime.block_on(async move { stopped.notified().await });
    });
    if pinned {
        pin_to(1);
    }
    let handle = handle_rx.recv().unwrap();
    std::thread::sleep(Duration::from_millis(10));
    body(handle);
    stop.notify_one();
    thread.join().unwrap();
}

fn crosspost(peer: &str, workers: &str) {
    const POSTS: usize = 1_000_000;
    from_outside(workers, true, |handle| {
        let left = Arc::new(AtomicUsize::new(POSTS));
        let start = Instant::now();
        for _ in 0..POSTS {
            let left = left.clone();
            handle.spawn(async move {
                left.fetch_sub(1, AcqRel);
            });
        }
        while left.load(Acquire) != 0 {
            std::thread::yield_now();
        }
        report(peer, "crosspost1", POSTS as f64 * 1e3 / ns_since(start), "Mtask/s");
    });
}

fn wake(peer: &str, workers: &str) {
    const WAKES: usize = 2000;
    from_outside(workers, false, |handle| {
        let mut latency = vec![];
        for _ in 0..WAKES {
            std::thread::sleep(Duration::from_micros(500));
            let (tx, rx) = std::sync::mpsc::channel();
            let posted = Instant::now();
            handle.spawn(async move {
                tx.send(ns_since(posted)).unwrap();
            });
            latency.push(rx.recv().unwrap());
        }
        latency.sort_by(|a, b| a.partial_cmp(b).unwrap());
        report(peer, "wake", latency[WAKES / 2] / 1e3, "us");
        report(peer, "wake_p99", latency[WAKES * 99 / 100] / 1e3, "us");
    });
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

fn memory(row: String, workers: &str, fibers: usize) {
    on_worker(workers, async move {
        let never = Arc::new(Notify::new());
        let before = resident_bytes();
        for _ in 0..fibers {
            let never = never.clone();
            tokio::spawn(async move { never.notified().await });
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let each = (resident_bytes() - before) / fibers as f64;
        report("tokio", &row, each, "B/fiber");
        std::process::exit(0);
    });
}

// Actors: a task that receives from a channel of its own.
fn actor_pingpong(workers: &str) {
    const BALLS: usize = 1_000_000;
    let ns = on_worker(workers, async {
        let (ping, mut ping_end) = mpsc::unbounded_channel::<usize>();
        let (pong, mut pong_end) = mpsc::unbounded_channel::<usize>();
        tokio::spawn(async move {
            while let Some(ball) = ping_end.recv().await {
                pong.send(ball).unwrap();
            }
        });
        let start = Instant::now();
        let mut ball = 0;
        while ball < BALLS {
            ping.send(ball + 1).unwrap();
            ball = pong_end.recv().await.unwrap();
        }
        ns_since(start)
    });
    report("tokio", &format!("actor_pingpong{}", workers), 2.0 * BALLS as f64 * 1e3 / ns, "Mmsg/s");
}

// A call: a request with the way back for its answer.
fn actor_call(workers: &str) {
    const CALLS: usize = 1_000_000;
    let ns = on_worker(workers, async {
        let (ask, mut asked) = mpsc::unbounded_channel::<tokio::sync::oneshot::Sender<()>>();
        tokio::spawn(async move {
            while let Some(back) = asked.recv().await {
                back.send(()).unwrap();
            }
        });
        let start = Instant::now();
        for _ in 0..CALLS {
            let (back, answer) = tokio::sync::oneshot::channel();
            ask.send(back).unwrap();
            answer.await.unwrap();
        }
        ns_since(start)
    });
    report("tokio", "actor_call", ns / CALLS as f64, "ns/call");
}

fn actor_ring(workers: &str) {
    const MEMBERS: usize = 100_000;
    const LAPS: usize = 20;
    let ns = on_worker(workers, async {
        let (first, mut end) = mpsc::unbounded_channel::<usize>();
        for _ in 1..MEMBERS {
            let (to, next) = mpsc::unbounded_channel::<usize>();
            tokio::spawn(async move {
                while let Some(left) = end.recv().await {
                    let _ = to.send(left - 1);
                }
            });
            end = next;
        }
        let start = Instant::now();
        let mut left = MEMBERS * LAPS;
        while left > 0 {
            first.send(left - 1).unwrap();
            left = end.recv().await.unwrap();
        }
        ns_since(start)
    });
    report("tokio", "actor_ring", (MEMBERS * LAPS) as f64 * 1e3 / ns, "Mmsg/s");
}

fn actor_fanin(workers: &str) {
    const SENDERS: usize = 1000;
    const LETTERS: usize = 1000;
    let ns = on_worker(workers, async {
        let (tx, mut rx) = mpsc::channel::<usize>(1024);
        let start = Instant::now();
        for _ in 0..SENDERS {
            let tx = tx.clone();
            tokio::spawn(async move {
                for j in 1..=LETTERS {
                    tx.send(j).await.unwrap();
                }
            });
        }
        let mut sum = 0;
        for _ in 0..SENDERS * LETTERS {
            sum += rx.recv().await.unwrap();
        }
        let took = ns_since(start);
        assert_eq!(sum, SENDERS * LETTERS * (LETTERS + 1) / 2);
        took
    });
    report("tokio", "actor_fanin", (SENDERS * LETTERS) as f64 * 1e3 / ns, "Mmsg/s");
}

fn actor_spawn(workers: &str) {
    const LIVES: usize = 1_000_000;
    let ns = on_worker(workers, async {
        let countdown = Countdown::new(LIVES);
        let start = Instant::now();
        for i in 0..LIVES {
            let countdown = countdown.clone();
            let (tx, mut rx) = mpsc::unbounded_channel::<usize>();
            tokio::spawn(async move {
                rx.recv().await.unwrap();
                countdown.done();
            });
            tx.send(1).unwrap();
            if i % 100 == 99 {
                tokio::task::yield_now().await; // as Weft's
            }
        }
        countdown.wait().await;
        ns_since(start)
    });
    report("tokio", "actor_spawn", LIVES as f64 * 1e3 / ns, "Mactor/s");
}

fn actor_memory(workers: &str) {
    const LIVES: usize = 1_000_000;
    on_worker(workers, async {
        let mut mailboxes = Vec::with_capacity(LIVES);
        let before = resident_bytes();
        for _ in 0..LIVES {
            let (tx, mut rx) = mpsc::unbounded_channel::<usize>();
            tokio::spawn(async move { rx.recv().await });
            mailboxes.push(tx);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        report("tokio", "actor_memory", (resident_bytes() - before) / LIVES as f64, "B/actor");
        std::process::exit(0);
    });
}

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

struct NoWake;
impl std::task::Wake for NoWake {
    fn wake(self: Arc<Self>) {}
}

// The first poll of a Sleep is what puts it into the wheel; dropping it takes it out.
fn timer_bulk(workers: &str) {
    const TIMERS: usize = 1_000_000;
    let ns = on_worker(workers, async {
        let mut seed = Random(1);
        let delays: Vec<_> = (0..TIMERS).map(|_| Duration::from_millis(1000 + seed.next() % 59000)).collect();
        let waker = Arc::new(NoWake).into();
        let mut context = std::task::Context::from_waker(&waker);
        let mut sleeps = Vec::with_capacity(TIMERS);
        let start = Instant::now();
        for delay in delays {
            let mut sleep = Box::pin(tokio::time::sleep(delay));
            assert!(sleep.as_mut().poll(&mut context).is_pending());
            sleeps.push(sleep);
        }
        drop(sleeps);
        ns_since(start)
    });
    report("tokio", "timer_bulk", ns / TIMERS as f64, "ns");
}

fn timer_once(workers: &str) {
    const PAIRS: usize = 2_000_000;
    let ns = on_worker(workers, async {
        let waker = Arc::new(NoWake).into();
        let mut context = std::task::Context::from_waker(&waker);
        let start = Instant::now();
        for _ in 0..PAIRS {
            let sleep = tokio::time::sleep(Duration::from_secs(10));
            tokio::pin!(sleep);
            assert!(sleep.as_mut().poll(&mut context).is_pending());
        }
        ns_since(start)
    });
    report("tokio", "timer_once", ns / PAIRS as f64, "ns");
}

fn cpu_ms() -> f64 {
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        let ms = |t: libc::timeval| t.tv_sec as f64 * 1e3 + t.tv_usec as f64 / 1e3;
        ms(usage.ru_utime) + ms(usage.ru_stime)
    }
}

async fn sleep_round() -> f64 {
    const FIBERS: usize = 100_000;
    let mut seed = Random(1);
    let countdown = Countdown::new(FIBERS);
    let before = cpu_ms();
    for _ in 0..FIBERS {
        let (countdown, delay) = (countdown.clone(), Duration::from_millis(seed.next() % 1000));
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            countdown.done();
        });
    }
    countdown.wait().await;
    cpu_ms() - before
}

fn sleep(row: &str, workers: &str) {
    let (first, second) = on_worker(workers, async { (sleep_round().await, sleep_round().await) });
    report("tokio", row, second, "ms");
    report("tokio", &format!("{}_first", row), first, "ms");
}

async fn echo_one(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer).await {
        if n == 0 || stream.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

fn echo(workers: &str, port: u16) {
    on_worker(workers, async move {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(echo_one(stream));
        }
    })
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let workers = args[2].as_str();
    let peer = if workers == "m1" { "tokio-m1" } else { "tokio" };
    match args[1].as_str() {
        "yield" => yields(workers),
        "spawn" => spawn("spawn", workers, 1, 1_000_000),
        "spawnb" => spawn("spawnb", workers, 1000, 1000),
        "pingpong" => pingpong(workers),
        "mpsc" => many_to_one(workers),
        "select4" => select4(workers),
        "skynet" => skynet(workers),
        "crosspost" => crosspost(peer, workers),
        "wake" => wake(peer, workers),
        "timer_bulk" => timer_bulk(workers),
        "timer_once" => timer_once(workers),
        "sleep" => sleep("sleep100k", workers),
        "frame_sleep" => sleep("frame_sleep100k", workers),
        "actor_pingpong" => actor_pingpong(workers),
        "actor_call" => actor_call(workers),
        "actor_ring" => actor_ring(workers),
        "actor_fanin" => actor_fanin(workers),
        "actor_spawn" => actor_spawn(workers),
        "actor_memory" => actor_memory(workers),
        "echo" => echo(workers, args[3].parse().unwrap()),
        "memory" => {
            let fibers: usize = args[3].parse().unwrap();
            memory(format!("memory_{}k", fibers / 1000), workers, fibers)
        }
        "frame_memory" => memory("frame_memory".to_string(), workers, 1_000_000),
        other => panic!("no workload {}", other),
    }
}
