# SPDX-License-Identifier: Apache-2.0
"""Beginning and ending: threads, exit, forks, cycles (K1 to K4)."""
import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest
from conftest import MIB, PATIENCE_S, SANITIZED, set_up, until
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

CALLS = {
    "put": ("a", b"x"), "upsert": ("a", b"x"), "put_parts": ("a", b"x"),
    "upsert_parts": ("a", b"x"), "put_batch": (["a"], [b"x"]), "upsert_batch": (["a"], [b"x"]),
    "put_from": ("a", 8, 8), "upsert_from": ("a", 8, 8),
    "put_from_with_metadata": ("a", 8, 8, 8, 8), "batch_put_from": (["a"], [8], [8]),
    "batch_upsert_from": (["a"], [8], [8]),
    "batch_put_from_multi_buffers": (["a"], [[8]], [[8]]), "get_into": ("a", 8, 8),
    "batch_get_into": (["a"], [8], [8]), "batch_get_into_multi_buffers": (["a"], [[8]], [[8]]),
    "get_into_ranges": ([8], [["a"]], [[[0]]], [[[0]]], [[[1]]]), "is_exist": ("a",),
    "batch_is_exist": (["a"],), "get_size": ("a",), "remove": ("a",), "batch_remove": (["a"],),
    "remove_by_regex": ("a",), "remove_all": (), "register_buffer": (8, 8),
    "unregister_buffer": (8,), "batch_get_session_start": (["a"],),
    "batch_get_into_multi_buffer_ranges": (["a"], [[8]], [[8]], [[0]]),
    "batch_get_session_end": (["a"],), "batch_put_session_start": (["a"], [8]),
    "batch_put_from_multi_buffer_ranges": (["a"], [[8]], [[8]], [[0]]),
    "batch_put_session_end": (["a"],), "batch_put_session_revoke": (["a"],),
    "mount_segment": ("/dev/null", 4096), "unmount_segment": (["1"],),
    "allocate_and_mount_segment": (4096,), "unmount_and_free_segment": (["1"],),
    "put_tensor_from": ("a", 8, 48), "batch_put_tensor_from": (["a"], [8], [48]),
}
EMPTY = {"get": (("a",), b""), "get_batch": ((["a"],), [b""]), "get_buffer": (("a",), None),
         "batch_get_buffer": ((["a"],), [None]), "get_tensor": (("a",), None),
         "get_hostname": ((), ""), "health_check": ((), 1), "get_replica_desc": (("a",), [])}


def least(answer):
    """The one number that an answer comes down to."""
    if isinstance(answer, dict):
        return answer["ret"]
    while isinstance(answer, list):
        (answer,) = answer
    return answer


def refuses_everything(store):
    for name, arguments in CALLS.items():
        assert least(getattr(store, name)(*arguments)) < 0, name
    for name, (arguments, answer) in EMPTY.items():
        assert getattr(store, name)(*arguments) == answer, name
    assert store.probe("a").code < 0


def test_before_setup_and_after_close_everything_is_refused():
    store = MooncakeDistributedStore()
    refuses_everything(store)
    assert store.close() == 0
    assert set_up(store, "embedded") == 0
    assert store.put("a", b"x") == 0
    assert store.close() == 0
    refuses_everything(store)
    assert store.close() == 0


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps what is freed")
def test_a_loop_of_every_call_leaks_nothing(embedded):
    """Calls that succeed, that fail, and that raise: neither objects nor memory stay."""
    memory = (ctypes.c_ubyte * 4096)()
    ptr = ctypes.addressof(memory)
    assert embedded.register_buffer(ptr, 4096) == 0
    good = {**CALLS, "register_buffer": (ptr, 4096), "unregister_buffer": (ptr,)}
    for name in ("put_from", "upsert_from", "get_into"):
        good[name] = ("a", ptr, 8)
    for name in ("batch_put_from", "batch_upsert_from", "batch_get_into"):
        good[name] = (["a"], [ptr], [8])
    for name in ("batch_put_from_multi_buffers", "batch_get_into_multi_buffers"):
        good[name] = (["a"], [[ptr]], [[8]])
    config = ReplicateConfig(session_ids=["s"], group_ids=["g"], preferred_segments=["a", "b"])

    def every():
        for name, arguments in good.items():
            getattr(embedded, name)(*arguments)
            with pytest.raises(TypeError):
                getattr(embedded, name)(*arguments, *[object()] * 9)
        for name, (arguments, _) in EMPTY.items():
            getattr(embedded, name)(*arguments)
        embedded.put("a", b"x", config)
        embedded.upsert_batch(["a", "b"], [b"x", b"y"])
        embedded.get_batch(["a", "b", "none"])
        embedded.batch_get_buffer(["a", "b", "none"])
        embedded.batch_get_replica_desc(["a", "none"])
        embedded.get_into_ranges([ptr], [["a"]], [[[0]]], [[[0]]], [[[1]]])
        embedded.batch_put_session_start(["t"], [8])
        embedded.batch_put_from_multi_buffer_ranges(["t"], [[ptr]], [[8]], [[0]])
        embedded.batch_put_session_end(["t"])
        embedded.batch_get_session_start(["a"])
        embedded.batch_get_into_multi_buffer_ranges(["a"], [[ptr]], [[1]], [[0]])
        embedded.batch_get_session_end(["a"])
        embedded.probe("a")

    for _ in range(100):
        every()
    gc.collect()
    blocks, bytes_before = sys.getallocatedblocks(), resident()
    for _ in range(600):
        every()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 400  # of 600 times every call
    # One chunk of arguments a round would be 2.4 MB; what a store remembers of writes is 0.3 MB.
    assert resident() - bytes_before < 3 * MIB // 2


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def threads():
    return len(os.listdir("/proc/self/task"))


def test_cycles_leave_nothing_behind(master_of_its_own):
    master, store = master_of_its_own(), MooncakeDistributedStore()

    def cycle(key):
        assert set_up(store, master.address, segment=MIB, local_buffer=MIB) == 0
        assert store.put(key, b"x") == 0
        assert store.get(key) == b"x"
        assert store.close() == 0

    # The master takes out what a client had lent when it has heard of its end, and a moment later:
    # a key of the life before may still be there.
    for i in range(3):
        cycle(f"warm{i}")
    before = descriptors(), threads()
    for i in range(100):
        cycle(f"life{i}")
    assert (descriptors(), threads()) == before


def test_the_end_of_the_object_closes_it(master, store):
    one = MooncakeDistributedStore()
    assert set_up(one, master.address) == 0
    name = one.get_hostname()
    assert one.put("a", b"x", ReplicateConfig(preferred_segment=name)) == 0
    assert store.get_replica_desc("a")[0].segment == name
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None
    until(lambda: store.is_exist("a") == 0, "its segment goes")


def test_threads_call_while_one_closes(master):
    """Whoever is inside is waited for, whoever comes later is refused."""
    store = MooncakeDistributedStore()
    assert set_up(store, master.address) == 0
    answers, begun = [], threading.Barrier(9)

    def work():
        begun.wait()
        while True:
            code = store.put("a", bytes(1000))
            answers.append(code)
            if code < 0:
                return

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    begun.wait()
    while len(answers) < 100:
        pass
    assert store.close() == 0
    for worker in workers:
        worker.join(PATIENCE_S)
    assert set(answers) <= {0, -600} and answers.count(-600) == 8


def python(text, *arguments):
    """Runs a program in an interpreter of its own; its result."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text), *arguments],
                          capture_output=True, text=True, timeout=PATIENCE_S)


BEGIN = """
    import os, sys, threading
    from mooncake.store import MooncakeDistributedStore
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 1 << 20, 1 << 20, "tcp", "", sys.argv[1]) == 0
    key = f"of {os.getpid()}"  # what another left on a client that is going away is not in the way
"""
EXITS = {
    "without close": "store.put(key, b'x')",
    "with a session": "assert store.batch_put_session_start(['s'], [8]) == [0]",
    "with a buffer": "store.put(key, b'x')\n    buffer = store.get_buffer(key); view = memoryview(buffer)",
    "in a hurry": "store.put(key, b'x')\n    os._exit(0)",
    "with a cycle": "store.me = store",
    "with a working thread": """
    def work():
        while True:
            store.put(key, bytes(100000))
            store.remove(key, force=True)
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    while store.is_exist(key) != 1:
        pass""",
    "with an exception in setup": """
    try:
        store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", "embedded", nonsense=1)
    except TypeError:
        pass""",
}


@pytest.mark.parametrize("how", EXITS)
def test_exits(master, how):
    done = python(BEGIN + "    " + EXITS[how] + "\n", master.address)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_an_exit_by_an_exception_keeps_its_code(master):
    done = python(BEGIN + "    raise SystemExit(7)\n", master.address)
    assert done.returncode == 7 and done.stderr == ""


def test_a_child_of_a_fork_gets_errors(master):
    """And may end as it likes, with a parent that goes on."""
    done = python(BEGIN + """
    # In its own memory: of what another lent, which has just gone in a hurry, the master may not know yet.
    from mooncake.store import ReplicateConfig
    assert store.put(key, b'x', ReplicateConfig(preferred_segment=store.get_hostname())) == 0
    buffer = store.get_buffer(key)
    child = os.fork()
    if child == 0:
        codes = [store.put('b', b'x'), store.is_exist(key), store.close(),
                 store.batch_is_exist([key]), store.setup('127.0.0.1', 'P2PHANDSHAKE', 0, 0, 'tcp',
                                                         '', sys.argv[1])]
        good = codes == [-1010, -1, -1010, [-1], -1010] and bytes(buffer) == b'x'
        del buffer, store
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get(key) == b'x'
    """, master.address)
    assert done.returncode == 0, done.stderr


def test_the_first_import_in_a_thread():
    done = python("""
    import threading
    def work():
        import mooncake.store
        store = mooncake.store.MooncakeDistributedStore()
        assert store.setup("h", "P2PHANDSHAKE", 1 << 20, 0, "tcp", "", "embedded") == 0
        assert store.put("a", b"x") == 0
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    import mooncake.store
    """)
    assert done.returncode == 0 and done.stderr == ""


def test_others_run_while_a_call_does():
    """K4: the interpreter's lock is not held: a ticker ticks through setup, put, get and close of
    much memory. A call that held it would leave gaps as long as itself."""
    store, ticks, is_over = MooncakeDistributedStore(), [], threading.Event()

    def tick():
        while not is_over.wait(0.001):
            ticks.append(time.perf_counter())

    value = bytes(128 * MIB)
    ticker = threading.Thread(target=tick)
    ticker.start()
    spans = []
    for call in (lambda: set_up(store, "embedded", segment=512 * MIB),
                 lambda: store.put("a", value), lambda: len(store.get("a")) - len(value),
                 lambda: store.close()):
        begin = time.perf_counter()
        assert call() == 0
        spans.append((begin, time.perf_counter()))
    is_over.set()
    ticker.join()
    for begin, end in spans:
        inside = [moment for moment in ticks if begin <= moment <= end]
        assert len(inside) >= 20 * (end - begin) - 1, (spans, len(ticks))
