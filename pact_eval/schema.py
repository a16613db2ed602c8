"""Typed content of the JSON files that we write and read: one `msgspec` struct per object.

`_json.loads` parses a file first, because msgspec accepts duplicate keys and any depth. `convert`
then checks the types: nothing is cast, except that an integer is also a number. msgspec says which
value is wrong; `convert` says so in the words of our other messages, with the keys on the way to
it.

    class Seal(Section, frozen=True):
        items: int                       # required
        unanswered_sha256: str | None = None  # written only if it is known

`Section.of_json` takes a missing key and null for the same; other keys are ignored. `to_json`
leaves out what has its default, unless the class is declared with `omit_defaults=False`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from pact_eval._json import Json, describe, sha256_of_json
from pact_eval.errors import InputError, TamperedError

Content = TypeVar("Content")

_STEP: Final = re.compile(r"\.([^.\[`]+)|\[(\d+)\]|\[\.\.\.\]")
_WORDS: Final[Mapping[Any, str]] = {
    str: "text",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    bytes: "base64",
    tuple: "a list",
    list: "a list",
    Literal: "one of",
}


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of the structs: an object of a file.

    Class attributes:
        refusal: the error for a wrong value.
        remedy: what to do about one; the end of the message.
        exact: keys of objects in which null is a wrong value.

    Examples:
        >>> class Size(Section, frozen=True):
        ...     rows: int
        ...     columns: int | None = None
        >>> Size.of_json({"rows": 3, "columns": None}, "a.json").to_json()
        {'rows': 3}
        >>> Size.of_json({"rows": "3"}, "a.json")
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: a.json: rows: expected an integer, got text
    """

    refusal: ClassVar[type[InputError]] = InputError
    remedy: ClassVar[str] = ""
    exact: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def of_json(cls, value: Mapping[str, Json], where: str) -> Self:
        """Read an object that `to_json` may have written.

        Args:
            value: the object.
            where: its file, and its place there, for messages.

        Raises:
            InputError: a value has the wrong type, or a required one is missing.
        """
        try:
            return convert(without_nulls({**value}, cls.exact), cls)
        except ValueError as error:
            remedy = f"; {cls.remedy}" if cls.remedy else ""
            raise cls.refusal(f"{where}: {error}{remedy}") from None

    def to_json(self) -> dict[str, Json]:
        """Return the object for the file."""
        built = msgspec.to_builtins(self, str_keys=True)
        return {key: _plain(value) for key, value in built.items()}


def convert(value: Any, kind: type[Content]) -> Content:
    """Check the types of a JSON value.

    Args:
        value: as `loads` returns it.
        kind: struct, dataclass or other type that msgspec supports.

    Raises:
        ValueError: it has another type. The message names the keys that lead to the wrong value,
            what was expected and what was found.

    Examples:
        >>> convert({"seeds": [17, 18.0]}, dict[str, tuple[int, ...]])
        Traceback (most recent call last):
            ...
        ValueError: seeds[1]: expected an integer, got a number
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError:
        message = _fault(value, kind)
    raise ValueError(message)


def without_nulls(value: Json, exact: frozenset[str] = frozenset()) -> Json:
    """Return a value without the keys of its objects whose value is null.

    Args:
        value: the value.
        exact: keys of objects that are returned as they are.

    Examples:
        >>> without_nulls({"k": 4, "data": {"sha256": None}, "log": None})
        {'k': 4, 'data': {}}
    """
    if not isinstance(value, dict):
        return value
    return {
        key: item if key in exact else without_nulls(item, exact)
        for key, item in value.items()
        if item is not None
    }


def with_sha256(content: Mapping[str, Json]) -> dict[str, Json]:
    """Return the content of a file with its SHA-256 as the last member, `sha256`.

    The hash shows changes by accident or by hand; it is no signature.

    Examples:
        >>> file = with_sha256({"k": 4})
        >>> sha256_fits(file), sha256_fits(file | {"k": 5})
        (True, False)
    """
    return {**content, "sha256": sha256_of_json({**content})}


def sha256_fits(value: Json) -> bool:
    """Return whether an object has the hash of its other members, as `with_sha256` adds it."""
    if not isinstance(value, dict):
        return False
    content = {key: item for key, item in value.items() if key != "sha256"}
    return value.get("sha256") == sha256_of_json(content)


def convert_hashed(value: Json, kind: type[Content], *, where: str, advice: str) -> Content:
    """Read an object that `with_sha256` has made.

    Args:
        value: as `loads` returns it.
        kind: the struct of its content.
        where: its file, for messages.
        advice: what to do about a change or a wrong value.

    Raises:
        TamperedError: it has not the hash of its members.
        InputError: a value has the wrong type.
    """
    if not sha256_fits(value):
        message = f"{where}: changed since it was written (its SHA-256 is another one); {advice}"
        raise TamperedError(message)
    try:
        return convert(value, kind)
    except ValueError as error:
        raise InputError(f"{where}: {error}; {advice}") from None


def _plain(value: Any) -> Json:
    """Return a value with lists for its tuples."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [*map(_plain, value)] if isinstance(value, tuple | list) else value


def _complaint(value: Any, kind: Any) -> str:
    """Return what msgspec says of a value; nothing if it has the right type."""
    try:
        msgspec.convert(value, kind, str_keys=True)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _fault(value: Any, kind: Any, place: str = "") -> str:
    """Return where a value has the wrong type, what was expected and what was found."""
    complaint, _, path = _complaint(value, kind).partition(" - at `")
    of_key, path = path.startswith("key"), path.partition("$")[2]
    for step in _STEP.finditer(path):
        name, index = step.groups()
        if name is None and index is None:  # a value of a mapping: msgspec does not say which
            inside = _type_inside(kind, "")
            key = next(key for key, item in value.items() if _complaint(item, inside))
            return _fault(value[key], inside, _joined(place, key))
        key = name or int(index)
        value, kind, place = value[key], _type_inside(kind, key), _joined(place, key)
    if of_key:
        value = next(key for key in value if "`key`" in _complaint({key: value[key]}, kind))
        kind, place = get_args(_bare(kind))[0], f"{place}: key {value!r}"
    message = _sentence(complaint, value, kind)
    return f"{place}: {message}" if place else message


def _joined(place: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{place}[{key}]"
    return f"{place}: {key}" if place else key


def _bare(kind: Any) -> Any:
    """Return a type without its alternative null and its bounds."""
    members = get_args(kind)
    if get_origin(kind) is Annotated:
        return members[0]
    if NoneType not in members:
        return kind
    (member,) = (member for member in members if member is not NoneType)
    return member


def _type_inside(kind: Any, key: str | int) -> Any:
    """Return the type of the value under a key, or of the values of a mapping or list."""
    kind = _bare(kind)
    if members := get_args(kind):
        return members[0] if isinstance(key, int) else members[-1]
    if issubclass(kind, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}[str(key)]
    return get_type_hints(kind)[str(key)]


def _sentence(complaint: str, value: Any, kind: Any) -> str:
    """Return what msgspec says in our words: what was expected, and what was found."""
    if "missing required field" in complaint:
        names = [complaint.split("`")[1]]
        if issubclass(_bare(kind), msgspec.Struct):  # of a dataclass, msgspec names the first
            fields = msgspec.structs.fields(_bare(kind))
            names = [field.encode_name for field in fields if field.required]
        return f"expected {', '.join(name for name in names if name not in value)}, found none"
    if "unknown field" in complaint:
        known = (field.encode_name for field in msgspec.structs.fields(_bare(kind)))
        return f"expected only {', '.join(known)}, got {complaint.split('`')[1]}"
    if complaint == "Number out of range":
        return "expected a number that fits a float, got an integer"
    if complaint.startswith(("Expected", "Invalid")):
        return f"expected {_words(kind)}, got {_got(value, kind)}"
    return complaint  # of `__post_init__`


def _words(kind: Any) -> str:
    """Return in words which values a type has."""
    kind = _bare(kind)
    members, words = get_args(kind), _WORDS.get(get_origin(kind) or kind, "an object")
    if get_origin(kind) is Literal:
        allowed = ", ".join(map(str, members))
        return allowed if len(members) == 1 else f"{words} {allowed}"
    if get_origin(kind) is UnionType:
        return " or ".join(map(_words, members))
    if get_origin(kind) is tuple and Ellipsis not in members:
        return f"{words} of {len(members)} values"
    return words


def _got(value: Json, kind: Any) -> str:
    """Describe a wrong value: in words, or itself if the type allows some texts only."""
    kind = _bare(kind)
    if isinstance(value, str) and get_origin(kind) is Literal:
        return value
    if isinstance(value, list) and get_origin(kind) is tuple:
        return f"{len(value)} values"
    return "empty text" if value == "" else describe(value)
