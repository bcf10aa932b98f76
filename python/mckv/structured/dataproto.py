# SPDX-License-Identifier: Apache-2.0
"""Batches of training data: fields by row in ``batch`` and ``non_tensor_batch``,
and ``meta_info`` of the whole; or a plain dict of fields. Each stage of a job
writes the fields that it makes as an object of its own; a small reference goes
from process to process, and whoever needs a field, or some rows of it, reads that.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from .manifest import Manifest, Member
from .reader import load_manifest
from .refs import as_dataproto, as_ref, import_ref
from .types import (
    SECTIONS,
    BundleTransferPolicy,
    FieldPlace,
    FieldSchema,
    MooncakeDataProtoRef,
    RemoteBundleRef,
    StructuredMemberSlice,
    StructuredObjectPayload,
    TensorObjectBuffer,
)

ROWS = ("batch", "non_tensor_batch")
Rows = Union[None, slice, StructuredMemberSlice, Sequence[int]]


def _sections_of(data: Any) -> Dict[str, Dict[str, Any]]:
    """The three parts of a dataproto, whatever it is of."""
    if isinstance(data, Mapping):
        if data and set(data) <= set(SECTIONS):
            parts = [data.get(name) for name in SECTIONS]
        else:
            parts = [data, None, None]
    elif all(hasattr(data, name) for name in SECTIONS):
        parts = [getattr(data, name) for name in SECTIONS]
    else:
        raise TypeError(f"a {type(data).__name__} has no batch, non_tensor_batch and meta_info")
    return {name: {} if part is None else dict(part.items()) for name, part in zip(SECTIONS, parts)}


def _length_of(value: Any) -> Optional[int]:
    if isinstance(value, TensorObjectBuffer):
        return value.batch_size
    try:
        return len(value)
    except TypeError:
        raise ValueError("fields of rows have a length") from None


def _batch_size(sections: Mapping[str, Mapping[str, Any]]) -> Optional[int]:
    """The rows of all fields; ValueError if they differ."""
    size = None
    for name, value in ((n, v) for section in ROWS for n, v in sections[section].items()):
        length = _length_of(value)
        if length is None:
            continue
        if size is not None and length != size:
            raise ValueError(f"field {name!r} has {length} rows, others {size}")
        size = length
    return size


def _section_of(value: Any, schema: Optional[FieldSchema]) -> str:
    """Where a field of a plain dict goes."""
    named = schema.metadata.get("section") if schema else None
    if named:
        return named
    is_rows = hasattr(value, "__len__") and not isinstance(value, (str, bytes, bytearray, Mapping))
    return "non_tensor_batch" if is_rows else "meta_info"


def _rows_of_member(member: Member) -> int:
    shape = member.params.get("shape")
    if isinstance(shape, list) and shape:
        return shape[0]
    rows = member.params.get("rows")
    if isinstance(rows, int):
        return rows
    raise ValueError("rows can be selected of array, tensor and ragged fields alone")


def _selection(rows: Rows, member: Member) -> Union[None, StructuredMemberSlice, List[int]]:
    """What of a member is to be read."""
    if rows is None:
        return None
    length = _rows_of_member(member)
    if isinstance(rows, StructuredMemberSlice):
        if rows.axis != 0:
            raise ValueError("rows are selected along axis 0")
        return rows
    if isinstance(rows, slice):
        if rows.step in (None, 1):
            return StructuredMemberSlice(0, rows.start, rows.stop)
        return list(range(*rows.indices(length)))
    chosen = []
    for row in rows:
        row = row.__index__()
        if not -length <= row < length:
            raise IndexError(f"row {row} of {length}")
        chosen.append(row % length)
    return chosen


class DataProtoCalls:
    """The calls for batches, of MooncakeBundleTransfer."""

    # ---- any value ---------------------------------------------------------

    def put(self, value: Any, *, type: str = "dataproto", **options: Any):
        """Writes a value: "dataproto" (``put_dataproto``), "dict" (``put_dict``) or
        "structured" (``put_structured_object``), with the options of that."""
        calls = {"dataproto": self.put_dataproto, "dict": self.put_dict, "structured": self.put_structured_object}
        if type not in calls:
            raise ValueError(f"unknown type {type!r}; there are {', '.join(calls)}")
        return calls[type](value, **options)

    def get(self, ref: Any, *, type: Optional[str] = None, **options: Any):
        """Reads what ``put`` wrote; without ``type``, a dataproto or, of a reference
        of one object, its result."""
        ref = import_ref(ref)
        if type is None:
            type = "structured" if isinstance(ref, RemoteBundleRef) else "dataproto"
        calls = {"dataproto": self.get_dataproto, "dict": self.get_dict, "structured": self._get_structured}
        if type not in calls:
            raise ValueError(f"unknown type {type!r}; there are {', '.join(calls)}")
        return calls[type](ref, **options)

    def _get_structured(self, ref: Any):
        return self.materialize(self.read_spec(as_ref(ref)))

    # ---- plain dicts -------------------------------------------------------

    def put_dict(self, value: Mapping[str, Any], *, field_schemas: Optional[Mapping[str, FieldSchema]] = None, **options):
        """Writes the fields of a dict, in the sections that their schemas name:
        without one, what has a length is rows and anything else ``meta_info``. Rows
        need not be as many in each. Options as ``put_dataproto``."""
        schemas = field_schemas or {}
        sections: Dict[str, Dict[str, Any]] = {name: {} for name in SECTIONS}
        for name, one in value.items():
            sections[_section_of(one, schemas.get(name))][name] = one
        return self._put_stage(sections, None, schemas, list(value), **options)

    def get_dict(self, ref: Any) -> Dict[str, Any]:
        """All fields, in the order in which they were given."""
        ref = as_dataproto(ref)
        found: Dict[str, Any] = {}
        order: List[str] = []
        for manifest, objects, meta in self._stages(ref, {name: None for name in ref.field_index}, None, {}):
            order.extend(manifest.metadata.get("order") or [])
            found.update(meta)
            found.update({ref_name: one for ref_name, one in objects.items()})
        names = list(dict.fromkeys([*order, *found]))
        return {name: found[name] for name in names if name in found}

    def put_legacy_dict(self, value: Mapping[str, Any], **options) -> MooncakeDataProtoRef:
        """An older name of ``put_dict``."""
        return self.put_dict(value, **options)

    def get_legacy_dict(self, ref: Any) -> Dict[str, Any]:
        """An older name of ``get_dict``."""
        return self.get_dict(ref)

    def remove_legacy_dict(self, ref: Any) -> int:
        """An older name of ``cleanup_dataproto``."""
        return self.cleanup_dataproto(ref)

    # ---- dataprotos: writing -----------------------------------------------

    def put_dataproto(
        self,
        data: Any,
        *,
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        policy: Optional[BundleTransferPolicy] = None,
        config: Any = None,
        chunk_bytes: Optional[int] = None,
        field_schemas: Optional[Mapping[str, FieldSchema]] = None,
        global_indexes: Optional[Sequence[int]] = None,
    ) -> MooncakeDataProtoRef:
        """Writes a batch as one stage and answers its reference.

        ``data`` has ``batch``, ``non_tensor_batch`` and ``meta_info``, as attributes
        or as the only keys of a dict; another dict is taken as ``batch``. All fields
        have as many rows, else ValueError; a name is given once in all sections.
        ``config`` as in ``put_structured_object``.
        """
        sections = _sections_of(data)
        size = _batch_size(sections)
        return self._put_stage(
            sections,
            size,
            field_schemas or {},
            None,
            namespace=namespace,
            partition=partition,
            stage=stage,
            policy=policy,
            config=config,
            chunk_bytes=chunk_bytes,
            global_indexes=global_indexes,
        )

    def _put_stage(
        self,
        sections: Mapping[str, Mapping[str, Any]],
        size: Optional[int],
        schemas: Mapping[str, FieldSchema],
        order: Optional[List[str]],
        *,
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        global_indexes: Optional[Sequence[int]] = None,
        **options: Any,
    ) -> MooncakeDataProtoRef:
        buffers: Dict[str, Any] = {}
        places: Dict[str, FieldPlace] = {}
        member_schemas = {}
        for section in ROWS:
            for name, value in sections[section].items():
                if not isinstance(name, str):
                    raise TypeError("names of fields are str")
                if name in places:
                    raise ValueError(f"field {name!r} is in two sections")
                member = f"{section}.{name}"
                places[name] = FieldPlace(stage, member, section)
                buffers[member] = value
                if name in schemas:
                    member_schemas[member] = schemas[name]
        meta = dict(sections["meta_info"])
        if any(not isinstance(name, str) for name in meta):
            raise TypeError("names of fields are str")
        metadata: Dict[str, Any] = {"meta_info": meta, "namespace": namespace, "partition": partition}
        if order is not None:
            metadata["order"] = order
        payload = StructuredObjectPayload(metadata, buffers, member_schemas)
        ref = self.put_structured_object(payload, **options)
        numbers = None if global_indexes is None else tuple(int(number) for number in global_indexes)
        return MooncakeDataProtoRef({stage: ref}, places, size, namespace, partition, tuple(meta), numbers)

    def append_dataproto_fields(
        self, ref: Any, data: Any, *, stage: str, overwrite: bool = False, **options: Any
    ) -> MooncakeDataProtoRef:
        """Writes further fields of the same rows as another stage, and answers a
        reference that has both. Options as ``put_dataproto``.

        A field, or a stage, that is there already is refused, unless ``overwrite``:
        then the stages that have such fields are replaced, all of whose fields must
        be among the new ones; they are removed when the new one is written.
        """
        ref = as_dataproto(ref)
        sections = _sections_of(data)
        size = _batch_size(sections)
        if None not in (size, ref.batch_size) and size != ref.batch_size:
            raise ValueError(f"{size} rows are appended to {ref.batch_size}")
        names = {name for section in ROWS for name in sections[section]}
        replaced = self._replaced(ref, names, stage, overwrite)
        schemas = options.pop("field_schemas", None) or {}
        options.setdefault("namespace", ref.namespace)
        options.setdefault("partition", ref.partition)
        new = self._put_stage(sections, size, schemas, None, stage=stage, **options)
        kept = {name: one for name, one in ref.stage_refs.items() if name not in replaced}
        index = {name: place for name, place in ref.field_index.items() if place.stage not in replaced}
        merged = replace(
            ref,
            stage_refs={**kept, **new.stage_refs},
            field_index={**index, **new.field_index},
            batch_size=ref.batch_size if ref.batch_size is not None else size,
            meta_info=tuple(dict.fromkeys([*ref.meta_info, *new.meta_info])),
        )
        for name in replaced:
            self.remove_structured_object(ref.stage_refs[name])
        return merged

    @staticmethod
    def _replaced(ref: MooncakeDataProtoRef, names, stage: str, overwrite: bool) -> List[str]:
        """Stages that the new one takes the place of."""
        taken = sorted(name for name in names if name in ref.field_index)
        stages = list(dict.fromkeys(ref.field_index[name].stage for name in taken))
        if stage in ref.stage_refs and stage not in stages:
            stages.append(stage)
        if stages and not overwrite:
            raise ValueError(f"already there: fields {taken}, stages {stages}")
        for name, place in ref.field_index.items():
            if place.stage in stages and name not in names:
                raise ValueError(f"stage {place.stage!r} has {name!r} too, which is not among the new fields")
        return stages

    # ---- dataprotos: reading -----------------------------------------------

    def get_dataproto(
        self,
        ref: Any,
        *,
        fields: Optional[Sequence[str]] = None,
        batch_fields: Optional[Sequence[str]] = None,
        non_tensor_fields: Optional[Sequence[str]] = None,
        meta_info_keys: Optional[Sequence[str]] = None,
        data_cls: Any = None,
        destinations: Optional[Mapping[str, Any]] = None,
        rows: Rows = None,
    ) -> Any:
        """Reads fields of a batch: all of them, unless ``fields`` (of any section),
        ``batch_fields`` or ``non_tensor_fields`` name some; of ``meta_info`` all, or
        what ``meta_info_keys`` names.

        ``rows``: a slice, a StructuredMemberSlice or row numbers, the same of every
        field. ``destinations``: memory by field name, as in ``materialize_into``.
        Answers {"batch", "non_tensor_batch", "meta_info"}, or a ``data_cls`` made by
        its ``from_dict`` or by these names. KeyError for a field that is not there.
        """
        ref = as_dataproto(ref)
        names = self._wanted(ref, fields, batch_fields, non_tensor_fields)
        made: Dict[str, Dict[str, Any]] = {name: {} for name in SECTIONS}
        for _, objects, meta in self._stages(ref, names, rows, destinations or {}):
            for name, value in objects.items():
                made[ref.field_index[name].section][name] = value
            made["meta_info"].update(meta)
        if meta_info_keys is not None:
            made["meta_info"] = {name: made["meta_info"][name] for name in meta_info_keys}
        for section in ROWS:
            made[section] = {name: made[section][name] for name in names if name in made[section]}
        return self._as_class(made, data_cls)

    @staticmethod
    def _wanted(ref: MooncakeDataProtoRef, fields, batch_fields, non_tensor_fields) -> Dict[str, None]:
        if fields is None and batch_fields is None and non_tensor_fields is None:
            return dict.fromkeys(ref.field_index)
        names = dict.fromkeys(fields or ())
        for section, listed in zip(ROWS, (batch_fields, non_tensor_fields)):
            for name in listed or ():
                if name not in ref.field_index or ref.field_index[name].section != section:
                    raise KeyError(name)
                names[name] = None
        for name in names:
            if name not in ref.field_index:
                raise KeyError(name)
        return names

    def _stages(self, ref: MooncakeDataProtoRef, names: Mapping[str, None], rows: Rows, destinations: Mapping[str, Any]):
        """For each stage: its manifest, the fields wanted of it, its meta_info."""
        for name in destinations:
            if name not in names:
                raise KeyError(name)
        for stage, one in ref.stage_refs.items():
            manifest: Manifest = load_manifest(self.store, one.manifest_key)
            mine = {ref.field_index[name].member: name for name in names if ref.field_index[name].stage == stage}
            selections = {}
            for member, name in mine.items():
                if member not in manifest.members:
                    raise KeyError(name)
                selections[member] = _selection(rows, manifest.members[member])
            aims = {m: destinations[name] for m, name in mine.items() if name in destinations}
            objects = self._read(manifest, selections, aims)
            meta = manifest.metadata.get("meta_info")
            yield manifest, {mine[m]: value for m, value in objects.items()}, meta if isinstance(meta, dict) else {}

    @staticmethod
    def _as_class(made: Dict[str, Dict[str, Any]], data_cls: Any) -> Any:
        if data_cls is None or data_cls is dict:
            return made
        from_dict = getattr(data_cls, "from_dict", None)
        if from_dict is not None:
            return from_dict(made["batch"], made["non_tensor_batch"], meta_info=made["meta_info"])
        return data_cls(**made)

    def dataproto_manifest_view(self, ref: Any) -> Dict[str, Any]:
        """What is stored of a batch, without its bytes: for each field its stage,
        section, codec, size, and dtype and shape where it has them."""
        ref = as_dataproto(ref)
        view: Dict[str, Any] = {"batch_size": ref.batch_size, "fields": {}, "meta_info_keys": []}
        for stage, one in ref.stage_refs.items():
            manifest = load_manifest(self.store, one.manifest_key)
            view["meta_info_keys"].extend(manifest.metadata.get("meta_info") or {})
            for name, place in ref.field_index.items():
                member = manifest.members.get(place.member)
                if place.stage == stage and member is not None:
                    known = {key: member.params[key] for key in ("dtype", "shape", "rows") if key in member.params}
                    view["fields"][name] = {
                        "stage": stage, "section": place.section,
                        "codec": member.params.get("codec"), "size": member.size, **known,
                    }
        return view

    def cleanup_dataproto(self, ref: Any) -> int:
        """Removes all stages, each of them tried; the first error is raised then.
        Answers how many keys went: 0 if nothing was there."""
        removed, first = 0, None
        for one in as_dataproto(ref).stage_refs.values():
            try:
                removed += self.remove_structured_object(one)
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
        return removed

    def remove_dataproto(self, ref: Any) -> int:
        """The same."""
        return self.cleanup_dataproto(ref)
