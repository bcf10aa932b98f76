# SPDX-License-Identifier: Apache-2.0
"""Batches by stage, plain dicts, and the sequences by which trainers move them."""
import json
import pickle

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("msgpack")

from mckv.store import ReplicateConfig  # noqa: E402
from mckv.structured import (  # noqa: E402
    FieldSchema,
    MooncakeBundleTransfer,
    StructuredMemberSlice,
    StructuredObjectMissing,
    export_dataproto_ref,
    export_ref,
    import_dataproto_ref,
    import_ref,
    is_dataproto_ref_handle,
)


@pytest.fixture
def transfer(embedded):
    made = MooncakeBundleTransfer(embedded, key_prefix="rl")
    yield made
    made.close()


class Batch:
    def __init__(self, batch=None, non_tensor_batch=None, meta_info=None):
        self.batch = batch or {}
        self.non_tensor_batch = non_tensor_batch or {}
        self.meta_info = meta_info or {}


class FromDict(Batch):
    @classmethod
    def from_dict(cls, tensors, non_tensors, meta_info=None):
        return cls(tensors, non_tensors, meta_info)


def texts(*rows):
    made = np.empty(len(rows), dtype=object)
    made[:] = rows
    return made


def rollout():
    return Batch(
        {"input_ids": np.arange(12, dtype=np.int64).reshape(4, 3)},
        {"uid": texts("a", "b", "c", "d"), "rows": [np.arange(n, dtype=np.int32) for n in (1, 0, 3, 2)]},
        {"step": 3, "tags": ["x"]},
    )


def test_a_batch_comes_back(transfer):
    ref = transfer.put_dataproto(rollout(), namespace="n", partition="step-1", stage="rollout")
    got = transfer.get_dataproto(ref)
    assert np.array_equal(got["batch"]["input_ids"], rollout().batch["input_ids"])
    assert got["non_tensor_batch"]["uid"].tolist() == ["a", "b", "c", "d"]
    assert [row.tolist() for row in got["non_tensor_batch"]["rows"]] == [[0], [], [0, 1, 2], [0, 1]]
    assert got["meta_info"] == {"step": 3, "tags": ["x"]}
    assert (ref.batch_size, ref.namespace, ref.partition) == (4, "n", "step-1")


@pytest.mark.parametrize("rows", (slice(1, 3), slice(None, None, 2), slice(3, None, -1), [3, 0, -1], StructuredMemberSlice(0, 1, 3), []))
def test_rows_are_the_same_of_every_field(transfer, rows):
    ref = transfer.put_dataproto(rollout(), chunk_bytes=10)
    got = transfer.get_dataproto(ref, rows=rows)
    index = slice(1, 3) if isinstance(rows, StructuredMemberSlice) else rows
    plain = rollout()
    wanted = plain.batch["input_ids"][np.array(index, dtype=int) if isinstance(index, list) else index]
    assert np.array_equal(got["batch"]["input_ids"], wanted)
    order = np.arange(4)[np.array(index, dtype=int) if isinstance(index, list) else index]
    assert got["non_tensor_batch"]["uid"].tolist() == [plain.non_tensor_batch["uid"][i] for i in order]
    assert [r.tolist() for r in got["non_tensor_batch"]["rows"]] == [plain.non_tensor_batch["rows"][i].tolist() for i in order]


def test_fields_are_selected(transfer):
    ref = transfer.put_dataproto(rollout())
    got = transfer.get_dataproto(ref, fields=["uid"], meta_info_keys=[])
    assert list(got["batch"]) == [] and list(got["non_tensor_batch"]) == ["uid"] and got["meta_info"] == {}
    got = transfer.get_dataproto(ref, batch_fields=["input_ids"], non_tensor_fields=[], data_cls=dict)
    assert list(got["batch"]) == ["input_ids"] and list(got["non_tensor_batch"]) == []
    for wrong in ({"fields": ["x"]}, {"batch_fields": ["uid"]}, {"meta_info_keys": ["x"]}, {"destinations": {"x": 1}}):
        with pytest.raises(KeyError):
            transfer.get_dataproto(ref, **wrong)
    for wrong in ([4], [-5]):
        with pytest.raises(IndexError):
            transfer.get_dataproto(ref, rows=wrong)


def test_destinations(transfer):
    ref = transfer.put_dataproto(rollout())
    aim = np.empty((2, 3), np.int64)
    got = transfer.get_dataproto(ref, batch_fields=["input_ids"], rows=slice(1, 3), destinations={"input_ids": aim})
    assert got["batch"]["input_ids"] is aim and aim.tolist() == [[3, 4, 5], [6, 7, 8]]


def test_classes_are_made(transfer):
    ref = transfer.put_dataproto(rollout())
    for kind in (Batch, FromDict):
        got = transfer.get_dataproto(ref, data_cls=kind)
        assert isinstance(got, kind) and got.meta_info["step"] == 3 and "uid" in got.non_tensor_batch


def test_stages_are_appended(transfer):
    ref = transfer.put_dataproto(rollout(), stage="rollout")
    more = {"batch": {"logp": np.ones((4, 3), np.float32)}, "meta_info": {"temperature": 1.0}}
    both = transfer.append_dataproto_fields(ref, more, stage="old_log_prob")
    assert list(ref.stage_refs) == ["rollout"] and list(both.stage_refs) == ["rollout", "old_log_prob"]
    got = transfer.get_dataproto(both, fields=["logp", "input_ids"])
    assert set(got["batch"]) == {"logp", "input_ids"} and got["meta_info"] == {"step": 3, "tags": ["x"], "temperature": 1.0}
    view = transfer.dataproto_manifest_view(both)
    assert view["fields"]["logp"] == {"stage": "old_log_prob", "section": "batch", "codec": "ndarray", "size": 48,
                                      "dtype": "<f4", "shape": [4, 3]}
    assert view["meta_info_keys"] == ["step", "tags", "temperature"]


def test_what_is_there_is_replaced_whole_or_not_at_all(transfer):
    ref = transfer.put_dataproto(rollout(), stage="rollout")
    new = {"batch": {"input_ids": np.zeros((4, 3), np.int64)}}
    for wrong in ({"stage": "x"}, {"stage": "rollout"}, {"stage": "x", "overwrite": True}):
        with pytest.raises(ValueError):
            transfer.append_dataproto_fields(ref, new, **wrong)
    with pytest.raises(ValueError):
        transfer.append_dataproto_fields(ref, {"batch": {"z": np.zeros(5)}}, stage="x")
    new = rollout()
    new.batch["input_ids"] = np.zeros((4, 3), np.int64)
    other = transfer.append_dataproto_fields(ref, new, stage="again", overwrite=True)
    assert list(other.stage_refs) == ["again"] and not transfer.get_dataproto(other)["batch"]["input_ids"].any()
    with pytest.raises(StructuredObjectMissing):
        transfer.get_dataproto(ref)


def test_batches_that_are_none(transfer):
    with pytest.raises(ValueError):
        transfer.put_dataproto({"batch": {"a": np.zeros(2), "b": np.zeros(3)}})
    with pytest.raises(ValueError):
        transfer.put_dataproto({"batch": {"a": np.zeros(2)}, "non_tensor_batch": {"a": [1, 2]}})
    with pytest.raises(ValueError):
        transfer.put_dataproto({"batch": {"a": 3}})
    with pytest.raises(TypeError):
        transfer.put_dataproto(3)
    with pytest.raises(ValueError):
        transfer.put({}, type="pickle")
    assert transfer.store.remove_all(force=True) == 0


def test_references_cross_processes(transfer):
    ref = transfer.put_dataproto(rollout(), stage="s", global_indexes=[5, 6, 7, 8])
    handle = json.loads(json.dumps(export_dataproto_ref(ref)))
    assert is_dataproto_ref_handle(handle) and handle["stage_refs"]["s"]["manifest_key"] == ref.stage_refs["s"].manifest_key
    for other in (handle, import_dataproto_ref(handle), pickle.loads(pickle.dumps(ref))):
        assert transfer.get_dataproto(other)["meta_info"]["step"] == 3
    assert import_ref(handle) == ref
    for change in ({"stage_refs": {}}, {"field_index": 3}, {"batch_size": -1}, {"version": 9},
                   {"field_index": {"a": {"stage": "s", "member": 3, "section": "batch"}}}):
        with pytest.raises(ValueError):
            import_dataproto_ref({**handle, **change})


def test_cleanup_leaves_nothing(transfer):
    ref = transfer.put_dataproto(rollout(), stage="a")
    ref = transfer.append_dataproto_fields(ref, {"batch": {"z": np.zeros(4)}}, stage="b")
    assert transfer.cleanup_dataproto(export_ref(ref)) > 4
    assert transfer.cleanup_dataproto(ref) == 0
    assert transfer.store.remove_all(force=True) == 0


# ---- as trainers do it ------------------------------------------------------------------------------


def train_data():
    return {
        "tokens": [[1, 2, 3], [4, 5]],
        "loss_masks": [[1, 1, 1], [1, 1]],
        "rewards": [0.5, 1.0],
        "response_lengths": [3, 2],
        "partition": [0, 1],
        "truncated": [0, 0],
        "raw_reward": [0.5, 1.0],
        "total_lengths": [3, 2],
        "prompt": ["hello", "world"],
        "metadata": [{"a": 1}, {"b": 2}],
        "dynamic_global_batch_size": 64,
    }


def schemas_for(value):
    codecs = {"tokens": ("typed_ragged", None), "loss_masks": ("typed_ragged", None), "rewards": ("ndarray", "float32"),
              "response_lengths": ("ndarray", "int64"), "partition": ("ndarray", "int64"), "truncated": ("ndarray", "int64"),
              "prompt": ("msgpack_ragged", None), "metadata": ("msgpack_ragged", None), "raw_reward": ("auto", None),
              "total_lengths": ("auto", None), "dynamic_global_batch_size": ("auto", None)}
    made = {}
    for name in value:
        codec, dtype = codecs[name]
        about = {"section": "meta_info" if codec == "auto" else "non_tensor_batch"}
        made[name] = FieldSchema(codec=codec, nullable=False, metadata={**about, **({"dtype": dtype} if dtype else {})})
    return made


@pytest.mark.parametrize("replicas", (1, 2))
def test_a_rollout_dict_as_a_trainer_moves_it(store, replicas):
    transfer = MooncakeBundleTransfer(store, key_prefix="rollouts")
    config = None
    if replicas > 1:
        config = ReplicateConfig()
        config.replica_num = replicas
    data = train_data()
    ref = transfer.put(data, type="dict", namespace="train", partition="default", stage="rollout", chunk_bytes=None,
                       config=config, field_schemas=schemas_for(data))
    sent = pickle.loads(pickle.dumps(export_ref(ref)))
    got = transfer.get(import_ref(sent), type="dict")
    assert sorted(got) == sorted(data) and list(got) == list(data)
    assert [row.tolist() for row in got["tokens"]] == data["tokens"]
    assert got["rewards"].tolist() == data["rewards"] and got["rewards"].dtype == np.float32
    assert list(got["raw_reward"]) == data["raw_reward"] and list(got["total_lengths"]) == data["total_lengths"]
    assert list(got["prompt"]) == data["prompt"] and list(got["metadata"]) == data["metadata"]
    assert got["dynamic_global_batch_size"] == 64
    MooncakeBundleTransfer.release_result(got)
    assert transfer.cleanup_dataproto(import_ref(sent)) > 0
    with pytest.raises(Exception):
        transfer.get(import_ref(sent), type="dict")
    transfer.close()


def test_columns_as_a_scheduler_moves_them(transfer):
    fields = {"ids": np.arange(6).reshape(3, 2), "text": texts("x", "y", "z")}
    data = {"batch": {"ids": fields["ids"]}, "non_tensor_batch": {"text": fields["text"]}, "meta_info": {}}
    ref = transfer.put(data, type="dataproto", partition="p", policy=None)
    assert getattr(ref, "object_id", None) and [one.manifest_key for one in ref.stage_refs.values()]
    got = transfer.get(ref, type="dataproto", batch_fields=["ids"], non_tensor_fields=["text"], meta_info_keys=[], data_cls=dict)
    assert np.array_equal(got["batch"]["ids"], fields["ids"]) and got["non_tensor_batch"]["text"].tolist() == ["x", "y", "z"]
    transfer.release_result(got)
    transfer.cleanup_dataproto(ref)


def test_older_names_of_dicts(transfer):
    ref = transfer.put_legacy_dict({"a": [1, 2], "n": 3}, namespace="x", partition="p", stage="rollout", chunk_bytes=None)
    assert transfer.get_legacy_dict(export_dataproto_ref(ref)) == {"a": [1, 2], "n": 3}
    assert transfer.remove_legacy_dict(ref) > 0


def test_the_names_that_trainers_import():
    import mooncake.structured_object_store as named

    for name in ("FieldSchema", "MooncakeBundleTransfer", "BundleTransferPolicy", "StructuredObjectPayload",
                 "StructuredMemberSlice", "export_ref", "import_ref", "export_dataproto_ref", "tensor_object_buffer"):
        assert hasattr(named, name)
