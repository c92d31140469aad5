/* A small society of actors, with much turmoil. */
#include "stress/society.h"

TEST(whatever_they_do_all_is_told_and_nothing_left)
{
    society_run(&(struct society_opts){.population = 400,
                                       .shown = 64,
                                       .keepers = 4,
                                       .children = 40,
                                       .rounds = check_scale(150000)});
}
