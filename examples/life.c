/* The Game of Life, computed in parallel: each fiber owns a band of rows. A barrier after each
 * generation lets no fiber run ahead, because it needs the neighbouring bands. The last fiber to
 * arrive does what one fiber must do alone: it exchanges the boards. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { SIZE = 16, BANDS = 4, ROWS = SIZE / BANDS, GENERATIONS = 4 * SIZE };

typedef char board[SIZE][SIZE];

static board boards[2];
static board *now = &boards[0], *next = &boards[1];
static weft_barrier barrier;

static int neighbours(int row, int column)
{
    int n = 0;
    for (int i = -1; i <= 1; i++) {
        for (int k = -1; k <= 1; k++) {
            n += (i || k) && (*now)[(row + i + SIZE) % SIZE][(column + k + SIZE) % SIZE] == '#';
        }
    }
    return n;
}

static void compute(int first_row)
{
    for (int row = first_row; row < first_row + ROWS; row++) {
        for (int column = 0; column < SIZE; column++) {
            int n = neighbours(row, column);
            bool lives = n == 3 || (n == 2 && (*now)[row][column] == '#');
            (*next)[row][column] = lives ? '#' : '.';
        }
    }
}

static int run_band(void *arg)
{
    int first_row = (int)(intptr_t)arg;
    for (int i = 0; i < GENERATIONS; i++) {
        compute(first_row);
        int last = weft_barrier_wait(&barrier, WEFT_FOREVER); /* all have read `now` */
        if (last == 1) {
            board *old = now;
            now = next;
            next = old;
        }
        int err = last < 0 ? last : weft_barrier_wait(&barrier, WEFT_FOREVER); /* all see it */
        if (err < 0) {
            return err;
        }
    }
    return 0;
}

static void *run(void *arg)
{
    weft_scope bands;
    int err = weft_scope_open(&bands, NULL);
    weft_barrier_init(&barrier, BANDS, &(struct weft_sync_opts){.name = "generation"});
    for (int i = 0; i < BANDS && !err; i++) {
        err = weft_scope_spawn(&bands, NULL, run_band, (void *)(intptr_t)(i * ROWS), NULL);
    }
    if (err) {
        weft_scope_cancel(&bands); /* a party is missing: the others would wait forever */
    }
    int failure = weft_scope_close(&bands, WEFT_FOREVER);
    weft_barrier_deinit(&barrier);
    *(int *)arg = err ? err : failure;
    return NULL;
}

int main(void)
{
    static const char glider[3][3] = {{'.', '#', '.'}, {'.', '.', '#'}, {'#', '#', '#'}};
    board first;
    int failure = 0;
    memset(now, '.', sizeof *now);
    for (int i = 0; i < 3; i++) {
        memcpy((*now)[i + 1] + 1, glider[i], sizeof glider[i]);
    }
    memcpy(first, now, sizeof first);
    int err = weft_run(NULL, run, &failure, NULL, WEFT_FOREVER);
    for (int row = 0; row < 5; row++) {
        printf("%.*s\n", SIZE, (*now)[row]);
    }
    /* A glider moves by one field in four generations: it has gone round the board. */
    bool came_round = memcmp(first, now, sizeof first) == 0;
    printf("%d generations: the glider has %s\n", GENERATIONS,
           came_round ? "returned to its place" : "lost its way");
    if (err || failure || !came_round) {
        fprintf(stderr, "life: %s\n", weft_strerror(err ? err : failure));
        return 1;
    }
    return 0;
}
