/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mci_alloc.h"

#define SPARES_MAX 1024

enum mc_err inbox_init(struct inbox *inbox, uint32_t source_count,
                       uint64_t max_bytes, int wake_fd)
{
    memset(inbox, 0, sizeof *inbox);
    inbox->max_bytes = max_bytes;
    inbox->wake_fd = wake_fd;
    inbox->loads = mci_calloc(source_count, sizeof *inbox->loads);
    if (!inbox->loads) {
        return MC_ERR_NOMEM;
    }
    inbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (inbox->fd < 0) {
        mci_free(inbox->loads);
        return MC_ERR_INTERNAL_ERROR;
    }
    pthread_mutex_init(&inbox->lock, NULL);
    return MC_OK;
}

struct inbox_letter *inbox_drain(struct inbox *inbox)
{
    struct inbox_letter **from = inbox->head ? &inbox->head : &inbox->spare;
    struct inbox_letter *letter = *from;
    if (letter) {
        *from = letter->next;
    }
    return letter;
}

void inbox_fini(struct inbox *inbox)
{
    close(inbox->fd);
    pthread_mutex_destroy(&inbox->lock);
    mci_free(inbox->loads);
}

/* Makes the fd say what is true; the lock is held, so it never lags behind. An
 * eventfd that counts no further than one cannot fail. */
static void settle_fd(struct inbox *inbox)
{
    bool is_due = inbox->head || inbox->is_busy;
    if (is_due == inbox->is_raised) {
        return;
    }
    inbox->is_raised = is_due;
    if (is_due) {
        (void)eventfd_write(inbox->fd, 1);
    } else {
        eventfd_t count;
        (void)eventfd_read(inbox->fd, &count);
    }
}

struct inbox_letter *inbox_get(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    struct inbox_letter *letter = inbox->spare;
    if (letter) {
        inbox->spare = letter->next;
        inbox->spare_count--;
    }
    pthread_mutex_unlock(&inbox->lock);
    return letter;
}

bool inbox_put(struct inbox *inbox, struct inbox_letter *letter)
{
    struct inbox_load *load = &inbox->loads[letter->source];
    letter->next = NULL;
    pthread_mutex_lock(&inbox->lock);
    if (inbox->head) {
        inbox->tail->next = letter;
    } else {
        inbox->head = letter;
    }
    inbox->tail = letter;
    inbox->count++;
    inbox->bytes += letter->bytes;
    load->messages++;
    load->bytes += letter->bytes;
    bool has_room = inbox->bytes < inbox->max_bytes;
    settle_fd(inbox);
    pthread_mutex_unlock(&inbox->lock);
    return has_room;
}

void inbox_count_pause(struct inbox *inbox, uint32_t source)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->loads[source].full++;
    pthread_mutex_unlock(&inbox->lock);
}

bool inbox_is_full(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->is_paused = inbox->bytes > inbox->max_bytes / 2;
    bool is_full = inbox->is_paused;
    pthread_mutex_unlock(&inbox->lock);
    return is_full;
}

struct inbox_letter *inbox_take(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    struct inbox_letter *letter = inbox->head;
    if (letter) {
        inbox->head = letter->next;
        inbox->count--;
        inbox->bytes -= letter->bytes;
        inbox->loads[letter->source].messages--;
        inbox->loads[letter->source].bytes -= letter->bytes;
    }
    inbox->is_busy = letter != NULL;
    settle_fd(inbox);
    bool is_waited_for =
        inbox->is_paused && inbox->bytes <= inbox->max_bytes / 2;
    if (is_waited_for) {
        inbox->is_paused = false;
        (void)eventfd_write(inbox->wake_fd, 1);
    }
    pthread_mutex_unlock(&inbox->lock);
    return letter;
}

void inbox_rest(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->is_busy = false;
    settle_fd(inbox);
    pthread_mutex_unlock(&inbox->lock);
}

bool inbox_give_back(struct inbox *inbox, struct inbox_letter *letter)
{
    pthread_mutex_lock(&inbox->lock);
    bool is_kept = inbox->spare_count < SPARES_MAX;
    if (is_kept) {
        letter->next = inbox->spare;
        inbox->spare = letter;
        inbox->spare_count++;
    }
    pthread_mutex_unlock(&inbox->lock);
    return is_kept;
}

uint64_t inbox_count(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    uint64_t count = inbox->count;
    pthread_mutex_unlock(&inbox->lock);
    return count;
}

void inbox_load(struct inbox *inbox, uint32_t source,
                struct inbox_load *load_out)
{
    pthread_mutex_lock(&inbox->lock);
    *load_out = inbox->loads[source];
    pthread_mutex_unlock(&inbox->lock);
}
