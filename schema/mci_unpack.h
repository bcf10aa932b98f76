/* SPDX-License-Identifier: Apache-2.0 */
/* mci_unpack.h - reads msgpack from bytes that nobody vouches for.
 *
 * The caller says what it expects and within which bounds; a length or count is
 * compared with its bound, and with the bytes that are left, before anything
 * is done with it. The first fault sticks: every later read answers zero and
 * moves nothing, so a message of nine fields is nine lines and one look at the
 * end. Nothing is allocated; texts and bytes are borrowed from the input and
 * valid as long as it is. What is accepted beyond the obvious: integers in any
 * width, and in signed form where not negative; strs and containers in any
 * form. What is not: strs that are not UTF-8, bytes behind the message, byte
 * C1, nesting over the depth that a skip allows.
 * Threads: one thread at a time.
 */
#ifndef MCI_UNPACK_H
#define MCI_UNPACK_H
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

#define MCI_UNPACK_ERROR_LIST(X)                                          \
    X(TRUNCATED, "truncated") /* ends inside a value, or a lying count */ \
    X(MALFORMED, "malformed") /* byte C1 */                               \
    X(TYPE, "type")                                                       \
    X(RANGE, "range")   /* a number outside its bounds */                 \
    X(LENGTH, "length") /* a body or count outside its bounds */          \
    X(UTF8, "utf8")                                                       \
    X(DEPTH, "depth")                                                     \
    X(TRAILING, "trailing")

enum mci_unpack_error {
    MCI_UNPACK_OK = 0,
#define MCI_UNPACK_ENUM_(name, text) MCI_UNPACK_ERROR_##name,
    MCI_UNPACK_ERROR_LIST(MCI_UNPACK_ENUM_)
#undef MCI_UNPACK_ENUM_
        MCI_UNPACK_ERROR_COUNT_
};

/* Its name in lower case; "ok" for 0, "unknown" beyond the list. */
const char *mci_unpack_error_name(enum mci_unpack_error error);

/* What the next value is. */
enum mci_unpack_kind {
    MCI_UNPACK_NONE = 0, /* no value: at the end, cut, or after a fault */
    MCI_UNPACK_NIL,
    MCI_UNPACK_BOOL,
    MCI_UNPACK_INTEGER,
    MCI_UNPACK_FLOAT,
    MCI_UNPACK_STR,
    MCI_UNPACK_BIN,
    MCI_UNPACK_EXT,
    MCI_UNPACK_ARRAY,
    MCI_UNPACK_MAP
};

struct mci_unpack {
    const uint8_t *base;
    const uint8_t *at;
    const uint8_t *end;
    enum mci_unpack_error error; /* the first one */
    size_t error_offset;         /* of the value at fault; for TRUNCATED the
                                    length of the input */
};

void mci_unpack_init(struct mci_unpack *unpack, struct mc_view input);

/* Looks without moving, and without a fault. */
enum mci_unpack_kind mci_unpack_peek(const struct mci_unpack *unpack);

/* The header of an array of min to max elements, or of a map of min to max
 * pairs; the count. The elements are read next. */
uint32_t mci_unpack_array(struct mci_unpack *unpack, uint32_t min,
                          uint32_t max);
uint32_t mci_unpack_map(struct mci_unpack *unpack, uint32_t min, uint32_t max);

/* UTF-8 of at most max bytes; bytes of min to max. An empty one is a view with
 * data and length 0; after a fault it is none. */
struct mc_view mci_unpack_str(struct mci_unpack *unpack, size_t max);
struct mc_view mci_unpack_bin(struct mci_unpack *unpack, size_t min,
                              size_t max);
/* The bytes of a str, UTF-8 or not: for who judges what others would read. */
struct mc_view mci_unpack_str_raw(struct mci_unpack *unpack, size_t max);

/* Numbers of at most max; of min to max. */
uint64_t mci_unpack_u64(struct mci_unpack *unpack, uint64_t max);
uint32_t mci_unpack_u32(struct mci_unpack *unpack, uint32_t max);
int64_t mci_unpack_i64(struct mci_unpack *unpack, int64_t min, int64_t max);
bool mci_unpack_bool(struct mci_unpack *unpack);
double mci_unpack_float(struct mci_unpack *unpack); /* either width */
void mci_unpack_nil(struct mci_unpack *unpack);

/* Steps over nil and says so; anything else stays where it is. For what may be
 * nil: `if (!mci_unpack_took_nil(u)) { n = mci_unpack_u64(u, max); }` */
bool mci_unpack_took_nil(struct mci_unpack *unpack);

/* A str, or nil as none. */
struct mc_view mci_unpack_str_or_nil(struct mci_unpack *unpack, size_t max);

/* Steps over one value of any shape, nested at most `depth` deep (0: no
 * container). Every str in it must be UTF-8. */
#define MCI_UNPACK_DEPTH_MAX 32
void mci_unpack_skip(struct mci_unpack *unpack, unsigned depth);

/* Notes a fault that the caller found, unless there is one; offset: that of
 * the next value. */
void mci_unpack_refuse(struct mci_unpack *unpack, enum mci_unpack_error error);

/* The first fault; bytes behind the last value read are one. */
MC_CHECK_RESULT enum mci_unpack_error
mci_unpack_done(struct mci_unpack *unpack);
#endif
