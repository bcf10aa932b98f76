/* SPDX-License-Identifier: Apache-2.0 */
/* mc_curve.h - key pairs for encrypted events (CURVE of ZeroMQ).
 *
 * A key is 40 characters of printable text (Z85). A key file has two lines,
 * "public KEY" and "secret KEY".
 * Threads: any thread.
 */
#ifndef MC_CURVE_H
#define MC_CURVE_H
#include "mc_err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MC_CURVE_TEXT_LEN 40

/* Makes a pair and a key file with it, of mode 0600; a file that is there stays
 * as it is. public_out: NUL-terminated. Errors, each with a line in the log:
 * MC_ERR_FILE_WRITE_FAIL, MC_ERR_NOT_SUPPORTED (ZeroMQ was built without
 * CURVE). */
MC_CHECK_RESULT enum mc_err
mc_curve_make(const char *path, char public_out[MC_CURVE_TEXT_LEN + 1]);

#ifdef __cplusplus
}
#endif
#endif
