/* SPDX-License-Identifier: Apache-2.0 */
/* suite.h - the end of every test program: run the suite, tell, exit.
 *
 * CK_FORK=no in the environment keeps all tests in one process, for sanitizers
 * and debuggers; CK_RUN_CASE picks a case (both are Check's own).
 */
#ifndef SUITE_H
#define SUITE_H
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* Takes the suite; the exit code of main. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    if (srunner_fork_status(runner) == CK_NOFORK) {
        /* What fails there may take the next test with it: told at once. */
        (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
        srunner_set_log(runner, "-");
    }
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
