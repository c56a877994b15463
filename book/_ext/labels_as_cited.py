"""Sphinx extension: the bibliography's labels are what the text cites: Ma and Hovy, 2016."""

from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as Unsorted
from pybtex.style.labels import BaseLabelStyle


class AuthorYear(BaseLabelStyle):
    """One or two authors by their last names, more as the first *et al.*, and the year."""

    def format_labels(self, sorted_entries):
        for entry in sorted_entries:
            names = [" ".join(map(str, one.rich_last_names)) for one in entry.persons["author"]]
            authors = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
            yield f"{authors}, {entry.fields['year']}"


class Style(Unsorted):
    """Sorted by authors and year."""

    default_label_style = AuthorYear
    default_sorting_style = "author_year_title"


def setup(app):
    register_plugin("pybtex.style.formatting", "labels_as_cited", Style)
    return {"parallel_read_safe": True}
