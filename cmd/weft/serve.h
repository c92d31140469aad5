#ifndef WEFT_CMD_SERVE_H
#define WEFT_CMD_SERVE_H

/* Runs the command `weft serve`. Returns its exit status. */
int serve(int argc, char **argv);

#endif
