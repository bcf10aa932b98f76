/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver_regions.c - memory that rows may name. */
#include <string.h>

#include "client_spans.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "row_driver.h"

#define ROOM_MIN 8

/* The lock is held. NULL: there is none. */
static struct mci_row_region *find(struct mc_row_driver *driver,
                                   uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = driver->region_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (driver->regions[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_found =
        low < driver->region_count && driver->regions[low].number == number;
    return is_found ? &driver->regions[low] : NULL;
}

/* ---- uses ---------------------------------------------------------------------- */

enum mc_err mci_row_use(struct mc_row_driver *driver, struct mci_row *row,
                        const struct mc_row_span *spans)
{
    for (uint32_t i = 0; i < row->span_count; i++) {
        const struct mc_row_span *span = &spans[i];
        const struct mci_row_region *region = find(driver, span->region);
        if (!region || region->is_leaving ||
            !mci_is_within(span->offset, span->len, region->len)) {
            return MC_ERR_INVALID_PARAMS;
        }
        row->spans[i] = (struct mc_span){.data = region->base + span->offset,
                                         .len = span->len};
        row->regions[i] = span->region;
    }
    for (uint32_t i = 0; i < row->span_count; i++) {
        find(driver, row->regions[i])->uses++;
    }
    return MC_OK;
}

void mci_row_unuse(struct mc_row_driver *driver, struct mci_row *row)
{
    for (uint32_t i = 0; i < row->span_count; i++) {
        find(driver, row->regions[i])->uses--;
    }
}

/* The client has the memory in use no more once its rows have ended; what other
 * calls of the client do with it is waited for by nobody. */
static enum mc_err give_back(struct mc_row_driver *driver, void *base)
{
    return mci_memory_remove(&driver->client->memory, base, mci_clock_ns());
}

/* ---- the table ------------------------------------------------------------------ */

/* The lock is held. */
static enum mc_err make_room(struct mc_row_driver *driver)
{
    if (driver->region_count < driver->region_room) {
        return MC_OK;
    }
    uint32_t room = driver->region_room ? 2 * driver->region_room : ROOM_MIN;
    struct mci_row_region *regions =
        mci_realloc(driver->regions, room * sizeof *regions);
    if (!regions || driver->last_region == UINT32_MAX) {
        driver->regions = regions ? regions : driver->regions;
        return MC_ERR_NOMEM;
    }
    driver->regions = regions;
    driver->region_room = room;
    return MC_OK;
}

enum mc_err mc_row_driver_register(struct mc_row_driver *driver, void *base,
                                   uint64_t len, enum mc_memory_kind kind,
                                   uint32_t *region_out)
{
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    if (kind == MC_MEMORY_DEVICE) {
        return MC_ERR_NOT_SUPPORTED;
    }
    if (kind != MC_MEMORY_HOST || len > SIZE_MAX || !region_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err =
        mc_client_register_buffer(driver->client, base, (size_t)len);
    if (err != MC_OK) {
        return err;
    }
    mci_rows_lock(driver);
    err = make_room(driver);
    if (err == MC_OK) {
        *region_out = ++driver->last_region;
        driver->regions[driver->region_count++] = (struct mci_row_region){
            .number = *region_out, .base = base, .len = len};
    }
    mci_rows_unlock(driver);
    if (err != MC_OK) {
        enum mc_err left = give_back(driver, base);
        (void)left; /* nobody has used it */
    }
    return err;
}

static void take_out(struct mc_row_driver *driver,
                     struct mci_row_region *region)
{
    size_t behind =
        (size_t)(driver->regions + driver->region_count - region) - 1;
    memmove(region, region + 1, behind * sizeof *region);
    driver->region_count--;
}

enum mc_err mc_row_driver_unregister(struct mc_row_driver *driver,
                                     uint32_t number)
{
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    mci_rows_lock(driver);
    struct mci_row_region *region = find(driver, number);
    void *base = region ? region->base : NULL;
    enum mc_err err = MC_OK;
    if (!region || region->is_leaving) {
        err = MC_ERR_INVALID_PARAMS;
    } else if (region->uses > 0) {
        err = MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    } else {
        region->is_leaving = true;
    }
    mci_rows_unlock(driver);
    if (err != MC_OK) {
        return err;
    }
    err = give_back(driver, base);
    mci_rows_lock(driver);
    region = find(driver, number);
    if (err == MC_OK) {
        take_out(driver, region);
    } else {
        region->is_leaving = false;
    }
    mci_rows_unlock(driver);
    return err == MC_ERR_RPC_TIMEOUT ? MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
                                     : err;
}

void mci_rows_unregister_all(struct mc_row_driver *driver)
{
    for (uint32_t i = 0; i < driver->region_count; i++) {
        enum mc_err err = give_back(driver, driver->regions[i].base);
        if (err != MC_OK) {
            mc_log(MC_LOG_WARN, "row driver: memory is still in use: %s",
                   mc_err_text(err));
        }
    }
    mci_free(driver->regions);
}
