/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_curve_file.h"

#define LINE_MAX_LEN 256

int mci_curve_is_key(const char *text)
{
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        ".-:+=^!/*?&<>()[]{}@%$#";
    return strlen(text) == MCI_CURVE_KEY_LEN &&
           strspn(text, letters) == MCI_CURVE_KEY_LEN;
}

/* ---- lines ------------------------------------------------------------------ */

enum kind { PUBLIC, SECRET, NOTHING, GARBAGE };

/* What a line says; its key is left at *key_out. */
static enum kind read_line(char *line, const char **key_out)
{
    size_t len = strlen(line);
    while (len > 0 && strchr(" \t\r\n", line[len - 1])) {
        line[--len] = '\0';
    }
    line += strspn(line, " \t");
    enum kind kind = PUBLIC;
    if (mci_curve_is_key(line)) {
        *key_out = line; /* may begin with # */
        return PUBLIC;
    }
    if (line[0] == '\0' || line[0] == '#') {
        return NOTHING;
    }
    if (strncmp(line, "secret ", 7) == 0) {
        kind = SECRET;
    } else if (strncmp(line, "public ", 7) != 0) {
        return GARBAGE;
    }
    *key_out = line + 7;
    return mci_curve_is_key(*key_out) ? kind : GARBAGE;
}

static enum mc_err refuse(const char *path, const char *why)
{
    mc_log(MC_LOG_ERROR, "curve keys %s: %s", path, why);
    return MC_ERR_INVALID_PARAMS;
}

typedef enum mc_err (*take_fn)(void *ctx, enum kind kind, const char *key);

/* Gives each key of the file to take. */
static enum mc_err read_file(const char *path, take_fn take, void *ctx)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        mc_log(MC_LOG_ERROR, "curve keys %s: %s", path, strerrordesc_np(errno));
        return MC_ERR_FILE_OPEN_FAIL;
    }
    char line[LINE_MAX_LEN];
    enum mc_err err = MC_OK;
    while (!err && fgets(line, sizeof line, file)) {
        const char *key = NULL;
        enum kind kind = read_line(line, &key);
        if (kind == GARBAGE) {
            err = refuse(path, "a line that is no key");
        } else if (kind != NOTHING) {
            err = take(ctx, kind, key);
        }
    }
    if (!err && ferror(file)) {
        err = refuse(path, "cannot be read");
    }
    explicit_bzero(line, sizeof line);
    (void)fclose(file);
    return err;
}

/* ---- pairs and lists ----------------------------------------------------------- */

static enum mc_err take_of_pair(void *ctx, enum kind kind, const char *key)
{
    struct mci_curve_pair *pair = ctx;
    char *room = kind == PUBLIC ? pair->public_key : pair->secret_key;
    memcpy(room, key, MCI_CURVE_KEY_LEN + 1);
    return MC_OK;
}

enum mc_err mci_curve_pair_read(const char *path, struct mci_curve_pair *out)
{
    struct mci_curve_pair pair = {.public_key = ""};
    enum mc_err err = read_file(path, take_of_pair, &pair);
    if (!err && (!pair.public_key[0] || !pair.secret_key[0])) {
        err = refuse(path, "holds no public and secret key");
    }
    if (!err) {
        *out = pair;
    }
    explicit_bzero(&pair, sizeof pair);
    return err;
}

struct growing {
    struct mci_curve_list list;
    size_t capacity;
    const char *path;
};

static enum mc_err take_of_list(void *ctx, enum kind kind, const char *key)
{
    struct growing *growing = ctx;
    struct mci_curve_list *list = &growing->list;
    if (kind == SECRET) {
        return refuse(growing->path, "a secret key in a list of public ones");
    }
    if (list->count == MCI_CURVE_KEYS_MAX) {
        return refuse(growing->path, "too many keys");
    }
    if (list->count == growing->capacity) {
        size_t capacity = growing->capacity ? 2 * growing->capacity : 16;
        void *keys = mci_realloc(list->keys, capacity * sizeof *list->keys);
        if (!keys) {
            return MC_ERR_NOMEM;
        }
        list->keys = keys;
        growing->capacity = capacity;
    }
    memcpy(list->keys[list->count++], key, MCI_CURVE_KEY_LEN + 1);
    return MC_OK;
}

enum mc_err mci_curve_list_read(const char *path, struct mci_curve_list *out)
{
    struct growing growing = {.path = path};
    enum mc_err err = read_file(path, take_of_list, &growing);
    if (!err && growing.list.count == 0) {
        err = refuse(path, "holds no key");
    }
    if (err) {
        mci_curve_list_fini(&growing.list);
        return err;
    }
    *out = growing.list;
    return MC_OK;
}

void mci_curve_list_fini(struct mci_curve_list *list)
{
    mci_free(list->keys);
    *list = (struct mci_curve_list){.count = 0};
}
