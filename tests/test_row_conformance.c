/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_conformance.c - the suite of row drivers over this project's driver:
 * on an embedded store, or, by MC_CLIENT_LINK, on one between processes. */
#include <stdlib.h>
#include <string.h>

#include "keep_quiet.h"
#include "mc_log.h"
#include "rows_worlds.h"

int main(int argc, char **argv)
{
    const char *link = getenv("MC_CLIENT_LINK");
    mc_log_set_sink(keep_quiet, NULL); /* networks are broken on purpose */
    if (argc == 5 && strcmp(argv[1], "--node") == 0) {
        return rows_play_node(argv + 2);
    }
    if (link && strcmp(link, "tcp") == 0) {
        return rows_suite(&rows_tcp);
    }
    return rows_suite(link && strcmp(link, "shm") == 0 ? &rows_shm
                                                       : &rows_embedded);
}
