/* Runs a fuzz target over every file of a folder in the order of their names, so that the corpus is
 * a plain test. */
#include <dirent.h>

#include "fuzz/target.h"

static void replay(const char *folder, const char *name)
{
    static uint8_t bytes[1 << 20];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rbe");
    fuzz_require(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    uint8_t *copy = fuzz_copy(bytes, len);
    printf("%s (%zu bytes)\n", name, len);
    fflush(stdout);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int ran = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int n = scandir(argv[1], &entries, NULL, alphasort);
    if (n < 0) {
        perror(argv[1]);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            replay(argv[1], entries[i]->d_name);
            ran++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs\n", ran);
    return ran == 0;
}
