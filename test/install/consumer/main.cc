// Uses the installed library from C++: the headers compile as C++, and the names have C linkage.
#include <cstdio>
#include <string>

#include <weft/weft.h>

int main(int argc, char **argv)
{
    if (argc > 1 && std::string(argv[1]) != weft_version()) {
        std::fprintf(stderr, "weft %s, expected %s\n", weft_version(), argv[1]);
        return 1;
    }
    int n = 21;
    weft_pool_opts opts = {};
    opts.workers = 2;
    void *result = nullptr;
    int error = weft_run(&result, [](void *arg) -> void * {
            weft_yield();
            *static_cast<int *>(arg) *= 2;
            return arg;
        }, &n, &opts, WEFT_FOREVER);
    if (error != 0 || result != &n || n != 42) {
        std::fprintf(stderr, "weft_run: %d, n = %d\n", error, n);
        return 1;
    }
    return 0;
}
