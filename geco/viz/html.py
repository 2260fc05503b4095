"""Web pages: one file with a style of its own, made of tables, figures and embedded images."""

import base64
import html
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child,.prose{text-align:left}figure{margin:1.5rem 0}img{max-width:100%}.note{color:#666}
.quoted td{color:#8a8a8a}.prose{max-width:30rem;vertical-align:top}
pre{background:#f6f6f6;padding:1rem;overflow:auto}"""


def page(title: str, body: str, style: str = "") -> str:
    """A whole page around a body of HTML; `style` is added to the usual one."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}\n{style}</style>"
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def escape(text: str) -> str:
    """The text with what HTML would take for markup written out."""
    return html.escape(text)


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    quoted: Container[int] = (),
    prose: Container[int] = (),
) -> str:
    """A table with a row of headings, unless there are none; cells are text.

    Rows of the numbers `quoted` are grey, columns of the numbers `prose` begin on the left.
    """

    def line(cells: Sequence[str], tag: str, kind: str = "") -> str:
        sides = (' class="prose"' if number in prose else "" for number in range(len(cells)))
        written = (f"<{tag}{side}>{escape(cell)}</{tag}>" for cell, side in zip(cells, sides, strict=True))
        return f"<tr{kind}>{''.join(written)}</tr>"

    heading = line(columns, "th") if columns else ""
    body = (line(row, "td", ' class="quoted"' if number in quoted else "") for number, row in enumerate(rows))
    return f"<table>{heading}{''.join(body)}</table>"


def html_figure(source: str, caption: str, alt: str = "") -> str:
    """An image that lies beside the page, with a caption below."""
    image = f'<img src="{escape(source)}" alt="{escape(alt or caption)}">'
    return f'<figure>{image}<figcaption class="note">{escape(caption)}</figcaption></figure>'


def embedded_image(path: str | Path, alt: str) -> str:
    """A PNG file as an image inside the page, which then needs no file beside it."""
    content = base64.b64encode(Path(path).read_bytes()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{content}">'
