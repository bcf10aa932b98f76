/* SPDX-License-Identifier: Apache-2.0 */
/* resolver.c - see the header. A name is looked up on a thread of its own, since
 * the system's resolver knows no deadline: a caller whose time is up leaves it
 * behind, and the last of the two frees what they shared.
 */
#include "resolver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "mci_address.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_cond.h"

#define STACK_BYTES (256 * 1024)

/* Shared by the asking and the resolving thread. */
struct lookup {
    pthread_mutex_t lock;
    pthread_cond_t done;
    char host[MCI_HOST_LEN_MAX + 1];
    int refs; /* guarded by lock, as all below */
    bool is_done;
    int result; /* of getaddrinfo */
    struct addrinfo *all;
};

int mci_resolve(const char *host, int flags, struct addrinfo **all_out)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    return getaddrinfo(host, NULL, &hints, all_out);
}

static void lookup_release(struct lookup *lookup)
{
    (void)pthread_mutex_lock(&lookup->lock);
    bool is_last = --lookup->refs == 0;
    (void)pthread_mutex_unlock(&lookup->lock);
    if (!is_last) {
        return;
    }
    if (lookup->all) {
        freeaddrinfo(lookup->all);
    }
    (void)pthread_cond_destroy(&lookup->done);
    (void)pthread_mutex_destroy(&lookup->lock);
    mci_free(lookup);
}

static void *run_lookup(void *ctx)
{
    struct lookup *lookup = ctx;
    struct addrinfo *all = NULL;
    int result = mci_resolve(lookup->host, 0, &all);
    (void)pthread_mutex_lock(&lookup->lock);
    lookup->result = result;
    lookup->all = result == 0 ? all : NULL;
    lookup->is_done = true;
    (void)pthread_cond_signal(&lookup->done);
    (void)pthread_mutex_unlock(&lookup->lock);
    lookup_release(lookup);
    return NULL;
}

static struct lookup *lookup_create(const char *host)
{
    struct lookup *lookup = mci_calloc(1, sizeof *lookup);
    if (!lookup) {
        return NULL;
    }
    if (mci_cond_init(&lookup->done) != 0) {
        mci_free(lookup);
        return NULL;
    }
    (void)pthread_mutex_init(&lookup->lock, NULL);
    (void)snprintf(lookup->host, sizeof lookup->host, "%s", host);
    lookup->refs = 1;
    return lookup;
}

static bool lookup_start(struct lookup *lookup)
{
    pthread_t thread;
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    lookup->refs++;
    int failed = pthread_create(&thread, &attr, run_lookup, lookup);
    (void)pthread_attr_destroy(&attr);
    if (failed) {
        lookup->refs--;
    }
    return !failed;
}

/* Answers whether the lookup is over; its list moves to *all_out. */
static bool lookup_await(struct lookup *lookup, uint64_t deadline_ns,
                         struct addrinfo **all_out, int *result_out)
{
    (void)pthread_mutex_lock(&lookup->lock);
    while (!lookup->is_done && mci_clock_ns() < deadline_ns) {
        mci_cond_wait(&lookup->done, &lookup->lock, deadline_ns);
    }
    bool is_done = lookup->is_done;
    *all_out = lookup->all;
    *result_out = lookup->result;
    lookup->all = is_done ? NULL : lookup->all;
    (void)pthread_mutex_unlock(&lookup->lock);
    return is_done;
}

enum mc_err mci_resolve_by(const char *host, uint64_t deadline_ns,
                           struct addrinfo **all_out, const char **why_out)
{
    struct lookup *lookup = lookup_create(host);
    *why_out = "out of memory";
    if (!lookup) {
        return MC_ERR_RPC_FAIL;
    }
    int result = 0;
    enum mc_err err = MC_ERR_RPC_FAIL;
    *why_out = "no thread for the resolver";
    if (lookup_start(lookup)) {
        bool is_done = lookup_await(lookup, deadline_ns, all_out, &result);
        *why_out = is_done ? gai_strerror(result) : "the resolver is silent";
        err = !is_done      ? MC_ERR_RPC_TIMEOUT
              : result == 0 ? MC_OK
                            : MC_ERR_RPC_FAIL;
    }
    lookup_release(lookup);
    return err;
}
