#ifndef WEFT_CMD_SERVE_H
#define WEFT_CMD_SERVE_H

/* The command `weft serve`: its exit status. */
int serve(int argc, char **argv);

#endif
