/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts of index operations and questions. The first byte picks the bounds and
 * the form: lines as they stand, or a byte an operation and its operands a byte
 * each, so that lines are mostly good. Whatever comes, the index stays within its
 * bounds, and what it exports makes an index that exports the same and answers
 * the same. */
#include <stdio.h>
#include <string.h>

#include "fuzz_bytes.h"
#include "mc_index_script.h"
#include "mci_buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX (UINT64_C(1) << 24)
#define LINES_MAX 300u
#define MEMORY_MAX (UINT64_C(16) << 20)

/* ---- lines out of bytes -------------------------------------------------- */

static void put(struct mci_buf *out, const char *text)
{
    require(mci_buf_append(out, text, strlen(text)) == MC_OK);
}

static void put_number(struct mci_buf *out, const char *name, unsigned number)
{
    char text[64];
    (void)snprintf(text, sizeof text, ",\"%s\":%u", name, number);
    put(out, text);
}

static void put_name(struct mci_buf *out, const char *name, const char *stem,
                     unsigned number)
{
    char text[64];
    (void)snprintf(text, sizeof text, ",\"%s\":\"%s%u\"", name, stem, number);
    put(out, text);
}

static void put_hashes(struct mci_buf *out, struct fuzz_bytes *bytes)
{
    unsigned head = fuzz_byte(bytes);
    unsigned block = head >> 3;
    put(out, ",\"hashes\":[");
    for (unsigned i = 0; i < (head & 7); i++) {
        char text[16];
        unsigned more = fuzz_byte(bytes);
        (void)snprintf(text, sizeof text, "%s%u", i ? "," : "", block);
        put(out, text);
        /* Mostly a tree; else whatever. */
        block = more & 0x40 ? more & 0x3f : (block * 2 + 1 + (more & 1)) & 0x3f;
    }
    put(out, "]");
}

static void put_engine(struct mci_buf *out, unsigned operand)
{
    static const char *const tiers[] = {"device", "host", "disk", "external"};
    put_name(out, "worker", "w", operand & 3);
    put_number(out, "dp_rank", operand >> 2 & 1);
    put(out, ",\"tier\":\"");
    put(out, tiers[operand >> 3 & 3]);
    put(out, "\"");
}

static void put_store(struct mci_buf *out, unsigned operand)
{
    static const char *const media[] = {"cpu", "disk", "cpu", "nvme"};
    put_name(out, "backend", "n", operand & 1);
    put_name(out, "key", operand & 0x80 ? "0x" : "", operand >> 1 & 0x3f);
    put(out, ",\"medium\":\"");
    put(out, media[operand & 3]);
    put(out, "\"");
}

static void make_line(struct mci_buf *out, struct fuzz_bytes *bytes)
{
    static const char *const ops[] = {
        "stored",         "engine_stored", "engine_held", "removed",
        "engine_removed", "observe",       "session_end", "cleared",
        "engine_cleared", "source_lost",   "worker_lost", "match",
        "heads",          "lineage",       "resident",    "sessions_of"};
    unsigned code = fuzz_byte(bytes);
    unsigned which = code & 15;
    unsigned operand = fuzz_byte(bytes);
    put(out, which < 11 ? "{\"op\":\"" : "{\"q\":\"");
    put(out, ops[which]);
    put(out, "\"");
    put(out, code & 0x10 ? ",\"tenant\":\"t2\"" : ",\"tenant\":\"t\"");
    put_store(out, operand);
    put_engine(out, operand);
    if (code & 0x20 || which > 4) {
        put_name(out, "session", "s", code >> 6);
    }
    if (which == 1 && code & 0x40) {
        put_number(out, "parent", operand >> 2);
    }
    put_number(out, "hash", operand & 0x3f);
    put_hashes(out, bytes);
    put(out, "}\n");
}

static void make_script(struct mci_buf *out, struct fuzz_bytes bytes)
{
    put(out, "{\"op\":\"layout\",\"layout\":\"u64\"}\n");
    for (unsigned i = 0; i < LINES_MAX && bytes.len > 0; i++) {
        make_line(out, &bytes);
    }
}

/* ---- what must hold ------------------------------------------------------ */

static enum mc_err keep_line(void *ctx, struct mc_view line)
{
    enum mc_err err = mci_buf_append(ctx, line.data, line.len);
    return err == MC_OK ? mci_buf_append_byte(ctx, '\n') : err;
}

static void run_lines(struct mc_index_script *script, struct mc_view text,
                      bool is_export)
{
    const char *at = text.data;
    const char *end = at + text.len;
    for (unsigned i = 0; at < end && (is_export || i < LINES_MAX); i++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((feed ? feed : end) - at);
        struct mc_view answer = mc_view_make(NULL, 0);
        enum mc_err err =
            mc_index_script_line(script, mc_view_make(at, len), &answer);
        require(!is_export || (err == MC_OK && !answer.data));
        require(err != MC_ERR_INVALID_PARAMS ||
                mc_index_script_fault(script)[0] != '\0');
        at += len + 1;
    }
}

static void ask_both(struct mc_index_script *ours, struct mc_index_script *copy)
{
    static const char *const questions[] = {
        "{\"q\":\"heads\",\"tenant\":\"t\",\"session\":\"s1\"}",
        "{\"q\":\"lineage\",\"tenant\":\"t\",\"session\":\"s0\"}",
        "{\"q\":\"resident\",\"tenant\":\"t\",\"session\":\"s2\"}",
        "{\"q\":\"match\",\"tenant\":\"t\",\"hashes\":[0,1,3,7]}",
        "{\"q\":\"sessions_of\",\"tenant\":\"t2\",\"hash\":1}"};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        struct mc_view answer;
        struct mc_view other;
        struct mc_view question = mc_view_str(questions[i]);
        require(mc_index_script_line(ours, question, &answer) == MC_OK);
        require(mc_index_script_line(copy, question, &other) == MC_OK);
        require(mc_view_equal(answer, other));
    }
}

static void check_copy(struct mc_index_script *script)
{
    struct mc_index_script *copy = NULL;
    struct mci_buf first;
    struct mci_buf second;
    struct mc_index_stats stats;
    mci_buf_init(&first, TEXT_MAX);
    mci_buf_init(&second, TEXT_MAX);
    require(mc_index_export(mc_index_script_index(script), keep_line, &first) ==
            MC_OK);
    require(mc_index_script_create(NULL, &copy) == MC_OK);
    run_lines(copy, mci_buf_view(&first), true);
    require(mc_index_export(mc_index_script_index(copy), keep_line, &second) ==
            MC_OK);
    require(mc_view_equal(mci_buf_view(&first), mci_buf_view(&second)));
    ask_both(script, copy);
    mc_index_stats(mc_index_script_index(script), &stats);
    require(stats.bytes <= MEMORY_MAX);
    mci_buf_fini(&first);
    mci_buf_fini(&second);
    mc_index_script_destroy(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct mc_index_opts bounds = {
        .max_nodes = data[0] & 1 ? 5 : 0,
        .max_sessions = data[0] & 2 ? 2 : 0,
        .max_heads = data[0] & 4 ? 1 : 0,
        .max_marks = data[0] & 8 ? 4 : 0,
        .max_owners = data[0] & 16 ? 2 : 0,
        .max_bytes = MEMORY_MAX,
    };
    struct mc_index_script *script = NULL;
    struct mci_buf made;
    mci_buf_init(&made, TEXT_MAX);
    require(mc_index_script_create(&bounds, &script) == MC_OK);
    if (data[0] & 0x80) {
        run_lines(script, mc_view_make(data + 1, size - 1), false);
    } else {
        make_script(&made, (struct fuzz_bytes){data + 1, size - 1});
        run_lines(script, mci_buf_view(&made), false);
    }
    if (mc_index_script_index(script)) {
        check_copy(script);
    }
    mci_buf_fini(&made);
    mc_index_script_destroy(script);
    return 0;
}
