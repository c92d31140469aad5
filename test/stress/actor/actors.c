/* A small population of actors under heavy disturbance. */
#include "stress/actor/population.h"

TEST(random_actor_population_gets_every_notice_and_leaks_nothing)
{
    society_run(&(struct society_opts){.population = 400,
                                       .shown = 64,
                                       .keepers = 4,
                                       .children = 40,
                                       .rounds = check_scale(150000)});
}
