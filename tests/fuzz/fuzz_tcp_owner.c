/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile peer may send to an owner. The input is a list of bursts: some
 * are bytes as they are, some become requests with a good grant, of which a byte
 * may be spoilt. No byte outside of what was granted may ever change, and what the
 * owner says is always an answer. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "mc_transfer.h"
#include "mci_address.h"
#include "mci_clock.h"
#include "tcp_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY 65536
#define GRANT_AT 8192
#define GRANT_LEN 16384
#define ROOM 65536

static uint8_t memory[MEMORY];
static struct mc_exposure exposure;
static struct mci_address address;

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static void lend(void)
{
    const struct mc_transfer_opts opts = {.bind_address = "127.0.0.1",
                                          .only = MC_TRANSPORT_TCP};
    const struct mc_exposure_opts what = {
        .base = memory, .bytes = MEMORY, .fd = -1};
    struct mc_transfer *transfer = NULL;
    require(mc_transfer_open(&opts, &transfer) == MC_OK);
    require(mc_transfer_expose(transfer, &what, &exposure) == MC_OK);
    require(mci_address_parse(exposure.endpoint, &address) == MC_OK);
}

struct input {
    const uint8_t *data;
    size_t size;
};

static unsigned take(struct input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->data++;
}

struct output {
    uint8_t bytes[ROOM];
    size_t len;
    uint64_t number;
};

static void put(struct output *output, const void *data, size_t len)
{
    if (len <= ROOM - output->len) {
        memcpy(output->bytes + output->len, data, len);
        output->len += len;
    }
}

static void put_request(struct input *input, struct output *output,
                        unsigned how)
{
    static const uint8_t filler[4096] = {0xFF};
    uint8_t head[MCI_TCP_REQUEST_LEN];
    enum mci_tcp_op op = (enum mci_tcp_op)(1 + take(input) % 4);
    bool is_write = op == MCI_TCP_WRITE || op == MCI_TCP_SEAL;
    bool moves = op == MCI_TCP_WRITE || op == MCI_TCP_READ;
    uint64_t place = take(input) * 64;
    uint64_t len = take(input) * 16;
    struct mci_tcp_request request = {
        .op = op,
        .is_final = op == MCI_TCP_WRITE && (how & 8) != 0,
        .number = ++output->number,
        .terms = {.registration = exposure.registration,
                  .incarnation = 1,
                  .subject = 1 + take(input),
                  .offset = GRANT_AT,
                  .len = GRANT_LEN,
                  .is_write = is_write},
        .grant = {.deadline_ns = mci_clock_ns() + 5 * MCI_NS_PER_S},
        .offset = moves ? GRANT_AT + place : 0,
        .len = moves ? len : 0};
    request.grant.tag =
        mc_grant_tag(exposure.key, &request.terms, request.grant.deadline_ns);
    mci_tcp_request_write(&request, head);
    if (how & 2) {
        head[take(input) % sizeof head] ^= (uint8_t)take(input);
    }
    put(output, head, sizeof head);
    if (op == MCI_TCP_WRITE) {
        put(output, filler, (how & 4) ? len / 2 : len);
    }
}

static void compose(struct input *input, struct output *output)
{
    output->len = 0;
    output->number = 0;
    while (input->size > 0) {
        unsigned how = take(input);
        if (how & 1) {
            put_request(input, output, how);
        } else {
            size_t len = how < input->size ? how : input->size;
            put(output, input->data, len);
            input->data += len;
            input->size -= len;
        }
    }
}

/* Reads answers to the end. */
static void listen_to(int fd)
{
    uint8_t bytes[8192];
    ssize_t got;
    size_t len = 0;
    uint8_t first[MCI_TCP_ANSWER_LEN];
    struct mci_tcp_answer answer;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        for (ssize_t i = 0; i < got && len < sizeof first; i++) {
            first[len++] = bytes[i];
        }
    }
    if (len == sizeof first) {
        require(mci_tcp_answer_read(first, &answer) == MC_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct output output;
    struct input input = {data, size};
    const struct timeval patience = {.tv_sec = 8};
    const char *why = "";
    int fd = -1;
    if (exposure.registration == 0) {
        lend();
    }
    compose(&input, &output);
    if (mci_address_connect(&address, mci_clock_ns() + 5 * MCI_NS_PER_S, &fd,
                            &why)) {
        return 0; /* out of ports, for a while */
    }
    (void)fcntl(fd, F_SETFL, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    (void)!send(fd, output.bytes, output.len, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    listen_to(fd);
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(fd);
    for (size_t i = 0; i < MEMORY; i++) {
        require(memory[i] == 0 || (i >= GRANT_AT && i < GRANT_AT + GRANT_LEN));
    }
    return 0;
}
