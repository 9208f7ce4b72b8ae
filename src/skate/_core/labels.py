"""Labels of machines, and selectors of them: {"zone": "in(a, b)"} and its kin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Selector = Mapping[str, str]

_WORD = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_KEY = rf"(?:[a-zA-Z0-9.-]{{1,253}}/)?{_WORD}"
_VALUE = rf"!?{_WORD}|!?in\({_WORD}(?:, ?{_WORD})*\)|"
_FORMS = "'a', '!a', 'in(a, b)' and '!in(a, b)'"


def check_selector(name: str, value: object) -> Selector | None:
    """Return the selector; TypeError or ValueError if it cannot be one."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f'{name} takes a dictionary such as {{"zone": "in(a, b)"}}; got {value!r}')
    import re

    for key, wanted in value.items():
        if not isinstance(key, str) or not isinstance(wanted, str):
            raise TypeError(f"{name} takes strings for names and values; got {key!r}: {wanted!r}")
        if not re.fullmatch(_KEY, key):
            raise ValueError(
                f"{name}: {key!r} is no label: up to 63 letters, digits, '-', '_' and '.', the "
                "first and the last a letter or digit, and before them a domain and '/' if need be"
            )
        if not re.fullmatch(_VALUE, wanted):
            raise ValueError(f"{name}[{key!r}] takes values like {_FORMS}; got {wanted!r}")
    return dict(value)


def check_fallbacks(name: str, value: object) -> tuple[Selector, ...] | None:
    """Return the selectors of a `fallback_strategy`, in order; TypeError or ValueError for what
    is none."""
    if value is None:
        return None
    form = f'{name} takes a list such as [{{"label_selector": {{"zone": "a"}}}}]'
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{form}; got {value!r}")
    for item in value:
        if not isinstance(item, Mapping) or list(item) != ["label_selector"]:
            raise ValueError(f"{form}, with nothing else in it; got {item!r}")
    selectors = [
        check_selector(f"{name} label_selector", item["label_selector"]) for item in value
    ]
    return tuple(selector or {} for selector in selectors)


def fits(selector: Selector, labels: Mapping[str, object]) -> bool:
    """Return whether a machine with these `labels` is among those that `selector` means."""
    return all(_fits(text, labels.get(name)) for name, text in selector.items())


def _fits(text: str, value: object) -> bool:
    positive = text.removeprefix("!")
    several = positive.startswith("in(") and positive.endswith(")")
    allowed = [one.strip() for one in positive[3:-1].split(",")] if several else [positive]
    return (value in allowed) is (positive == text)


def lacking(
    selectors: Sequence[Selector], strategy: object, labels: Mapping[str, object]
) -> dict[str, float]:
    """Return a resource that no machine has, if one with these `labels` is not wanted: neither by
    any of the `selectors` nor by what `strategy` insists on. Else nothing."""
    hard = getattr(strategy, "hard", None) or []
    unmet = {one.key: _shown(one.operator) for one in hard if not _meets(one, labels)}
    if not unmet and (not selectors or any(fits(one, labels) for one in selectors)):
        return {}
    return {f"label_selector={unmet or dict(selectors[0])}": 1.0}


def with_labels(
    bundles: Sequence[Mapping[str, float]],
    selectors: Sequence[Selector],
    labels: Mapping[str, object],
) -> list[dict[str, float]]:
    """Return what bundles need of a machine with these `labels`: as `lacking`, if it is not the
    one that the selector of the bundle means."""
    wanted: Sequence[Selector] = selectors or [{}] * len(bundles)
    return [
        {**bundle, **lacking([one], None, labels)}
        for bundle, one in zip(bundles, wanted, strict=True)
    ]


def _meets(expression: Any, labels: Mapping[str, object]) -> bool:
    """Return whether the labels meet one condition of a `NodeLabelSchedulingStrategy`."""
    value, kind = labels.get(expression.key), type(expression.operator).__name__
    values = getattr(expression.operator, "values", ())
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[kind]


def _shown(operator: object) -> str:
    return f"{type(operator).__name__}({', '.join(getattr(operator, 'values', ()))})"
