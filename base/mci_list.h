/* SPDX-License-Identifier: Apache-2.0 */
/* mci_list.h - intrusive doubly linked list with a head of the same type.
 *
 * A link that is in no list points at itself, so removing twice is harmless.
 * Threads: whatever guards the list guards its links.
 */
#ifndef MCI_LIST_H
#define MCI_LIST_H
#include <stdbool.h>
#include <stddef.h>

struct mci_link {
    struct mci_link *prev;
    struct mci_link *next;
};

/* The struct of which a link is a member. */
#define MCI_CONTAINER(link, type, member) \
    ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void mci_list_init(struct mci_link *head)
{
    head->prev = head;
    head->next = head;
}

static inline bool mci_list_is_empty(const struct mci_link *head)
{
    return head->next == head;
}

static inline void mci_list_push_back(struct mci_link *head,
                                      struct mci_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void mci_list_push_front(struct mci_link *head,
                                       struct mci_link *link)
{
    mci_list_push_back(head->next, link);
}

/* Moves all of a list behind the end of another one. */
static inline void mci_list_append(struct mci_link *head, struct mci_link *from)
{
    if (mci_list_is_empty(from)) {
        return;
    }
    from->next->prev = head->prev;
    head->prev->next = from->next;
    from->prev->next = head;
    head->prev = from->prev;
    mci_list_init(from);
}

static inline void mci_list_remove(struct mci_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    mci_list_init(link);
}
#endif
