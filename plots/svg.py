"""Figures as SVG within a page, with the page's colours. A library parses and writes the markup,
because names of kernels and drivers may contain any characters.
"""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from plots.figures import DARK, encode

REFERENCE = re.compile(r"url\(#([^)]*)\)")  # in an attribute or a style
DECIMALS = re.compile(r"(\.\d\d)\d+")
NUMBERS = {"d", "x", "y", "cx", "cy", "r", "width", "height", "transform", "points", "viewBox"}
LEFT_OUT = {"metadata", "style"}


class Sheet:
    """The styles of all figures of a page: matplotlib writes the same few with each point."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def name(self, style: str) -> str:
        return self.names.setdefault(style, f"s{len(self.names)}")

    @property
    def rules(self) -> Markup:
        return Markup("\n".join(f".{name}{{{style}}}" for style, name in self.names.items()))


def inline(figure: Figure, prefix: str, label: str, sheet: Sheet) -> Markup:
    """The figure as SVG; must be called within `figure_style`. `prefix` makes its ids unique in a
    page.
    """
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        root = ElementTree.fromstring(encode(figure, "svg"))
    used = {name for element in root.iter() for name in references(element)}
    for element in root.iter():
        element.tag = local(element.tag)
        element.attrib = dict(attributes(element, prefix, used, sheet))
        element.text, element.tail = element.text if element.tag == "text" else None, None
        for child in [c for c in element if local(c.tag) in LEFT_OUT]:
            element.remove(child)
    flatten(root)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def flatten(element: Element) -> None:
    """Replaces groups without attributes by their contents."""
    for child in element:
        flatten(child)
    element[:] = [
        part
        for child in element
        for part in (child if child.tag == "g" and not child.attrib else (child,))
    ]


def local(name: str) -> str:
    """The name without its namespace."""
    return name.rpartition("}")[2]


def references(element: Element) -> list[str]:
    """The ids that the element's attributes name."""
    ids = [name for value in element.attrib.values() for name in REFERENCE.findall(value)]
    return ids + [value[1:] for name, value in element.items() if local(name) == "href"]


def attributes(
    element: Element, prefix: str, used: set[str], sheet: Sheet
) -> list[tuple[str, str]]:
    """Attributes to draw; ids without a reference are dropped, because they may repeat."""
    kept = []
    for name, value in [(local(name), value) for name, value in element.items()]:
        if name == "id":
            kept += [(name, prefix + value)] * (value in used)
        elif name == "href":
            kept.append((name, f"#{prefix}{value[1:]}"))
        elif name == "style":
            style = themed(REFERENCE.sub(rf"url(#{prefix}\1)", value))
            kept += [("class", sheet.name(style))] * bool(style)
        elif not value.startswith("rotate(-0 "):
            value = REFERENCE.sub(rf"url(#{prefix}\1)", value)
            kept.append((name, DECIMALS.sub(r"\1", value) if name in NUMBERS else value))
    return kept


def themed(style: str) -> str:
    """The declarations without the font, with the page's colours instead of the figure's."""
    parts = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name and name != "font-family":
            known = value.lower() in DARK
            parts.append(f"{name}:{f'var({variable(value)},{value})' if known else value}")
    return ";".join(parts)


def variable(colour: str) -> str:
    """The CSS variable of a figure's colour."""
    return f"--c{colour.lower().removeprefix('#')}"


def dark_theme() -> Markup:
    """Declarations for :root with the colours of a dark page."""
    return Markup("".join(f"{variable(light)}:{dark};" for light, dark in DARK.items()))
