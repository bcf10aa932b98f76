/* SPDX-License-Identifier: Apache-2.0 */
/* master_process.h - what stands in a master process, for its pages.
 *
 * Threads: the parts are for any thread; the struct does not change between open
 * and close.
 */
#ifndef MASTER_PROCESS_H
#define MASTER_PROCESS_H
#include "control_server.h"
#include "http_metadata.h"
#include "http_server.h"
#include "mc_master.h"
#include "mci_publisher.h"
#include "snapshot.h"
#include "sweeper.h"

struct mc_master {
    struct mci_event_log *log;
    struct mci_publisher *publisher; /* NULL: no events leave */
    struct mci_snapshot snapshot;    /* asked by the publisher alone */
    struct mci_master *core;
    struct mci_registry *registry;
    struct mci_tls *tls; /* NULL: none */
    struct mci_control_server *control;
    struct mci_metadata *metadata; /* NULL: none */
    struct mci_http_server *admin; /* NULL: none */
    struct mci_sweeper sweeper;
    bool metadata_cleanup;
    bool has_tenants;
    uint32_t client; /* of the core: who the pages ask as */
    struct mc_master_bound bound;
};

/* A call of the pages, on this tenant (none: default), that waits timeout_ms
 * at most. */
struct mci_call mci_process_call(const struct mc_master *master,
                                 struct mc_view tenant, uint64_t timeout_ms);

/* With a publisher or without. */
void mci_process_events(const struct mc_master *master,
                        struct mc_publisher_stats *stats_out);

/* The pages of the admin port. Errors as mci_http_server_open. */
MC_CHECK_RESULT enum mc_err mci_admin_open(struct mc_master *master,
                                           const char *address, uint16_t port,
                                           uint16_t *port_out);

/* ---- pages, in files by what they tell ----------------------------------- */

#define MCI_PAGE(name)                                           \
    void name(void *ctx, const struct mci_http_request *request, \
              struct mci_http_response *response)
MCI_PAGE(mci_page_metrics); /* http_metrics.c */
MCI_PAGE(mci_page_summary);
MCI_PAGE(mci_page_all_keys); /* http_objects.c */
MCI_PAGE(mci_page_query_key);
MCI_PAGE(mci_page_query_keys);
MCI_PAGE(mci_page_remove_all);
MCI_PAGE(mci_page_all_segments); /* http_segments.c */
MCI_PAGE(mci_page_segment);
MCI_PAGE(mci_page_segments_detail);
MCI_PAGE(mci_page_segment_status);
MCI_PAGE(mci_page_events_status); /* http_events.c */
MCI_PAGE(mci_page_events_snapshot);
MCI_PAGE(mci_page_quotas); /* http_quotas.c */
#undef MCI_PAGE

/* {"success":false,"error_code":...,"error_message":...} with the status that
 * goes with the code. */
void mci_page_fail(struct mci_http_response *response, enum mc_err err);

/* Reads a policy file: {"tenants":{"NAME":BYTES,...}}, or an array of
 * {"tenant_id","quota_bytes"}; numbers, or texts as "4GB". Errors, each with a
 * line in the log: MC_ERR_INVALID_PARAMS, MC_ERR_FILE_OPEN_FAIL, those of
 * mci_master_quota_set. */
MC_CHECK_RESULT enum mc_err mci_quota_file_read(struct mci_master *core,
                                                const char *path);
#endif
