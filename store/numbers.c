/* SPDX-License-Identifier: Apache-2.0 */
#include "numbers.h"

#include <string.h>

#include "mci_alloc.h"

#define CAPACITY_MIN 16
#define CAPACITY_MAX (SIZE_MAX / 4 / sizeof(struct mci_number_slot))
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

/* Keys are serials or random: a multiplication spreads either. */
static size_t home_of(const struct mci_numbers *numbers, uint64_t key)
{
    return (size_t)((key * SPREAD) >> 32) & (numbers->capacity - 1);
}

static size_t find(const struct mci_numbers *numbers, uint64_t key)
{
    size_t at = home_of(numbers, key);
    while (numbers->slots[at].key != 0 && numbers->slots[at].key != key) {
        at = (at + 1) & (numbers->capacity - 1);
    }
    return at;
}

void mci_numbers_fini(struct mci_numbers *numbers)
{
    mci_free(numbers->slots);
    memset(numbers, 0, sizeof *numbers);
}

enum mc_err mci_numbers_reserve(struct mci_numbers *numbers, size_t more)
{
    size_t capacity = numbers->capacity ? numbers->capacity : CAPACITY_MIN;
    if (more > CAPACITY_MAX - numbers->count) {
        return MC_ERR_NOMEM;
    }
    while (capacity / 4 * 3 < numbers->count + more) {
        capacity *= 2;
    }
    if (capacity == numbers->capacity) {
        return MC_OK;
    }
    struct mci_numbers grown = {.capacity = capacity, .count = numbers->count};
    grown.slots = mci_calloc(capacity, sizeof *grown.slots);
    if (!grown.slots) {
        return MC_ERR_NOMEM;
    }
    for (size_t i = 0; i < numbers->capacity; i++) {
        if (numbers->slots[i].key != 0) {
            grown.slots[find(&grown, numbers->slots[i].key)] =
                numbers->slots[i];
        }
    }
    mci_free(numbers->slots);
    *numbers = grown;
    return MC_OK;
}

void mci_numbers_put(struct mci_numbers *numbers, uint64_t key, uint64_t value)
{
    struct mci_number_slot *slot = &numbers->slots[find(numbers, key)];
    numbers->count += slot->key == 0;
    slot->key = key;
    slot->value = value;
}

bool mci_numbers_get(const struct mci_numbers *numbers, uint64_t key,
                     uint64_t *value_out)
{
    if (numbers->count == 0 || key == 0) {
        return false;
    }
    const struct mci_number_slot *slot = &numbers->slots[find(numbers, key)];
    if (slot->key == 0) {
        return false;
    }
    *value_out = slot->value;
    return true;
}

void mci_numbers_remove(struct mci_numbers *numbers, uint64_t key)
{
    if (numbers->count == 0 || key == 0) {
        return;
    }
    const size_t mask = numbers->capacity - 1;
    size_t hole = find(numbers, key);
    if (numbers->slots[hole].key == 0) {
        return;
    }
    numbers->count--;
    /* An entry moves into the hole if that is not before its home. */
    for (size_t at = (hole + 1) & mask; numbers->slots[at].key != 0;
         at = (at + 1) & mask) {
        size_t home = home_of(numbers, numbers->slots[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            numbers->slots[hole] = numbers->slots[at];
            hole = at;
        }
    }
    numbers->slots[hole] = (struct mci_number_slot){.key = 0};
}
