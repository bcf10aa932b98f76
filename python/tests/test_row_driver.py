# SPDX-License-Identifier: Apache-2.0
"""The row driver from Python: its file, how rows end, its life."""
import gc
import os
import select
import threading
import time

import pytest

from mckv.row_driver import RowDriver, RowReason, RowStatus, open_row_driver
from mckv.settings import MooncakeConfig

PATIENCE_S = 60
SIZE = 4096


def settings(address="embedded", segment=16 << 20):
    return MooncakeConfig("127.0.0.1", "P2PHANDSHAKE", segment, 0, "tcp", "", address)


@pytest.fixture
def driver():
    with RowDriver(settings()) as made:
        yield made


def memory(size=16 * SIZE):
    return bytearray(os.urandom(size))


def region_of(driver, data):
    import ctypes

    return driver.register(ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data)), len(data), data)


def rows(region, count, size=SIZE):
    return [(region, i * size, size) for i in range(count)]


def done(operation):
    assert operation.wait(PATIENCE_S)
    return [(state.status.name, state.reason.name) for state in operation.states()]


def test_rows_go_and_come_back(driver):
    source, target = memory(), bytearray(16 * SIZE)
    first, second = region_of(driver, source), region_of(driver, target)
    keys = [f"k{i}" for i in range(16)]
    assert done(driver.put(keys, rows(first, 16), ["s"] * 16)) == [("READY", "MOVED")] * 16
    operation = driver.get(keys, rows(second, 16))
    assert done(operation) == [("READY", "MOVED")] * 16
    assert source == target and operation.pending == 0 and operation.keys == tuple(keys)
    state = operation.states()[0]
    assert state.status is RowStatus.READY and state.reason is RowReason.MOVED and state.code == 0
    assert state.local_ended and state.remote_ended and state.text == "its bytes were moved"
    assert operation.release() and operation.release()
    with pytest.raises(ValueError):
        operation.states()
    stat = driver.stat()
    assert stat["puts"]["MOVED"] == 16 and stat["gets"]["MOVED"] == 16 and stat["get_bytes"] == 16 * SIZE
    driver.unregister(first)
    driver.unregister(second)
    with pytest.raises(ValueError):
        driver.unregister(first)


def test_a_row_of_several_spans(driver):
    source, target = memory(), bytearray(16 * SIZE)
    first, second = region_of(driver, source), region_of(driver, target)
    assert done(driver.put(["k"], [[(first, 0, 10), (first, 100, 20)]])) == [("READY", "MOVED")]
    assert done(driver.get(["k"], [[(second, 5, 29), (second, 0, 1)]])) == [("READY", "MOVED")]
    assert target[5:34] + target[:1] == source[:10] + source[100:120]


def test_what_ends_otherwise(driver):
    data = memory()
    region = region_of(driver, data)
    kept = bytes(data)
    assert done(driver.get(["none"], rows(region, 1))) == [("MISS", "ABSENT")]
    assert data == kept
    assert done(driver.put(["k", "k"], rows(region, 2))) == [("READY", "MOVED"), ("READY", "EXISTS")]
    assert done(driver.put(["k"], rows(region, 1))) == [("READY", "EXISTS")]
    assert done(driver.get(["k"], rows(region, 1, 100))) == [("FAULT", "WRONG_SIZE")]
    assert [(row.status.name, row.reason.name) for row in driver.probe(["k", "none"])] == [("READY", "EXISTS"), ("MISS", "ABSENT")]
    assert driver.probe([]) == []


def test_a_full_store_declines():
    with RowDriver(settings(segment=1 << 20)) as driver:
        data = memory(2 << 20)
        region = region_of(driver, data)
        assert done(driver.put(["large"], [(region, 0, 2 << 20)])) == [("DECLINED", "NO_SPACE")]


def test_a_prefix_stands_before_every_key():
    with RowDriver(settings(), key_prefix="blob/") as driver:
        region = region_of(driver, memory())
        operation = driver.put(["k"], rows(region, 1))
        assert done(operation) == [("READY", "MOVED")] and operation.keys == ("k",)
        driver.key_prefix = ""
        assert driver.probe(["blob/k"])[0].status is RowStatus.READY


def test_requests_that_are_none_take_nothing(driver):
    region = region_of(driver, memory())
    for keys, spans, tags in ((["k"], [], None), (["k"], rows(region, 2), None), (["k"], rows(region, 1), ["a", "b"]),
                              ([""], rows(region, 1), None), ([], [], None), (["k"], [(region, 0, 0)], None),
                              (["k"], [(region, 16 * SIZE, 1)], None), (["k"], [(region + 7, 0, 1)], None),
                              (["k"], [(region, (1 << 64) - 1, 2)], None), (["k"], [[]], None),
                              (["k"], rows(region, 1), ["x" * 257])):
        with pytest.raises(ValueError):
            driver.put(keys, spans, tags)
    for keys, spans in (("k", rows(region, 1)), ([3], rows(region, 1)), (["k"], [3]), (["k"], [("a", 0, 1)]),
                        (["k"], [(region, 0)]), (["k"], None)):
        with pytest.raises(TypeError):
            driver.get(keys, spans)
    with pytest.raises(UnicodeEncodeError):
        driver.get(["\ud800"], rows(region, 1))
    for ptr, size in ((0, 10), (1, 0)):
        with pytest.raises(ValueError):
            driver.register(ptr, size)
    with pytest.raises((OverflowError, TypeError)):
        driver.register("x", 1)
    assert driver.stat()["puts"] == {} and driver.stat()["calls"] == 0


def test_numbers_that_do_not_fit_are_not_cut(driver):
    """Of a number with more bits the lowest ones would be another place."""
    data = memory()
    region, wide = region_of(driver, data), 1 << 64
    for span in ((region, wide, 1), (region, 0, wide + 1), (region, -1, 1), (region, 0, -1), (region + (1 << 32), 0, 1), (-1, 0, 1)):
        with pytest.raises(OverflowError):
            driver.get(["k"], [span])
    for ptr, size in ((wide + 4096, 1), (4096, wide + 1), (-1, 1)):
        with pytest.raises(OverflowError):
            driver.register(ptr, size)
    for number in (region + (1 << 32), -1):
        with pytest.raises(OverflowError):
            driver.unregister(number)
    for option in ({"workers": (1 << 32) + 1}, {"bytes_per_call": wide}, {"rows_max": -1}):
        with pytest.raises(OverflowError):
            RowDriver(settings(), **option)
    assert done(driver.get(["none"], rows(region, 1))) == [("MISS", "ABSENT")]
    assert driver.drain(1e12)


def test_being_told(driver):
    region = region_of(driver, memory())
    operation = driver.put(["k"], rows(region, 1))
    assert select.select([driver], [], [], PATIENCE_S)[0] == [driver]
    found = []
    end = time.monotonic() + PATIENCE_S
    while not found:
        assert time.monotonic() < end
        found = driver.poll()
    assert found == [operation]


def test_operations_that_are_forgotten_are_let_go(driver):
    region = region_of(driver, memory())
    for i in range(100):
        driver.put([f"k{i}"], rows(region, 1))
    end = time.monotonic() + PATIENCE_S
    while driver._forgotten or driver._operations:
        assert time.monotonic() < end
        gc.collect()
        driver.poll()
        driver._sweep()
    assert driver.stat()["puts"]["MOVED"] == 100


def test_cancelling_and_draining(driver):
    region = region_of(driver, memory())
    operations = [driver.put([f"k{i}-{j}" for j in range(16)], rows(region, 16)) for i in range(50)]
    for operation in operations:
        operation.cancel()
    for operation in operations:
        assert {pair[0] for pair in done(operation)} <= {"READY", "CANCELLED"}
    assert driver.drain(PATIENCE_S)
    driver.unregister(region)
    with pytest.raises((RuntimeError, ValueError)):
        driver.put(["k"], rows(region, 1))


def test_its_file(tmp_path):
    path = tmp_path / "rows.yaml"
    path.write_text("row_driver:\n  workers: 2\n  rows_per_call: 8\n")
    with open_row_driver(str(path), settings(), key_prefix="p/") as driver:
        assert done(driver.put(["k"], rows(region_of(driver, memory()), 1))) == [("READY", "MOVED")]
    for text, said in (("row_driver:\n  worker: 2\n", "rows.yaml:2: row_driver.worker: unknown name"), ("row_driver: [1]", "rows.yaml:1"),
                       ("row_driver:\n  workers: 65\n", "65 is over 64")):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            open_row_driver(str(path), settings())
    with pytest.raises(FileNotFoundError):
        open_row_driver(str(tmp_path / "none"), settings())


def test_a_file_says_it_all(master, tmp_path, monkeypatch):
    """The options, the client and the prefix of keys; what a call says goes before it."""
    monkeypatch.delenv("MOONCAKE_CONFIG_PATH", raising=False)
    monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    path = tmp_path / "rows.yaml"
    path.write_text(f"client:\n  master_server_address: {master.address}\n  local_hostname: 127.0.0.1\n"
                    "  global_segment_size: 16mb\n  local_buffer_size: 0\nblob: {key_prefix: rows/}\nrow_driver: {workers: 2}\n")
    with open_row_driver(str(path)) as driver:
        assert driver.key_prefix == "rows/"
        assert done(driver.put(["k"], rows(region_of(driver, memory()), 1))) == [("READY", "MOVED")]
        with RowDriver(config=str(path), key_prefix="") as other:
            assert other.probe(["rows/k"])[0].status is RowStatus.READY
        with open_row_driver(str(path), settings(), "mine/") as other:
            assert other.key_prefix == "mine/" and other.probe(["rows/k"])[0].status is RowStatus.MISS
    path.write_text("row_driver: {workers: 2}\n")
    with pytest.raises(ValueError, match="MOONCAKE_MASTER"):
        open_row_driver(str(path))
    path.write_text("client: {local_hostname: a}\n")
    with pytest.raises(ValueError, match="rows.yaml:1: client.master_server_address: is missing"):
        open_row_driver(str(path))


def test_settings_of_the_environment(master, monkeypatch):
    monkeypatch.delenv("MOONCAKE_CONFIG_PATH", raising=False)
    monkeypatch.setenv("MOONCAKE_MASTER", master.address)
    monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", "127.0.0.1")
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "16mb")
    monkeypatch.setenv("MOONCAKE_LOCAL_BUFFER_SIZE", "0")
    with RowDriver(workers=2) as driver:
        assert done(driver.put(["of the rows"], rows(region_of(driver, memory()), 1))) == [("READY", "MOVED")]
    monkeypatch.setenv("MOONCAKE_MASTER", "127.0.0.1:1")
    monkeypatch.setenv("MC_RPC_TIMEOUT_MS", "500")
    with pytest.raises(RuntimeError):
        RowDriver()


def test_closing_ends_everything():
    driver = RowDriver(settings())
    region = region_of(driver, memory())
    operations = [driver.put([f"k{i}"], rows(region, 1)) for i in range(50)]
    outcomes = []

    def wait(operation):
        try:
            outcomes.append(operation.wait(PATIENCE_S))
        except ValueError:
            outcomes.append("closed")

    threads = [threading.Thread(target=wait, args=(operation,)) for operation in operations[:8]]
    threads += [threading.Thread(target=driver.close) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(outcomes) == 8 and set(outcomes) <= {True, "closed"}
    for call in (driver.stat, driver.poll, driver.fileno, lambda: driver.probe(["k"]), lambda: driver.drain(0),
                 operations[0].states, operations[0].cancel, lambda: driver.register(1, 1)):
        with pytest.raises(ValueError):
            call()
    assert operations[0].release()


def test_the_child_of_a_fork_gets_errors(driver):
    region = region_of(driver, memory())
    operation = driver.put(["k"], rows(region, 1))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            wrong = 0
            for call in (driver.stat, operation.states, lambda: driver.get(["k"], rows(region, 1))):
                try:
                    call()
                    wrong += 1
                except RuntimeError:
                    pass
            driver.close()
            code = wrong
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert done(operation) == [("READY", "MOVED")]


def test_twenty_lives_leave_nothing():
    def count():
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    RowDriver(settings()).close()
    before = count()
    for i in range(20):
        driver = RowDriver(settings(segment=1 << 20))
        driver.put(["k"], rows(region_of(driver, memory()), 1))
        if i % 2:
            driver.close()
        del driver
        gc.collect()
    end = time.monotonic() + PATIENCE_S
    while count() != before:
        assert time.monotonic() < end, (before, count())
        time.sleep(0.01)
