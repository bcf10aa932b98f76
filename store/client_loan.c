/* SPDX-License-Identifier: Apache-2.0 */
#include "client_loan.h"

#include <fcntl.h>
#include <string.h>

#include "mci_alloc.h"
#include "mci_clock.h"

#define HEARTBEAT_MS 2000 /* a heartbeat and some more */

const struct mc_exposure *mci_lent_exposure(const struct mci_loan *lent)
{
    return &lent->exposure;
}

/* ---- memory and exposure ------------------------------------------------- */

static enum mc_err make_memory(struct mci_outside *outside,
                               struct mci_loan *lent, uint64_t bytes)
{
    const struct mci_segment_opts opts = {.bytes = bytes,
                                          .label = outside->name,
                                          .no_prefault = lent->no_prefault};
    enum mc_err err = mci_segment_init(&lent->memory, &opts);
    if (err == MC_OK) {
        lent->base = lent->memory.base;
        lent->bytes = lent->memory.bytes;
    }
    return err;
}

/* The old pages go before new ones are touched: never twice the memory. The
 * header page stays, for peers who still have it mapped. */
void mci_loan_drop_memory(struct mci_loan *lent)
{
    struct mci_segment *memory = &lent->memory;
    if (memory->header) {
        (void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)memory->header->data_offset,
                        (off_t)memory->bytes);
    }
    mci_segment_fini(memory);
    lent->base = NULL;
}

static enum mc_err expose(struct mci_outside *outside, struct mci_loan *lent)
{
    struct mc_exposure_opts opts = {
        .base = lent->base, .bytes = lent->bytes, .fd = -1};
    if (lent->is_made) {
        opts.fd = lent->memory.fd;
        opts.fd_offset = lent->memory.header->data_offset;
        opts.generation = &lent->memory.header->generation;
    }
    enum mc_err err =
        mc_transfer_expose(outside->transfer, &opts, &lent->exposure);
    lent->is_exposed = err == MC_OK;
    return err;
}

void mci_loan_conceal(struct mci_outside *outside, struct mci_loan *lent)
{
    if (lent->is_exposed) {
        mc_transfer_conceal(outside->transfer, lent->exposure.registration);
        lent->is_exposed = false;
    }
}

void mci_loan_free(struct mci_loan *lent)
{
    if (lent->is_made) {
        mci_loan_drop_memory(lent);
    }
    mci_free(lent);
}

enum mc_err mci_lending_check(const struct mci_lending *lending)
{
    uintptr_t base = (uintptr_t)lending->base;
    bool is_sound = lending->bytes > 0 &&
                    (!lending->base || lending->bytes <= UINTPTR_MAX - base);
    return is_sound ? MC_OK : MC_ERR_INVALID_PARAMS;
}

enum mc_err mci_lend_prepare(struct mci_outside *outside,
                             const struct mci_lending *lending,
                             struct mci_loan **lent_out)
{
    enum mc_err err = mci_lending_check(lending);
    if (err != MC_OK) {
        return err;
    }
    struct mci_loan *lent = mci_calloc(1, sizeof *lent);
    if (!lent) {
        return MC_ERR_NOMEM;
    }
    mci_list_init(&lent->link);
    lent->state = LENT_AT_WORK;
    lent->memory.fd = -1;
    lent->is_made = !lending->base;
    lent->no_prefault = lending->no_prefault;
    lent->base = lending->base;
    lent->bytes = lending->bytes;
    if (lent->is_made) {
        err = make_memory(outside, lent, lending->bytes);
    }
    if (err == MC_OK) {
        err = expose(outside, lent);
    }
    if (err != MC_OK) {
        mci_loan_free(lent);
        return err;
    }
    *lent_out = lent;
    return MC_OK;
}

void mci_lend_drop(struct mci_outside *outside, struct mci_loan *lent)
{
    if (lent) {
        mci_loan_conceal(outside, lent);
        mci_loan_free(lent);
    }
}

/* ---- at the master ------------------------------------------------------- */

static uint64_t incarnation_of(const struct mci_outside *outside)
{
    return mci_remote_self(outside->remote).incarnation;
}

static void fill_mount(const struct mci_outside *outside, struct mci_loan *lent)
{
    lent->mount = (struct mci_mount){
        .registration = lent->exposure.registration,
        .bytes = lent->bytes,
        .base = (uint64_t)(uintptr_t)lent->base,
        .name = mc_view_str(outside->name),
        .endpoint = mc_view_str(lent->exposure.endpoint),
        .shm = mc_view_str(lent->exposure.shm),
        .protocol = mc_view_str("tcp"),
        .id = {lent->exposure.registration,
               lent->is_made ? lent->memory.id[1]
                             : (uint64_t)(uintptr_t)lent->base}};
    memcpy(lent->mount.key, lent->exposure.key, sizeof lent->mount.key);
}

enum mc_err mci_loan_mount(struct mci_outside *outside, struct mci_loan *lent,
                           uint64_t wait_ms)
{
    fill_mount(outside, lent);
    /* The master places nothing with an owner whose clock it has not heard of:
     * who puts right after opening finds room. */
    mci_remote_await_heartbeat(
        outside->remote, mci_clock_deadline(mci_clock_ns(), HEARTBEAT_MS));
    uint64_t before = incarnation_of(outside);
    enum mc_err err = mci_remote_mount(
        outside->remote, &lent->mount,
        mci_clock_deadline(mci_clock_ns(), wait_ms), &lent->segment);
    lent->mounted_as = err == MC_OK ? incarnation_of(outside) : 0;
    lent->is_unsure = err == MC_ERR_RPC_TIMEOUT ||
                      (err == MC_OK && lent->mounted_as != before);
    return err;
}

/* What was given up though the master may still have it mounted would be placed
 * on for ever, and whoever is sent there fails. Mounting it again under its id
 * tells its number, whether it was there or not. */
enum mc_err mci_loan_withdraw(struct mci_outside *outside,
                              struct mci_loan *lent, uint64_t wait_ms)
{
    uint64_t deadline_ns = mci_clock_deadline(mci_clock_ns(), wait_ms);
    enum mc_err err = MC_OK;
    if (lent->is_unsure) {
        err = mci_remote_mount(outside->remote, &lent->mount, deadline_ns,
                               &lent->segment);
    } else if (lent->mounted_as == 0 ||
               lent->mounted_as != incarnation_of(outside)) {
        return MC_OK; /* of who we were: gone with it */
    }
    if (err == MC_OK) {
        err =
            mci_remote_unmount(outside->remote, lent->segment, 0, deadline_ns);
    }
    if (err == MC_OK) {
        lent->is_unsure = false;
        lent->mounted_as = 0;
    }
    return err;
}

enum mc_err mci_loan_make_anew(struct mci_outside *outside,
                               struct mci_loan *lent, uint64_t wait_ms)
{
    enum mc_err err = MC_OK;
    if (lent->is_made) {
        uint64_t bytes = lent->bytes;
        mci_loan_drop_memory(lent);
        err = make_memory(outside, lent, bytes);
    }
    if (err == MC_OK) {
        err = expose(outside, lent);
    }
    return err == MC_OK ? mci_loan_mount(outside, lent, wait_ms) : err;
}
