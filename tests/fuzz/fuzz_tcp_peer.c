/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile owner may answer to a peer. The input is a list of bursts: some
 * are bytes as they are, some become the right answer to the next request, of
 * which a byte may be spoilt. No byte outside of the rows' spans may change, and
 * a row that went well has all of its bytes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mc_transfer.h"
#include "mci_address.h"
#include "mci_clock.h"
#include "tcp_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROWS 6
#define SPAN 700
#define GUARD 64
#define ROOM 65536

#define INPUT_MAX (ROOM / 4)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t input[INPUT_MAX]; /* of this round; guarded by lock */
static size_t input_len;
static struct mc_transfer *transfer;
static struct mc_target *target;
static uint8_t bytes[ROWS][SPAN + GUARD];

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static bool writes(uint64_t row)
{
    return row % 3 == 2;
}

static size_t put_answer(uint8_t *out, uint64_t number, unsigned how,
                         const uint8_t *more)
{
    uint64_t row = (number - 1) % ROWS;
    const struct mci_tcp_answer answer = {
        .op = writes(row) ? MCI_TCP_WRITE : MCI_TCP_READ,
        .number = number,
        .code = (how & 8) ? MC_ERR_LEASE_EXPIRED : MC_OK,
        .len = (how & 8) ? 0 : SPAN};
    size_t len = MCI_TCP_ANSWER_LEN;
    mci_tcp_answer_write(&answer, out);
    if (how & 2) {
        out[more[0] % MCI_TCP_ANSWER_LEN] ^= more[1];
    }
    if (!writes(row) && !(how & 8)) {
        memset(out + len, 0xAA, SPAN);
        len += (how & 4) ? SPAN / 2 : SPAN;
    }
    return len;
}

static size_t compose(uint8_t *out)
{
    size_t len = 0;
    size_t at = 0;
    uint64_t number = 0;
    while (at < input_len && len < ROOM / 2) {
        unsigned how = input[at++];
        if (how & 1) {
            uint8_t more[2] = {0, 0};
            for (int i = 0; i < 2 && (how & 2) && at < input_len; i++) {
                more[i] = input[at++];
            }
            len += put_answer(out + len, ++number, how, more);
        } else {
            size_t part = how < input_len - at ? how : input_len - at;
            memcpy(out + len, input + at, part);
            len += part;
            at += part;
        }
    }
    return len;
}

static void *lie(void *arg)
{
    static uint8_t out[ROOM];
    int listener = *(const int *)arg;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        uint8_t nowhere[4096];
        if (fd < 0) {
            continue;
        }
        /* The first bytes say that the round has begun. */
        if (recv(fd, nowhere, sizeof nowhere, 0) > 0) {
            (void)pthread_mutex_lock(&lock);
            size_t len = compose(out);
            (void)pthread_mutex_unlock(&lock);
            (void)!send(fd, out, len, MSG_NOSIGNAL);
            (void)shutdown(fd, SHUT_WR);
            while (recv(fd, nowhere, sizeof nowhere, 0) > 0) {
            }
        }
        (void)close(fd);
    }
    return NULL;
}

static void begin(void)
{
    static int listener;
    const struct mci_listen_opts listen_opts = {.host = "127.0.0.1"};
    const struct mc_transfer_opts opts = {.only = MC_TRANSPORT_TCP,
                                          .any_memory = true};
    char endpoint[32];
    const char *why = "";
    uint16_t port = 0;
    pthread_t thread;
    require(mci_address_listen(&listen_opts, &listener, &port, &why) == MC_OK);
    (void)fcntl(listener, F_SETFL, 0);
    require(pthread_create(&thread, NULL, lie, &listener) == 0);
    (void)snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", (unsigned)port);
    const struct mc_target_opts to = {
        .registration = 7, .bytes = 1 << 20, .endpoint = endpoint};
    require(mc_transfer_open(&opts, &transfer) == MC_OK);
    require(mc_target_open(transfer, &to, &target) == MC_OK);
}

static void check(const struct mc_transfer_row *row, size_t i)
{
    require(row->local_ended);
    for (size_t j = SPAN; j < SPAN + GUARD; j++) {
        require(bytes[i][j] == 0x11);
    }
    if (row->err == MC_OK) {
        require(row->bytes == SPAN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mc_transfer_row rows[ROWS];
    struct mc_span spans[ROWS];
    if (!transfer) {
        begin();
    }
    (void)pthread_mutex_lock(&lock);
    input_len = size < INPUT_MAX ? size : INPUT_MAX;
    if (input_len > 0) {
        memcpy(input, data, input_len);
    }
    (void)pthread_mutex_unlock(&lock);
    memset(bytes, 0x11, sizeof bytes);
    for (size_t i = 0; i < ROWS; i++) {
        spans[i] = (struct mc_span){bytes[i], SPAN};
        rows[i] = (struct mc_transfer_row){
            .target = target,
            .spans = &spans[i],
            .span_count = 1,
            .terms = {.registration = 7, .len = SPAN, .is_write = writes(i)}};
    }
    (void)mc_transfer_run(transfer, rows, ROWS,
                          mci_clock_ns() + 3 * MCI_NS_PER_S);
    for (size_t i = 0; i < ROWS; i++) {
        check(&rows[i], i);
    }
    return 0;
}
