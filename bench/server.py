"""Runs the servers that bench/compare measures: the server on the first CPU, bench/load on the second.

A run is a new server on a free port, and one load. For a server that exits before it is reachable (a missing feature,
no permission for io_uring), the first line of its output is reported.
"""
import contextlib
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(BENCH)
OUT = os.path.join(ROOT, "build", "bench")
RELEASE = os.path.join(ROOT, "build", "release")
SITE = os.path.join(OUT, "site")
LOG = os.path.join(OUT, "server.log")
START_TIMEOUT_S = 5
LOAD_TIMEOUT_S = 60
SPARE_FILES = 256  # descriptors in addition to those of connections


class Failure(Exception):
    pass


# ---- starting ----

def free_port():
    """Return a free port below connect()'s range: a connection of the load never takes a server's port."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as ports:
        lowest = int(ports.read().split()[0])
    for port in random.sample(range(10000, lowest), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Failure("no free port")


def make_site():
    os.makedirs(SITE, exist_ok=True)
    for name, content in (("index.html", b"hello, world\n"), ("hello.txt", b"hello, world\n"),
                          ("1m.bin", bytes(range(256)) * 4096)):
        with open(os.path.join(SITE, name), "wb") as file:
            file.write(content)


def configure(name, port):
    """Write the configuration of nginx or h2o for this run and return its path."""
    folder = os.path.join(OUT, name + "-files")
    os.makedirs(folder, exist_ok=True)
    user = "user: root" if os.geteuid() == 0 else ""  # as root h2o requires `user`; for other users it refuses the option
    with open(os.path.join(BENCH, "peers", name, name + ".conf.in")) as template:
        text = template.read()
    for word, value in (("@DIR@", folder), ("@SITE@", SITE), ("@PORT@", str(port)), ("@USER@", user)):
        text = text.replace(word, value)
    path = os.path.join(folder, name + ".conf")
    with open(path, "w") as configuration:
        configuration.write(text)
    return path


def label(program):
    """Return the name of the peer's rows."""
    binary = program.split()[0]
    return "weft" if binary.startswith("weft") else binary


def command(program, port):
    binary, *arguments = program.split()
    path = os.path.join(OUT, binary)
    if binary == "nginx":
        return [path, "-p", OUT, "-c", configure(binary, port), "-e", LOG]
    if binary == "h2o":
        return [path, "-m", "worker", "-c", configure(binary, port)]
    if binary == "weft-serve":
        return [os.path.join(RELEASE, "weft"), "serve", SITE, "--listen", f"127.0.0.1:{port}", "--workers", "1",
                "--max-requests", "1000000000", "--max-per-address", "1000000"]  # as for the other servers: one client holds all
    if binary.startswith("weft/"):
        path = os.path.join(RELEASE, "bench", binary[5:])
    return [path, *arguments, str(port)]


def place(cpu):
    """Prepare a child before exec: bind it to its CPU and raise the file limit to the maximum."""
    def prepare():
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        os.sched_setaffinity(0, {cpu})
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return prepare


def cpus(load):
    """Return the CPUs (server, load). Raise Failure without two CPUs or with too low a descriptor limit."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise Failure("needs two CPUs")
    idle = re.search(r"-i (\d+)", load)
    wanted = int(idle[1]) + SPARE_FILES if idle else 0
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Failure(f"ulimit -Hn is {hard}, {wanted} are needed")
    return usable[0], usable[1]


def complaint(process):
    with open(LOG, errors="replace") as log:
        lines = [line.strip() for line in log if line.strip() and not line.startswith(("[INFO]", "=="))]
    status = process.returncode
    by_itself = f"status {status}" if status >= 0 else signal.Signals(-status).name
    return "server: " + (lines[0] if lines else by_itself)


def await_listener(process, port, timeout_s):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Failure(complaint(process))
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.01)
    raise Failure(f"server: not listening after {timeout_s} s")


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(program, cpu, under=(), timeout_s=START_TIMEOUT_S):
    """Run the server and yield it with its port; `under` is a tool that runs the server."""
    port = free_port()
    make_site()
    with open(LOG, "wb") as log:
        try:
            process = subprocess.Popen([*under, *command(program, port)], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       preexec_fn=place(cpu))
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}") from error
    try:
        await_listener(process, port, timeout_s)
        yield process, port
    except Failure as failure:
        if process.poll() is not None:
            raise Failure(complaint(process)) from failure
        raise
    finally:
        stop(process)


# ---- measuring ----

told = set()  # warnings of the load that were already printed


def run_load(program, row, port, server, load, cpu, timeout_s=LOAD_TIMEOUT_S):
    try:
        result = subprocess.run([os.path.join(OUT, "load"), label(program), row, str(port), str(server), *load.split()],
                                preexec_fn=place(cpu), capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise Failure(f"not done in {timeout_s} s") from error
    said = result.stderr.strip()
    if not result.returncode and said and said not in told:
        told.add(said)
        print(said, file=sys.stderr)
    if result.returncode:
        raise Failure((said.splitlines() or [f"load: status {result.returncode}"])[-1])
    return result.stdout


def measure(program, row, load):
    """Yield the lines that the load printed."""
    server_cpu, load_cpu = cpus(load)
    with running(program, server_cpu) as (process, port):
        yield run_load(program, row, port, process.pid, load, load_cpu)


# ---- counting ----

COUNTED = (2000, 12000)  # requests of the two runs; the difference counts
COUNTED_MIB = (100, 600)


def settled(path):
    """Wait for strace's table, which strace writes after the server has ended."""
    for _ in range(500):
        with contextlib.suppress(OSError), open(path) as file:
            text = file.read()
            if " total\n" in text:
                return text
        time.sleep(0.01)
    raise Failure("strace wrote no table")


def under_strace(program, row, load, requests):
    """Return the system calls of all threads during that many requests."""
    table = os.path.join(OUT, "strace.table")
    with contextlib.suppress(FileNotFoundError):
        os.remove(table)
    server_cpu, load_cpu = cpus(load)
    # -D: the server is the child and strace the grandchild, so the server gets the signal that ends it.
    with running(program, server_cpu, ["strace", "-D", "-f", "-c", "-o", table]) as (_, port):
        run_load(program, row, port, 0, f"{load} -n {requests}", load_cpu, timeout_s=120)
    share, seconds, each, calls, *_ = settled(table).splitlines()[-1].split()
    return int(calls)


def under_callgrind(program, row, load, requests):
    """Return the instructions outside the kernel. The profile stays in build/bench for callgrind_annotate."""
    profile = os.path.join(OUT, f"callgrind.{row}.{label(program)}")
    server_cpu, load_cpu = cpus(load)
    with running(program, server_cpu, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"],
                 timeout_s=60) as (process, port):
        run_load(program, row, port, 0, f"{load} -n {requests}", load_cpu, timeout_s=300)
        # Dump explicitly, not at exit: no signal would reach a server that waits in io_uring_enter.
        subprocess.run(["vgdb", f"--pid={process.pid}", "dump"], capture_output=True, timeout=30, check=False)
        process.kill()
        process.wait()
    with contextlib.suppress(FileNotFoundError), open(profile + ".1") as dump:
        os.replace(profile + ".1", profile)
        total = re.search(r"^totals: (\d+)", dump.read(), re.M)
        if total:
            return int(total[1])
    raise Failure("callgrind counted nothing")


def counts(program, row, load):
    """Yield system calls and user instructions per request, as rows. The cost of starting and connecting is in both
    runs, so the subtraction removes it."""
    few, many = COUNTED_MIB if "-f mib" in load else COUNTED
    for count, suffix, unit in ((under_strace, "syscalls", "calls/req"), (under_callgrind, "instructions", "instr/req")):
        base = count(program, row, load, few)
        each = (count(program, row, load, many) - base) / (many - few)
        yield f"{label(program)} {row}_{suffix} {each:.3f} {unit}"


def find_program(name):
    """Build nothing: link the installed server into `out`."""
    def link(out):
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not found:
            raise FileNotFoundError(2, "not found", name)
        with contextlib.suppress(FileNotFoundError):
            os.remove(out)
        os.symlink(found, out)
    return link
