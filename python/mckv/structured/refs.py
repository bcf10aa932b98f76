# SPDX-License-Identifier: Apache-2.0
"""References as plain dictionaries, for other processes: JSON can hold them."""
from __future__ import annotations

from typing import Any, Mapping, Union

from .manifest import base_of
from .types import SECTIONS, FieldPlace, MooncakeDataProtoRef, RemoteBundleRef

BUNDLE_TYPE = "mooncake_bundle_ref"
DATAPROTO_TYPE = "mooncake_dataproto_ref"
VERSION = 1

Ref = Union[RemoteBundleRef, MooncakeDataProtoRef]


def _export_bundle(ref: RemoteBundleRef) -> dict:
    return {"manifest_key": ref.manifest_key, "kind": ref.kind}


def export_ref(ref: Any) -> dict:
    """A reference as a dictionary of str, int and lists; one that is exported
    already is answered as it is."""
    if is_ref_handle(ref):
        return dict(ref)
    if isinstance(ref, RemoteBundleRef):
        return {"type": BUNDLE_TYPE, "version": VERSION, **_export_bundle(ref)}
    if isinstance(ref, MooncakeDataProtoRef):
        return {
            "type": DATAPROTO_TYPE,
            "version": VERSION,
            "kind": "bundle_stages",
            "batch_size": ref.batch_size,
            "namespace": ref.namespace,
            "partition": ref.partition,
            "meta_info": list(ref.meta_info),
            "global_indexes": None if ref.global_indexes is None else list(ref.global_indexes),
            "stage_refs": {stage: _export_bundle(one) for stage, one in ref.stage_refs.items()},
            "field_index": {
                name: {"stage": place.stage, "member": place.member, "section": place.section}
                for name, place in ref.field_index.items()
            },
        }
    raise TypeError(f"a {type(ref).__name__} is no reference")


def is_ref_handle(value: Any) -> bool:
    """Whether this is an exported reference."""
    return isinstance(value, Mapping) and value.get("type") in (BUNDLE_TYPE, DATAPROTO_TYPE)


def _import_bundle(handle: Any) -> RemoteBundleRef:
    if not isinstance(handle, Mapping):
        raise ValueError("a reference of a stage is none")
    key = handle.get("manifest_key")
    kind = handle.get("kind", "structured")
    if kind not in ("structured", "bundle"):
        raise ValueError(f"kind {kind!r} is not known")
    return RemoteBundleRef(key, base_of(key).rpartition("/")[2], kind)


def _import_place(name: Any, place: Any, stages: Mapping[str, Any]) -> FieldPlace:
    if not isinstance(name, str) or not isinstance(place, Mapping):
        raise ValueError("a field is none")
    made = FieldPlace(place.get("stage"), place.get("member"), place.get("section"))
    if made.stage not in stages or made.section not in SECTIONS or not isinstance(made.member, str):
        raise ValueError(f"field {name!r}: its place is none")
    return made


def _import_dataproto(handle: Mapping[str, Any]) -> MooncakeDataProtoRef:
    stages, fields = handle.get("stage_refs"), handle.get("field_index")
    if not isinstance(stages, Mapping) or not isinstance(fields, Mapping):
        raise ValueError("an exported reference without stages or fields")
    refs = {stage: _import_bundle(one) for stage, one in stages.items()}
    index = {name: _import_place(name, place, refs) for name, place in fields.items()}
    size, numbers = handle.get("batch_size"), handle.get("global_indexes")
    if size is not None and (type(size) is not int or size < 0):
        raise ValueError("batch_size is no number")
    meta = handle.get("meta_info") or ()
    return MooncakeDataProtoRef(
        refs,
        index,
        size,
        str(handle.get("namespace", "default")),
        str(handle.get("partition", "default")),
        tuple(str(name) for name in meta),
        None if numbers is None else tuple(int(number) for number in numbers),
    )


def import_ref(handle: Any) -> Ref:
    """The reference of a dictionary that ``export_ref`` made, or a reference as it
    is. ValueError for another dictionary, TypeError for anything else."""
    if isinstance(handle, (RemoteBundleRef, MooncakeDataProtoRef)):
        return handle
    if not isinstance(handle, Mapping):
        raise TypeError(f"a {type(handle).__name__} is no exported reference")
    if not is_ref_handle(handle):
        raise ValueError("not an exported reference")
    if handle.get("version") != VERSION:
        raise ValueError(f"version {handle.get('version')!r} of a reference is not known")
    return _import_bundle(handle) if handle["type"] == BUNDLE_TYPE else _import_dataproto(handle)


def as_ref(ref: Any) -> RemoteBundleRef:
    """One object's reference, exported or not."""
    one = import_ref(ref)
    if not isinstance(one, RemoteBundleRef):
        raise TypeError("a reference of a dataproto names several objects")
    return one


def as_dataproto(ref: Any) -> MooncakeDataProtoRef:
    """A dataproto's reference, exported or not."""
    one = import_ref(ref)
    if not isinstance(one, MooncakeDataProtoRef):
        raise TypeError("a reference of one object is not one of a dataproto")
    return one


def export_dataproto_ref(ref: Any) -> dict:
    """As ``export_ref``, of a dataproto alone."""
    return export_ref(as_dataproto(ref))


def import_dataproto_ref(handle: Any) -> MooncakeDataProtoRef:
    """As ``import_ref``, of a dataproto alone."""
    return as_dataproto(handle)


def is_dataproto_ref_handle(value: Any) -> bool:
    return is_ref_handle(value) and value["type"] == DATAPROTO_TYPE
