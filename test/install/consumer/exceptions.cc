// Fibers that switch while an exception is caught or in flight, with a real C++ runtime.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include <weft/weft.h>

namespace {

constexpr int fibers = 16, turns = 200;
weft_pool *pools[2];
int alive; // exceptions not destroyed yet; guarded by `lock`
weft_mutex lock;

[[noreturn]] void die(const char *what, int who)
{
    std::fprintf(stderr, "fiber %d: %s\n", who, what);
    std::_Exit(1);
}

void count(int change)
{
    weft_mutex_lock(&lock, WEFT_FOREVER);
    alive += change;
    weft_mutex_unlock(&lock);
}

// On the heap, so that a sanitizer detects a late read.
struct trouble : std::runtime_error {
    int who;
    trouble(int n, const std::string &text) : std::runtime_error(text), who(n) { count(1); }
    trouble(const trouble &other) : std::runtime_error(other), who(other.who) { count(1); }
    ~trouble() override { count(-1); }
};

std::string text_of(int who, int turn)
{
    return "the trouble of fiber " + std::to_string(who) + " in its turn number " + std::to_string(turn);
}

void go_elsewhere(int turn)
{
    switch (turn % 3) {
    case 0:
        weft_yield();
        break;
    case 1:
        weft_fiber_migrate(pools[turn / 3 % 2], WEFT_ANY_WORKER);
        break;
    default:
        weft_sleep(weft_after(1000));
    }
}

struct waits_in_its_destructor {
    int who, turn;
    ~waits_in_its_destructor()
    {
        if (std::uncaught_exception() != (turn % 2 == 0)) {
            die("counts the exceptions of others before it waits", who);
        }
        go_elsewhere(turn);
        if (std::uncaught_exception() != (turn % 2 == 0)) {
            die("counts the exceptions of others after it has waited", who);
        }
    }
};

void throw_late(int who, int turn)
{
    waits_in_its_destructor guard = {who, turn};
    if (turn % 2 == 0) {
        throw trouble(who, text_of(who, turn));
    }
}

void catch_one(int who, int turn)
{
    try {
        throw_late(who, turn);
    } catch (const trouble &caught) {
        go_elsewhere(turn);
        if (caught.who != who || text_of(who, turn) != caught.what()) {
            die("has caught the exception of another", who);
        }
        try {
            throw trouble(who, "inner");
        } catch (const std::exception &inner) {
            go_elsewhere(turn + 1);
            if (std::string("inner") != inner.what()) {
                die("reads another's inner exception", who);
            }
        }
        go_elsewhere(turn + 2);
        throw; // the outer one again
    }
}

void *catch_many(void *arg)
{
    int who = *static_cast<int *>(arg);
    for (int turn = 0; turn < turns; turn++) {
        bool again = false;
        try {
            catch_one(who, turn);
        } catch (trouble &caught) {
            again = true;
            go_elsewhere(turn);
            if (text_of(who, turn) != caught.what() || !std::current_exception()) {
                die("has caught another exception than was thrown again", who);
            }
        }
        if (again != (turn % 2 == 0) || std::current_exception()) {
            die("has an exception too many or too few", who);
        }
    }
    try {
        throw trouble(who, "last");
    } catch (...) {
        try {
            throw trouble(who, "very last");
        } catch (...) {
            weft_yield();
            weft_fiber_exit(arg); // which releases both
        }
    }
    return nullptr;
}

} // namespace

int main()
{
    int numbers[fibers];
    weft_fiber fiber[fibers];
    weft_mutex_init(&lock, nullptr);
    weft_pool_opts opts = {};
    opts.workers = 2;
    for (auto &pool : pools) {
        if (weft_pool_create(&pool, &opts) != 0 || weft_pool_start(pool) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < fibers; i++) {
        numbers[i] = i;
        if (weft_pool_spawn(pools[0], &fiber[i], catch_many, &numbers[i], nullptr) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < fibers; i++) {
        void *result = nullptr;
        if (weft_join(fiber[i], &result, WEFT_FOREVER) != 0 || result != &numbers[i]) {
            die("has not ended as it should", i);
        }
    }
    for (auto &pool : pools) {
        weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
        weft_pool_destroy(pool);
    }
    if (alive != 0) {
        die("exceptions are left", alive);
    }
    return 0;
}
