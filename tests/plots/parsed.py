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
        return [
            attributes[name]
            for element, attributes in self.tags
            if element == tag and name in attributes
        ]

    @property
    def ids(self):
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]
