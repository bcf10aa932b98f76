/* SPDX-License-Identifier: Apache-2.0 */
/* The code of an answer is always written in five bytes, so that an answer whose
 * rows are there already can still become a refusal. */
#include "control.h"

#define REQUEST_FIELDS 10
#define ANSWER_FIELDS 5
#define VERSION_FIELDS_MAX 64 /* of a version that we do not know */
#define CODE_FORM 0xd2        /* int 32 */

#define REQUEST_HEAD_MAX (MCI_FRAME_HEAD + PUT_HEADER_MAX + 8 * PUT_NUMBER_MAX)
#define ANSWER_HEAD_MAX (MCI_FRAME_HEAD + 1 + 4 * PUT_NUMBER_MAX)

bool mci_op_mutates(enum mci_op op)
{
    switch (op) {
    case MCI_OP_SEGMENT_MOUNT:
    case MCI_OP_SEGMENT_UNMOUNT:
    case MCI_OP_PUT_START:
    case MCI_OP_UPSERT_START:
    case MCI_OP_PUT_END:
    case MCI_OP_PUT_REVOKE:
    case MCI_OP_RELEASE_LEASE:
    case MCI_OP_REMOVE:
    case MCI_OP_REMOVE_BY_REGEX:
    case MCI_OP_REMOVE_ALL:
    case MCI_OP_REPLICA_CLEAR:
        return true;
    default:
        return false;
    }
}

const char *mci_op_name(enum mci_op op)
{
    static const char *const names[] = {
        [MCI_OP_HELLO] = "hello",
        [MCI_OP_GOODBYE] = "goodbye",
        [MCI_OP_HEARTBEAT] = "heartbeat",
        [MCI_OP_CANCEL] = "cancel",
        [MCI_OP_SEGMENT_MOUNT] = "segment_mount",
        [MCI_OP_SEGMENT_UNMOUNT] = "segment_unmount",
        [MCI_OP_SEGMENT_STATUS] = "segment_status",
        [MCI_OP_SEGMENT_GET] = "segment_get",
        [MCI_OP_PUT_START] = "put_start",
        [MCI_OP_UPSERT_START] = "upsert_start",
        [MCI_OP_PUT_END] = "put_end",
        [MCI_OP_PUT_REVOKE] = "put_revoke",
        [MCI_OP_ATTEMPT_FATE] = "attempt_fate",
        [MCI_OP_ATTEMPT_TOUCH] = "attempt_touch",
        [MCI_OP_GET] = "get",
        [MCI_OP_EXIST] = "exist",
        [MCI_OP_GET_SIZE] = "get_size",
        [MCI_OP_PROBE] = "probe",
        [MCI_OP_RENEW_LEASE] = "renew_lease",
        [MCI_OP_RELEASE_LEASE] = "release_lease",
        [MCI_OP_REMOVE] = "remove",
        [MCI_OP_REMOVE_BY_REGEX] = "remove_by_regex",
        [MCI_OP_REMOVE_ALL] = "remove_all",
        [MCI_OP_REPLICA_CLEAR] = "replica_clear",
        [MCI_OP_LIST] = "list",
        [MCI_OP_STAT] = "stat",
    };
    size_t number = (size_t)op;
    if (number >= sizeof names / sizeof names[0] || !names[number]) {
        return "unknown";
    }
    return names[number];
}

/* ---- writing ----------------------------------------------------------- */

size_t mci_request_begin(struct mci_pack *pack,
                         const struct mci_request *request)
{
    size_t begin = pack->buf->len;
    uint8_t *at = control_room(pack, REQUEST_HEAD_MAX);
    if (!at) {
        return begin;
    }
    mci_put_le32(at, 0);
    at = put_array_header(at + MCI_FRAME_HEAD, REQUEST_FIELDS);
    at = put_u64(at, request->version);
    at = put_u64(at, (uint64_t)request->op);
    at = put_u64(at, request->slot);
    at = put_u64(at, request->number);
    at = put_u64(at, request->time_left_ms);
    at = put_u64(at, request->client);
    at = put_u64(at, request->incarnation);
    at = put_u64(at, request->epoch);
    control_wrote(pack, at);
    control_text_pack(pack, request->tenant, MC_TENANT_LEN_MAX);
    return begin;
}

static uint8_t *put_code(uint8_t *at, enum mc_err code)
{
    return put_32(at, CODE_FORM, (uint64_t)(int64_t)code);
}

size_t mci_answer_begin(struct mci_pack *pack, const struct mci_answer *answer)
{
    size_t begin = pack->buf->len;
    uint8_t *at = control_room(pack, ANSWER_HEAD_MAX);
    if (!at) {
        return begin;
    }
    mci_put_le32(at, 0);
    at = put_array_header(at + MCI_FRAME_HEAD, ANSWER_FIELDS);
    at = put_u64(at, answer->version);
    at = put_u64(at, answer->slot);
    at = put_u64(at, answer->number);
    control_wrote(pack, put_code(at, answer->code));
    return begin;
}

enum mc_err mci_frame_finish(struct mci_pack *pack, size_t at)
{
    if (pack->err != MC_OK) {
        return pack->err;
    }
    size_t len = pack->buf->len - at - MCI_FRAME_HEAD;
    if (len > MC_MESSAGE_LEN_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    mci_put_le32(pack->buf->data + at, (uint32_t)len);
    return MC_OK;
}

void mci_answer_recode(struct mci_pack *pack, size_t at, enum mc_err code)
{
    struct mci_unpack unpack;
    if (pack->err != MC_OK) {
        return;
    }
    uint8_t *body = pack->buf->data + at + MCI_FRAME_HEAD;
    mci_unpack_init(&unpack,
                    mc_view_make(body, pack->buf->len - at - MCI_FRAME_HEAD));
    (void)mci_unpack_array(&unpack, 0, ANSWER_FIELDS);
    (void)control_u64(&unpack); /* version */
    (void)control_u64(&unpack); /* slot */
    (void)control_u64(&unpack); /* number */
    (void)put_code(body + (unpack.at - unpack.base), code);
}

/* ---- reading ----------------------------------------------------------- */

/* True if what follows is of our version and has `fields` fields. */
static bool read_version(struct mci_unpack *unpack, uint32_t fields,
                         uint32_t *version_out)
{
    uint32_t count = mci_unpack_array(unpack, 4, VERSION_FIELDS_MAX);
    *version_out = control_u32(unpack);
    if (*version_out == MCI_CONTROL_VERSION && count != fields) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
    }
    return *version_out == MCI_CONTROL_VERSION;
}

void mci_request_read(struct mci_unpack *unpack, struct mci_request *request)
{
    memset(request, 0, sizeof *request);
    bool is_ours = read_version(unpack, REQUEST_FIELDS, &request->version);
    request->op = (enum mci_op)mci_unpack_u32(unpack, INT32_MAX);
    request->slot = mci_unpack_u32(unpack, MCI_SLOTS_MAX - 1);
    request->number = control_u64(unpack);
    if (!is_ours) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        return;
    }
    request->time_left_ms = control_u32(unpack);
    request->client = control_u32(unpack);
    request->incarnation = control_u64(unpack);
    request->epoch = control_u64(unpack);
    request->tenant = control_text_or_nil(unpack, MC_TENANT_LEN_MAX);
}

void mci_answer_read(struct mci_unpack *unpack, struct mci_answer *answer)
{
    memset(answer, 0, sizeof *answer);
    bool is_ours = read_version(unpack, ANSWER_FIELDS, &answer->version);
    answer->slot = mci_unpack_u32(unpack, MCI_SLOTS_MAX - 1);
    answer->number = control_u64(unpack);
    if (!is_ours) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        return;
    }
    answer->code = (enum mc_err)mci_unpack_i64(unpack, INT32_MIN, 0);
}

/* ---- texts ------------------------------------------------------------- */

struct mc_view control_text(struct mci_unpack *unpack, size_t limit)
{
    struct token token;
    if (unpack->error != MCI_UNPACK_OK) {
        return mc_view_make(NULL, 0);
    }
    token_read(unpack->at, unpack->end, &token);
    if (token.kind != TOKEN_STR) {
        /* Not a str: the strict reader says what is wrong with it. */
        (void)mci_unpack_str(unpack, 0);
        return mc_view_make(NULL, 0);
    }
    unpack->at = token_end(&token);
    return control_cut(mc_view_make(token.body, token.value), limit);
}

struct mc_view control_text_or_nil(struct mci_unpack *unpack, size_t limit)
{
    if (mci_unpack_took_nil(unpack)) {
        return mc_view_make(NULL, 0);
    }
    return control_text(unpack, limit);
}

struct mc_view control_name(struct mci_unpack *unpack)
{
    struct mc_view name = mci_unpack_str(unpack, MCI_NAME_LEN_MAX);
    if (unpack->error == MCI_UNPACK_OK && name.len == 0) {
        mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
    }
    return name;
}

struct mc_view control_name_or_nil(struct mci_unpack *unpack)
{
    if (mci_unpack_took_nil(unpack)) {
        return mc_view_make(NULL, 0);
    }
    return control_name(unpack);
}

void control_name_pack(struct mci_pack *pack, struct mc_view name)
{
    if (name.len > MCI_NAME_LEN_MAX) {
        control_refuse(pack);
        return;
    }
    control_text_pack(pack, name, MCI_NAME_LEN_MAX);
}

void control_text_pack(struct mci_pack *pack, struct mc_view text, size_t limit)
{
    if (!text.data && text.len != 0) {
        control_refuse(pack);
        return;
    }
    if (text.len == 0) {
        mci_pack_nil(pack);
    } else {
        mci_pack_str(pack, control_cut(text, limit));
    }
}
