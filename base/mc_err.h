/* SPDX-License-Identifier: Apache-2.0 */
/* mc_err.h - one list of everything that can go wrong.
 *
 * Every fallible call returns an enum mc_err; MC_OK is 0, all others are
 * negative. The numbers are those that users of Mooncake Store test for
 * (its published error table); MC_ERR_NOMEM and MC_ERR_CANCELED are ours. The scope of a code says
 * how much is lost, so that a caller can react by it alone.
 * Threads: any thread.
 */
#ifndef MC_ERR_H
#define MC_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MC_CHECK_RESULT __attribute__((warn_unused_result))
#else
#define MC_CHECK_RESULT
#endif

/* What is lost: the call (try other arguments), the stream (resubscribe), the
 * peer (reconnect), the process (give up). */
enum mc_err_scope {
    MC_ERR_SCOPE_NONE = 0,
    MC_ERR_SCOPE_CALL = 1,
    MC_ERR_SCOPE_STREAM = 2,
    MC_ERR_SCOPE_PEER = 3,
    MC_ERR_SCOPE_PROCESS = 4
};

/* X(name, number, scope, text) */
#define MC_ERR_LIST(X)                                                         \
    X(MC_OK, 0, NONE, "ok")                                                    \
    X(MC_ERR_INTERNAL_ERROR, -1, CALL, "internal error")                       \
    X(MC_ERR_BUFFER_OVERFLOW, -10, CALL, "buffer too small")                   \
    X(MC_ERR_NOMEM, -11, CALL, "out of memory")                                \
    X(MC_ERR_CANCELED, -12, CALL, "canceled")                                  \
    X(MC_ERR_SHARD_INDEX_OUT_OF_RANGE, -100, CALL, "shard index out of range") \
    X(MC_ERR_SEGMENT_NOT_FOUND, -101, CALL, "segment not found")               \
    X(MC_ERR_SEGMENT_ALREADY_EXISTS, -102, CALL, "segment already exists")     \
    X(MC_ERR_CLIENT_NOT_FOUND, -103, CALL, "client not found")                 \
    X(MC_ERR_NO_AVAILABLE_HANDLE, -200, CALL, "no space left")                 \
    X(MC_ERR_INVALID_VERSION, -300, CALL, "attempt or version is not current") \
    X(MC_ERR_INVALID_KEY, -400, CALL, "invalid key")                           \
    X(MC_ERR_WRITE_FAIL, -500, CALL, "write failed")                           \
    X(MC_ERR_INVALID_PARAMS, -600, CALL, "invalid parameters")                 \
    X(MC_ERR_ILLEGAL_CLIENT, -601, CALL, "not the writer of this object")      \
    X(MC_ERR_INVALID_WRITE, -700, CALL, "no such write in progress")           \
    X(MC_ERR_INVALID_READ, -701, CALL, "no such read in progress")             \
    X(MC_ERR_INVALID_REPLICA, -702, CALL, "no usable replica")                 \
    X(MC_ERR_REPLICA_IS_NOT_READY, -703, CALL, "object is not readable yet")   \
    X(MC_ERR_OBJECT_NOT_FOUND, -704, CALL, "object not found")                 \
    X(MC_ERR_OBJECT_ALREADY_EXISTS, -705, CALL, "object already exists")       \
    X(MC_ERR_OBJECT_HAS_LEASE, -706, CALL, "object has a lease")               \
    X(MC_ERR_LEASE_EXPIRED, -707, CALL, "lease expired")                       \
    X(MC_ERR_OBJECT_HAS_REPLICATION_TASK, -708, CALL,                          \
      "object has a replication task")                                         \
    X(MC_ERR_OBJECT_NO_REPLICATION_TASK, -709, CALL,                           \
      "object has no replication task")                                        \
    X(MC_ERR_REPLICA_NOT_FOUND, -710, CALL, "replica not found")               \
    X(MC_ERR_REPLICA_ALREADY_EXISTS, -711, CALL, "replica already exists")     \
    X(MC_ERR_REPLICA_IS_GONE, -712, CALL, "replica is gone")                   \
    X(MC_ERR_REPLICA_NOT_IN_LOCAL_MEMORY, -713, CALL,                          \
      "replica is not in local memory")                                        \
    X(MC_ERR_OBJECT_REPLICA_BUSY, -714, CALL, "replica is busy")               \
    X(MC_ERR_TRANSFER_FAIL, -800, PEER, "transfer failed")                     \
    X(MC_ERR_CHECKSUM_MISMATCH, -801, CALL, "checksum mismatch")               \
    X(MC_ERR_RPC_FAIL, -900, PEER, "request failed")                           \
    X(MC_ERR_RPC_TIMEOUT, -901, CALL, "timed out, outcome unknown")            \
    X(MC_ERR_ETCD_OPERATION_ERROR, -1000, PEER, "etcd operation failed")       \
    X(MC_ERR_ETCD_KEY_NOT_EXIST, -1001, CALL, "etcd key does not exist")       \
    X(MC_ERR_ETCD_TRANSACTION_FAIL, -1002, CALL, "etcd transaction failed")    \
    X(MC_ERR_ETCD_CTX_CANCELLED, -1003, CALL, "etcd request cancelled")        \
    X(MC_ERR_OPLOG_ENTRY_NOT_FOUND, -1004, CALL, "oplog entry not found")      \
    X(MC_ERR_K8S_LEASE_OPERATION_ERROR, -1005, PEER,                           \
      "kubernetes lease operation failed")                                     \
    X(MC_ERR_K8S_LEASE_NOT_FOUND, -1006, CALL, "kubernetes lease not found")   \
    X(MC_ERR_INCOMPLETE_OPLOG_CATCH_UP, -1007, PROCESS,                        \
      "oplog catch-up is incomplete")                                          \
    X(MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS, -1010, CALL,                       \
      "unavailable in the current status")                                     \
    X(MC_ERR_UNAVAILABLE_IN_CURRENT_MODE, -1011, CALL,                         \
      "unavailable in the current mode")                                       \
    X(MC_ERR_NOT_SUPPORTED, -1012, CALL, "not supported")                      \
    X(MC_ERR_FILE_NOT_FOUND, -1100, CALL, "file not found")                    \
    X(MC_ERR_FILE_OPEN_FAIL, -1101, CALL, "cannot open file")                  \
    X(MC_ERR_FILE_READ_FAIL, -1102, CALL, "cannot read file")                  \
    X(MC_ERR_FILE_WRITE_FAIL, -1103, CALL, "cannot write file")                \
    X(MC_ERR_FILE_INVALID_BUFFER, -1104, CALL, "invalid file buffer")          \
    X(MC_ERR_FILE_LOCK_FAIL, -1105, CALL, "cannot lock file")                  \
    X(MC_ERR_FILE_INVALID_HANDLE, -1106, CALL, "invalid file handle")          \
    X(MC_ERR_BUCKET_NOT_FOUND, -1200, CALL, "bucket not found")                \
    X(MC_ERR_BUCKET_ALREADY_EXISTS, -1201, CALL, "bucket already exists")      \
    X(MC_ERR_KEYS_EXCEED_BUCKET_LIMIT, -1202, CALL,                            \
      "keys exceed the bucket limit")                                          \
    X(MC_ERR_KEYS_ULTRA_LIMIT, -1203, CALL, "too many keys")                   \
    X(MC_ERR_UNABLE_OFFLOAD, -1300, CALL, "unable to offload")                 \
    X(MC_ERR_UNABLE_OFFLOADING, -1301, CALL, "offloading is not possible now") \
    X(MC_ERR_TASK_NOT_FOUND, -1400, CALL, "task not found")                    \
    X(MC_ERR_TASK_PENDING_LIMIT_EXCEEDED, -1401, CALL,                         \
      "too many pending tasks")                                                \
    X(MC_ERR_JOB_NOT_FOUND, -1402, CALL, "job not found")                      \
    X(MC_ERR_SERIALIZE_UNSUPPORTED, -1500, CALL, "cannot be serialized")       \
    X(MC_ERR_SERIALIZE_FAIL, -1501, CALL, "serialization failed")              \
    X(MC_ERR_DESERIALIZE_FAIL, -1502, CALL, "deserialization failed")          \
    X(MC_ERR_PERSISTENT_FAIL, -1503, CALL, "persisting failed")                \
    X(MC_ERR_DFS_NETWORK_TIMEOUT, -1600, PEER, "dfs network timeout")          \
    X(MC_ERR_DFS_SERVICE_UNAVAILABLE, -1601, CALL, "dfs is not available")     \
    X(MC_ERR_DFS_QUOTA_EXCEEDED, -1602, CALL, "dfs quota exceeded")            \
    X(MC_ERR_DFS_PERMISSION_DENIED, -1603, CALL, "dfs permission denied")      \
    X(MC_ERR_DFS_STALE_HANDLE, -1604, CALL, "dfs stale handle")                \
    X(MC_ERR_DFS_PARTIAL_WRITE, -1605, CALL, "dfs partial write")              \
    X(MC_ERR_TENANT_QUOTA_EXCEEDED, -1700, CALL, "tenant quota exceeded")      \
    X(MC_ERR_TENANT_NOT_REGISTERED, -1701, CALL, "tenant is not registered")   \
    X(MC_ERR_TENANT_NOT_EMPTY, -1702, CALL, "tenant is not empty")

enum mc_err {
#define MC_ERR_ENUM_(name, number, scope, text) name = (number),
    MC_ERR_LIST(MC_ERR_ENUM_)
#undef MC_ERR_ENUM_
};

/* The text of a code: a static string, never NULL, also for unknown codes. */
const char *mc_err_text(enum mc_err err);

/* The name of a code, such as "OBJECT_NOT_FOUND"; "OK" for 0, "UNKNOWN" for a
 * number outside the list. Static. */
const char *mc_err_name(enum mc_err err);

/* What a code says is lost; CALL for a number outside the list. */
enum mc_err_scope mc_err_scope(enum mc_err err);

#ifdef __cplusplus
}
#endif
#endif
