/* SPDX-License-Identifier: Apache-2.0 */
/* host_memory.c - memory of this process for callers that want whole pages, and
 * where it and its threads stand.
 *
 * What is handed out is there until it is given back, or to the end of the
 * process: tensors on it may outlive whoever asked for it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "methods.h"

#define PREFERRED \
    1 /* of set_mempolicy: that node first, others if it is full */
#define NODES_MAX 1024
#define CPU_LIST_MAX 8192

struct piece {
    struct piece *next;
    void *base;
    size_t bytes;
};

static pthread_mutex_t pieces_lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces;

/* ---- memory --------------------------------------------------------------------------- */

static void *take(size_t bytes)
{
    struct piece *piece = PyMem_RawMalloc(sizeof *piece);
    if (!piece) {
        return NULL;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        PyMem_RawFree(piece);
        return NULL;
    }
    (void)pthread_mutex_lock(&pieces_lock);
    *piece = (struct piece){.next = pieces, .base = base, .bytes = bytes};
    pieces = piece;
    (void)pthread_mutex_unlock(&pieces_lock);
    return base;
}

static bool give(const void *base)
{
    (void)pthread_mutex_lock(&pieces_lock);
    struct piece **link = &pieces;
    while (*link && (*link)->base != base) {
        link = &(*link)->next;
    }
    struct piece *piece = *link;
    if (piece) {
        *link = piece->next;
    }
    (void)pthread_mutex_unlock(&pieces_lock);
    if (piece) {
        (void)munmap(piece->base, piece->bytes);
        PyMem_RawFree(piece);
    }
    return piece != NULL;
}

PyObject *mcp_host_alloc(PyObject *self, PyObject *object)
{
    uint64_t bytes = 0;
    (void)self;
    if (!mcp_args_u64(object, "size", &bytes)) {
        return NULL;
    }
    void *base = bytes > 0 && bytes <= SIZE_MAX / 2 ? take(bytes) : NULL;
    return PyLong_FromUnsignedLongLong((uintptr_t)base);
}

PyObject *mcp_host_free(PyObject *self, PyObject *object)
{
    uint64_t address = 0;
    bool is_given = false;
    (void)self;
    if (!mcp_args_u64(object, "ptr", &address)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS is_given = give(mcp_pointer(address));
    Py_END_ALLOW_THREADS return PyLong_FromLong(
        is_given ? 0 : MC_ERR_INVALID_PARAMS);
}

/* ---- nodes ------------------------------------------------------------------------------- */

#define NODES "/sys/devices/system/node"

/* "0-3,8": what the system says of a node. */
static bool parse_cpus(const char *text, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    while (*text >= '0' && *text <= '9') {
        char *end = NULL;
        unsigned long first = strtoul(text, &end, 10);
        unsigned long last = first;
        if (*end == '-') {
            last = strtoul(end + 1, &end, 10);
        }
        for (unsigned long i = first; i <= last && i < CPU_SETSIZE; i++) {
            CPU_SET(i, cpus);
        }
        text = *end == ',' ? end + 1 : end;
    }
    return CPU_COUNT(cpus) > 0;
}

static bool cpus_of(uint32_t node, cpu_set_t *cpus)
{
    char path[96];
    char text[CPU_LIST_MAX];
    (void)snprintf(path, sizeof path, NODES "/node%u/cpulist", node);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    size_t len = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    return parse_cpus(text, cpus);
}

PyObject *mcp_bind_to_node(PyObject *self, PyObject *object)
{
    unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = {0};
    const size_t word_bits = 8 * sizeof(mask[0]);
    uint32_t node = 0;
    cpu_set_t cpus;
    (void)self;
    if (!mcp_args_u32(object, "node", &node)) {
        return NULL;
    }
    if (node == 0 && access(NODES, F_OK) != 0) {
        Py_RETURN_NONE; /* of nodes nothing is told: there is this one */
    }
    if (node >= NODES_MAX || !cpus_of(node, &cpus)) {
        PyErr_Format(PyExc_ValueError, "node: there is no node %u", node);
        return NULL;
    }
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    mask[node / word_bits] = 1UL << (node % word_bits);
    /* Containers forbid this, as a rule; memory that is touched first on these
     * processors comes from their node all the same. */
    if (syscall(SYS_set_mempolicy, PREFERRED, mask, NODES_MAX + 1) != 0 &&
        errno != EPERM && errno != ENOSYS) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}
