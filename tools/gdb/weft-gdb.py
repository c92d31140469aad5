"""gdb commands for programs that run Weft, live or as a core file.

    (gdb) source weft-gdb.py
    weft fibers [STATE]   every fiber: id, state, name, pool, worker, what it waits on and who holds that
    weft bt ID            the backtrace of a fiber; ID as in "weft fibers" or in a dump: 17.3, #17.3, 17, or a name;
                          for a fiber without a stack, its frames and where each resumes
    weft fiber ID         selects a fiber: bt, up, frame and info locals then apply to it; its innermost frame is #1
    weft fiber off        selects the thread again; so does resuming the program
    weft gcore [FILE]     writes a core file that has the stacks of all fibers (default core.PID)

The program is not modified: gdb's unwinder gets a waiting fiber's saved registers as if the fiber had called the innermost
frame of the selected thread. libweft must have debug information (-g).

Core files that the kernel writes are complete. gdb's own gcore abandons a mapping at the first guard page of a stack, so
the stacks in that mapping are missing; such fibers are listed as "unreadable". weft gcore writes everything but the guards.
"""
import re
import struct

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
HOLDER_THREAD, HOLDER_FLAGS = 4, 3  # of the word of a lock, sync/holder.h
UNREADABLE = "unreadable"
PAGE, PIECE = 4096, 1 << 20


def number(value):
    """Of an integer or pointer, atomic or not."""
    size = value.type.strip_typedefs().sizeof
    return int.from_bytes(gdb.selected_inferior().read_memory(int(value.address), size).tobytes(), "little")


def memory(address, size):
    """The bytes; None if they cannot be read."""
    try:
        return gdb.selected_inferior().read_memory(address, size).tobytes()
    except gdb.MemoryError:
        return None


def text(address, limit=48):
    if not address:
        return ""
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
        self.stackless = bool(self.flags & BODY)
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
        """As the reports say it: "mutex db held by #4.1 b"."""
        if self.state != "waiting":
            return ""
        try:
            if not self.stackless:
                note = self.task["note"].dereference()
                return waits_text(int(note["kind"]), int(note["on"]))
            return self.frames()[0] if self.is_frames() else ""
        except gdb.MemoryError:
            return UNREADABLE

    def has_stack(self):
        """Its saved frame is there: of what a core file has left out gdb reads zeros, or nothing."""
        top = memory(self.context()[1], 64)
        return top is not None and any(top)

    def is_frames(self):
        return text(int(at(int(self.task["stackless"]), "struct weft__stackless_kind")["what"])) == "frame fiber"

    def frames(self):
        """Of a fiber without a stack, innermost first."""
        lines, address = [], int(self.task["own"])
        while address:
            frame = at(address, "struct weft_frame")
            line = "in %s" % text(int(at(int(frame["kind"]), "struct weft_frame_kind")["name"]))
            if not lines and int(frame["waits"]) and int(frame["wait"]):
                wait = at(int(frame["wait"]), "struct weft__await")
                line = "%s, %s" % (waits_text(int(wait["kind"]), int(wait["on"]), int(frame["waits"]) - 1), line)
            if int(frame["next"]):
                point = at(int(frame["next"]), "struct weft_resume_point")
                line += ", then %s at %s:%d" % (text(int(point["name"])), text(int(point["file"]), 200), int(point["line"]))
            lines.append(line)
            address = int(frame["caller"])
        return lines or ["in no frame"]

    def context(self):
        ctx = self.task["ctx"]
        return [int(ctx[part]) for part in ("pc", "sp", "fp")]


def fiber_text(slot, generation):
    """"#4.1 b", or without the name if it has none or is gone."""
    name = "-"
    for fiber in fibers_of(range(slot - 1, slot)):
        if not isinstance(fiber, str) and fiber.id == "#%d.%d" % (slot, generation):
            name = fiber.name
    return "#%d.%d%s" % (slot, generation, "" if name == "-" else " " + name)


def holder_text(what, on):
    """Who would have to act first: a fiber as above, "thread 4711", or ""."""
    if what in ("mutex", "once"):
        word = number(at(on, "struct weft__" + what)["word"])
    elif what.startswith("rwlock"):
        word = number(at(on, "struct weft__rwlock")["writer"])
    elif what == "scope":
        scope = at(on, "struct weft__scope")
        child = int(scope["running"]["first"]) or int(scope["cancelled_children"]["first"])
        handle = int(at(child, "struct weft__child")["fiber"]) if child else 0
        return fiber_text(handle & 0xFFFFFFFF, handle >> 32) if handle else ""
    else:
        return ""
    word &= ~HOLDER_FLAGS
    if word & HOLDER_THREAD:
        return "thread %d" % (word >> 3) if word >> 3 else ""
    if not word:
        return ""
    task = at(word, "struct weft__task")
    return fiber_text(int(task["slot"]), number(task["ident"]) >> 32)


def label_text(kind, on):
    """The name of the object that is waited on; "" if it has none."""
    if "weft__source_label" in str(kind["label"]):
        return text(int(at(on, "struct weft__source")["name"]))
    return ""


def first_of_several(what, on):
    """What a select or a wait for several conditions is on: the first, and how many others."""
    word = gdb.lookup_type("unsigned long")
    several, count = (int(gdb.Value(on + place).cast(word.pointer()).dereference()) for place in (0, word.sizeof))
    if what != "select":
        return int(gdb.Value(several).cast(word.pointer()).dereference()), (count & 0xFFFFFFFF) - 1
    cases = gdb.Value(several).cast(gdb.lookup_type("struct weft_case").pointer())
    objects = [int(cases[index]["object"]) for index in range(count)]
    ready = sum(bool(objects[index]) or "AT" in str(cases[index]["kind"]) for index in range(count))
    return next((one for one in objects if one), 0), max(ready - 1, 0)


def waits_text(kind_address, on, others=0):
    """`others`: it waits on so many more, which a frame fiber knows itself."""
    if not kind_address:
        return UNREADABLE
    kind = at(kind_address, "struct weft__wait_kind")
    what = text(int(kind["name"]))
    if int(kind["first"]):
        try:
            on, others = first_of_several(what, on)
        except gdb.MemoryError:
            return "%s, %s" % (what, UNREADABLE)
    more = " and %d other%s" % (others, "s" if others > 1 else "") if others else ""
    return waits_on(kind, what, on) + more


def waits_on(kind, what, on):
    if bool(kind["fiber"]):
        return "%s of %s" % (what, fiber_text(on & 0xFFFFFFFF, on >> 32))
    if bool(kind["descriptor"]):
        return "%s fd %d" % (what, on)
    if not on:
        return what
    try:
        label, holder = label_text(kind, on), holder_text(what, on)
    except gdb.MemoryError:
        return "%s 0x%x, %s" % (what, on, UNREADABLE)
    return "%s %s%s" % (what, label or "0x%x" % on, " held by " + holder if holder else "")


def all_fibers():
    """All fibers that can be read."""
    slots = number(gdb.parse_and_eval("'task/slab.c'::slots"))
    return (fiber for fiber in fibers_of(range(slots)) if not isinstance(fiber, str))


def fibers_of(indexes):
    """The live fibers of these slots, counted from 0; of one that cannot be read its number as a text."""
    slabs = gdb.parse_and_eval("'task/slab.c'::slabs")
    size = gdb.lookup_type("struct weft__task").sizeof
    each = 2 * 1024 * 1024 // size
    for index in indexes:
        try:
            slab = number(slabs[index // each])
            fiber = Fiber(at(slab + index % each * size, "struct weft__task"))
        except gdb.MemoryError:
            yield "#%d" % (index + 1)
            continue
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


class FiberFilter:
    """While a fiber is chosen, a backtrace begins with it: the thread's innermost frame is none of its."""

    def __init__(self):
        self.name, self.priority, self.enabled = "weft", 100, True
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        if unwinder.saved is None:
            return frames
        return (frame for frame in frames if frame.inferior_frame().level() > 0)


unwinder = FiberUnwinder()
FiberFilter()
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
gdb.events.cont.connect(unwinder.leave)


def go_to(fiber):
    """Makes the fiber's frames visible; the number of the first."""
    unwinder.leave()
    if fiber.stackless and fiber.state != "running":
        raise gdb.GdbError("Fiber %s has no stack: weft bt %s" % (fiber.id, fiber.id))
    if fiber.state == "running":
        thread = fiber.thread()
        if thread is None:
            raise gdb.GdbError("Fiber %s runs, but its thread is not to be found." % fiber.id)
        thread.switch()
        return 0
    if int(fiber.task["stack"]) == 0 or fiber.code in (FRESH, DONE, 1):
        raise gdb.GdbError("Fiber %s is %s: it has no stack." % (fiber.id, fiber.state))
    if not fiber.has_stack():
        raise gdb.GdbError("The stack of fiber %s is %s. gdb's gcore leaves stacks out; a core file of weft gcore, or of the "
                           "kernel, has them." % (fiber.id, UNREADABLE))
    unwinder.enter(fiber.context())
    return 1


class Weft(gdb.Command):
    """Fibers of a program that runs Weft: weft fibers, weft bt ID, weft fiber ID, weft gcore FILE."""

    def __init__(self):
        super().__init__("weft", gdb.COMMAND_STACK, prefix=True)


class Fibers(gdb.Command):
    """weft fibers [STATE]: lists every fiber, or those in a state (running, waiting, ready, created, done)."""

    def __init__(self):
        super().__init__("weft fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        count, lost = 0, 0
        for fiber in fibers_of(range(number(gdb.parse_and_eval("'task/slab.c'::slots")))):
            if isinstance(fiber, str):
                lost += 1
                print("%-12s %s" % (fiber, UNREADABLE))
                continue
            if argument and fiber.state != argument.strip():
                continue
            count += 1
            waits = fiber.waits()
            lost += UNREADABLE in waits
            print("%-12s %-8s %-15s %-15s %-10s %s" % (fiber.id, fiber.state, fiber.name, self.pool(fiber), self.worker(fiber), waits))
        print("%d fibers%s" % (count, ", %d %s" % (lost, UNREADABLE) if lost else ""))

    @staticmethod
    def pool(fiber):
        try:
            home = fiber.home
            return home["name"].string(errors="replace") if home is not None else "-"
        except gdb.MemoryError:
            return UNREADABLE

    @staticmethod
    def worker(fiber):
        return "worker %d" % fiber.worker if fiber.worker >= 0 else "-"


class Backtrace(gdb.Command):
    """weft bt ID: the backtrace of a fiber."""

    def __init__(self):
        super().__init__("weft bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        fiber, before = find(argument), gdb.selected_thread()
        if fiber.stackless and fiber.state != "running":
            for index, line in enumerate(fiber.frames() if fiber.is_frames() else []):
                print("#%-2d %s" % (index, line))
            return
        go_to(fiber)
        try:
            gdb.execute("bt")
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


class Gcore(gdb.Command):
    """weft gcore [FILE]: as gcore, with the stacks of all fibers, which gcore leaves out where they have guards."""

    def __init__(self):
        super().__init__("weft gcore", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        path = argument.strip() or "core.%d" % gdb.selected_inferior().pid
        said = gdb.execute("gcore " + path, to_string=True)
        missing = [int(start, 16) for start in re.findall(r"Memory read failed for corefile section, \d+ bytes at (0x[0-9a-f]+)", said)]
        pages = 0
        with open(path, "r+b") as core:
            for start, end, offset in self.segments(core):
                for lost in missing:
                    if start <= lost < end:
                        pages += self.fill(core, lost, end, offset - start)
        print("Saved corefile %s, with %d pages that gcore has left out" % (path, pages))

    @staticmethod
    def segments(core):
        """What the file has of the memory: first address, end, offset."""
        head = core.read(64)
        table, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        core.seek(table)
        entries = core.read(size * count)
        for at_entry in range(0, len(entries), size):
            kind, _, offset, start, _, length = struct.unpack_from("<IIQQQQ", entries, at_entry)
            if kind == 1:
                yield start, start + length, offset

    def fill(self, core, address, end, shift):
        """Writes what can be read; how many pages that are. Zeros are there already."""
        pages, size = 0, PIECE
        while address < end:
            size = min(size, end - address)
            data = memory(address, size)
            if data is None and size > PAGE:
                size = max(PAGE, size // 2 // PAGE * PAGE)
                continue
            if data is not None and any(data):
                core.seek(address + shift)
                core.write(data)
                pages += sum(any(data[at:at + PAGE]) for at in range(0, size, PAGE))
            address += size
            size = min(PIECE, 2 * size) if data is not None else size
        return pages


Weft()
Fibers()
Backtrace()
Go()
Gcore()
