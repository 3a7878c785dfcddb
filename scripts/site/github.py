"""Anchors of headings as GitHub makes them."""
import re


def slugify(heading, separator):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)
