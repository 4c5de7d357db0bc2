"""A page of HTML, parsed."""

from html.parser import HTMLParser


class Parsed(HTMLParser):
    """`tags`: every start tag with its attributes; `ends`: the names of end tags."""

    def __init__(self, text):
        super().__init__()
        self.text, self.tags, self.ends = text, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self.ends.append(tag)

    def all(self, tag, name):
        return [found[name] for of, found in self.tags if of == tag and name in found]

    @property
    def ids(self):
        return [found["id"] for _, found in self.tags if "id" in found]
