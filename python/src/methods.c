/* SPDX-License-Identifier: Apache-2.0 */
/* methods.c - what Store can be asked, with the words that help() shows. */
#include "methods.h"

/* A function with keywords as the table of methods has it. */
#define FN(function) ((PyCFunction)(void (*)(void))(function))
#define WITH_KEYWORDS (METH_VARARGS | METH_KEYWORDS)
#define CODE "\n\nReturns 0 or a negative code."
#define CODES "\n\nReturns a list: per key 0 or a negative code."

static PyObject *open_store(PyObject *self, PyObject *args)
{
    return mcp_store_open((struct mcp_store *)self, args);
}

static PyObject *close_store(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(mcp_store_close((struct mcp_store *)self, 0));
}

static PyObject *hostname(PyObject *self, PyObject *unused)
{
    struct mcp_store *store = (struct mcp_store *)self;
    struct mc_client *client = NULL;
    PyObject *text = NULL;
    (void)unused;
    if (mcp_store_enter(store, &client) != 0) {
        return PyUnicode_FromString("");
    }
    text = PyUnicode_FromString(mc_client_hostname(client));
    mcp_store_leave(store);
    return text;
}

static PyObject *health(PyObject *self, PyObject *unused)
{
    struct mcp_store *store = (struct mcp_store *)self;
    struct mc_client *client = NULL;
    int state = 1;
    (void)unused;
    if (mcp_store_enter(store, &client) == 0) {
        state = mc_client_health(client);
        mcp_store_leave(store);
    }
    return PyLong_FromLong(state);
}

PyMethodDef mcp_store_methods[] = {
    {"_open", open_store, METH_VARARGS, "What setup() does."},
    {"close", close_store, METH_NOARGS,
     "close($self)\n--\n\nWaits for calls under way, takes the segments out of "
     "the store and ends all\nthreads and connections. Closing twice is "
     "fine." CODE},
    {"get_hostname", hostname, METH_NOARGS,
     "get_hostname($self)\n--\n\nhost:port of this store, which is the name of "
     "its segments; empty before\nsetup()."},
    {"health_check", health, METH_NOARGS,
     "health_check($self)\n--\n\n0: healthy; 1: not set up, or not known to "
     "the "
     "master now; 2: the master\nis not reached."},
    /* Writing. */
    {"put", FN(mcp_put), WITH_KEYWORDS,
     "put($self, key, value, config=None)\n--\n\nStores the bytes of an object "
     "with a buffer. An object of the key that is there\nstays, and that is 0 "
     "too." CODE},
    {"upsert", FN(mcp_upsert), WITH_KEYWORDS,
     "upsert($self, key, value, config=None)\n--\n\nAs put(), in place of what "
     "is there." CODE},
    {"put_parts", FN(mcp_put_parts), WITH_KEYWORDS,
     "put_parts($self, key, /, *parts, config=None)\n--\n\nOne object from the "
     "parts, in order." CODE},
    {"upsert_parts", FN(mcp_upsert_parts), WITH_KEYWORDS,
     "upsert_parts($self, key, /, *parts, config=None)\n--\n\nAs put_parts(), "
     "in place of what is there." CODE},
    {"put_batch", FN(mcp_put_batch), WITH_KEYWORDS,
     "put_batch($self, keys, values, config=None)\n--\n\nMany at once.\n\n"
     "Returns 0, or the code of the first one that failed; others stand."},
    {"upsert_batch", FN(mcp_upsert_batch), WITH_KEYWORDS,
     "upsert_batch($self, keys, values, config=None)\n--\n\nAs put_batch(), in "
     "place of what is there.\n\n"
     "Returns 0, or the code of the first one that failed; others stand."},
    {"put_from", FN(mcp_put_from), WITH_KEYWORDS,
     "put_from($self, key, buffer_ptr, size, config=None)\n--\n\nStores size "
     "bytes of registered memory." CODE},
    {"upsert_from", FN(mcp_upsert_from), WITH_KEYWORDS,
     "upsert_from($self, key, buffer_ptr, size, config=None)\n--\n\nAs "
     "put_from(), in place of what is there." CODE},
    {"put_from_with_metadata", FN(mcp_put_from_with_metadata), WITH_KEYWORDS,
     "put_from_with_metadata($self, key, buffer_ptr, metadata_buffer_ptr, "
     "size, metadata_size, config=None)\n--\n\nOne object: the metadata, then "
     "the data, both registered memory." CODE},
    {"batch_put_from", FN(mcp_batch_put_from), WITH_KEYWORDS,
     "batch_put_from($self, keys, buffer_ptrs, sizes, config=None)\n--\n\nA "
     "range of registered memory per key." CODES},
    {"batch_upsert_from", FN(mcp_batch_upsert_from), WITH_KEYWORDS,
     "batch_upsert_from($self, keys, buffer_ptrs, sizes, config=None)\n--\n\n"
     "As batch_put_from(), in place of what is there." CODES},
    {"batch_put_from_multi_buffers", FN(mcp_batch_put_from_multi_buffers),
     WITH_KEYWORDS,
     "batch_put_from_multi_buffers($self, keys, all_buffer_ptrs, all_sizes, "
     "config=None)\n--\n\nPer key an object from several ranges of registered "
     "memory." CODES},
    /* Reading. */
    {"get", FN(mcp_get), WITH_KEYWORDS,
     "get($self, key)\n--\n\nThe object's bytes; b\"\" if there is none or it "
     "cannot be read."},
    {"get_batch", FN(mcp_get_batch), WITH_KEYWORDS,
     "get_batch($self, keys)\n--\n\nA list of bytes, b\"\" where get() would "
     "answer that."},
    {"get_buffer", FN(mcp_get_buffer), WITH_KEYWORDS,
     "get_buffer($self, key)\n--\n\nA BufferHandle on the object's bytes in "
     "the "
     "store's local buffer, or None."},
    {"batch_get_buffer", FN(mcp_batch_get_buffer), WITH_KEYWORDS,
     "batch_get_buffer($self, keys)\n--\n\nA list of BufferHandle or None."},
    {"get_into", FN(mcp_get_into), WITH_KEYWORDS,
     "get_into($self, key, buffer_ptr, size)\n--\n\nReads an object to the "
     "head "
     "of size bytes of registered memory.\n\nReturns its bytes, or a negative "
     "code; -600 if it is longer, and no byte is\nmoved."},
    {"batch_get_into", FN(mcp_batch_get_into), WITH_KEYWORDS,
     "batch_get_into($self, keys, buffer_ptrs, sizes)\n--\n\nAs get_into(), "
     "per "
     "key.\n\nReturns a list."},
    {"batch_get_into_multi_buffers", FN(mcp_batch_get_into_multi_buffers),
     WITH_KEYWORDS,
     "batch_get_into_multi_buffers($self, keys, all_buffer_ptrs, all_sizes, "
     "prefer_alloc_in_same_node=False)\n--\n\nScatters each object over its "
     "ranges of registered memory, in order.\n\nReturns a list: bytes, or a "
     "negative code."},
    /* Asking. */
    {"is_exist", FN(mcp_is_exist), WITH_KEYWORDS,
     "is_exist($self, key)\n--\n\n1: a readable object is there, and will be "
     "for as long as its lease; 0; -1: error."},
    {"batch_is_exist", FN(mcp_batch_is_exist), WITH_KEYWORDS,
     "batch_is_exist($self, keys)\n--\n\nA list of 1, 0 or -1, as is_exist()."},
    {"get_size", FN(mcp_get_size), WITH_KEYWORDS,
     "get_size($self, key)\n--\n\nThe object's bytes, or a negative code."},
    /* Removing. */
    {"remove", FN(mcp_remove), WITH_KEYWORDS,
     "remove($self, key, force=False)\n--\n\nRemoves an object; one that is "
     "leased only if forced (else -706)." CODE},
    {"batch_remove", FN(mcp_batch_remove), WITH_KEYWORDS,
     "batch_remove($self, keys, force=False)\n--\n\nAs remove(), per "
     "key." CODES},
    {"remove_by_regex", FN(mcp_remove_by_regex), WITH_KEYWORDS,
     "remove_by_regex($self, regex, force=False)\n--\n\nRemoves what the "
     "expression finds anywhere in the key.\n\nReturns how many, or a negative "
     "code."},
    {"remove_all", FN(mcp_remove_all), WITH_KEYWORDS,
     "remove_all($self, force=False)\n--\n\nRemoves all that is not leased; if "
     "forced, all.\n\nReturns how many, or -1."},
    {"get_into_ranges", FN(mcp_get_into_ranges), WITH_KEYWORDS,
     "get_into_ranges($self, buffer_ptrs, all_keys, all_dst_offsets, "
     "all_src_offsets, all_sizes)\n--\n\nPieces of objects into registered "
     "memory, by buffer, key and fragment: of each\nfragment its size in "
     "bytes, "
     "its offset in the object, and its offset from the\naddress of the "
     "buffer.\n\nReturns lists of the same shape: bytes, or a negative code; "
     "-600 where lengths of\nlists differ."},
    /* Sessions. */
    {"batch_get_session_start", FN(mcp_batch_get_session_start), WITH_KEYWORDS,
     "batch_get_session_start($self, keys)\n--\n\nOpens a session per key, "
     "which is counted: each start wants its end." CODES},
    {"batch_get_into_multi_buffer_ranges", FN(mcp_batch_get_ranges),
     WITH_KEYWORDS,
     "batch_get_into_multi_buffer_ranges($self, keys, all_buffer_ptrs, "
     "all_sizes, all_src_offsets)\n--\n\nReads ranges of objects with a "
     "session to registered memory, without a word to the\nmaster.\n\nReturns "
     "a list: per key the sum of its sizes, or a negative code."},
    {"batch_get_session_end", FN(mcp_batch_get_session_end), WITH_KEYWORDS,
     "batch_get_session_end($self, keys)\n--\n\nDrops one use of each session; "
     "keys without one are passed over." CODE},
    {"batch_put_session_start", FN(mcp_batch_put_session_start), WITH_KEYWORDS,
     "batch_put_session_start($self, keys, sizes, config=None)\n--\n\nOpens a "
     "write of so many bytes per key." CODES},
    {"batch_put_from_multi_buffer_ranges", FN(mcp_batch_put_ranges),
     WITH_KEYWORDS,
     "batch_put_from_multi_buffer_ranges($self, keys, all_buffer_ptrs, "
     "all_sizes, all_dst_offsets)\n--\n\nWrites ranges of open writes from "
     "registered memory; nobody touches it any more\nwhen this returns.\n\n"
     "Returns a list: per key the sum of its sizes, or a negative code."},
    {"batch_put_session_end", FN(mcp_batch_put_session_end), WITH_KEYWORDS,
     "batch_put_session_end($self, keys)\n--\n\nMakes the objects readable; "
     "bytes that were never written are 0." CODES},
    {"batch_put_session_revoke", FN(mcp_batch_put_session_revoke),
     WITH_KEYWORDS,
     "batch_put_session_revoke($self, keys)\n--\n\nThe writes leave no "
     "trace." CODES},
    /* Segments. */
    {"mount_segment", FN(mcp_mount_segment), WITH_KEYWORDS,
     "mount_segment($self, path, size, offset=0, protocol='tcp', "
     "location='')\n--\n\nLends the store size bytes of a file from offset on, "
     "which is a multiple of the\npage size.\n\nReturns {'ret': code, "
     "'segment_ids': [str]}."},
    {"unmount_segment", FN(mcp_unmount_segment), WITH_KEYWORDS,
     "unmount_segment($self, segment_ids, grace_period_seconds=0)\n--\n\nTakes "
     "segments back. Within the grace period their objects can still be "
     "read;\nreturns when it is over." CODE},
    {"allocate_and_mount_segment", FN(mcp_allocate_and_mount_segment),
     WITH_KEYWORDS,
     "allocate_and_mount_segment($self, size, protocol='tcp', "
     "location='')\n--\n\nMakes memory and lends it.\n\nReturns {'ret': code, "
     "'segment_ids': [str], 'allocated_size': bytes}."},
    {"unmount_and_free_segment", FN(mcp_unmount_segment), WITH_KEYWORDS,
     "unmount_and_free_segment($self, segment_ids, "
     "grace_period_seconds=0)\n--\n\nAs unmount_segment(), of what "
     "allocate_and_mount_segment() made." CODE},
    {"_replicas", FN(mcp_replicas), WITH_KEYWORDS,
     "What get_replica_desc() is made of."},
    {"_open_queue", mcp_open_queue, METH_O, "A Queue, or a code."},
    {"_write_parts", FN(mcp_write_parts), WITH_KEYWORDS,
     "Objects of parts, a code per key."},
    {"_get_blocks", FN(mcp_get_blocks), WITH_KEYWORDS,
     "A list of Block, or a code."},
    {"_registered_len", mcp_registered_len, METH_O,
     "How many bytes from an address on are registered."},
    {"_probe", FN(mcp_probe), WITH_KEYWORDS, "What probe() is made of."},
    /* Memory. */
    {"register_buffer", FN(mcp_register_buffer), WITH_KEYWORDS,
     "register_buffer($self, buffer_ptr, size)\n--\n\nMemory that calls may "
     "name from now on. The same range again is counted; it has\nto live until "
     "it is unregistered." CODE},
    {"unregister_buffer", FN(mcp_unregister_buffer), WITH_KEYWORDS,
     "unregister_buffer($self, buffer_ptr)\n--\n\nWaits for calls that use "
     "it." CODE},
    {"_take_lease", FN(mcp_take_lease), WITH_KEYWORDS,
     "A Lease of so many bytes, or a code; of memory of its own, if is_own."},
    {"_local_buffer_bytes", FN(mcp_local_buffer_bytes), WITH_KEYWORDS,
     "The size of the local buffer, or a code."},
    {NULL, NULL, 0, NULL}};
