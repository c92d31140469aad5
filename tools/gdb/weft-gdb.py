"""gdb commands for programs that run Weft, live or as a core file.

    (gdb) source weft-gdb.py
    weft fibers [STATE]   every fiber: id, state, name, pool, worker, what it waits on
    weft bt ID            the backtrace of a fiber; ID as in "weft fibers" or in a dump: 17.3, #17.3, 17, or a name;
                          of a fiber without a stack its frames, and where each goes on
    weft fiber ID         goes to a fiber: bt, up, frame, info locals are its own from now on
    weft fiber off        back to the thread; so does letting the program run

Nothing of the program is changed: a waiting fiber's saved registers are given to gdb's unwinder as if the innermost
frame of the selected thread had been called by it. libweft must have debug information (-g).

Core files: those that the kernel writes are whole. gdb's own gcore reads mappings in pieces of 1 MiB and leaves a piece
out that has a guard of a stack in it; where stacks are guarded by markers (guard-install), their contents are missing.
"""
import gdb
from gdb.unwinder import Unwinder

STATES = {
    0: "free", 1: "created", 2: "ready", 3: "ready", 4: "running", 5: "running", 6: "running",
    7: "waiting", 8: "done", 9: "waiting", 10: "ready",
}
FRESH, DONE = 2, 8
LIVE = 2  # of the ident word
BODY, GROUPED = 16, 32  # of a task's flags
TICKET_SHIFT, STATE_MASK = 16, 15


def number(value):
    """Of an integer or pointer, atomic or not."""
    size = value.type.strip_typedefs().sizeof
    return int.from_bytes(gdb.selected_inferior().read_memory(int(value.address), size).tobytes(), "little")


def text(address, limit=48):
    try:
        return gdb.Value(address).cast(gdb.lookup_type("char").pointer()).string(errors="replace", length=-1)[:limit]
    except gdb.error:
        return "?"


def at(address, kind):
    return gdb.Value(address).cast(gdb.lookup_type(kind).pointer()).dereference()


class Fiber:
    def __init__(self, task):
        self.task = task
        self.slot = int(task["slot"])
        ident = number(task["ident"])
        self.live = bool(ident & LIVE)
        self.id = "#%d.%d" % (self.slot, ident >> 32)
        self.code = number(task["state"]) & STATE_MASK
        self.state = STATES.get(self.code, "?")
        self.flags = int(task["flags"])
        self.body = bool(self.flags & BODY)
        if self.flags & GROUPED:
            label = int(task["label"])
            self.name = text(label, 15) if label else "-"
        else:
            self.name = task["name"].string(errors="replace") or "-"
        self.worker = int(task["ran_on"].cast(gdb.lookup_type("short"))) if self.code != FRESH else -1

    @property
    def home(self):
        pool = int(self.task["home"])
        return at(pool, "struct weft_pool") if pool and self.code != DONE else None

    def thread(self):
        """The gdb thread that runs it, or None."""
        home = self.home
        if home is None or not 0 <= self.worker < int(home["worker_count"]):
            return None
        tid = number(home["workers"][self.worker]["tid"])
        for thread in gdb.selected_inferior().threads():
            if tid in thread.ptid[1:]:
                return thread
        return None

    def waits(self):
        if self.state != "waiting":
            return ""
        if self.body:
            return self.frames()[0] if self.is_frames() else ""
        note = self.task["note"].dereference()
        what, on = note["kind"].dereference(), int(note["on"])
        if bool(what["fiber"]):
            return "%s #%d.%d" % (text(int(what["name"])), on & 0xFFFFFFFF, on >> 32)
        if bool(what["descriptor"]):
            return "%s fd %d" % (text(int(what["name"])), on)
        return text(int(what["name"])) + (" 0x%x" % on if on else "")

    def is_frames(self):
        return text(int(at(int(self.task["body"]), "struct weft__body_kind")["what"])) == "frame fiber"

    def frames(self):
        """Of a fiber without a stack, innermost first."""
        lines, address = [], int(self.task["own"])
        while address:
            frame = at(address, "struct weft_frame")
            line = "in %s" % text(int(at(int(frame["kind"]), "struct weft_frame_kind")["name"]))
            if int(frame["next"]):
                point = at(int(frame["next"]), "struct weft_point")
                line += ", then %s at %s:%d" % (text(int(point["name"])), text(int(point["file"]), 200), int(point["line"]))
            lines.append(line)
            address = int(frame["caller"])
        return lines or ["in no frame"]

    def context(self):
        ctx = self.task["ctx"]
        return [int(ctx[part]) for part in ("pc", "sp", "fp")]


def all_fibers():
    slabs, slots = gdb.parse_and_eval("'sched/slab.c'::slabs"), number(gdb.parse_and_eval("'sched/slab.c'::slots"))
    size = gdb.lookup_type("struct weft__task").sizeof
    each = 2 * 1024 * 1024 // size
    for index in range(slots):
        slab = number(slabs[index // each])
        fiber = Fiber(at(slab + index % each * size, "struct weft__task"))
        if fiber.live:
            yield fiber


def find(wanted):
    wanted = wanted.strip().lstrip("#")
    for fiber in all_fibers():
        if wanted in (fiber.id[1:], str(fiber.slot), fiber.name):
            return fiber
    raise gdb.GdbError("There is no fiber %s. Try: weft fibers" % wanted)


class Identity:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class FiberUnwinder(Unwinder):
    """While `saved` is set, the caller of the thread's innermost frame is the fiber's."""

    def __init__(self):
        super().__init__("weft")
        self.saved = None

    def __call__(self, pending):
        if self.saved is None or pending.level() != 0:
            return None
        arm = "aarch64" in pending.architecture().name()
        sp, pc, fp = ("sp", "pc", "x29") if arm else ("rsp", "rip", "rbp")
        word = gdb.lookup_type("unsigned long")
        here = Identity(pending.read_register(sp), pending.read_register(pc))
        info = pending.create_unwind_info(here)
        for register, value in zip((pc, sp, fp), self.saved):
            info.add_saved_register(register, gdb.Value(value).cast(word))
        if arm:
            info.add_saved_register("x30", gdb.Value(self.saved[0]).cast(word))
        return info

    def enter(self, context):
        self.saved = context
        gdb.invalidate_cached_frames()

    def leave(self, *_):
        if self.saved is not None:
            self.saved = None
            gdb.invalidate_cached_frames()


unwinder = FiberUnwinder()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(unwinder.leave)


def go_to(fiber):
    """Makes the fiber's frames visible; the number of the first."""
    unwinder.leave()
    if fiber.body and fiber.state != "running":
        raise gdb.GdbError("Fiber %s has no stack: weft bt %s" % (fiber.id, fiber.id))
    if fiber.state == "running":
        thread = fiber.thread()
        if thread is None:
            raise gdb.GdbError("Fiber %s runs, but its thread is not to be found." % fiber.id)
        thread.switch()
        return 0
    if int(fiber.task["stack"]) == 0 or fiber.code in (FRESH, DONE, 1):
        raise gdb.GdbError("Fiber %s is %s: it has no stack." % (fiber.id, fiber.state))
    unwinder.enter(fiber.context())
    return 1


class Weft(gdb.Command):
    """Fibers of a program that runs Weft: weft fibers, weft bt ID, weft fiber ID."""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_STACK, prefix=True)


class Fibers(gdb.Command):
    """weft fibers [STATE]: lists every fiber, or those in a state (running, waiting, ready, created, done)."""

    def __init__(self):
        super().__init__("weft fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        count = 0
        for fiber in all_fibers():
            if argument and fiber.state != argument.strip():
                continue
            home = fiber.home
            pool = home["name"].string(errors="replace") if home is not None else "-"
            worker = "worker %d" % fiber.worker if fiber.worker >= 0 else "-"
            print("%-12s %-8s %-15s %-15s %-10s %s" % (fiber.id, fiber.state, fiber.name, pool, worker, fiber.waits()))
            count += 1
        print("%d fibers" % count)


class Backtrace(gdb.Command):
    """weft bt ID: the backtrace of a fiber."""

    def __init__(self):
        super().__init__("weft bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fiber, before = find(argument), gdb.selected_thread()
        if fiber.body and fiber.state != "running":
            for index, line in enumerate(fiber.frames() if fiber.is_frames() else []):
                print("#%-2d %s" % (index, line))
            return
        first = go_to(fiber)
        try:
            lines = gdb.execute("bt", to_string=True).splitlines()
            for line in lines:
                level = line.split(" ")[0].lstrip("#")
                if not level.isdigit() or int(level) >= first:
                    print(line)
        finally:
            unwinder.leave()
            if before is not None:
                before.switch()


class Go(gdb.Command):
    """weft fiber ID: goes to a fiber, so that bt, up, down and info locals are its own; weft fiber off: back."""

    def __init__(self):
        super().__init__("weft fiber", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if argument.strip() == "off":
            unwinder.leave()
            return
        fiber = find(argument)
        first = go_to(fiber)
        print("fiber %s %s, %s" % (fiber.id, fiber.name, fiber.state))
        gdb.execute("frame %d" % first)


Weft()
Fibers()
Backtrace()
Go()
