/* SPDX-License-Identifier: Apache-2.0 */
/* segments.c - memory that a store lends beyond that of setup(): files that are
 * mapped, and memory that the library makes. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "methods.h"

/* A file in memory. */
struct mcp_mapping {
    struct mcp_mapping *next;
    void *base;
    size_t bytes;
    uint32_t segment;
};

/* ---- mapping ------------------------------------------------------------------------- */

/* A file that is shorter than what is mapped would end the process when it is
 * touched. */
static enum mc_err map(const char *path, uint64_t bytes, uint64_t offset,
                       struct mcp_mapping *mapping)
{
    struct stat stat;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return MC_ERR_FILE_OPEN_FAIL;
    }
    bool is_long = fstat(fd, &stat) == 0 && offset <= INT64_MAX &&
                   (uint64_t)stat.st_size >= offset &&
                   bytes <= (uint64_t)stat.st_size - offset;
    if (!is_long || bytes == 0) {
        (void)close(fd);
        return MC_ERR_INVALID_PARAMS;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      (off_t)offset);
    (void)close(fd);
    if (base == MAP_FAILED) {
        return MC_ERR_INVALID_PARAMS; /* such as an offset within a page */
    }
    mapping->base = base;
    mapping->bytes = bytes;
    return MC_OK;
}

void mcp_mappings_drop(struct mcp_store *store)
{
    struct mcp_mapping *mapping = store->mappings;
    store->mappings = NULL;
    while (mapping) {
        struct mcp_mapping *next = mapping->next;
        (void)munmap(mapping->base, mapping->bytes);
        PyMem_RawFree(mapping);
        mapping = next;
    }
}

static void keep(struct mcp_store *store, struct mcp_mapping *mapping)
{
    (void)pthread_mutex_lock(&store->lock);
    mapping->next = store->mappings;
    store->mappings = mapping;
    (void)pthread_mutex_unlock(&store->lock);
}

/* The file of a segment that is unmounted. */
static void drop_one(struct mcp_store *store, uint32_t segment)
{
    (void)pthread_mutex_lock(&store->lock);
    struct mcp_mapping **link = &store->mappings;
    while (*link && (*link)->segment != segment) {
        link = &(*link)->next;
    }
    struct mcp_mapping *mapping = *link;
    if (mapping) {
        *link = mapping->next;
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (mapping) {
        (void)munmap(mapping->base, mapping->bytes);
        PyMem_RawFree(mapping);
    }
}

static enum mc_err mount_file(struct mcp_store *store, struct mc_client *client,
                              const char *path, uint64_t bytes, uint64_t offset,
                              uint32_t *segment_out)
{
    struct mcp_mapping *mapping = PyMem_RawCalloc(1, sizeof *mapping);
    if (!mapping) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = map(path, bytes, offset, mapping);
    if (err != MC_OK) {
        PyMem_RawFree(mapping);
        return err;
    }
    err = mc_client_mount_segment(client, mapping->base, bytes,
                                  &mapping->segment);
    if (err != MC_OK) {
        (void)munmap(mapping->base, mapping->bytes);
        PyMem_RawFree(mapping);
        return err;
    }
    *segment_out = mapping->segment;
    keep(store, mapping);
    return MC_OK;
}

/* ---- the calls ------------------------------------------------------------------------- */

static PyObject *mounted(int code, uint32_t segment, const uint64_t *bytes)
{
    PyObject *ids =
        code == 0 ? Py_BuildValue("[N]", PyUnicode_FromFormat("%u", segment))
                  : PyList_New(0);
    PyObject *answer =
        ids ? Py_BuildValue("{s:i,s:N}", "ret", code, "segment_ids", ids)
            : NULL;
    if (!answer || !bytes) {
        return answer;
    }
    PyObject *number = PyLong_FromUnsignedLongLong(code == 0 ? *bytes : 0);
    if (!number ||
        PyDict_SetItemString(answer, "allocated_size", number) != 0) {
        Py_CLEAR(answer);
    }
    Py_XDECREF(number);
    return answer;
}

/* Other protocols than tcp are the library's to refuse. */
static int protocol_code(const char *protocol)
{
    return protocol[0] == '\0' || strcmp(protocol, "tcp") == 0
               ? 0
               : MC_ERR_NOT_SUPPORTED;
}

PyObject *mcp_mount_segment(PyObject *self, PyObject *arguments,
                            PyObject *keywords)
{
    static char *names[] = {"path",     "size",     "offset",
                            "protocol", "location", NULL};
    struct mcp_store *store = (struct mcp_store *)self;
    const char *path = NULL;
    const char *protocol = "tcp";
    const char *location = "";
    PyObject *objects[2] = {NULL};
    uint64_t bytes = 0;
    uint64_t offset = 0;
    uint32_t segment = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "sO|Oss", names,
                                     &path, &objects[0], &objects[1], &protocol,
                                     &location) ||
        !mcp_args_u64(objects[0], names[1], &bytes) ||
        (objects[1] && !mcp_args_u64(objects[1], names[2], &offset))) {
        return NULL;
    }
    int code = protocol_code(protocol);
    if (code == 0) {
        MCP_STORE_CALL(
            store, code,
            mount_file(store, client, path, bytes, offset, &segment));
    }
    return mounted(code, segment, NULL);
}

PyObject *mcp_allocate_and_mount_segment(PyObject *self, PyObject *arguments,
                                         PyObject *keywords)
{
    static char *names[] = {"size", "protocol", "location", NULL};
    const char *protocol = "tcp";
    const char *location = "";
    PyObject *object = NULL;
    uint64_t bytes = 0;
    uint64_t made = 0;
    uint32_t segment = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|ss", names,
                                     &object, &protocol, &location) ||
        !mcp_args_u64(object, names[0], &bytes)) {
        return NULL;
    }
    int code = protocol_code(protocol);
    if (code == 0) {
        MCP_STORE_CALL((struct mcp_store *)self, code,
                       mc_client_allocate_and_mount_segment(client, bytes,
                                                            &segment, &made));
    }
    return mounted(code, segment, &made);
}

/* ---- unmounting -------------------------------------------------------------------------- */

/* What is no number of ours is the number 0, which no segment has. */
static bool read_ids(struct mcp_args *args, PyObject *object,
                     struct mcp_ints *out)
{
    struct mcp_views texts;
    if (!mcp_args_keys(args, object, "segment_ids", &texts)) {
        return false;
    }
    uint64_t *at = mcp_args_alloc(args, texts.count, sizeof *at);
    for (size_t i = 0; at && i < texts.count; i++) {
        const char *text = texts.at[i].data;
        at[i] = 0;
        for (size_t k = 0; k < texts.at[i].len; k++) {
            bool is_digit = text[k] >= '0' && text[k] <= '9';
            at[i] = is_digit && at[i] <= UINT32_MAX
                        ? at[i] * 10 + (uint64_t)(text[k] - '0')
                        : UINT64_MAX;
        }
    }
    *out = (struct mcp_ints){.at = at, .count = texts.count};
    return at != NULL;
}

/* Each is tried; the first code that is not 0 is the answer. */
static enum mc_err unmount(struct mcp_store *store, struct mc_client *client,
                           const struct mcp_ints *ids, uint64_t grace_ms)
{
    enum mc_err first = MC_OK;
    for (size_t i = 0; i < ids->count; i++) {
        enum mc_err err = ids->at[i] > UINT32_MAX
                              ? MC_ERR_INVALID_PARAMS
                              : mc_client_unmount_segment(
                                    client, (uint32_t)ids->at[i], grace_ms);
        if (err == MC_OK) {
            drop_one(store, (uint32_t)ids->at[i]);
        }
        first = first ? first : err;
    }
    return first;
}

PyObject *mcp_unmount_segment(PyObject *self, PyObject *arguments,
                              PyObject *keywords)
{
    static char *names[] = {"segment_ids", "grace_period_seconds", NULL};
    struct mcp_args args = MCP_ARGS_NONE;
    struct mcp_store *store = (struct mcp_store *)self;
    struct mcp_ints ids = {NULL, 0};
    PyObject *objects[2] = {NULL};
    uint32_t seconds = 0;
    int code = 0;
    bool is_read =
        PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O", names,
                                    &objects[0], &objects[1]) &&
        read_ids(&args, objects[0], &ids) &&
        (!objects[1] || mcp_args_u32(objects[1], names[1], &seconds));
    if (is_read) {
        MCP_STORE_CALL(store, code,
                       unmount(store, client, &ids, UINT64_C(1000) * seconds));
    }
    return mcp_answer(&args, is_read, code);
}
