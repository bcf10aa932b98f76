/* SPDX-License-Identifier: Apache-2.0 */
/* test_known_stream.c - what other stores failed at on one connection. */
#include "suite.h"
#include "tcp_rig.h"

/* More than 4 GiB each way over one connection. */
START_TEST(a_connection_carries_more_than_32_bits_count)
{
    const size_t len = (size_t)64 << 20;
    struct tcp_rig rig;
    struct mc_transfer_opts opts = tcp_rig_opts();
    opts.connections_per_peer = 1;
    unsigned rounds = getenv("MC_SOAK") ? 80 : 2;
    tcp_rig_open_as(&rig, len, &opts);
    uint8_t *bytes = malloc(len);
    ck_assert_ptr_nonnull(bytes);
    const struct mc_span span = {bytes, len};
    for (unsigned i = 0; i < rounds; i++) {
        tcp_rig_fill(bytes, len, i);
        struct mc_transfer_row row = tcp_rig_row(&rig, true, 0, &span);
        ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
        ck_assert_int_eq(memcmp(bytes, rig.memory, len), 0);
        memset(bytes, 0, len);
        row = tcp_rig_row(&rig, false, 0, &span);
        ck_assert_int_eq(mc_transfer_run(rig.peer, &row, 1, tcp_rig_soon()),
                         MC_OK);
        ck_assert_int_eq(memcmp(bytes, rig.memory, len), 0);
    }
    struct mc_transfer_stats stats;
    mc_transfer_stat(rig.peer, &stats);
    ck_assert_uint_eq(stats.connections, 1);
    free(bytes);
    tcp_rig_close(&rig);
}
END_TEST

static TCase *stream(void)
{
    TCase *tcase = tcase_create("stream");
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, a_connection_carries_more_than_32_bits_count);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("known stream");
    suite_add_tcase(suite, stream());
    return suite_run(suite);
}
