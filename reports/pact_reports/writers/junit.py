"""JUnit XML: one test case per check or gate, as most CI systems read it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from pact_eval.plain_text import one_line
from pact_reports.ci.places import repository_path
from pact_reports.ci.report import Annotation, Case, CiReport


def to_junit(report: CiReport) -> str:
    """Return the XML of one suite.

    A case that failed or cannot tell is a failure; one that did not run is skipped. Findings that
    fail nothing are in `system-out`.

    Examples:
        >>> case = Case("families", "skipped", "no pairs")
        >>> print(to_junit(CiReport("pact-audit data", "", (case,), {})))  # doctest: +ELLIPSIS
        <?xml version='1.0' encoding='us-ascii'?>
        <testsuites ...><testcase classname="pact-audit.data" name="families"><skipped ...
    """
    counts = {
        "name": report.command,
        "tests": str(len(report.cases)),
        "failures": str(report.count("failed", "cannot tell")),
        "errors": "0",
        "skipped": str(report.count("skipped")),
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", counts)
    for case in report.cases:
        _add(suite, case, report.command.replace(" ", "."))
    # As ASCII: the text is the same in any encoding of the terminal.
    xml: bytes = ET.tostring(suites, encoding="us-ascii", xml_declaration=True)
    return xml.decode("ascii")


def _add(suite: ET.Element, case: Case, class_name: str) -> None:
    element = ET.SubElement(suite, "testcase", classname=class_name, name=one_line(case.name))
    lines = [_line(annotation) for annotation in case.annotations]
    lines += [f"... and {n:,} more of {code}" for code, n in case.more.items()]
    text = one_line(case.text)
    if case.status in ("failed", "cannot tell"):
        failure = ET.SubElement(element, "failure", type=case.status, message=text)
        failure.text = "\n".join(lines or [text])
        return
    if case.status == "skipped":
        ET.SubElement(element, "skipped", message=text)
    if lines:
        ET.SubElement(element, "system-out").text = "\n".join(lines)


def _line(annotation: Annotation) -> str:
    path = one_line(repository_path(annotation.file).as_posix())
    where = path if annotation.line is None else f"{path}:{annotation.line}"
    return f"{where}: {annotation.severity} {annotation.code}: {one_line(annotation.message)}"
