/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_lane.h"

#include <poll.h>

#include "mc_log.h"

#define PARTS_MAX 256
#define RUN_BYTES (UINT64_C(8) << 20) /* then others are looked after */
#define BREAKS_MAX 4

static struct mci_tcp_piece *piece_at(struct mci_tcp_lane *lane,
                                      uint32_t number)
{
    return &lane->pieces[number % MCI_TCP_WINDOW];
}

static bool is_write(const struct mci_tcp_row *row)
{
    return row->op == MCI_TCP_WRITE;
}

/* ---- rows ---------------------------------------------------------------- */

static bool has_ended_remotely(const struct mci_tcp_row *row)
{
    if (row->receipt != 0 || row->op == MCI_TCP_READ) {
        return true;
    }
    if (row->op == MCI_TCP_SEAL) {
        return false;
    }
    return !row->was_sent || (row->err == MC_OK && !row->was_cut);
}

static void row_over(struct mci_tcp_lane *lane, struct mci_tcp_row *row)
{
    struct mc_transfer_row *told = row->row;
    row->is_over = true;
    lane->rows_left--;
    told->err = row->err;
    told->bytes = row->answered;
    told->receipt = row->receipt;
    told->local_ended = true;
    told->remote_ended = has_ended_remotely(row);
    told->transport = MC_TRANSPORT_TCP;
}

static void row_fail(struct mci_tcp_row *row, enum mc_err err)
{
    if (!row->err) {
        row->err = err;
    }
    row->is_issued = true;
}

static void row_over_if_done(struct mci_tcp_lane *lane, struct mci_tcp_row *row)
{
    if (row->is_issued && row->outstanding == 0) {
        row_over(lane, row);
    }
}

/* ---- pieces ---------------------------------------------------------------- */

static struct mci_tcp_row *row_to_issue(struct mci_tcp_lane *lane)
{
    while (lane->issuing && lane->issuing->is_issued) {
        lane->issuing = lane->issuing->next;
    }
    return lane->issuing;
}

static void make_piece(struct mci_tcp_lane *lane, struct mci_tcp_row *row)
{
    const struct mc_transfer_row *told = row->row;
    struct mci_tcp_piece *piece = piece_at(lane, lane->made++);
    uint64_t left = row->len - row->issued;
    uint64_t len = left < MCI_TCP_PIECE_BYTES ? left : MCI_TCP_PIECE_BYTES;
    piece->row = row;
    piece->at = row->issued;
    piece->request = (struct mci_tcp_request){
        .op = row->op,
        .is_final = is_write(row) && told->is_final && len == left,
        .number = lane->link->next_number++,
        .terms = told->terms,
        .grant = mci_row_grant(told),
        .offset = told->offset + row->issued,
        .len = len};
    mci_tcp_request_write(&piece->request, piece->head);
    row->issued += len;
    row->is_issued = row->issued == row->len;
    row->outstanding++;
    lane->window_bytes += len;
}

/* Many at a time, so that small requests leave together. */
static void issue(struct mci_tcp_lane *lane)
{
    if (lane->made - lane->first > MCI_TCP_WINDOW / 2) {
        return;
    }
    while (lane->made - lane->first < MCI_TCP_WINDOW &&
           lane->window_bytes < MCI_TCP_WINDOW_BYTES) {
        struct mci_tcp_row *row = row_to_issue(lane);
        if (!row) {
            return;
        }
        make_piece(lane, row);
    }
}

/* ---- sending ----------------------------------------------------------------- */

static uint64_t piece_len(const struct mci_tcp_piece *piece)
{
    return MCI_TCP_REQUEST_LEN +
           (is_write(piece->row) ? piece->request.len : 0);
}

/* Where the bytes of a piece begin. */
static void go_to(struct mci_span_place *place,
                  const struct mci_tcp_piece *piece)
{
    mci_span_place_set(place, piece->row, piece->row->row->spans, piece->at);
}

static int gather(struct mci_tcp_lane *lane, struct iovec *parts)
{
    struct mci_span_place place = lane->out;
    uint64_t done = lane->sent_len;
    uint64_t room = RUN_BYTES;
    int count = 0;
    for (uint32_t i = lane->sent; i != lane->made && count < PARTS_MAX; i++) {
        struct mci_tcp_piece *piece = piece_at(lane, i);
        if (done < MCI_TCP_REQUEST_LEN) {
            parts[count].iov_base = piece->head + done;
            parts[count].iov_len = MCI_TCP_REQUEST_LEN - (size_t)done;
            count++;
        }
        if (is_write(piece->row)) {
            uint64_t begun =
                done > MCI_TCP_REQUEST_LEN ? done - MCI_TCP_REQUEST_LEN : 0;
            uint64_t left = piece->request.len - begun;
            if (begun == 0) {
                go_to(&place, piece);
            }
            if (left > room) {
                break;
            }
            room -= left;
            count += mci_span_place_gather(&place, left, parts + count,
                                           PARTS_MAX - count);
        }
        done = 0;
    }
    return count;
}

/* So much has been sent, from where the lane stood. */
static void sent_some(struct mci_tcp_lane *lane, uint64_t moved)
{
    while (moved > 0) {
        struct mci_tcp_piece *piece = piece_at(lane, lane->sent);
        uint64_t left = piece_len(piece) - lane->sent_len;
        uint64_t here = moved < left ? moved : left;
        uint64_t after = lane->sent_len + here;
        piece->row->was_sent = true;
        if (is_write(piece->row) && after > MCI_TCP_REQUEST_LEN) {
            uint64_t bytes = here;
            if (lane->sent_len <= MCI_TCP_REQUEST_LEN) {
                go_to(&lane->out, piece);
                bytes = after - MCI_TCP_REQUEST_LEN;
            }
            mci_span_place_skip(&lane->out, bytes);
        }
        lane->sent_len = after;
        moved -= here;
        if (here == left) {
            lane->sent++;
            lane->sent_len = 0;
        }
    }
}

static bool has_unsent(const struct mci_tcp_lane *lane)
{
    return lane->sent != lane->made;
}

/* False: the connection is broken. */
static bool send_some(struct mci_tcp_lane *lane)
{
    uint64_t sum = 0;
    while (has_unsent(lane) && !lane->is_full && sum < RUN_BYTES) {
        struct iovec parts[PARTS_MAX];
        size_t moved = 0;
        int count = gather(lane, parts);
        if (mci_stream_send(lane->link->stream, parts, count, &moved)) {
            return false;
        }
        sent_some(lane, moved);
        sum += moved;
        if (mci_stream_is_full(lane->link->stream, parts, count, moved)) {
            lane->is_full = true;
            return true;
        }
    }
    return true;
}

/* ---- receiving ------------------------------------------------------------------ */

static void finish_piece(struct mci_tcp_lane *lane, enum mc_err code,
                         uint64_t receipt)
{
    struct mci_tcp_piece *piece = piece_at(lane, lane->first++);
    struct mci_tcp_row *row = piece->row;
    lane->window_bytes -= piece->request.len;
    row->outstanding--;
    if (code) {
        mc_log(MC_LOG_DEBUG, "peer %s: refused: %s",
               mci_stream_peer(lane->link->stream), mc_err_text(code));
        row_fail(row, mci_row_err(code, piece->request.terms.is_write));
    } else if (!row->err) {
        row->answered += piece->request.len;
    }
    if (receipt) {
        row->receipt = receipt;
    }
    row_over_if_done(lane, row);
}

/* Reads the head of an answer; false: it is none that fits. */
static bool read_head(struct mci_tcp_lane *lane, const uint8_t *head)
{
    struct mci_tcp_piece *piece = piece_at(lane, lane->first);
    struct mci_tcp_answer answer;
    enum mc_err err = mci_tcp_answer_read(head, &answer);
    if (!err && answer.number == 0 && answer.code == MC_ERR_NOMEM) {
        lane->why_broken = MC_ERR_NOMEM; /* of an owner, to no request */
        return false;
    }
    if (err || lane->first == lane->sent ||
        !mci_tcp_answer_fits(&answer, &piece->request)) {
        mc_log(MC_LOG_DEBUG, "peer %s: not the answer to our request: %s",
               mci_stream_peer(lane->link->stream),
               mc_err_text(err ? err : answer.code));
        return false;
    }
    lane->has_answers = true;
    if (answer.op == MCI_TCP_READ && answer.len > 0) {
        lane->data_left = answer.len;
        go_to(&lane->in, piece);
        return true;
    }
    finish_piece(lane, answer.code, answer.receipt);
    return true;
}

static void got_some(struct mci_tcp_lane *lane, uint64_t len)
{
    lane->data_left -= len;
    if (lane->data_left == 0) {
        finish_piece(lane, MC_OK, 0);
    }
}

/* What is in the buffer; false: the connection is broken. */
static bool take_input(struct mci_tcp_lane *lane)
{
    struct mci_tcp_input *input = &lane->link->input;
    while (mci_tcp_input_len(input) > 0) {
        if (lane->data_left > 0) {
            struct iovec part;
            uint64_t len = lane->data_left;
            if (len > mci_tcp_input_len(input)) {
                len = mci_tcp_input_len(input);
            }
            (void)mci_span_place_gather(&lane->in, len, &part, 1);
            got_some(lane,
                     mci_tcp_input_take(input, part.iov_base, part.iov_len));
            continue;
        }
        const uint8_t *head = mci_tcp_input_head(input, MCI_TCP_ANSWER_LEN);
        if (!head) {
            return true;
        }
        uint8_t copy[MCI_TCP_ANSWER_LEN];
        memcpy(copy, head, sizeof copy);
        mci_tcp_input_drop(input, sizeof copy);
        if (!read_head(lane, copy)) {
            return false;
        }
    }
    return true;
}

/* False: the connection is broken. *is_more_out: it may have more at once. */
static bool receive(struct mci_tcp_lane *lane, uint64_t *sum_io,
                    bool *is_more_out)
{
    struct iovec parts[PARTS_MAX + 1];
    struct mci_tcp_input *input = &lane->link->input;
    struct mci_span_place place = lane->in;
    size_t room = sizeof input->bytes - mci_tcp_input_len(input);
    size_t own = 0;
    size_t moved = 0;
    int count =
        mci_span_place_gather(&place, lane->data_left, parts, PARTS_MAX);
    room += (size_t)(place.at - lane->in.at);
    if (mci_tcp_input_recv(input, lane->link->stream, parts, count, &own,
                           &moved)) {
        return false;
    }
    *sum_io += moved;
    *is_more_out = moved == room ||
                   (moved > 0 && mci_stream_has_pending(lane->link->stream));
    if (own > 0) {
        mci_span_place_skip(&lane->in, own);
        got_some(lane, own);
    }
    return take_input(lane);
}

static bool receive_some(struct mci_tcp_lane *lane)
{
    uint64_t sum = 0;
    bool is_more = true;
    while (is_more && sum < RUN_BYTES && !mci_tcp_lane_is_over(lane)) {
        if (!receive(lane, &sum, &is_more)) {
            return false;
        }
    }
    return true;
}

/* ---- connections ------------------------------------------------------------------ */

static void drop_connection(struct mci_tcp_lane *lane)
{
    if (lane->want) {
        mci_tcp_want_drop(lane->want);
        lane->want = NULL;
    }
    if (lane->link) {
        mci_tcp_link_abort(lane->link);
        lane->link = NULL;
    }
}

static void ask_for_connection(struct mci_tcp_lane *lane, bool is_fresh)
{
    enum mc_err err = mci_tcp_peer_take(lane->peer, is_fresh, lane->deadline_ns,
                                        &lane->link, &lane->want);
    if (err) {
        mci_tcp_lane_cut(lane, err);
    }
}

/* Nothing is outstanding any more; what was not answered is to be issued again. */
static void recall(struct mci_tcp_lane *lane)
{
    for (uint32_t i = lane->first; i != lane->made; i++) {
        struct mci_tcp_row *row = piece_at(lane, i)->row;
        bool was_sent = i != lane->sent
                            ? i - lane->first < lane->sent - lane->first
                            : lane->sent_len > 0;
        row->was_cut = row->was_cut || was_sent;
        row->outstanding = 0;
    }
    for (struct mci_tcp_row *row = lane->first_row; row; row = row->next) {
        if (row->is_over) {
            continue;
        }
        row->issued = row->answered;
        row->is_issued = row->err != MC_OK;
        row_over_if_done(lane, row);
    }
    lane->issuing = lane->first_row;
    lane->sent = lane->made;
    lane->first = lane->made;
    lane->sent_len = 0;
    lane->window_bytes = 0;
    lane->data_left = 0;
    lane->out.owner = NULL;
    lane->in.owner = NULL;
    lane->has_answers = false;
    lane->is_full = false;
}

static void broke(struct mci_tcp_lane *lane)
{
    enum mc_err why =
        lane->why_broken ? lane->why_broken : MC_ERR_TRANSFER_FAIL;
    bool is_stale = lane->link->was_idle && !lane->has_answers;
    if (lane->first != lane->made && !is_stale) {
        struct mci_tcp_row *row = piece_at(lane, lane->first)->row;
        row->tries++;
        if (row->tries > 1) {
            row_fail(row, why);
        }
    }
    drop_connection(lane);
    recall(lane);
    lane->breaks++;
    if (lane->breaks > BREAKS_MAX) {
        mci_tcp_lane_cut(lane, why);
    } else if (!mci_tcp_lane_is_over(lane)) {
        ask_for_connection(lane, true);
    }
}

static bool look_at_want(struct mci_tcp_lane *lane)
{
    enum mc_err err = MC_OK;
    struct mci_tcp_link *link = NULL;
    if (!mci_tcp_want_look(lane->want, &link, &err)) {
        return false;
    }
    mci_tcp_want_drop(lane->want);
    lane->want = NULL;
    lane->link = link;
    if (!link) {
        mci_tcp_lane_cut(lane,
                         err == MC_ERR_NOMEM ? err : MC_ERR_TRANSFER_FAIL);
        return false;
    }
    return true;
}

/* ---- the lane ------------------------------------------------------------------------ */

void mci_tcp_lane_init(struct mci_tcp_lane *lane, struct mci_tcp_peer *peer,
                       uint64_t deadline_ns)
{
    *lane = (struct mci_tcp_lane){.peer = peer, .deadline_ns = deadline_ns};
    lane->last_row = &lane->first_row;
}

void mci_tcp_lane_add(struct mci_tcp_lane *lane, struct mci_tcp_row *row)
{
    *lane->last_row = row;
    lane->last_row = &row->next;
    lane->rows_left++;
}

void mci_tcp_lane_start(struct mci_tcp_lane *lane)
{
    lane->issuing = lane->first_row;
    ask_for_connection(lane, false);
    if (lane->link) {
        mci_tcp_lane_run(lane, 0);
    }
}

int mci_tcp_lane_fd(const struct mci_tcp_lane *lane, short *events_out)
{
    if (lane->want) {
        *events_out = POLLIN;
        return mci_tcp_want_fd(lane->want);
    }
    if (!lane->link) {
        return -1;
    }
    *events_out = mci_stream_recv_events(lane->link->stream);
    if (has_unsent(lane)) {
        *events_out =
            (short)(*events_out | mci_stream_send_events(lane->link->stream));
    }
    return mci_stream_fd(lane->link->stream);
}

bool mci_tcp_lane_has_pending(const struct mci_tcp_lane *lane)
{
    return lane->link && mci_stream_has_pending(lane->link->stream);
}

static void end_well(struct mci_tcp_lane *lane)
{
    if (lane->link && lane->first == lane->made &&
        mci_tcp_input_len(&lane->link->input) == 0) {
        mci_tcp_link_keep(lane->link);
        lane->link = NULL;
    }
    drop_connection(lane);
}

void mci_tcp_lane_run(struct mci_tcp_lane *lane, short events)
{
    if (lane->want) {
        if (!look_at_want(lane)) {
            return;
        }
        events = 0;
    }
    bool is_whole = true;
    if (events & (mci_stream_recv_events(lane->link->stream) | POLLERR |
                  POLLHUP | POLLNVAL)) {
        is_whole = receive_some(lane);
    }
    if (events & mci_stream_send_events(lane->link->stream)) {
        lane->is_full = false;
    }
    if (is_whole && !mci_tcp_lane_is_over(lane)) {
        issue(lane);
        is_whole = send_some(lane);
    }
    if (!is_whole) {
        broke(lane);
    } else if (mci_tcp_lane_is_over(lane)) {
        end_well(lane);
    }
}

void mci_tcp_lane_cut(struct mci_tcp_lane *lane, enum mc_err err)
{
    for (struct mci_tcp_row *row = lane->first_row; row; row = row->next) {
        if (!row->is_over) {
            row_fail(row, err);
        }
    }
    drop_connection(lane);
    recall(lane);
}
