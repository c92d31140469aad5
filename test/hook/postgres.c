/* PostgreSQL through libpq, which knows nothing about fibers. */
/* needs: libpq */
/* not under: tsan valgrind qemu */
/* serial */
#include <glob.h>
#include <libpq-fe.h>

#include "hook/server.h"

enum { FIBERS = 100 };

static struct server server;
static char where[128];
static PGconn *connections[FIBERS];

static void start(void)
{
    glob_t found;
    char data[96], initdb[256], postgres[256];
    int status;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0) {
        check_skip("no PostgreSQL server (Debian: postgresql-15)");
    }
    snprintf(initdb, sizeof initdb, "%s/initdb", found.gl_pathv[0]);
    snprintf(postgres, sizeof postgres, "%s/postgres", found.gl_pathv[0]);
    globfree(&found);
    server_init(&server, "postgres");
    snprintf(data, sizeof data, "%s/data", server.folder);
    snprintf(where, sizeof where, "host=%s user=weft dbname=postgres", server.folder);
    const char *const make[] = {initdb, "-D", data,   "-A",        "trust",      "-U",
                                "weft", "-E", "UTF8", "--no-sync", "--locale=C", NULL};
    CHECK_EQ(waitpid(server_run(&server, make), &status, 0) > 0, 1);
    if (status != 0) {
        server_fail(&server, "initdb failed");
    }
    const char *const serve[] = {postgres,
                                 "-D",
                                 data,
                                 "-k",
                                 server.folder,
                                 "-h",
                                 "",
                                 "-F",
                                 "-c",
                                 "max_connections=120",
                                 "-c",
                                 "shared_buffers=16MB",
                                 NULL};
    server.pid = server_run(&server, serve);
    for (int tries = 0; PQping(where) != PQPING_OK; tries++) {
        if (tries > SERVER_TRIES || waitpid(server.pid, &status, WNOHANG) != 0) {
            server_fail(&server, "postgres did not start");
        }
        usleep(50000);
    }
}

static void *connects(void *arg)
{
    PGconn *c = PQconnectdb(where);
    if (PQstatus(c) != CONNECTION_OK) {
        server_fail(&server, PQerrorMessage(c));
    }
    connections[(intptr_t)arg] = c;
    return NULL;
}

static void *asks(void *arg)
{
    PGconn *c = connections[(intptr_t)arg];
    PGresult *result = PQexec(c, "select pg_sleep(0.2)");
    CHECK_EQ(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    return NULL;
}

/* Rows that need several reads, and an error. */
static void *reads(void *arg)
{
    PGconn *c = connections[(intptr_t)arg];
    PGresult *result =
        PQexec(c, "select i, repeat('x', 100) from generate_series(1, 5000) as s(i)");
    CHECK_EQ(PQresultStatus(result), PGRES_TUPLES_OK);
    CHECK_EQ(PQntuples(result), 5000);
    CHECK_STR(PQgetvalue(result, 4999, 0), "5000");
    PQclear(result);
    result = PQexec(c, "select 1/0");
    CHECK_EQ(PQresultStatus(result), PGRES_FATAL_ERROR);
    PQclear(result);
    return NULL;
}

static void *finishes(void *arg)
{
    PQfinish(connections[(intptr_t)arg]);
    return NULL;
}

static void crowd(enum weft_driver driver)
{
    double connect = server_crowd_on(driver, FIBERS, connects);
    double query = server_crowd_within(1, driver, FIBERS, asks); /* sequentially: 20 s */
    double rows = server_crowd_on(driver, 10, reads);
    server_crowd_on(driver, FIBERS, finishes);
    printf("  %d connections %.2f s, %d times pg_sleep(0.2) %.2f s, rows %.2f s\n", FIBERS, connect,
           FIBERS, query, rows);
    CHECK(query >= 0.2);
}

TEST(hundred_fibers_run_libpq_queries_concurrently)
{
    start();
    for (int i = WEFT_DRIVER_EPOLL; i <= WEFT_DRIVER_POLL; i++) {
        if (drivers_have((enum weft_driver)i)) {
            printf("  on %s\n", drivers_names[i]);
            crowd((enum weft_driver)i);
        }
    }
    server_stop(&server, SIGINT);
}
