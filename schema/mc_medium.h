/* SPDX-License-Identifier: Apache-2.0 */
/* mc_medium.h - where a readable copy of an object stands.
 *
 * A set of media is a mask. On the wire a medium is its name.
 */
#ifndef MC_MEDIUM_H
#define MC_MEDIUM_H

#ifdef __cplusplus
extern "C" {
#endif

enum mc_medium {
    MC_MEDIUM_NONE = 0,
    MC_MEDIUM_CPU = 1, /* memory of some process */
    MC_MEDIUM_DISK = 2
};
#define MC_MEDIUM_COUNT 2 /* bits in use, from bit 0 on */

/* "cpu", "disk"; "cpu+disk" for both, "-" for none. Static. */
const char *mc_medium_name(unsigned media);

#ifdef __cplusplus
}
#endif
#endif
