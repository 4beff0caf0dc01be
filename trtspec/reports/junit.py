"""The verdict and the gates as JUnit XML, which build servers show as tests.

Elements and attributes are those that Jenkins and GitLab read (Jenkins' junit-10.xsd): `testsuites`, `testsuite`,
`properties`, `testcase`, `failure`, `skipped`, `system-out`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from trtspec.reports.data import ReportData
from trtspec.reports.gates import GateResult
from trtspec.reports.levels import Level
from trtspec.reports.names import metric_name
from trtspec.units import plain_text

__all__ = ["render_junit"]

_INCONCLUSIVE = "INCONCLUSIVE"


def render_junit(data: ReportData, gates: Sequence[GateResult] = ()) -> str:
    """One test a gate, one a load level, one for failed requests and one for equal answers.

    Only gates and failed requests fail: a slower arm is a result, not a fault, unless a gate says so. What cannot be
    judged is skipped, with its reason.
    """
    root = ET.Element("testsuites", name="trtspec")
    for name, cases in (("gates", list(_gates(gates))), ("loadtest", list(_results(data)))):
        if cases:
            root.append(_suite(data, name, cases))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(data: ReportData, name: str, cases: Sequence[ET.Element]) -> ET.Element:
    failed, skipped = (sum(case.find(kind) is not None for case in cases) for kind in ("failure", "skipped"))
    counts = {"tests": len(cases), "failures": failed, "skipped": skipped, "errors": 0}
    seconds = sum(data.whole.arms[arm].get("active_seconds") or 0.0 for arm in data.arms)
    attributes = {key: str(value) for key, value in counts.items()}
    suite = ET.Element("testsuite", {"name": f"trtspec.{name}", **attributes, "time": f"{seconds:.3f}"})
    given = data.provenance or {}
    if given.get("created"):
        suite.set("timestamp", _xml(str(given["created"]))[:19])
    properties = ET.SubElement(suite, "properties")
    for key, value in {
        "run": data.name,
        "verdict": data.comparison.get("verdict_code"),
        "trtspec": given.get("trtspec"),
    }.items():
        if value:
            ET.SubElement(properties, "property", name=key, value=_xml(str(value)))
    suite.extend(cases)
    return suite


def _case(group: str, name: str, text: str = "") -> ET.Element:
    case = ET.Element("testcase", {"classname": f"trtspec.{group}", "name": _xml(name), "time": "0"})
    if text:
        ET.SubElement(case, "system-out").text = _xml(text)
    return case


def _end(case: ET.Element, kind: str, message: str) -> ET.Element:
    """The case as failed or skipped; schemas want that before the output."""
    found = ET.Element(kind, {"message": _xml(message)})
    if kind == "failure":
        found.set("type", "ThresholdFailed")
        found.text = _xml(message)
    case.insert(0, found)
    return case


def _xml(text: str) -> str:
    """`text` without what XML 1.0 cannot hold: control characters, half surrogate pairs."""
    shown = plain_text(text)
    return "".join(
        sign if sign in "\n\t" or (sign >= " " and not "\ud800" <= sign <= "\udfff") else "�" for sign in shown
    )


def _gates(gates: Sequence[GateResult]) -> Iterator[ET.Element]:
    for result in gates:
        case = _case("gates", f"fail if {result.gate.text}", result.text)
        yield _end(case, "failure", result.text) if result.failed else case


def _results(data: ReportData) -> Iterator[ET.Element]:
    for level in data.levels:
        yield _level(data, level)
    failed = {arm: data.whole.counts(arm).get("failed") or 0 for arm in data.arms}
    case = _case("loadtest", "no request failed")
    text = ", ".join(f"{count} of the {arm} arm" for arm, count in failed.items() if count)
    yield _end(case, "failure", f"requests failed: {text}") if text else case
    yield _equality(data)


def _level(data: ReportData, level: Level) -> ET.Element:
    found = level.part.speedup(data.headline)
    code = str(level.part.compared.get("verdict") or "")
    text = "no prompt was answered by both arms" if found is None else found.text
    words = f"{metric_name(data.headline)}: {text}" + (f", {code}" if code else "")
    case = _case("loadtest", f"speed-up at {level.label}", words)
    return _end(case, "skipped", words) if found is None or code.startswith(_INCONCLUSIVE) else case


def _equality(data: ReportData) -> ET.Element:
    from trtspec.reports.view import equality_text

    equality = data.comparison.get("equality") or {}
    case = _case("loadtest", "both arms give the same answers", equality_text(data.comparison))
    if equality.get("diverged") or not equality.get("identical"):
        return _end(case, "skipped", equality_text(data.comparison))
    return case
