/* SPDX-License-Identifier: Apache-2.0 */
#include "rows_worlds.h"

#include <check.h>
#include <stdlib.h>

#include "mc_client_sessions.h"

int64_t rows_client_get(struct mc_client *client, struct mc_view key,
                        void *data, size_t capacity)
{
    uint64_t size = 0;
    enum mc_err err = mc_client_get_into(client, key, data, capacity, &size);
    return err == MC_OK ? (int64_t)size : err;
}

struct writing {
    struct mc_put_session *session;
    size_t len;
};

void *rows_client_write(struct mc_client *client, struct mc_view key,
                        size_t len)
{
    struct writing *writing = calloc(1, sizeof *writing);
    const uint64_t size = len;
    int64_t result = 7;
    ck_assert_ptr_nonnull(writing);
    writing->len = len;
    ck_assert_int_eq(mc_client_put_sessions_open(client, &key, &size, NULL, 1,
                                                 &writing->session, &result),
                     MC_OK);
    ck_assert_int_eq(result, MC_OK);
    return writing;
}

void rows_client_finish(struct mc_client *client, void *ctx, const void *data)
{
    struct writing *writing = ctx;
    int64_t result = 7;
    if (data) {
        const struct mc_fragment fragment = {(void *)(uintptr_t)data, 0,
                                             writing->len};
        const struct mc_fragments fragments = {&fragment, 1};
        ck_assert_int_eq(mc_client_put_sessions_write(client, &writing->session,
                                                      &fragments, 1, 0,
                                                      &result),
                         MC_OK);
        ck_assert_int_eq(result, (int64_t)writing->len);
    }
    enum mc_err err = data ? mc_client_put_sessions_end(
                                 client, &writing->session, 1, 0, &result)
                           : mc_client_put_sessions_revoke(
                                 client, &writing->session, 1, 0, &result);
    ck_assert_int_eq(err, MC_OK);
    ck_assert_int_eq(result, 0);
    free(writing);
}

enum mci_op rows_op_of(enum rows_step step)
{
    static const enum mci_op ops[ROWS_STEP_COUNT] = {
        [ROWS_READ] = MCI_OP_GET,          [ROWS_OPEN] = MCI_OP_PUT_START,
        [ROWS_BYTES] = (enum mci_op)0,     [ROWS_END] = MCI_OP_PUT_END,
        [ROWS_REVOKE] = MCI_OP_PUT_REVOKE, [ROWS_PROBE] = MCI_OP_PROBE};
    return ops[step];
}
