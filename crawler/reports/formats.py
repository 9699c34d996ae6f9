"""Write a report as text, HTML or JSON while its sections are being read."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from crawler.explain.formatting import plain
from crawler.reports.report_sections import Report, Section

Out = Callable[[str], object]

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h2 { font-size: 1.1rem; margin: 2rem 0 0; overflow-wrap: anywhere }
p { margin: .2rem 0 }
p strong { white-space: pre-line }
table { border-collapse: collapse; margin: .5rem 0; width: 100% }
th, td { border-bottom: 1px solid #8884; overflow-wrap: anywhere; padding: .2rem .5rem .2rem 0;
  text-align: left; vertical-align: top }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee } a { color: #9cf } }
"""
_HEAD: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>{{ style }}</style>
</head>
<body>
<h1>{{ title }}</h1>
"""
_SECTION: Final = """
{%- macro cell(text) -%}
{% if text.startswith(("http://", "https://")) -%}
<a href="{{ text }}" rel="noreferrer">{{ text }}</a>{% else %}{{ text }}{% endif %}
{%- endmacro -%}
<h2>{{ cell(title) if linked else title }}</h2>
{% if note %}<p>{{ note }}</p>{% endif %}
{% if rows %}<table>
<thead><tr>{% for name in columns %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}<tr>{% for text in row %}<td>{{ cell(text) }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>{% endif %}
{% if more %}<p>and {{ "{:,}".format(more) }} more</p>{% endif %}
"""
_FOOT: Final = """
<p><strong>{{ conclusion }}</strong></p>
</body>
</html>
"""


async def write(report: Report, how: str, out: Out) -> None:
    """Write a report in the format `text`, `html` or `json`. Raises what `out` raises."""
    await _FORMATS[how](report, out)


async def _text(report: Report, out: Out) -> None:
    async with aclosing(report.sections()) as sections:
        async for section in sections:
            out(_section_text(section))
    out(f"{report.conclusion()}\n")


def _section_text(section: Section) -> str:
    lines = [plain(section.title)]
    if section.note:
        lines.append(f"  {plain(section.note)}")
    filled = section.filled_columns
    if len(filled) > 1:
        table = [section.columns, *section.rows]
        widths = {n: max(len(plain(row[n])) for row in table) for n in filled}
        for row in table:
            cells = (plain(row[n]).ljust(widths[n]) for n in filled)
            lines.append(f"  {'  '.join(cells)}".rstrip())
    else:
        lines += [f"  {plain(row[n])}" for row in section.rows for n in filled]
    if section.more:
        lines.append(f"  and {section.more:,} more")
    return "\n".join([*lines, "", ""])


async def _html(report: Report, out: Out) -> None:
    from crawler.explain.html_pages import html_environment  # slow to import

    environment = html_environment(trim_blocks=True)
    section_page = environment.from_string(_SECTION)
    out(environment.from_string(_HEAD).render(title=report.title, style=_STYLE))
    async with aclosing(report.sections()) as sections:
        async for one in sections:
            filled = one.filled_columns
            out(
                section_page.render(
                    title=plain(one.title),
                    linked=one.title_is_link,
                    note=plain(one.note),
                    columns=[one.columns[n] for n in filled],
                    rows=[[plain(row[n]) for n in filled] for row in one.rows],
                    more=one.more,
                )
            )
    out(environment.from_string(_FOOT).render(conclusion=report.conclusion()))


async def _json(report: Report, out: Out) -> None:
    out(f'{{"report": {json.dumps(report.name)}, "findings": [')
    first = True
    async with aclosing(report.sections()) as sections:
        async for section in sections:
            out(("" if first else ",") + "\n" + json.dumps(section.data))
            first = False
    ending = {
        "conclusion": report.conclusion(),
        "politeness_violated": report.politeness_violated,
    }
    out("\n], " + json.dumps(ending)[1:] + "\n")


_FORMATS: Final = {"text": _text, "html": _html, "json": _json}
