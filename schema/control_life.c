/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#define HELLO_FIELDS 8
#define WELCOME_FIELDS 7
#define HEARTBEAT_FIELDS 5
#define PULSE_FIELDS 3
#define FENCE_FIELDS 3

void mci_hello_pack(struct mci_pack *pack, const struct mci_hello *hello)
{
    mci_pack_array(pack, HELLO_FIELDS);
    mci_pack_u64(pack, hello->version_min);
    mci_pack_u64(pack, hello->version_max);
    mci_pack_u64(pack, (uint64_t)hello->role);
    mci_pack_u64(pack, hello->incarnation);
    control_name_pack(pack, hello->name);
    control_name_pack(pack, hello->host_id);
    control_name_pack(pack, hello->software);
    control_text_pack(pack, hello->tenant, MC_TENANT_LEN_MAX);
}

void mci_hello_unpack(struct mci_unpack *unpack, struct mci_hello *hello)
{
    memset(hello, 0, sizeof *hello);
    control_array(unpack, HELLO_FIELDS);
    hello->version_min = control_u32(unpack);
    hello->version_max = control_u32(unpack);
    hello->role = (enum mci_role)mci_unpack_u32(unpack, MCI_ROLE_HEARTBEAT);
    hello->incarnation = control_u64(unpack);
    hello->name = control_name_or_nil(unpack);
    hello->host_id = control_name_or_nil(unpack);
    hello->software = control_name_or_nil(unpack);
    hello->tenant = control_text_or_nil(unpack, MC_TENANT_LEN_MAX);
}

void mci_welcome_pack(struct mci_pack *pack, const struct mci_welcome *welcome)
{
    mci_pack_array(pack, WELCOME_FIELDS);
    mci_pack_u64(pack, welcome->version_min);
    mci_pack_u64(pack, welcome->version_max);
    mci_pack_u64(pack, welcome->epoch);
    mci_pack_u64(pack, welcome->client);
    mci_pack_u64(pack, welcome->client_ttl_ms);
    mci_pack_u64(pack, welcome->heartbeat_ms);
    control_name_pack(pack, welcome->software);
}

void mci_welcome_unpack(struct mci_unpack *unpack, struct mci_welcome *welcome)
{
    memset(welcome, 0, sizeof *welcome);
    control_array(unpack, WELCOME_FIELDS);
    welcome->version_min = control_u32(unpack);
    welcome->version_max = control_u32(unpack);
    welcome->epoch = control_u64(unpack);
    welcome->client = control_u32(unpack);
    welcome->client_ttl_ms = control_u32(unpack);
    welcome->heartbeat_ms = control_u32(unpack);
    welcome->software = control_name_or_nil(unpack);
}

/* ---- heartbeat --------------------------------------------------------- */

static uint8_t *put_pair(uint8_t *at, uint64_t a, uint64_t b)
{
    at = put_array_header(at, 2);
    return put_u64(put_u64(at, a), b);
}

#define PAIR_MAX (1 + 2 * PUT_NUMBER_MAX)

static void read_pair(struct mci_unpack *unpack, uint64_t *a_out,
                      uint64_t *b_out)
{
    control_array(unpack, 2);
    *a_out = control_u64(unpack);
    *b_out = control_u64(unpack);
}

static void pack_numbers(struct mci_pack *pack, const uint64_t *numbers,
                         size_t count)
{
    uint8_t *at = control_room(pack, PUT_HEADER_MAX + count * PUT_NUMBER_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, count);
    for (size_t i = 0; i < count; i++) {
        at = put_u64(at, numbers[i]);
    }
    control_wrote(pack, at);
}

static void pack_known(struct mci_pack *pack,
                       const struct mci_known_attempt *known)
{
    uint8_t *at = control_room(pack, PAIR_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, 3);
    at = put_u64(at, known->number);
    control_wrote(pack, put_u64(at, known->age_ms));
    control_text_pack(pack, known->key, MC_KEY_LEN_MAX);
}

static void pack_stuck(struct mci_pack *pack, const struct mci_stuck *stuck,
                       size_t count)
{
    uint8_t *at = control_room(pack, PUT_HEADER_MAX + count * PAIR_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, count);
    for (size_t i = 0; i < count; i++) {
        at = put_pair(at, stuck[i].attempt, stuck[i].incarnation);
    }
    control_wrote(pack, at);
}

void mci_heartbeat_pack(struct mci_pack *pack,
                        const struct mci_heartbeat *heartbeat)
{
    if (heartbeat->slot_count > MCI_SLOTS_MAX ||
        heartbeat->attempt_count > MC_ATTEMPTS_MAX ||
        heartbeat->stuck_count > MC_ATTEMPTS_MAX) {
        control_refuse(pack);
        return;
    }
    mci_pack_array(pack, HEARTBEAT_FIELDS);
    mci_pack_u64(pack, heartbeat->clock_ns);
    mci_pack_u64(pack, heartbeat->fences_done);
    pack_numbers(pack, heartbeat->slots, heartbeat->slot_count);
    mci_pack_array(pack, heartbeat->attempt_count);
    for (uint32_t i = 0; i < heartbeat->attempt_count; i++) {
        pack_known(pack, &heartbeat->attempts[i]);
    }
    pack_stuck(pack, heartbeat->stuck, heartbeat->stuck_count);
}

static void read_known(struct mci_unpack *unpack,
                       struct mci_known_attempt *known)
{
    control_array(unpack, 3);
    known->number = control_u64(unpack);
    known->age_ms = control_u64(unpack);
    known->key = control_text_or_nil(unpack, MC_KEY_LEN_MAX);
}

/* Reads into memory of the caller; false after a fault, so that a count which is
 * wrong is not gone through to its end. */
static bool is_sound(const struct mci_unpack *unpack)
{
    return unpack->error == MCI_UNPACK_OK;
}

void mci_heartbeat_unpack(struct mci_unpack *unpack,
                          struct mci_heartbeat_room *room,
                          struct mci_heartbeat *heartbeat)
{
    uint32_t count;
    memset(heartbeat, 0, sizeof *heartbeat);
    control_array(unpack, HEARTBEAT_FIELDS);
    heartbeat->clock_ns = control_u64(unpack);
    heartbeat->fences_done = control_u64(unpack);
    count = mci_unpack_array(unpack, 0, MCI_SLOTS_MAX);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        room->slots[i] = control_u64(unpack);
    }
    heartbeat->slot_count = count;
    count = mci_unpack_array(unpack, 0, MC_ATTEMPTS_MAX);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        read_known(unpack, &room->attempts[i]);
    }
    heartbeat->attempt_count = count;
    count = mci_unpack_array(unpack, 0, MC_ATTEMPTS_MAX);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        read_pair(unpack, &room->stuck[i].attempt, &room->stuck[i].incarnation);
    }
    heartbeat->stuck_count = count;
    if (!is_sound(unpack)) {
        memset(heartbeat, 0, sizeof *heartbeat);
        return;
    }
    heartbeat->slots = room->slots;
    heartbeat->attempts = room->attempts;
    heartbeat->stuck = room->stuck;
}

/* ---- its answer -------------------------------------------------------- */

static void pack_fences(struct mci_pack *pack, const struct mc_fence *fences,
                        size_t count)
{
    size_t row_max = 2 + 2 * (size_t)PUT_NUMBER_MAX;
    uint8_t *at = control_room(pack, PUT_HEADER_MAX + count * row_max);
    if (!at) {
        return;
    }
    at = put_array_header(at, count);
    for (size_t i = 0; i < count; i++) {
        at = put_array_header(at, FENCE_FIELDS);
        at = put_u64(at, fences[i].number);
        at = put_byte(at, (unsigned)fences[i].kind);
        at = put_u64(at, fences[i].subject);
    }
    control_wrote(pack, at);
}

static void pack_renewal(struct mci_pack *pack,
                         const struct mci_renewal *renewal)
{
    if (renewal->place_count > MCI_REPLICAS_MAX) {
        control_refuse(pack);
        return;
    }
    uint8_t *at =
        control_room(pack, 2 + PUT_NUMBER_MAX + MCI_REPLICAS_MAX * PAIR_MAX);
    if (!at) {
        return;
    }
    at = put_array_header(at, 2);
    at = put_u64(at, renewal->attempt);
    at = put_array_header(at, renewal->place_count);
    for (uint32_t i = 0; i < renewal->place_count; i++) {
        at = put_pair(at, renewal->grants[i].deadline_ns,
                      renewal->grants[i].tag);
    }
    control_wrote(pack, at);
}

void mci_pulse_pack(struct mci_pack *pack, const struct mci_pulse *pulse)
{
    if (pulse->fence_count > MCI_FENCES_MAX ||
        pulse->closed_count > MC_ATTEMPTS_MAX ||
        pulse->renewal_count > MC_ATTEMPTS_MAX) {
        control_refuse(pack);
        return;
    }
    mci_pack_array(pack, PULSE_FIELDS);
    pack_fences(pack, pulse->fences, pulse->fence_count);
    pack_numbers(pack, pulse->closed, pulse->closed_count);
    mci_pack_array(pack, pulse->renewal_count);
    for (uint32_t i = 0; i < pulse->renewal_count; i++) {
        pack_renewal(pack, &pulse->renewals[i]);
    }
}

static void read_fence(struct mci_unpack *unpack, struct mc_fence *fence)
{
    control_array(unpack, FENCE_FIELDS);
    fence->number = control_u64(unpack);
    fence->kind =
        (enum mc_fence_kind)mci_unpack_u32(unpack, MC_FENCE_INCARNATION);
    fence->subject = control_u64(unpack);
}

static void read_renewal(struct mci_unpack *unpack, struct mci_renewal *renewal)
{
    memset(renewal, 0, sizeof *renewal);
    control_array(unpack, 2);
    renewal->attempt = control_u64(unpack);
    renewal->place_count = mci_unpack_array(unpack, 0, MCI_REPLICAS_MAX);
    for (uint32_t i = 0; i < renewal->place_count; i++) {
        read_pair(unpack, &renewal->grants[i].deadline_ns,
                  &renewal->grants[i].tag);
    }
}

void mci_pulse_unpack(struct mci_unpack *unpack, struct mci_pulse_room *room,
                      struct mci_pulse *pulse)
{
    uint32_t count;
    memset(pulse, 0, sizeof *pulse);
    control_array(unpack, PULSE_FIELDS);
    count = mci_unpack_array(unpack, 0, MCI_FENCES_MAX);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        read_fence(unpack, &room->fences[i]);
    }
    pulse->fence_count = count;
    count = mci_unpack_array(unpack, 0, MC_ATTEMPTS_MAX);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        room->closed[i] = control_u64(unpack);
    }
    pulse->closed_count = count;
    count = mci_unpack_array(unpack, 0, MC_ATTEMPTS_MAX);
    for (uint32_t i = 0; i < count && is_sound(unpack); i++) {
        read_renewal(unpack, &room->renewals[i]);
    }
    pulse->renewal_count = count;
    if (!is_sound(unpack)) {
        memset(pulse, 0, sizeof *pulse);
        return;
    }
    pulse->fences = room->fences;
    pulse->closed = room->closed;
    pulse->renewals = room->renewals;
}
