# SPDX-License-Identifier: Apache-2.0
"""The pages of mc-master, asked over HTTP; the memory is its own segment, the writer is mc-store."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "support"))
from master_case import PATIENCE, MasterCase, query  # noqa: E402

STORE = os.environ["MC_STORE"]
EVENTS = os.environ["MC_EVENTS"]
PLAIN = "text/plain; charset=utf-8"
JSON = "application/json; charset=utf-8"
METRICS = "text/plain; version=0.0.4"


class PageCase(MasterCase):
    def put(self, master, key, data=b"hello", *more):
        done = subprocess.run([STORE, "put", key, "-", "--master", master.rpc, *more], input=data,
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)

    def json_of(self, master, path, status=200, **more):
        code, kind, body = master.ask(path, **more)
        self.assertEqual((code, kind), (status, JSON), body)
        return json.loads(body)

    def metric(self, master, name):
        _, _, body = master.ask("/metrics")
        return float(re.search(rf"^{re.escape(name)} (\S+)$", body.decode(), re.M).group(1))


class Admin(PageCase):
    def test_words_that_never_change(self):
        master = self.start()
        self.assertEqual(self.json_of(master, "/health"),
                         {"status": "ok", "role": "leader", "ha_state": "serving", "service_ready": True})
        self.assertEqual(master.ask("/role"), (200, PLAIN, b"leader"))
        self.assertEqual(master.ask("/ha_status"), (200, PLAIN, b"serving"))
        self.assertEqual(self.json_of(master, "/leader"), {"present": False})
        self.assertRegex(self.json_of(master, "/version")["version"], r"^\d+\.\d+\.\d+$")
        for path in ("/api/v1/drain_jobs", "/api/v1/drain_jobs/query", "/api/v1/drain_jobs/cancel"):
            self.assertEqual(self.json_of(master, path, 501, method="POST")["error_code"], -1012)

    def test_an_empty_store(self):
        master = self.start()
        self.assertEqual(master.ask("/get_all_keys"), (200, PLAIN, b""))
        self.assertEqual(master.ask("/get_all_segments"), (200, PLAIN, b""))
        self.assertEqual(self.json_of(master, "/get_segments_detail"), {"segments": [], "total_segments": 0})

    def test_wrong_methods_and_paths(self):
        master = self.start()
        for path in ("/health", "/metrics", "/get_all_keys", "/query_key", "/kv_events/status"):
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                self.assertEqual(master.ask(path, method=method)[0], 405, (path, method))
        self.assertEqual(master.ask("/api/v1/remove_all")[0], 405)
        self.assertEqual(master.ask("/api/v1/tenant_quotas", method="POST")[0], 405)
        for path in ("/", "/nope", "/health/", "//health", "/get_all_keys/x", "/%00"):
            self.assertEqual(master.ask(path)[0], 404, path)
        self.assertEqual(master.ask("/health", method="HEAD")[0], 200)

    def test_keys_are_listed_and_found_without_a_lease(self):
        master = self.start("--segment=16MB", "--default_kv_lease_ttl=1h")
        keys = ["a key", "b/c", "üñï", "line\nfeed", "back\\slash", 'q"uote', "k" * 250]
        for key in keys:
            self.put(master, key)
        _, kind, body = master.ask("/get_all_keys")
        self.assertEqual(kind, PLAIN)
        lines = [line.replace("\\x0a", "\n") for line in body.decode().split("\n")[:-1]]
        self.assertEqual(sorted(lines), sorted(keys))
        before = self.metric(master, "total_get_nums_")
        for key in keys:
            answer = self.json_of(master, query("/query_key", key=key))
            self.assertTrue(answer["success"])
            row, = answer["data"]
            self.assertEqual((row["size_"], row["protocol_"]), (5, "tcp"))
            self.assertGreater(row["buffer_address_"], 0)
            self.assertRegex(row["transport_endpoint_"], r"^\S+:\d+$")
        self.assertEqual(self.metric(master, "total_get_nums_"), before)
        # Nothing that was asked for is leased, so all of it goes.
        self.assertEqual(self.json_of(master, "/api/v1/remove_all", method="POST"), {"removed_count": len(keys)})
        self.assertEqual(master.ask("/get_all_keys"), (200, PLAIN, b""))

    def test_a_key_that_is_not_there(self):
        master = self.start()
        answer = self.json_of(master, query("/query_key", key="x"), 404)
        self.assertEqual((answer["success"], answer["error_code"]), (False, -704))
        self.assertIn("not found", answer["error_message"])
        self.assertEqual(self.json_of(master, "/query_key", 400)["error_code"], -600)
        for key in ("", "a\0b", "k" * 4097):
            self.assertIn(self.json_of(master, query("/query_key", key=key), 400)["error_code"], (-400, -600))
        self.assertEqual(self.json_of(master, "/query_key?key=%ff%fe", 400)["error_code"], -400)

    def test_many_keys_at_once(self):
        master = self.start("--segment=16MB")
        self.put(master, "a", b"12345678")
        self.put(master, "b/ü")
        data = self.json_of(master, query("/batch_query_keys", keys="a,b/ü,,nope"))["data"]
        self.assertEqual(set(data), {"a", "b/ü", "nope"})
        self.assertTrue(data["a"]["ok"] and data["b/ü"]["ok"])
        self.assertEqual(data["a"]["values"][0]["size_"], 8)
        self.assertEqual(data["nope"], {"ok": False, "error": "object not found"})
        self.assertEqual(self.json_of(master, "/batch_query_keys", 400)["error_code"], -600)
        many = ",".join(f"key-{i}" for i in range(20000))
        self.assertEqual(len(self.json_of(master, query("/batch_query_keys", keys=many))["data"]), 20000)

    def test_ten_thousand_keys_are_listed_once_each(self):
        master = self.start("--segment=64MB")
        lines = "".join(json.dumps({"key": f"key-{i:05}", "size": 8}) + "\n" for i in range(10000))
        path = self.write("many.jsonl", lines)
        done = subprocess.run([STORE, "put-many", path, "--master", master.rpc], capture_output=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])
        keys = master.ask("/get_all_keys")[2].decode().split()
        self.assertEqual(sorted(keys), [f"key-{i:05}" for i in range(10000)])
        self.assertEqual(self.metric(master, "master_key_count"), 10000)

    def test_segments(self):
        master = self.start("--segment=16MB")
        self.put(master, "a", b"x" * 1000)
        name = master.ask("/get_all_segments")[2].decode().strip()
        status, kind, body = master.ask(query("/query_segment", segment=name))
        self.assertEqual((status, kind), (200, PLAIN))
        match = re.match(r"^(\S+)\nUsed\(bytes\): (\d+)\nCapacity\(bytes\): (\d+)\n$", body.decode())
        self.assertEqual(match.group(1), name)
        self.assertGreaterEqual(int(match.group(2)), 1000)
        self.assertGreaterEqual(int(match.group(3)), 16 << 20)
        detail = self.json_of(master, "/get_segments_detail")
        self.assertEqual(detail["total_segments"], 1)
        self.assertEqual(detail["segments"][0]["segment_name"], name)
        self.assertEqual(detail["segments"][0]["status"], "OK")
        self.assertEqual(self.json_of(master, query("/api/v1/segments/status", segment=name))["status"], 1)
        for path in ("/query_segment", "/api/v1/segments/status"):
            self.assertEqual(self.json_of(master, path, 400)["error_code"], -600)
            self.assertEqual(self.json_of(master, query(path, segment="x"), 404)["error_code"], -101)

    def test_metrics(self):
        master = self.start("--segment=16MB", "--enable_multi_tenants")
        self.put(master, "a")
        status, kind, body = master.ask("/metrics")
        self.assertEqual((status, kind), (200, METRICS))
        seen = {}
        for line in body.decode().splitlines():
            if not line.startswith("#"):
                match = re.match(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^}]*\})? (\d+)$', line)
                self.assertIsNotNone(match, line)
                series = match.group(1) + (match.group(2) or "")
                self.assertNotIn(series, seen)
                seen[series] = int(match.group(3))
        self.assertEqual(seen["master_key_count"], 1)
        self.assertEqual(seen["master_active_clients"] >= 1, True)
        self.assertGreaterEqual(seen["master_total_capacity_bytes"], 16 << 20)
        self.assertGreater(seen["master_batch_put_start_requests_total"], 0)
        self.assertEqual(seen["master_batch_put_start_items_total"], 1)
        for name in ("mckv_attempts", "mckv_quarantined_bytes", "mckv_events_published_total",
                     "master_evicted_key_count", "mckv_fences_open"):
            self.assertIn(name, seen)
        self.assertTrue(any(name.startswith("segment_total_capacity_bytes{segment=") for name in seen))
        status, kind, body = master.ask("/metrics/summary")
        self.assertEqual((status, kind), (200, METRICS))
        self.assertIn("Keys: 1 ", body.decode())

    def test_events_status(self):
        master = self.start()
        self.assertIs(self.json_of(master, "/kv_events/status")["enabled"], False)
        master = self.start("--segment=16MB", "--enable_kv_events", "--kv_events_backend_id=n",
                            "--kv_events_bind_endpoint=tcp://127.0.0.1:*")
        self.put(master, "a")
        for _ in range(PATIENCE * 10):
            status = self.json_of(master, "/kv_events/status")
            if status["published_events"] == 2:
                break
            threading.Event().wait(0.1)
        self.assertEqual(status["published_events"], 2)  # cleared, stored
        self.assertEqual(status["enabled"], True)
        self.assertEqual(status["epoch"], master.epoch)
        self.assertEqual(status["endpoint"], master.events)
        for name in ("published_batches", "dropped_events", "skipped_unparsed_keys", "skipped_keyless_events",
                     "queue_depth", "last_seq", "subscribers", "replay_requests", "snapshot_requests",
                     "refused_requests", "given_up_requests", "unanswered_requests"):
            self.assertIsInstance(status[name], int, name)
        self.assertEqual(master.ask("/kv_events/snapshot")[0], 200)

    def test_a_stopped_subscriber_does_not_delay_the_end(self):
        master = self.start("--segment=16MB", "--enable_kv_events", "--kv_events_backend_id=n",
                            "--kv_events_bind_endpoint=tcp://127.0.0.1:*")
        tail = subprocess.Popen([EVENTS, "tail", "--endpoint", master.events, "--json"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(tail.communicate)
        self.addCleanup(tail.kill)
        self.put(master, "a")
        self.assertTrue(tail.stdout.readline())
        tail.send_signal(signal.SIGSTOP)
        lines = "".join(json.dumps({"key": f"{i:05}" + "k" * 240, "size": 1}) + "\n" for i in range(20000))
        done = subprocess.run([STORE, "put-many", self.write("many", lines), "--master", master.rpc],
                              capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr[-500:])
        code, seconds = master.end()
        self.assertEqual(code, 0)
        self.assertLess(seconds, 3)

    def test_remove_all_counts_and_forces(self):
        master = self.start("--segment=16MB", "--default_kv_lease_ttl=1h")
        for key in ("a", "b", "c"):
            self.put(master, key)
        done = subprocess.run([STORE, "get", "a", "--master", master.rpc], capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (0, b"hello"))
        self.assertEqual(self.json_of(master, "/api/v1/remove_all", method="POST"), {"removed_count": 2})
        self.assertEqual(self.json_of(master, "/api/v1/remove_all?force=true", method="POST"), {"removed_count": 1})
        self.assertEqual(self.json_of(master, "/api/v1/remove_all?tenant_id=other", 409, method="POST")["error_code"],
                         -1011)

    def test_a_body_over_its_limit(self):
        master = self.start("--enable_multi_tenants")
        status, _, _ = master.ask(query("/api/v1/tenant_quotas", tenant_id="t"), method="PUT", body=b"x" * (2 << 20))
        self.assertEqual(status, 413)
        self.assertEqual(master.ask("/health")[0], 200)

    def test_slow_peers_delay_nobody(self):
        master = self.start()
        host, port = master.admin.rsplit(":", 1)
        for _ in range(64):
            connection = socket.create_connection((host, int(port)))
            self.addCleanup(connection.close)
            connection.sendall(b"GET /health HTTP/1.1\r\nHost")
        self.assertEqual(master.ask("/health")[0], 200)


class Quotas(PageCase):
    PAGE = "/api/v1/tenant_quotas"

    def test_without_tenants_it_is_a_conflict(self):
        master = self.start()
        for method in ("GET", "PUT", "DELETE"):
            answer = self.json_of(master, query(self.PAGE, tenant_id="t"), 409, method=method, body=b"{}")
            self.assertEqual(answer["error_code"], -1011)

    def test_set_told_and_deleted(self):
        master = self.start("--enable_multi_tenants")
        page = query(self.PAGE, tenant_id="t")
        self.assertEqual(self.json_of(master, page, 404)["error_code"], -1701)
        answer = self.json_of(master, page, method="PUT", body=b'{"quota_bytes": 1048576}')
        self.assertEqual(answer["data"]["requested_bytes"], 1 << 20)
        self.json_of(master, query(self.PAGE, tenant_id="t", quota_bytes="2MB"), method="PUT")
        answer = self.json_of(master, page)["data"]
        self.assertEqual((answer["tenant_id"], answer["requested_bytes"], answer["charged_bytes"],
                          answer["explicit_policy"]), ("t", 2 << 20, 0, True))
        rows = {row["tenant_id"]: row for row in self.json_of(master, self.PAGE)["data"]}
        self.assertEqual(rows["t"]["requested_bytes"], 2 << 20)
        self.assertEqual(self.json_of(master, page, method="DELETE"), {"success": True})
        self.assertEqual(self.json_of(master, page, 404)["error_code"], -1701)

    def test_bad_sizes_and_names(self):
        master = self.start("--enable_multi_tenants")
        page = query(self.PAGE, tenant_id="t")
        for body in (b"", b"{", b"[]", b'{"quota_bytes":-1}', b'{"quota_bytes":"many"}', b'{"quota_bytes":1} x',
                     b'{"quota_bytes":null}'):
            self.assertEqual(self.json_of(master, page, 400, method="PUT", body=body)["error_code"], -600, body)
        self.assertEqual(self.json_of(master, self.PAGE, 400, method="DELETE")["error_code"], -600)
        long = query(self.PAGE, tenant_id="t" * 65, quota_bytes="1MB")
        self.assertEqual(self.json_of(master, long, 400, method="PUT")["error_code"], -600)

    def test_a_policy_file(self):
        forms = [{"tenants": {"a": 1 << 20, "b": "4GB", "c": {"quota_bytes": 5}}},
                 {"a": 1 << 20, "b": "4GB", "c": 5},
                 {"tenants": [{"tenant_id": "a", "quota_bytes": 1 << 20}, {"tenant_id": "b", "quota_bytes": "4 GB"},
                              {"tenant_id": "c", "bytes": 5}]}]
        for form in forms:
            path = self.write("quotas.json", json.dumps(form))
            master = self.start("--enable_multi_tenants", "--tenant_quota_connector_uri=file://" + path)
            rows = {row["tenant_id"]: row["requested_bytes"] for row in self.json_of(master, self.PAGE)["data"]}
            self.assertEqual({name: rows.get(name) for name in "abc"}, {"a": 1 << 20, "b": 4 << 30, "c": 5})
            self.assertEqual(master.end()[0], 0)

    def test_a_bad_policy_file_stops_the_start(self):
        for text in ("{", "[1]", '{"tenants": 5}', '{"tenants": {"a": "x"}}', '{"tenants": [{"quota_bytes": 1}]}'):
            path = self.write("quotas.json", text)
            self.refused(1, ["tenant_quota_connector_uri", path], "--rpc_port=0", "--metrics_port=0",
                         "--enable_multi_tenants", "--tenant_quota_connector_uri=" + path)


class Metadata(PageCase):
    def open_metadata(self, *flags):
        master = self.start("--enable_http_metadata_server", *flags)
        return lambda path, method="GET", body=None: master.ask(path, method, body, host=master.metadata)

    def test_put_get_delete(self):
        ask = self.open_metadata()
        keys = ["mooncake/ram/h:1", "a%2Fb", "with space", "plus+sign", "ünï/cödé", "x" * 4096, "a&b=c?d#e"]
        for key in keys:
            page = query("/metadata", key=key)
            self.assertEqual(ask(page), (404, PLAIN, b"metadata not found"))
            self.assertEqual(ask(page, "PUT", b'{"a":1}'), (200, PLAIN, b"metadata updated"))
            self.assertEqual(ask(page), (200, "application/json", b'{"a":1}'))
            self.assertEqual(ask(page, "PUT", b'{"a":1}'), (200, PLAIN, b"metadata unchanged"))
            self.assertEqual(ask(page, "PUT", b'{"a":2}'), (200, PLAIN, b"metadata updated"))
            self.assertEqual(ask(page)[2], b'{"a":2}')
        for key in keys:
            page = query("/metadata", key=key)
            self.assertEqual(ask(page, "DELETE"), (200, PLAIN, b"metadata deleted"))
            self.assertEqual(ask(page, "DELETE"), (404, PLAIN, b"metadata not found"))
            self.assertEqual(ask(page)[0], 404)

    def test_a_slash_is_a_slash_however_written(self):
        ask = self.open_metadata()
        self.assertEqual(ask("/metadata?key=mooncake%2Fram%2Fx", "PUT", b"1")[0], 200)
        self.assertEqual(ask("/metadata?key=mooncake/ram/x"), (200, "application/json", b"1"))

    def test_large_values(self):
        ask = self.open_metadata()
        value = os.urandom(1 << 20)
        self.assertEqual(ask("/metadata?key=k", "PUT", value)[0], 200)
        self.assertEqual(ask("/metadata?key=k")[2], value)
        self.assertEqual(ask("/metadata?key=k", "PUT", b"x" * ((16 << 20) + 1))[0], 413)
        self.assertEqual(ask("/metadata?key=k")[2], value)

    def test_bad_requests(self):
        ask = self.open_metadata()
        for path in ("/metadata", "/metadata?key=", "/metadata?kay=x", "/metadata?key"):
            for method in ("GET", "PUT", "DELETE"):
                self.assertEqual(ask(path, method), (400, PLAIN, b"Missing key parameter"), path)
        self.assertEqual(ask("/metadata?key=a%00b")[0], 400)
        self.assertEqual(ask("/metadata?key=" + "x" * 4097)[0], 400)
        for method in ("POST", "PATCH", "OPTIONS"):
            self.assertEqual(ask("/metadata?key=x", method)[0], 405, method)
        self.assertEqual(ask("/other")[0], 404)
        self.assertEqual(ask("/health"), (200, PLAIN, b"OK"))

    def test_a_restarted_client_may_say_where_it_is_now(self):
        ask = self.open_metadata()
        page = query("/metadata", key="mooncake/rpc_meta/h:1")
        self.assertEqual(ask(page, "PUT", b'{"rpc_port":1}')[2], b"metadata updated")
        self.assertEqual(ask(page, "PUT", b'{"rpc_port":1}')[2], b"metadata unchanged")
        self.assertEqual(ask(page, "PUT", b'{"rpc_port":2}')[2], b"metadata updated")
        self.assertEqual(ask(page)[2], b'{"rpc_port":2}')

    def test_many_threads(self):
        ask = self.open_metadata()
        faults = []

        def work(name):
            page = query("/metadata", key=name)
            for i in range(50):
                value = f"{name}-{i}".encode()
                if ask(page, "PUT", value)[0] != 200 or ask(page)[2] != value:
                    faults.append(value)

        threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(faults, [])


class Tls(PageCase):
    def papers(self, name):
        folder = self.path(name)
        done = subprocess.run([STORE, "keygen", "--tls", folder], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [f"--tls_{kind}={folder}/{kind}.pem" for kind in ("cert", "key", "ca")]

    def get(self, master, *flags):
        return subprocess.run([STORE, "get", "k", "--master", master.rpc, "--timeout", "3s", *flags],
                              capture_output=True, timeout=PATIENCE)

    def test_only_certified_clients_reach_the_store(self):
        ours, others = self.papers("ours"), self.papers("others")
        master = self.start("--segment=16MB", *ours)
        self.put(master, "k", b"hello", *ours)
        done = self.get(master, *ours)
        self.assertEqual((done.returncode, done.stdout), (0, b"hello"), done.stderr)
        for flags in (others, [], [others[0], others[1], ours[2]]):
            done = self.get(master, *flags)
            self.assertEqual((done.returncode, done.stdout), (1, b""), flags)
        self.assertEqual(self.get(master, *ours).returncode, 0)
        self.assertEqual(master.end()[0], 0)

    def test_bad_files_stop_the_start(self):
        ours = self.papers("ours")
        self.refused(1, ["tls", "/nowhere"], "--rpc_port=0", "--metrics_port=0", *ours[:2], "--tls_ca=/nowhere")


class Curve(PageCase):
    def keys(self, name):
        done = subprocess.run([STORE, "keygen", "--curve", self.path(name)], capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.path(name), done.stdout.strip()

    def tail(self, master, *flags):
        return subprocess.Popen([EVENTS, "tail", "--endpoint", master.events, "--json", *flags],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_only_allowed_keys_get_anything(self):
        server, server_public = self.keys("server")
        friend, friend_public = self.keys("friend")
        second, second_public = self.keys("second")
        stranger, stranger_public = self.keys("stranger")
        allowed = self.write("allowed", f"# who may listen\n{friend_public}\n\npublic {second_public}\n")
        master = self.start("--segment=16MB", "--enable_kv_events", "--kv_events_backend_id=n",
                            "--kv_events_bind_endpoint=tcp://127.0.0.1:*", "--curve_server_key_file=" + server,
                            "--curve_allowed_keys_file=" + allowed)
        good = [self.tail(master, "--count=1", "--type=stored", "--curve_server_key", server_public, "--curve_key_file", key)
                for key in (friend, second)]
        bad = [self.tail(master, "--curve_server_key", server_public, "--curve_key_file", stranger),
               self.tail(master, "--curve_server_key", stranger_public, "--curve_key_file", friend),
               self.tail(master)]
        for tool in good + bad:
            self.addCleanup(tool.communicate)
            self.addCleanup(tool.kill)
        for i in range(PATIENCE * 10):
            self.put(master, f"k{i}")
            if all(tool.poll() is not None for tool in good):
                break
            threading.Event().wait(0.1)
        for tool in good:
            self.assertIn('"object_key":"k', tool.stdout.read())
        for tool in bad:
            tool.terminate()
            self.assertEqual(tool.stdout.read(), "")

    def test_bad_key_files_stop_the_start(self):
        server, public = self.keys("server")
        good = self.write("allowed", public + "\n")
        events = ["--rpc_port=0", "--metrics_port=0", "--enable_kv_events", "--kv_events_backend_id=n",
                  "--kv_events_bind_endpoint=tcp://127.0.0.1:*"]
        for server_file, allowed_file in [(server, None), (None, good), ("/nowhere", good), (server, "/nowhere"),
                                          (good, good), (server, self.write("empty", "# nobody\n")),
                                          (server, self.write("short", public[1:] + "\n")), (server, server)]:
            flags = list(events)
            if server_file:
                flags.append("--curve_server_key_file=" + server_file)
            if allowed_file:
                flags.append("--curve_allowed_keys_file=" + allowed_file)
            self.refused(1, ["curve"], *flags)


if __name__ == "__main__":
    unittest.main()
