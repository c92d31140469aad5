/* The context of a request, in fiber-local storage: any function that runs for the request can log
 * under its name without an extra parameter. A function at any depth can give up: weft_fiber_exit
 * ends the fiber, and the cleanups of the calls that were left undo what they had begun. When the
 * fiber ends, the key's destructor frees the context. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

struct context {
    const char *text; /* of the request: "<account> <amount>" */
    int log_lines;
};

static weft_fiber_key key;
static atomic_int contexts_live, log_lines, balance = 100, reserved;

static void context_free(void *arg)
{
    struct context *context = arg;
    atomic_fetch_add(&log_lines, context->log_lines);
    atomic_fetch_sub(&contexts_live, 1);
    free(context);
}

static void log_line(const char *text)
{
    struct context *context = weft_fiber_get_local(key);
    char name[16] = "";
    weft_fiber_name(weft_self(), name, sizeof name);
    context->log_lines++;
    printf("[%s, line %d] %s\n", name, context->log_lines, text);
}

/* Ends the request, from any depth. */
static _Noreturn void fail(int err)
{
    log_line(weft_strerror(err));
    weft_fiber_exit((void *)(intptr_t)err);
}

static void release(void *amount)
{
    atomic_fetch_sub(&reserved, *(const int *)amount);
}

/* Knows nothing of the reservation that the caller holds. */
static void pay(const char *account, int amount)
{
    if (strcmp(account, "alice") != 0) {
        fail(-ENOENT);
    }
    if (amount > atomic_load(&balance)) {
        fail(-EPERM);
    }
    atomic_fetch_sub(&balance, amount);
}

static void parse(const char *text, char *account, int *amount)
{
    if (sscanf(text, "%15s %d", account, amount) != 2) {
        fail(-EINVAL);
    }
}

static void transfer(const char *text)
{
    struct weft_fiber_cleanup buffer, reservation;
    char *account = malloc(16);
    int amount;
    if (!account) {
        fail(-ENOMEM);
    }
    weft_fiber_cleanup_push(&buffer, free, account);
    parse(text, account, &amount);
    atomic_fetch_add(&reserved, amount);
    weft_fiber_cleanup_push(&reservation, release, &amount);
    pay(account, amount);
    weft_fiber_cleanup_pop(&reservation, false); /* committed: keep the reservation */
    weft_fiber_cleanup_pop(&buffer, true);       /* not needed any more: free it now */
}

static void *serve(void *arg)
{
    static atomic_int last_number;
    char name[16];
    struct context *context = calloc(1, sizeof *context);
    if (!context) {
        return (void *)(intptr_t)-ENOMEM;
    }
    atomic_fetch_add(&contexts_live, 1);
    context->text = arg;
    weft_fiber_set_local(key, context);
    snprintf(name, sizeof name, "request %d", atomic_fetch_add(&last_number, 1) + 1);
    weft_fiber_set_name(name);
    transfer(context->text);
    log_line("paid");
    return NULL;
}

static void *run(void *arg)
{
    static char texts[][16] = {"alice 70", "bob 10", "alice", "alice 700"};
    static const intptr_t expected[] = {0, -ENOENT, -EINVAL, -EPERM};
    bool well = true;
    for (int i = 0; i < 4; i++) {
        weft_fiber fiber;
        void *result = NULL;
        if (weft_spawn(&fiber, serve, texts[i], NULL) || weft_join(fiber, &result, WEFT_FOREVER)) {
            return NULL;
        }
        well &= (intptr_t)result == expected[i];
    }
    *(bool *)arg = well;
    return NULL;
}

int main(void)
{
    bool well = false;
    int err = weft_fiber_key_create(&key, context_free);
    if (!err) {
        err = weft_run(NULL, run, &well, NULL, WEFT_FOREVER);
    }
    printf("balance %d, reserved %d, %d lines logged\n", atomic_load(&balance),
           atomic_load(&reserved), atomic_load(&log_lines));
    if (err || !well || atomic_load(&balance) != 30 || atomic_load(&reserved) != 70 ||
        atomic_load(&contexts_live) != 0 || atomic_load(&log_lines) != 4) {
        fprintf(stderr, "request_context: %s, %d contexts left\n", weft_strerror(err),
                atomic_load(&contexts_live));
        return 1;
    }
    return 0;
}
